"""What each Snakemake process of ours does before it is Snakemake, whatever the batch system."""

from __future__ import annotations

from fasthep_smk.executors import logger_plugin
from fasthep_smk.executors.credential_gate import hold_jobs_back
from fasthep_smk.executors.fallback import prepare_routes
from fasthep_smk.executors.next_attempt import skip_hopeless
from fasthep_smk.executors.snakemake_folders import keep_folders, lend_to_snakemake

__all__ = ["prepare"]


def prepare() -> None:
    """Change in Snakemake what a run needs, and let it report to who started it."""
    prepare_routes()
    skip_hopeless()
    hold_jobs_back()
    lend_to_snakemake()
    keep_folders()
    logger_plugin.register()
