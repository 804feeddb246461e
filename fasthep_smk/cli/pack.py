"""``fasthep-smk pack``: an archive of the environment of jobs."""

from __future__ import annotations

import argparse

from fasthep_smk.cli.steps import begin
from fasthep_smk.config.execution import Execution
from fasthep_smk.flow.modules import modules_of
from fasthep_smk.run import pipeline
from fasthep_smk.transfer.environment.command import pack_environment
from fasthep_smk.translate.translation import execution_of_site
from fasthep_smk.util.scratch import scratch

__all__ = ["do_pack"]


def do_pack(options: argparse.Namespace) -> int:
    """Build the archive that a workflow, a site or the options ask for."""
    asked, modules = None, list[str]()
    if options.workflow is not None:
        execution, modules = _compiled(options)
        asked = execution.environment
    elif options.profile is not None:
        asked = execution_of_site(options.profile).environment
    print(pack_environment(options, asked, modules))
    return 0


def _compiled(options: argparse.Namespace) -> tuple[Execution, list[str]]:
    """Return where stages run, and the modules that the plans of a workflow name."""
    with scratch() as folder:
        start = begin(options, folder / "build", folder / "aside")
        compiled = pipeline.up_to(pipeline.compile_plans, start)
    modules = {name for one in compiled.plans for name in modules_of(one.plan)}
    return compiled.execution, sorted(modules)
