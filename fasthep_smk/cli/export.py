"""``fasthep-smk export``: a bundle of an analysis."""

from __future__ import annotations

import argparse

from fasthep_smk.cli.steps import begin
from fasthep_smk.run import pipeline
from fasthep_smk.transfer import bundle
from fasthep_smk.util.scratch import scratch

__all__ = ["do_export"]


def do_export(options: argparse.Namespace) -> int:
    """Translate a workflow into a new folder, and add what it needs elsewhere."""
    bundle.require_new(options.out)
    options.outdir = options.out / bundle.BUILD
    build = options.outdir.absolute()
    with scratch() as folder:
        placed = pipeline.up_to(pipeline.place, begin(options, build, folder / "aside"))
        translation = pipeline.accepted(placed)
        pipeline.warn(translation.warnings)
        bundle.write_bundle(translation, options.out)
    print(f"bundle:  {options.out / bundle.MANIFEST}")
    return 0
