"""Snakemake for this machine. ``run/snakemake_process.py`` starts it."""

from __future__ import annotations

from fasthep_smk.executors.start import be_snakemake


def main() -> None:
    """Run Snakemake's command line."""
    be_snakemake()


if __name__ == "__main__":
    main()
