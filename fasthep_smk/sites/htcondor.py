"""HTCondor, through snakemake-executor-plugin-htcondor (its documentation names the resources)."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.sites import Draft, Waiting
from fasthep_smk.sites.commands import ask, number
from fasthep_smk.util import units
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import shell

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

__all__ = [
    "AMOUNTS",
    "NOT_IN_FOLDERS",
    "NOT_IN_PROGRAMS",
    "PLUGIN",
    "RETRIES",
    "SNAKEMAKE",
    "TRAVELLING",
    "batch_job",
    "fate",
    "hold",
    "machine",
    "problems",
    "resources",
    "settings",
    "slots",
    "take_back",
    "waiting",
    "withdraw",
]

#: The module of Snakemake's plugin for it.
PLUGIN = "snakemake_executor_plugin_htcondor"
#: What runs in place of Snakemake's own module.
SNAKEMAKE = "fasthep_smk.executors.htcondor"
#: Machines leave and jobs are preempted: what has failed once may well succeed.
RETRIES = 2

#: Resources that say how much a job needs, wherever it runs.
AMOUNTS: tuple[str, ...] = ("allowed_execute_duration",)

#: Snakemake must not look for files of ours on workers.
TRAVELLING: Mapping[str, object] = {"shared-fs-usage": "none"}
#: Its submit language fills in what a dollar sign begins, and a line ends there. It splits commands
#: at spaces, and the plugin takes quotes out of them.
NOT_IN_FOLDERS = frozenset("$\n\r\0")
NOT_IN_PROGRAMS = NOT_IN_FOLDERS | frozenset(" \t\"'")

#: Our option → the plugin's resource, where the value passes as it is.
_RESOURCES = {
    "requirements": "requirements",
    "rank": "rank",
    "accounting_group": "classad_AccountingGroup",
    "accounting_group_user": "classad_AcctGroupUser",
    "job_flavour": "classad_JobFlavour",
    "universe": "universe",
    "container_image": "container_image",
    "environment": "environment",
    "priority": "htcondor_submit_priority",
}
#: HTCondor's numbers for the states of a job.
_IDLE, _REMOVED, _HELD = 1, 3, 5
#: What a job's record says of its end.
_OF_AN_END = (
    "JobStatus", "HoldReason", "LastHoldReason", "RemoveReason", "ExitSignal", "ExitCode",
)  # fmt: skip
#: A job's environment is empty; without PATH, Snakemake dies in it. The last three name files of
#: credentials; BEARER_TOKEN, which is one, stays here.
_GETENV = "PATH,HOME,LANG,LC_ALL,X509_USER_PROXY,BEARER_TOKEN_FILE,KRB5CCNAME"


def settings(_site: Site) -> Mapping[str, object]:
    """Return Snakemake's options; a held job counts as failed after minutes, not hours."""
    return {
        "executor": "htcondor",
        "jobs": 500,
        "latency-wait": 60,
        "seconds-between-status-checks": 10,
        "htcondor-jobdir": "debug/distributed/out",
        "htcondor-held-timeout": 300,
        # For jobs of rules that are not ours; those of ours say it themselves.
        "default-resources": {"getenv": repr(_GETENV)},
    }


def resources(attempt: Attempt) -> Mapping[str, object]:
    """Return the plugin's resources: of Snakemake's own it maps the threads only."""
    options = attempt.options.get("htcondor", {})
    request = attempt.request
    found = {ours: options[key] for key, ours in _RESOURCES.items() if options.get(key)}
    found["getenv"] = options.get("getenv", _GETENV)
    if request.walltime is not None:
        found["allowed_execute_duration"] = request.walltime
    if options.get("max_runtime"):
        found["classad_MaxRuntime"] = units.parse_duration(options["max_runtime"])
    if limits := options.get("concurrency_limits"):
        found["classad_ConcurrencyLimits"] = limits if isinstance(limits, str) else ",".join(limits)
    # Snakemake in a job answers SIGTERM by finishing its work: a job that was removed or held would
    # run on beside its next attempt.
    found["htcondor_submit_kill_sig"] = 9
    for name, value in (options.get("classads") or {}).items():
        found[f"classad_{name}"] = value
    for name, value in (options.get("submit") or {}).items():
        found[f"htcondor_submit_{name.replace('.', '__')}"] = value
    return found


def machine(_site: Site) -> ResourceRequest | None:
    """Return nothing: a cluster is larger than one machine; see :func:`problems`."""
    return None


