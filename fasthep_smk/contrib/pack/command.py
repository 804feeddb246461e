"""``fasthep-smk pack``: which environment, for which modules, and what became of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fasthep_smk.cli.steps import begin
from fasthep_smk.config.environment import Environment
from fasthep_smk.contrib.pack.build import contents_of, pack
from fasthep_smk.contrib.pack.conda import is_conda
from fasthep_smk.flow.modules import modules_of
from fasthep_smk.run import pipeline
from fasthep_smk.storage import layout
from fasthep_smk.translate.translation import execution_of_site
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.names import shell
from fasthep_smk.util.scratch import scratch


def do_pack(options: argparse.Namespace) -> int:
    """Build the archive that the options ask for, or else the workflow or the site.

    Raises:
        SmkError: it cannot be packed.
    """
    asked, modules = None, set[str]()
    if options.workflow is not None:
        with scratch() as folder:
            start = begin(options, folder / "build", folder / "aside")
            compiled = pipeline.compile_plans(pipeline.load(start))
        asked = compiled.execution.environment
        modules = {name for variant in compiled.plans for name in modules_of(variant.plan)}
    else:
        asked = execution_of_site(options.profile).environment
    contents = contents_of(options.environment or _kind(asked), modules)
    packed = pack(contents, options.output or options.outdir / layout.ARCHIVES, tell=sys.stderr)
    built = f"built and tested in {packed.seconds or 0:.0f} s"
    how = "already there" if packed.seconds is None else built
    print(f"{packed.path}: {packed.size / 1e6:.0f} MB, {how}")
    print(f"    key:    {packed.key}")
    print(f"    try it: {shell(['sh', str(packed.path), '--', '-c', 'import fasthep_smk'])}")
    return 0


def _kind(asked: Environment | None) -> str:
    if asked is None:
        return "packed-conda" if is_conda(Path(sys.prefix)) else "packed-venv"
    if not asked.is_packed:
        raise UsageError(
            f"{asked.file} asks for environment type {asked.type}, which needs no packing; "
            "--environment packed-venv packs the environment nevertheless"
        )
    return asked.type
