"""Batch jobs that stay, and run one job of Snakemake's after the other, by Parsl.

The doors: ``crews`` says before a run which jobs go to pilots (``translate/placement.py``), and
``executor.piloted`` lays them over an executor (``executors/start.py``) where there are such jobs.
"""
