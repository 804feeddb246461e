"""A translation asked for by a Snakemake configuration (``workflow/Snakefile``)."""

from __future__ import annotations

from pathlib import Path

from fasthep_smk.config import schema
from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.run import pipeline
from fasthep_smk.storage.outdir import build_folder
from fasthep_smk.translate.translation import Start
from fasthep_smk.translate.write import Written
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.scratch import scratch


def from_config(config: YamlMapping, *, root: Path, write: bool) -> Written:
    """Translate what a Snakemake configuration names; return where it was written.

    Without ``write`` the translation that the main process wrote is used.

    Raises:
        Findings: a setting or the workflow is wrong.
    """
    findings = schema.findings_of(dict(config), "snakemake_config", file="", key="config")
    if findings:
        raise Findings(findings)
    configured = {"outdir": "build", **config}
    paths = {name: Path(str(configured[name])) for name in ("workflow", "outdir")}
    settings = RunSettings(**{**configured, **paths})
    build = build_folder(settings.outdir)
    if not write:
        return Written.below(build)
    with scratch() as folder:
        start = Start(settings=settings, root=root, build=build, aside=folder / "aside")
        return pipeline.accepted(pipeline.placed(pipeline.load(start))).written
