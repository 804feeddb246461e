"""One run from start to end: its lock, Snakemake's process, progress, recovery."""

from fasthep_smk.util.public import is_called_as

is_called_as(__name__, "fasthep_smk.api", "run")
