"""From a compiled plan to jobs: partitions, tasks, live columns, signatures, checks.

Pure functions over the plain graph of :mod:`fasthep_smk.flow.graph`; nothing here knows Snakemake.
"""
