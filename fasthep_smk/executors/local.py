"""Snakemake for this machine: ``python -m`` this module, then as usual."""

from __future__ import annotations

from fasthep_smk.executors.start import be_snakemake


def main() -> None:
    """Run Snakemake's command line."""
    be_snakemake()


if __name__ == "__main__":
    main()
