"""Slurm, through snakemake-executor-plugin-slurm (its documentation names the resources)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.sites import NotSubmitted, Queued, QueueState, Unanswered
from fasthep_smk.sites.commands import ask, number, order
from fasthep_smk.sites.slurm_limits import fits, too_large
from fasthep_smk.sites.slurm_partitions import (
    PARTITIONS,
    Partition,
    default_of,
    draft,
    partitions,
)
from fasthep_smk.util import units
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest
from fasthep_smk.util.files import read_plain
from fasthep_smk.util.names import shell
from fasthep_smk.util.processes import in_words
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

__all__ = [
    "AMOUNTS",
    "COMMANDS",
    "NOT_IN_FOLDERS",
    "NOT_IN_PROGRAMS",
    "NO_ANSWER",
    "NO_WORD",
    "PARTITIONS",
    "PLUGIN",
    "RETRIES",
    "SNAKEMAKE",
    "TRAVELLING",
    "Partition",
    "batch_job",
    "cancel",
    "draft",
    "fate",
    "hold",
    "is_unknown",
    "longest",
    "machine",
    "partitions",
    "problems",
    "queued",
    "remedy",
    "resources",
    "settings",
    "slot",
    "squeue",
    "submit",
    "unavailable",
    "unlisted",
    "unsaid",
    "withdraw",
]

#: The module of Snakemake's plugin for it.
PLUGIN = "snakemake_executor_plugin_slurm"
#: Runs Snakemake with faults of that plugin fixed.
SNAKEMAKE = "fasthep_smk.executors.slurm"
#: Nodes fail and jobs are preempted: what has failed once may well succeed.
RETRIES = 2

#: Resources that say how much a job needs, wherever it runs.
AMOUNTS: tuple[str, ...] = ("mem_mb",)

#: The controller is asked by the first one.
COMMANDS: Mapping[str, Sequence[str]] = {
    "sinfo": ("--noheader", "--format=%R"),
    "squeue": (),
    "sbatch": (),
    "scancel": (),
    "scontrol": (),
}

#: Workers find what they are sent in a folder that Slurm knows nothing of.
TRAVELLING: Mapping[str, object] = {}
#: The plugin hands a job's command to a shell between double quotes: what these begin would run
#: there, and once more in the job's own shell.
NOT_IN_FOLDERS = frozenset("$`\n\r\0")
NOT_IN_PROGRAMS = NOT_IN_FOLDERS

#: Slurm's words for jobs that do not run: pending, cancelled or ended and not yet gone.
_STATES: Mapping[str, QueueState] = {"PD": "waiting", "CG": "ending", "CA": "ending"}

#: Why jobs are pending that do not start by themselves (squeue(1), "JOB REASON CODES").
_FOR_EVER = re.compile(
    "JobHeld|JobHold|BadConstraints|Invalid|DependencyNeverSatisfied|Partition(Config|Down|Inactive"
    "|NodeLimit|TimeLimit)|AccountNotAllowed|QOSNotAllowed|(QOS|Assoc)Max.*PerJob|NodeDown$"
)
#: sbatch has one exit status for all errors. Nothing has reached the controller: a job is not
#: queued, and can be submitted again.
NO_ANSWER = re.compile(r"unable to contact slurm controller", re.IGNORECASE)
#: Something may have: sbatch has heard no answer.
NO_WORD = re.compile(r"timed out|timeout|has not answered", re.IGNORECASE)

_NO_JOB = re.compile(r"invalid job id", re.IGNORECASE)

#: Our option → the plugin's resource, where the value passes as it is.
_RESOURCES = {
    "partition": "slurm_partition",
    "account": "slurm_account",
    "qos": "qos",
    "constraint": "constraint",
    "gres": "gres",
    "gpu_model": "gpu_model",
    "cluster": "slurm_cluster",
    "nodes": "nodes",
}


def settings(_site: Site) -> Mapping[str, object]:
    """Return Snakemake's options; without Slurm's accounting, states come from squeue."""
    found: dict[str, object] = {
        "executor": "slurm",
        "jobs": 200,
        "latency-wait": 60,
        "slurm-init-seconds-before-status-checks": 5,
        "seconds-between-status-checks": 10,
        "slurm-logdir": "debug/distributed/out",
    }
    accounting = ask(["scontrol", "show", "config"])
    if accounting is not None and "AccountingStorageType   = accounting_storage/none" in accounting:
        # The plugin would take sacct where it is installed and wait for ever.
        found |= {"slurm-status-command": "squeue", "slurm-no-account": True}
    return found


def resources(attempt: Attempt) -> Mapping[str, object]:
    """Return the plugin's resources. Slurm's megabyte is 2²⁰ bytes, Snakemake's 10⁶."""
    options = _placed(attempt)
    found = {ours: options[key] for key, ours in _RESOURCES.items() if options.get(key)}
    if attempt.request.memory is not None:
        found["mem_mb"] = units.whole_mib(attempt.request.memory)
    if options.get("gres") and attempt.request.gpus:
        found["gpu"] = 0  # the GPUs are among the gres
    words = [f"--reservation={options['reservation']}"] if options.get("reservation") else []
    extra = options.get("extra") or []
    words += extra if isinstance(extra, list) else shlex.split(extra)
    if words:
        # The plugin hands this to a shell: each word is quoted.
        found["slurm_extra"] = shell(words)
    return found


