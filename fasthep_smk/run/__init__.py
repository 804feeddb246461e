"""One run from start to end: its lock, Snakemake's process, progress, recovery."""
