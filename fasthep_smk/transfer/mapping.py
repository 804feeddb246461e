"""What of a translated workflow other systems can do: supported, approximated or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypedDict

from fasthep_smk.util.masking import masked
from fasthep_smk.util.remote import is_remote

if TYPE_CHECKING:
    from fasthep_smk.config.requests import ResourceRequest
    from fasthep_smk.translate.translation import Placed

__all__ = ["TARGETS", "Mapped", "mapping"]

State = Literal["supported", "approximated", "refused"]
#: What a bundle is for: plain Snakemake beside an installed fasthep-smk, and REANA's engine.
TARGETS = ("snakemake", "reana")


class Mapped(TypedDict):
    """A feature that a workflow uses, and what becomes of it; ``where`` are rules or names."""

    feature: str
    state: State
    where: list[str]
    reason: str


#: Of each feature, what REANA's engine for Snakemake makes of it. It reads a rule's command, its
#: container and resources of its own names; threads, mem_mb and runtime it passes over.
_ON_REANA: dict[str, tuple[State, str]] = {
    "rules": ("approximated", "REANA's loader takes the Snakefile; it was not run there: folders "
              "of logs and outputs must exist, and the commands are those of this environment"),
    "variations": ("supported", "all variations are jobs of one workflow"),
    "cores": ("approximated", "REANA gives each job what its site gives; threads are not read"),
    "memory": ("approximated", "the limit of REANA's site holds; mem_mb is not read"),
    "disk": ("approximated", "jobs share the workspace and its quota; disk_mb is not read"),
    "walltime": ("approximated", "the limit of REANA's site holds; runtime is not read"),
    "gpus": ("refused", "REANA has no resource for GPUs"),
    "retries": ("approximated", "REANA tries a job again by its own rules"),
    "fallback": ("approximated", "REANA knows no pools: all attempts are alike"),
    "fallback_after": ("refused", "REANA has no pools that a waiting job could go to"),
    "workers": ("approximated", "REANA limits jobs by its own number, not by pool"),
    "pilots": ("refused", "REANA starts a container for each job; no worker stays"),
    "transfer": ("refused", "the jobs of a workflow on REANA share a workspace"),
    "container": ("approximated", "the Snakefile takes it from its configuration: say container: "
                  "in the parameters of reana.yaml"),
    "environment": ("refused", "REANA runs images only; see environment for what one must hold"),
    "credential x509": ("approximated", "say voms_proxy: true in reana.yaml"),
    "credential kerberos": ("approximated", "say kerberos: true in reana.yaml"),
    "credential token": ("refused", "REANA has no such secret for jobs"),
    "remote input": ("supported", "read by jobs where it is"),
    "local input": ("refused", "paths of this machine: upload the files, and name them in the "
                    "workflow relative to the workspace"),
}  # fmt: skip
#: What plain Snakemake does not do as the workflow says; all else it does.
_ON_SNAKEMAKE: dict[str, tuple[State, str]] = {
    "local input": ("approximated", "the files must have the same paths where it runs"),
    "environment": ("approximated", "make it where it runs; see environment"),
}


def mapping(placed: Placed, target: str) -> list[Mapped]:
    """Return what becomes of each feature that a workflow uses on one of :data:`TARGETS`."""
    known = _ON_REANA if target == "reana" else _ON_SNAKEMAKE
    found = []
    for feature, where in _features(placed):
        state, reason = known.get(feature, ("supported", "as the workflow says"))
        found.append(Mapped(feature=feature, state=state, where=where, reason=reason))
    return found


def _features(placed: Placed) -> Iterator[tuple[str, list[str]]]:
    """Yield the features that a workflow uses, with the rules or names that use them."""
    placement = placed.placement
    yield "rules", [rule.name for rule in placed.rules]
    if len(placed.variations) > 1:
        yield "variations", [one.label for one in placed.variations]
    asked: dict[str, Callable[[ResourceRequest], object]] = {
        "cores": lambda request: request.cpus > 1,
        "memory": lambda request: request.memory,
        "disk": lambda request: request.disk,
        "walltime": lambda request: request.walltime,
        "gpus": lambda request: request.gpus,
    }
    for name, of in asked.items():
        if rules := [
            rule
            for rule, attempts in placement.attempts.items()
            if any(of(one.request) for one in attempts)
        ]:
            yield name, rules
    several = {rule: attempts for rule, attempts in placement.attempts.items() if attempts[1:]}
    if several or placement.retries:
        yield "retries", list(several)
    if moved := [rule for rule, all_ in several.items() if len({one.pool for one in all_}) > 1]:
        yield "fallback", moved
    parts: dict[str, list[str]] = {
        "fallback_after": list(placement.fallback_after),
        "workers": list(placement.workers),
        "pilots": sorted(placement.crews.by_name) if placement.crews else [],
        "transfer": [placement.site.system] if placement.transfers else [],
    }
    for one in placement.credentials:
        parts[f"credential {one.kind}"] = [one.key]
    files = [str(one.file) for item in placed.variations for one in item.partitions]
    parts["remote input"] = sorted({masked(file) for file in files if is_remote(file)})
    parts["local input"] = sorted({file for file in files if not is_remote(file)})
    for name, where in parts.items():
        if where:
            yield name, where
    image = placement.environment.image if placement.environment else None
    yield ("container", [image]) if image else ("environment", [])