def _placed(attempt: Attempt) -> YamlMapping:
    """Return the options of an attempt, with the smallest partition that suffices for it.

    A pool that names its partition keeps that.
    """
    options = attempt.options.get("slurm", {})
    if options.get("partition"):
        return options
    found = queues.chosen(options.get("partitions"), attempt.request)
    return options if found is None else {**options, "partition": found}


def machine(_site: Site) -> ResourceRequest | None:
    """Return nothing: a cluster is larger than one machine; see :func:`problems`."""
    return None


def longest(attempt: Attempt) -> int | None:
    """Return the time limit of a job's partition, the longest of several."""
    options = attempt.options.get("slurm", {})
    wanted = options.get("partition")
    if not wanted and (choices := queues.queues_of(options.get("partitions"))):
        return queues.longest(choices, attempt.request)
    known = partitions() or {}
    wanted = wanted or default_of(known)
    limits = [known[name].walltime for name in str(wanted).split(",") if name in known]
    return max((one for one in limits if one is not None), default=None) if all(limits) else None


def most_memory(attempt: Attempt) -> int | None:
    """Return the memory of the largest node of a job's partitions that has its cpus and GPUs.

    In bytes; ``None``: that is not known.
    """
    options, request = attempt.options.get("slurm", {}), attempt.request
    gpus = 0 if options.get("gres") else request.gpus
    nodes: dict[str, int] = {}
    known = partitions() or {}
    for name, one in known.items():
        fitting = [
            memory
            for cpus, memory, count in one.up or one.shapes
            if cpus >= request.cpus and count >= gpus and memory
        ]
        if fitting:
            nodes[name] = max(fitting)
    if not options.get("partition") and (choices := queues.queues_of(options.get("partitions"))):
        return queues.most_memory(choices, request, nodes)
    names = str(options.get("partition") or default_of(known)).split(",")
    return max((nodes[name] for name in names if name in nodes), default=None)


def problems(attempts: Iterable[Attempt], site: Site) -> Iterable[Finding]:
    """Yield attempts that no node of their partition can ever run."""
    known = partitions()
    for attempt in attempts:
        if wrong := queues.too_large(attempt, "slurm", "partitions", unless=("partition",)):
            yield wrong
            continue
        if known is None:
            continue
        wanted = _placed(attempt).get("partition")
        names = _goes_to(attempt, site, known)
        here = [known[name] for name in names if name in known]
        if not wanted:
            where = f"partition {', '.join(names)}, the default partition,"
            yield from too_large(attempt, here, where)
            continue
        leaf = "config.slurm.partition"
        if not attempt.options.get("slurm", {}).get("partition"):
            leaf = f"config.slurm.partitions.{wanted}"
        for name in names:
            if name not in known:
                close = nearest(name, known)
                yield Finding(
                    key=_place(attempt, leaf),
                    problem="Slurm has no partition of this name",
                    value=as_yaml(name),
                    expected=", ".join(known),
                    hint=f"did you mean {close!r}?" if close else None,
                )
        yield from too_large(attempt, here, f"partition {', '.join(one.name for one in here)}")


