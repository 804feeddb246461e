"""A translation asked for by a Snakemake configuration (``workflow/Snakefile``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fasthep_smk.storage.outdir import build_folder
from fasthep_smk.translate.translation import Options, translate
from fasthep_smk.translate.write import Written
from fasthep_smk.util.errors import Findings, nearest

__all__ = ["from_config"]


def from_config(config: Mapping[str, Any], *, root: Path, write: bool) -> Written:
    """Translate what a Snakemake configuration names; return where it was written.

    Without ``write`` the translation that the main process wrote is used.

    Raises:
        Findings: a setting or the workflow is wrong.
    """
    known = {
        "workflow", "outdir", "chunk_size", "granularity", "variation", "profile", "shrink_to_fit",
        "bundle",
    }  # fmt: skip
    granularity = config.get("granularity", "auto")
    if granularity not in ("auto", "stage"):
        raise Findings.one(
            "unknown granularity",
            key="config: granularity",
            value=repr(granularity),
            expected="auto or stage",
        )
    chunk_size = config.get("chunk_size")
    if chunk_size is not None and (not str(chunk_size).isdigit() or int(chunk_size) < 1):
        raise Findings.one(
            "is not a number of events",
            key="config: chunk_size",
            value=repr(chunk_size),
            expected="a positive whole number",
        )
    bundle = config.get("bundle", "auto")
    if bundle != "auto" and (not str(bundle).isdigit() or int(bundle) < 1):
        raise Findings.one(
            "is not a number of partitions",
            key="config: bundle",
            value=repr(bundle),
            expected="a positive whole number, or auto",
        )
    for name in config:
        if name not in known:
            close = nearest(name, known)
            raise Findings.one(
                "unknown setting",
                key=f"config: {name}",
                expected=", ".join(sorted(known)),
                hint=f"did you mean {close!r}?" if close else None,
            )
    options = Options(
        workflow=Path(str(config["workflow"])),
        outdir=Path(str(config.get("outdir", "build"))),
        chunk_size=None if chunk_size is None else int(chunk_size),
        granularity=granularity,
        bundle="auto" if bundle == "auto" else int(bundle),
        variation=config.get("variation"),
        profile=config.get("profile"),
        shrink_to_fit=str(config.get("shrink_to_fit", False)).lower() in ("true", "1", "yes"),
    )
    if write:
        return translate(options, root=root).written
    return Written.below(build_folder(options.outdir))
