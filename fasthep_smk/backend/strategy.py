"""The strategy of the backend: where jobs run, by the name of a batch system or a site."""

from __future__ import annotations

from dataclasses import replace

from fasthep_smk.config.execution import load_site
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Findings


def profile_of(execution: YamlMapping, said: YamlMapping | None = None) -> str | None:
    """Return what ``--profile`` of our own command would say; ``None``: nothing.

    What ``execution`` of the workflow has ``said`` of this backend is no word of the command line:
    ``--backend`` alone makes the strategy ``default``.
    """
    strategy = str(execution.get("strategy") or "default")
    own = (said or {}).get("backend") == "snakemake" and (said or {}).get("strategy")
    return None if strategy in ("default", own) else strategy


def validate_execution(execution: YamlMapping) -> None:
    """Refuse a strategy that is no batch system, and no site.

    FAST-HEP's compiler asks this of a workflow that says ``backend: snakemake`` itself.

    Raises:
        Findings: what is wrong with it.
    """
    profile = profile_of(execution)
    if profile is None:
        return  # the run looks for a default, which may be beside the workflow
    try:
        load_site(profile, "default", workflow="")
    except Findings as error:
        key = {"--profile": "--strategy"}
        raise Findings(
            [
                replace(finding, key=key.get(finding.key or "", finding.key))
                for finding in error.findings
            ]
        ) from None