def unavailable(attempts: Iterable[Attempt], site: Site) -> Iterable[str]:
    """Yield in words which attempts wait for nodes that take no jobs now."""
    known = partitions() or {}
    said: dict[str, None] = {}
    for attempt in attempts:
        each = [known[name] for name in _goes_to(attempt, site, known) if name in known]
        if any(fits(attempt, one.up) for one in each):
            continue
        for one in each:
            if not one.up:
                said[f"all nodes of partition {one.name}"] = None
            elif fits(attempt, one.shapes):
                said[f"the nodes of partition {one.name} that pool {attempt.pool!r} fits on"] = None
    for nodes in said:
        yield f"{nodes} are down or drained (sinfo): its jobs wait until one is back"


def _goes_to(attempt: Attempt, site: Site, known: Mapping[str, Partition]) -> list[str]:
    """Return the partitions that a job goes to; none if they are not known to sinfo here."""
    if _is_elsewhere(attempt, site):
        return []
    names = _placed(attempt).get("partition")
    if not names:
        names = default_of(known) if _takes_default(site) else ""
    return str(names).split(",") if names else []


def _is_elsewhere(attempt: Attempt, site: Site) -> bool:
    """Whether a job may go to another cluster: sinfo tells of the partitions of the one here."""
    named = attempt.options.get("slurm", {}).get("cluster")
    return bool(named) or "slurm_cluster" in repr(site.settings)


def _takes_default(site: Site) -> bool:
    """Whether a job that names no partition goes to the default one.

    A site may name one for all jobs, or say which partitions the plugin chooses from.
    """
    said = repr(site.settings)
    return "slurm_partition" not in said and "slurm-partition-config" not in said


def _place(attempt: Attempt, leaf: str) -> str:
    """Return where a setting is written down; of a mapping, where its first value is."""
    inner = (one for one in attempt.origins if one.startswith(f"{leaf}."))
    return attempt.place(leaf if leaf in attempt.origins else next(inner, leaf))


def squeue(*options: str) -> list[str]:
    """Return the command that lists the user's jobs, also in partitions that the site hides."""
    return ["squeue", "--noheader", "--all", f"--user={os.getuid()}", *options]


def queued(folder: Path) -> list[Queued] | None:
    """Return the user's jobs that were submitted from a folder; of an array, its first number."""
    text = ask(squeue("--format=%F|%t|%P|%r|%j|%Z"))
    if text is None:
        return None
    found = []
    for line in text.splitlines():
        job, state, partition, reason, rest = (*line.split("|", 4), *[""] * 4)[:5]
        name, _, where = rest.rpartition("|")
        if job.isdigit() and _is_same(where, folder):
            at = f"partition {partition}"
            held = state == "PD" and _FOR_EVER.match(reason) is not None
            found.append(Queued(job, name, _STATES.get(state, "running"), at, reason, held))
    return found


def cancel(jobs: Iterable[str]) -> Sequence[str]:
    """Return the command that cancels jobs."""
    return ["scancel", "--quiet", *jobs]


def hold(jobs: Iterable[str]) -> Mapping[str, bool | None]:
    """Put pending jobs on hold; return which are, never having started. ``None``: unknown.

    Source: scontrol(1). It holds running jobs, too, for when they are requeued: those are let go.
    """
    jobs = list(jobs)
    found = _listed(jobs)
    if waiting := [job for job, one in found.items() if one and one.waits]:
        ask(["scontrol", "hold", ",".join(waiting)])
        found = _listed(jobs)
    started = [job for job, one in found.items() if one and one.held and one.state == "RUNNING"]
    if started:
        ask(["scontrol", "release", ",".join(started)])
    return {
        job: None if one is None or (one.waits and not one.held) else one.waits
        for job, one in found.items()
    }


def withdraw(jobs: Iterable[str]) -> Mapping[str, bool | None]:
    """Cancel jobs on hold; return which are gone without having started. ``None``: unknown.

    Source: scancel(1).
    """
    jobs = list(jobs)
    if not jobs:
        return {}
    ask(["scancel", "--state=PENDING", *jobs])
    found = _listed(jobs)
    return {job: None if one is None else one.is_gone for job, one in found.items()}


