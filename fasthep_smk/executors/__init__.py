"""What lives inside Snakemake's process: the executors of this package."""
