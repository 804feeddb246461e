"""What jobs ask for, against what Slurm's partitions have and this user may name."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Sequence

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites.commands import ask
from fasthep_smk.sites.nodes import AMOUNTS, Shape, fits, larger_than_any
from fasthep_smk.sites.slurm_partitions import SlurmPartition, configuration
from fasthep_smk.util.errors import Finding, not_among

_PENDING = "such a job would wait forever: choose another partition, or a smaller pool"
_REFUSED = "Slurm does not let you use this {}"
#: Settings of Slurm's that name what may change the account or QOS that a job asks for.
_REWRITING = ("JobSubmitPlugins", "CliFilterPlugins")
#: With one of these variables, jobs go to another cluster.
_ELSEWHERE = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")


def too_large(attempt: Attempt, here: Sequence[SlurmPartition], where: str) -> Iterable[Finding]:
    """Yield what an attempt asks for and no node of some partitions has, called ``where``.

    Nodes that are down or drained count: they come back.
    """
    if not here:
        return
    shapes = [shape for partition in here for shape in partition.shapes]
    alone, wanted = False, _wanted(attempt)
    for place, (name, asked) in enumerate(zip(AMOUNTS, wanted, strict=True)):
        if asked > (most := max(shape[place] for shape in shapes)):
            yield queues.larger_than(attempt, name, most, where, _PENDING)
            alone = True
    limits = [partition.walltime for partition in here if partition.walltime is not None]
    walltime = attempt.request.walltime
    if walltime and len(limits) == len(here) and walltime > max(limits):
        yield queues.larger_than(attempt, "walltime", max(limits), where, _PENDING)
        alone = True
    if not alone and not fits(wanted, shapes):
        what = f"any one node of {where}"
        yield larger_than_any(attempt, wanted, shapes, amount="memory", what=what, hint=_PENDING)
    model = attempt.options.get("slurm", {}).get("gpu_model")
    models = {model for partition in here for model in partition.models}
    if model and models and model not in models:
        yield _not_among(attempt, "gpu_model", models, f"{where} has no GPU of this model")


def not_allowed(attempts: Iterable[Attempt]) -> Iterator[tuple[Attempt, Finding]]:
    """Yield accounts and QOS that this user may not name, if Slurm refuses jobs for that.

    Nothing where a plugin or filter of the site may change what jobs ask for, nor of jobs that may
    go to another cluster than the one here.
    Sources: slurm.conf(5), "AccountingStorageEnforce"; sacctmgr(1), "show associations".
    """
    named = [
        attempt
        for attempt in attempts
        if {"account", "qos"} & attempt.options.get("slurm", {}).keys()
    ]
    settings = configuration() if named else {}
    enforced = settings.get("AccountingStorageEnforce", "")
    is_rewritten = any(settings.get(key, "(null)") != "(null)" for key in _REWRITING)
    if "associations" not in enforced or is_rewritten or any(map(os.environ.get, _ELSEWHERE)):
        return
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, a user of the host has a number only
        return
    words = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}"]
    allowed: dict[str, set[str]] = {}
    for line in (ask([*words, "format=cluster,account,qos"]) or "").splitlines():
        cluster, account, qos = (*line.split("|"), "", "")[:3]
        if cluster == settings.get("ClusterName"):
            allowed.setdefault(account, set()).update(filter(None, qos.split(",")))
    for attempt in named if allowed else ():
        options = attempt.options["slurm"]
        # There may be several.
        accounts = str(options.get("account") or "").lower().replace(",", " ").split()
        unknown = [name for name in accounts if name not in allowed]
        qos = str(options.get("qos") or "").lower()
        allowed_qos = set[str]().union(*(allowed.get(name, ()) for name in accounts or allowed))
        if unknown:
            yield attempt, _not_among(attempt, "account", allowed, _REFUSED.format("account"))
        elif qos and "qos" in enforced and allowed_qos and qos not in allowed_qos:
            yield attempt, _not_among(attempt, "qos", allowed_qos, _REFUSED.format("QOS"))


def _not_among(attempt: Attempt, option: str, there: Iterable[str], problem: str) -> Finding:
    key, value = attempt.place(f"config.slurm.{option}"), attempt.options["slurm"][option]
    return not_among(str(value), sorted(there), problem=problem, file=None, key=key)


def _wanted(attempt: Attempt) -> Shape:
    """Return what an attempt asks for; the GPUs of a ``gres`` may be of a kind of their own."""
    request, by_gres = attempt.request, attempt.options.get("slurm", {}).get("gres")
    return request.cpus, request.memory or 0, 0 if by_gres else request.gpus or 0