@dataclass(frozen=True)
class _Listed:
    """What squeue says of a job; ``is_new``: it has never started, here or on another node."""

    state: str = ""
    held: bool = False
    is_new: bool = False

    @property
    def waits(self) -> bool:
        return self.state == "PENDING" and self.is_new

    @property
    def is_gone(self) -> bool | None:
        """Whether a job that was on hold has left the queue; Slurm forgets it some time later."""
        if self.waits:
            return None
        return not self.state or (self.state == "CANCELLED" and self.is_new)


def _listed(jobs: list[str]) -> dict[str, _Listed | None]:
    """Return what squeue says of jobs of the user; ``None`` if it does not answer."""
    if not jobs:
        return {}
    names = ("JobArrayID", "State", "Reason", "RestartCnt", "NodeList")
    columns = ",".join(f"{name}:|" for name in names)
    text = ask(squeue("--array", "--states=all", f"-O{columns}"))
    if text is None:
        return dict.fromkeys(jobs)
    found: dict[str, _Listed | None] = {job: _Listed() for job in jobs}
    for line in text.splitlines():
        job, *said = (part.strip() for part in line.split("|"))
        if job in found and len(said) >= 4:
            state, reason, restarts, nodes = said[:4]
            found[job] = _Listed(
                state, reason.startswith("JobHeld"), (restarts, nodes) == ("0", "")
            )
    return found


def unlisted(jobs: Iterable[str]) -> set[str] | None:
    """Return which jobs squeue does not list, in no state; ``None`` if it does not answer."""
    found = _listed(list(jobs))
    if None in found.values():
        return None
    return {job for job, one in found.items() if one and not one.state}


def is_unknown(job: str) -> bool:
    """Whether the controller says that it has no such job; an empty list of squeue's says less.

    It forgets jobs some minutes after their end, and all that it has not written down if it dies.
    """
    answer = order(["scontrol", "--all", "show", "job", "--oneliner", job])
    return not answer.well and _NO_JOB.search(answer.problem) is not None


def batch_job() -> str | None:
    """Return the id of the Slurm job that this process runs in."""
    return os.environ.get("SLURM_JOB_ID")


def slot() -> str | None:
    """Return the partition that this process runs in."""
    name = os.environ.get("SLURM_JOB_PARTITION")
    return f"partition {name}" if name else None


def _is_same(where: str, folder: Path) -> bool:
    if Path(where) == folder:
        return True
    try:
        return Path(where).resolve() == folder.resolve()
    except (OSError, ValueError):  # no file can have this name
        return False


def fate(job: str) -> str | None:
    """Return how Slurm says a job ended: its state, reason, exit code, node, and its last word."""
    text = ask(["scontrol", "show", "job", "--oneliner", job])
    if text is None:
        return None
    found = dict(item.partition("=")[::2] for item in text.split())
    state = found.get("JobState", "unknown state")
    reason = found.get("Reason", "None")
    said = f"Slurm: {state}" + (f", {reason}" if reason not in ("None", "") else "")
    if found.get("ExitCode", "0:0") != "0:0":
        said += f", {_in_words(found['ExitCode'])}"
    if not (found.get("NodeList") or "(null)").startswith("("):
        said += f", node {found['NodeList']}"
    word = _last_word(text)
    return f"{said}: {word}" if word else said


def _in_words(code: str) -> str:
    """Return an exit code of Slurm's; a shell makes 128 and more of a signal."""
    status, _, killed_by = code.partition(":")
    signal = number(killed_by) or max(number(status) - 128, 0)
    return f"exit code {code}" + (f", {in_words(-signal)}" if signal else "")