def slots() -> list[tuple[int, int, int]] | None:
    """Return cpus, memory (bytes) and GPUs of each slot; ``None`` if HTCondor does not answer."""
    text = ask(
        ["condor_status", "-af", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotGPUs"],
    )
    if text is None:
        return None
    found = []
    for line in text.splitlines():
        values = [number(item) for item in line.split()]
        if len(values) == 3:
            found.append((values[0], values[1] * 1024**2, values[2]))
    return found


def problems(attempts: Iterable[Attempt], _site: Site) -> Iterable[Finding]:
    """Yield attempts that no slot can ever run."""
    known = slots()
    if not known:
        return
    for attempt in attempts:
        request = attempt.request
        wanted = (request.cpus, request.memory or 0, request.gpus)
        if any(all(w <= h for w, h in zip(wanted, slot, strict=True)) for slot in known):
            continue
        yield Finding(
            key=attempt.place("resources.memory"),
            problem=f"pool {attempt.pool!r} asks for more than any slot of HTCondor has",
            value=f"cpus {request.cpus}, memory {request.shown('memory')}, gpus {request.gpus}",
            expected="; ".join(
                f"cpus {cpus}, memory {units.format_bytes(memory)}, gpus {gpus}"
                for cpus, memory, gpus in sorted(set(known), reverse=True)[:4]
            ),
            hint="such a job would be pending forever: ask for less",
        )


def hold(_run: str, jobs: Iterable[str]) -> Mapping[str, bool | None]:
    """Put idle jobs on hold; return which are, never having started. ``None``: unknown.

    Source: condor_hold(1). The schedd looks at a job and holds it in one step: none is running.
    """
    jobs = list(jobs)
    if not jobs:
        return {}
    reason = "waited too long for its pool: it goes to another"
    ask(["condor_hold", "-reason", reason, "-constraint", _that_wait(jobs, _IDLE)])
    found = _queued(jobs)
    return {
        job: None
        if found is None or found.get(job) == (_IDLE, True)
        else found.get(job) == (_HELD, True)
        for job in jobs
    }


def withdraw(_run: str, jobs: Iterable[str]) -> Mapping[str, bool | None]:
    """Remove jobs on hold; return which are gone. ``None``: unknown.

    Source: condor_rm(1). Nothing but its removal ends a job that is on hold.
    """
    jobs = list(jobs)
    if not jobs:
        return {}
    ask(["condor_rm", "-constraint", _that_wait(jobs, _HELD)])
    found = _queued(jobs)
    gone = {None: True, (_HELD, True): None, (_REMOVED, True): None}
    return {job: None if found is None else gone.get(found.get(job), False) for job in jobs}


def _that_wait(jobs: Iterable[str], status: int) -> str:
    """Return the constraint of jobs that are in a state and have never started."""
    listed = ",".join(jobs)
    new = "(NumShadowStarts =?= undefined || NumShadowStarts == 0)"
    return f'member(string(ClusterId), split("{listed}", ",")) && JobStatus == {status} && {new}'


def _queued(jobs: Iterable[str]) -> dict[str, tuple[int, bool]] | None:
    """Return of jobs in the queue the state, and whether they have never started."""
    text = ask(["condor_q", *jobs, "-af", "ClusterId", "JobStatus", "NumShadowStarts"])
    if text is None:
        return None
    lines = [line.split() for line in text.splitlines()]
    return {
        job: (number(status), starts in ("undefined", "0"))
        for job, status, starts in (line for line in lines if len(line) == 3)
    }


def batch_job() -> str | None:
    """Return the id of the HTCondor job that this process runs in, from its ClassAd."""
    path = os.environ.get("_CONDOR_JOB_AD")
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^ClusterId = (\d+)", text, re.MULTILINE)
    return found[1] if found else None


def draft() -> Draft | None:
    """Return a pool for small slots, one for the most memory and one for GPUs."""
    known = slots()
    if not known:
        return None
    plain = min(known, key=lambda slot: (slot[2], slot[1]))
    largest = max(known, key=lambda slot: slot[1])
    profiles: dict[str, object] = {"default": {"resources": _share(plain)}}
    if largest[1] > plain[1]:
        profiles["high_memory"] = {"resources": _share(largest)}
    with_gpus = [slot for slot in known if slot[2]]
    if with_gpus:
        profiles["gpu"] = {"resources": _share(with_gpus[0]) | {"gpus": 1}}
    kinds = Counter(known)
    remarks = ["The slots, how many of each kind:"]
    remarks += [
        f"    {count} x {cpus} cpus, {units.format_bytes(memory)}, {gpus} GPUs"
        for (cpus, memory, gpus), count in sorted(kinds.items())
    ]
    pools = {
        "default": {"resources": {"disk": "1GB"}, "config": {"walltime": "01:00:00"}},
        "pool_profiles": profiles,
        "waiting": "00:02:00",
    }
    return Draft(pools, remarks)


def _share(slot: tuple[int, int, int]) -> dict[str, int | str]:
    """Return one cpu of a slot with its share of the memory."""
    return {"cpus": 1, "memory": f"{units.whole_mb(slot[1] // max(slot[0], 1))}MB"}


def fate(job: str) -> str | None:
    """Return how HTCondor says a job ended: why it was held or removed, or its exit code."""
    for command in (["condor_q", job], ["condor_history", "-limit", "1", job]):
        for ad in _ads(command, *_OF_AN_END):
            return f"HTCondor: {_ending(ad)}"
    return None


def _ending(ad: JsonObject) -> str:
    status = ad.get("JobStatus")
    if status == _HELD:
        return f"held: {ad.get('HoldReason', 'no reason given')}"
    if status == _REMOVED:
        said = f"removed: {ad.get('RemoveReason', 'no reason given')}"
        return f"held: {ad['LastHoldReason']}; {said}" if "LastHoldReason" in ad else said
    if "ExitSignal" in ad:
        return f"ended by signal {ad['ExitSignal']}"
    return f"exit code {ad['ExitCode']}" if "ExitCode" in ad else f"job status {status}"


def waiting(run: str) -> list[Waiting]:
    """Return the idle and held jobs of a run (named by its build folder), with the reasons."""
    names = ("JobStatus", "JobBatchName", "HoldReason", "LastRejMatchReason")
    counts: Counter[tuple[str, str]] = Counter()
    for ad in _ads(_queue_of(run), *names):
        rule = str(ad.get("JobBatchName", "")).rpartition("-")[0]
        if ad.get("JobStatus") == _HELD:
            counts[(rule, f"held: {ad.get('HoldReason', 'no reason given')}")] += 1
        elif ad.get("JobStatus") == _IDLE:
            said = str(ad.get("LastRejMatchReason", "")).strip()
            counts[(rule, said or "not yet matched with a slot")] += 1
    return [Waiting(f"rule {rule}", count, words) for (rule, words), count in counts.items()]


def take_back(_run: str, folder: Path, submitted: Iterable[str]) -> str | None:
    """Remove what a run leaves in the queue: a job that was held too long is there for ever.

    Released later by somebody, it would write over what the run has made since. Returns what a
    person has to do where HTCondor does not answer.
    """
    ours, run = set(submitted), str(folder.resolve())
    left = _left(run, ours)
    if left:
        for start in range(0, len(left), 500):
            ask(["condor_rm", *left[start : start + 500]])
        left = _left(run, ours)
    if left == []:
        return None
    return (
        "HTCondor does not answer: jobs of this run may be left in its queue. Later, remove them:\n"
        f"    {shell(['condor_rm', *_queue_of(run)[1:]])}"
    )


def _left(run: str, submitted: set[str]) -> list[str] | None:
    """Return the jobs of a run in the queue that nobody has removed; ``None`` without an answer."""
    listed = ask([*_queue_of(run), "-af", "ClusterId", "JobStatus"])
    if listed is None:
        return None
    jobs = dict(line.strip().partition(" ")[::2] for line in listed.splitlines())
    removed = str(_REMOVED)
    return [job for job, status in jobs.items() if job in submitted and status.strip() != removed]


def _queue_of(run: str) -> list[str]:
    """Return the command that lists a run's jobs, or all of the user's."""
    if not run:
        return ["condor_q"]
    folder = run.replace("\\", "\\\\").replace('"', '\\"')
    return ["condor_q", "-constraint", f'Iwd == "{folder}"']


def _ads(command: list[str], *names: str) -> list[JsonObject]:
    """Return these attributes of the jobs that a command of HTCondor's lists."""
    text = ask([*command, "-json", "-attributes", ",".join(names)]) or ""
    try:
        found = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError):
        return []
    return [ad for ad in found if isinstance(ad, dict)] if isinstance(found, list) else []