def submit(command: str, name: str, attempt: Attempt, output: Path) -> str:
    """Submit a shell command as a batch job that starts once; return its id.

    Source: sbatch(1).
    """
    request, options = attempt.request, _placed(attempt)
    words = ["sbatch", "--parsable", f"--job-name={name}", f"--output={output}.log"]
    words += [f"--cpus-per-task={request.cpus}", "--ntasks=1", "--no-requeue"]
    if request.memory is not None:
        words.append(f"--mem={units.whole_mib(request.memory)}")
    if request.walltime is not None:
        words.append(f"--time={units.whole_minutes(request.walltime)}")
    if options.get("gres"):
        words.append(f"--gres={options['gres']}")
    elif request.gpus:
        model = f"{options['gpu_model']}:" if options.get("gpu_model") else ""
        words.append(f"--gpus={model}{request.gpus}")
    for option in ("partition", "account", "qos", "constraint", "cluster", "nodes", "reservation"):
        if options.get(option):
            words.append(f"--{option}{'s' if option == 'cluster' else ''}={options[option]}")
    extra = options.get("extra") or []
    words += extra if isinstance(extra, list) else shlex.split(extra)
    answer = order(words, f"#!/bin/sh\nexec {command}\n")
    job = answer.text.strip().partition(";")[0]
    if not answer.well or not job.isdigit():
        said = answer.problem or answer.text.strip() or "sbatch gives no number"
        raise (Unanswered if NO_ANSWER.search(said) or NO_WORD.search(said) else NotSubmitted)(said)
    return job


def unsaid() -> Mapping[str, str]:
    """Return what a job gets that asks for no memory, unless its partition says otherwise.

    Source: slurm.conf(5), "DefMemPerCPU" and "DefMemPerNode".
    """
    text = ask(["scontrol", "show", "config"]) or ""
    found = re.search(r"^DefMemPer(CPU|Node)\s*=\s*(\S+)", text, re.MULTILINE)
    if found is None:
        return {}
    of, value = found.groups()
    said = "all that its node has" if value == "UNLIMITED" else f"{value} MB for each {of.lower()}"
    return {"memory": f"{said} (DefMemPer{of}), unless its partition says otherwise"}


#: What sbatch complains of, and what to do about it; the first that fits counts.
_REMEDIES = (
    (
        "slurm_extra",
        "slurm: {extra: [OPTION]}",
        "an option for which there is a key (docs/pools.md) does not stand there",
    ),
    (
        r"\baccount\b",
        "slurm: {account: ACCOUNT}",
        "'sacctmgr show associations user=$USER format=account%30,partition,qos%40' lists yours",
    ),
    ("qos", "slurm: {qos: QOS}", "'sacctmgr show qos format=name%30,maxwall' lists them"),
    ("reservation", "slurm: {reservation: NAME}", "'scontrol show reservations' lists them"),
    ("partition", "slurm: {partition: NAME}", "'sinfo --summarize' lists them"),
    ("feature|constraint", "slurm: {constraint: FEATURE}", "'sinfo --format=\"%R %f\"' lists them"),
    ("gres|gpu|tres", "slurm: {gres: NAME:COUNT}", "'sinfo --format=\"%R %G\"' lists them"),
    ("time ?limit|wall", 'walltime: "01:00:00"', "'sinfo --format=\"%R %l\"' lists the limits"),
    ("licen[sc]e", "slurm: {extra: [--licenses=NAME]}", "'scontrol show licenses' lists them"),
)
_SIZES = re.compile("node configuration|memory|cpu|processor", re.IGNORECASE)


def remedy(said: str) -> str | None:
    """Return what to do about what sbatch says."""
    for pattern, key, where in _REMEDIES:
        if re.search(pattern, said, re.IGNORECASE):
            return f"config: {{{key}}} in the pool, or in the site's pools.yaml; {where}"
    if _SIZES.search(said):
        return (
            "ask for less (resources: of the pool): 'sinfo --format=\"%R %c %m\"' lists the nodes"
        )
    return None


def _last_word(record: str) -> str | None:
    """Return what Slurm wrote into a job's log when it killed it.

    The job's state does not say it: the plugin runs jobs as steps, and of what happens to a step
    the state has the exit code only.
    """
    path = re.search(r"StdErr=(.+?)(?: Std\w+=| Power=|$)", record, re.MULTILINE)
    try:
        text = read_plain(Path(path[1])).decode(errors="replace") if path else ""
    except (OSError, ValueError):  # the name is not one of a file
        return None
    found = re.search(r"^slurmstepd\S*: error: (?:\*\*\* )?(.+?)(?: \*\*\*)?$", text, re.MULTILINE)
    return found[1] if found else None
