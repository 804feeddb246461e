"""HTCondor, through snakemake-executor-plugin-htcondor (its documentation names the resources)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.sites import Draft, NotSubmitted, Unanswered
from fasthep_smk.sites.commands import ask, number, order
from fasthep_smk.sites.htcondor_queue import (
    ONCE,
    RUNNING,
    ads_of,
    arrived,
    fate,
    hold,
    queued,
    status,
    withdraw,
)
from fasthep_smk.sites.nodes import ClusterNode, in_words
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding, not_among

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

__all__ = [
    "AMOUNTS",
    "COMMAND",
    "COMMANDS",
    "NOT_IN_FOLDERS",
    "NOT_IN_PROGRAMS",
    "NO_ANSWER",
    "NO_WORD",
    "PLUGIN",
    "RETRIES",
    "SNAKEMAKE",
    "TRAVELLING",
    "arrived",
    "batch_job",
    "cancel",
    "fate",
    "hold",
    "longest",
    "machine",
    "nodes",
    "problems",
    "queued",
    "remedy",
    "resources",
    "settings",
    "slot",
    "slots",
    "status",
    "submit",
    "unsaid",
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

#: The collector and the schedd are asked.
COMMANDS: Mapping[str, Sequence[str]] = {
    "condor_status": ("-af", "Name"),
    "condor_q": ("-af", "ClusterId"),
    "condor_history": (),
    "condor_rm": (),
    "condor_hold": (),
}

#: Snakemake must not look for files of ours on workers.
TRAVELLING: Mapping[str, object] = {"shared-fs-usage": "none"}
#: Its submit language fills in what a dollar sign begins, and a line ends there. It splits commands
#: at spaces, and the plugin takes quotes out of them.
NOT_IN_FOLDERS = frozenset("$\n\r\0")
NOT_IN_PROGRAMS = NOT_IN_FOLDERS | frozenset(" \t\"'")

#: Nothing has reached the schedd: a job was not queued, and can be submitted again.
NO_ANSWER = re.compile(r"failed to connect|unable to locate|can't find address", re.IGNORECASE)
#: Something may have: the schedd's last answer was not heard.
NO_WORD = re.compile(r"commit transaction|timed out|timeout|end.of.message", re.IGNORECASE)

#: What ``condor_submit -terse`` prints of a job, beside what a site may add.
_SUBMITTED = re.compile(r"^(\d{1,20})\.\d+ - \1\.\d+\s*$", re.MULTILINE | re.ASCII)

#: How the plugin's resources begin that are commands of a submit description.
COMMAND = "htcondor_submit_"
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
#: With one of these a pool says itself how long its jobs may last.
_OWN_TIME = ("job_flavour", "max_runtime")
#: What a slot's record says of it, and of its GPUs.
_OF_A_SLOT = (
    "SlotType", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "TotalSlotGPUs",
)  # fmt: skip
_MODELS = ("GPUs_DeviceName", "CUDADeviceName")
#: Its settings for what a job asks for that does not say it.
_UNSAID = {"memory": "JOB_DEFAULT_REQUESTMEMORY", "disk": "JOB_DEFAULT_REQUESTDISK"}
#: In them, what a job has used so far: nothing, before its first attempt.
_USED = re.compile("MemoryUsage|DiskUsage")
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
    terms = {ours: options[key] for key, ours in _RESOURCES.items() if options.get(key)}
    if not any(options.get(key) for key in _OWN_TIME):
        flavour = queues.chosen(options.get("flavours"), request)
        terms |= {"classad_JobFlavour": flavour} if flavour else {}
    terms["getenv"] = options.get("getenv", _GETENV)
    if request.walltime is not None:
        terms["allowed_execute_duration"] = request.walltime
    if options.get("max_runtime"):
        terms["classad_MaxRuntime"] = units.parse_duration(options["max_runtime"])
    if limits := options.get("concurrency_limits"):
        terms["classad_ConcurrencyLimits"] = limits if isinstance(limits, str) else ",".join(limits)
    # Snakemake in a job answers SIGTERM by finishing its work: a job that was removed or held would
    # run on beside its next attempt.
    terms["htcondor_submit_kill_sig"] = 9
    for name, value in (options.get("classads") or {}).items():
        terms[f"classad_{name}"] = value
    for name, value in (options.get("submit") or {}).items():
        terms[f"{COMMAND}{name.replace('.', '__')}"] = value
    return terms


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
    shapes = []
    for line in text.splitlines():
        values = [number(item) for item in line.split()]
        if len(values) == 3:
            shapes.append((values[0], values[1] * 1024**2, values[2]))
    return shapes


def nodes() -> list[ClusterNode]:
    """Return the slots, those of a machine that was not divided among jobs yet.

    Source: "Machine ClassAd Attributes" in HTCondor's manual.
    """
    return [
        ClusterNode(
            cpus=number(str(ad.get("TotalSlotCpus"))),
            memory=number(str(ad.get("TotalSlotMemory"))) * 1024**2,
            gpus=(gpus := number(str(ad.get("TotalSlotGPUs")))),
            disk=number(str(ad.get("TotalSlotDisk"))) * 1024 or None,
            models=tuple(str(ad[name]) for name in _MODELS if gpus and ad.get(name))[:1],
        )
        for ad in ads_of(["condor_status"], *_OF_A_SLOT, *_MODELS)
        if ad.get("SlotType") != "Dynamic"
    ]


def longest(attempt: Attempt) -> int | None:
    """Return the longest time that a pool says of its slots, itself or by its flavours."""
    options = attempt.options.get("htcondor", {})
    if options.get("max_runtime"):
        return units.parse_duration(options["max_runtime"])
    flavours = queues.queues_of(options.get("flavours"))
    if named := options.get("job_flavour"):
        flavours = [flavour for flavour in flavours if flavour.name == named]
    return queues.longest(flavours, attempt.request)


def most_memory(attempt: Attempt) -> int | None:
    """Return the memory of the largest slot that a job fits in, in bytes; ``None``: not known."""
    options, request = attempt.options.get("htcondor", {}), attempt.request
    fitting = (
        memory
        for cpus, memory, gpus in slots() or []
        if cpus >= request.cpus and gpus >= request.gpus and memory
    )
    largest = max(fitting, default=None)
    flavours = queues.queues_of(options.get("flavours"))
    if not flavours or any(options.get(key) for key in _OWN_TIME):
        return largest
    nodes = {} if largest is None else {flavour.name: largest for flavour in flavours}
    return queues.most_memory(flavours, request, nodes)


def problems(attempts: Iterable[Attempt], _site: Site) -> Iterable[Finding]:
    """Yield attempts that no slot can ever run, or whose flavour there is not."""
    shapes = slots()
    for attempt in attempts:
        if wrong := queues.too_large(attempt, "htcondor", "flavours", unless=_OWN_TIME):
            yield wrong
        options = attempt.options.get("htcondor", {})
        if (named := options.get("job_flavour")) and options.get("flavours") == queues.CERN:
            flavours = [flavour.name for flavour in queues.queues_of(queues.CERN)]
            if named not in flavours:  # HTCondor takes any: such jobs are ended after 20 minutes
                yield not_among(
                    named,
                    flavours,
                    problem="CERN has no job flavour of this name",
                    file=None,
                    key=attempt.place("config.htcondor.job_flavour"),
                )
        if not shapes:
            continue
        request = attempt.request
        wanted = (request.cpus, request.memory or 0, request.gpus)
        if any(all(w <= h for w, h in zip(wanted, slot, strict=True)) for slot in shapes):
            continue
        most = [max(each) for each in zip(*shapes, strict=True)]
        names = ("cpus", "memory", "gpus")
        excess = (name for name, w, h in zip(names, wanted, most, strict=True) if w > h)
        yield Finding(
            key=attempt.place(f"resources.{next(excess, 'memory')}"),
            problem=f"pool {attempt.pool!r} asks for more than any slot of HTCondor has",
            value=f"cpus {request.cpus}, memory {request.shown('memory')}, gpus {request.gpus}",
            expected="; ".join(
                f"cpus {cpus}, memory {units.format_bytes(memory)}, gpus {gpus}"
                for cpus, memory, gpus in sorted(set(shapes), reverse=True)[:4]
            ),
            hint="such a job would wait forever: ask for less",
        )


def batch_job() -> str | None:
    """Return the id of the HTCondor job that this process runs in, from its ClassAd."""
    return _in_ad("_CONDOR_JOB_AD", r"^ClusterId = (\d+)")


def _in_ad(variable: str, pattern: str) -> str | None:
    """Return what a ClassAd says whose file a job is told."""
    path = os.environ.get(variable)
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


def slot() -> str | None:
    """Return the slot that this process runs in, from its ClassAd."""
    name = _in_ad("_CONDOR_MACHINE_AD", r'^Name = "([^"]+)"')
    return f"slot {name}" if name else None


def draft() -> Draft | None:
    """Return a pool for small slots, one for the most memory and one for GPUs."""
    shapes = slots()
    if not shapes:
        return None
    plain = min(shapes, key=lambda slot: (slot[2], slot[1]))
    largest = max(shapes, key=lambda slot: slot[1])
    profiles: dict[str, object] = {"default": {"resources": _share(plain)}}
    if largest[1] > plain[1]:
        profiles["high_memory"] = {"resources": _share(largest)}
    with_gpus = [slot for slot in shapes if slot[2]]
    if with_gpus:
        profiles["gpu"] = {"resources": _share(with_gpus[0]) | {"gpus": 1}}
    remarks = ["The number of slots of each kind:"]
    remarks += [f"    {line}" for line in in_words(nodes(), "slot")]
    pools = {
        "default": {"resources": {"disk": "1GB"}, "config": {"walltime": "01:00:00"}},
        "pool_profiles": profiles,
        "waiting": "00:02:00",
    }
    invented = [
        "default.config.walltime, 01:00:00: HTCondor ends a job that takes longer",
        "default.resources.disk, 1GB: HTCondor may end a job that writes more",
    ]
    return Draft(pools, remarks, invented=invented)


def _share(slot: tuple[int, int, int]) -> dict[str, int | str]:
    """Return one cpu of a slot with its share of the memory."""
    return {"cpus": 1, "memory": f"{units.whole_mb(slot[1] // max(slot[0], 1))}MB"}


#: What HTCondor complains of, and the option of ours that it comes from.
_REMEDIES = (
    ("accounting|acct ?group", "accounting_group: GROUP"),
    ("requirements", "requirements: EXPRESSION"),
    ("rank", "rank: EXPRESSION"),
    ("concurrency", "concurrency_limits: NAME"),
    ("container|docker|image", "container_image: IMAGE"),
)


def remedy(said: str) -> str | None:
    """Return what to do about what HTCondor says of a job that it does not take."""
    for pattern, key in _REMEDIES:
        if re.search(pattern, said, re.IGNORECASE):
            return f"config: {{htcondor: {{{key}}}}} in the pool, or in the site's pools.yaml"
    return None


def _held_at(seconds: int) -> Mapping[str, str]:
    """Return what holds a job at its time also where ``allowed_execute_duration`` does not.

    HTCondor (23.9) sees to that by a timer of the shadow. The next job in the same slot has the
    same shadow; if it starts before the timer of the one before it has passed, it has none.
    """
    since = "JobCurrentStartExecutingDate"
    over = f"{since} =!= undefined && time() - {since} > {seconds}"
    limit = units.format_duration(seconds)
    return {
        "periodic_hold": f"JobStatus == {RUNNING} && {over}",
        "periodic_hold_reason": f'"The job exceeded allowed execute duration of {limit}"',
    }


def submit(command: str, name: str, attempt: Attempt, output: Path) -> str:
    """Submit a shell command as a batch job that starts once; return its id.

    Source: condor_submit(1), "Submitting a Job" in HTCondor's manual.
    """
    request = attempt.request
    lines = {
        "universe": "vanilla",
        "executable": "/bin/sh",
        "transfer_executable": "false",
        "should_transfer_files": "no",
        "initialdir": str(Path.cwd()),
        "JobBatchName": name,
        "request_cpus": request.cpus,
        "periodic_remove": ONCE,
        "output": f"{output}.log",
        "error": f"{output}.err",
        "log": f"{output}.events",
    }
    if request.walltime is not None:
        lines |= _held_at(request.walltime)
    if request.memory is not None:
        lines["request_memory"] = units.whole_mib(request.memory)
    if request.disk is not None:
        lines["request_disk"] = f"{units.whole_mib(request.disk)}MB"
    if request.gpus:
        lines["request_gpus"] = request.gpus
    for key, value in resources(attempt).items():
        if key.startswith("classad_"):
            lines[f"+{key.removeprefix('classad_')}"] = json.dumps(value)
        else:
            lines[key.removeprefix(COMMAND).replace("__", ".")] = value
    # In arguments of the new syntax, quotes are doubled.
    inner = f"exec {command}".replace("'", "''").replace('"', '""')
    lines["arguments"] = f"\"-c '{inner}'\""
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    if any("\n" in f"{key}{value}" for key, value in lines.items()):
        raise NotSubmitted("a setting of its pool has a line break")
    answer = order(["condor_submit", "-terse", "-"], f"{text}queue\n")
    numbers = _SUBMITTED.findall(answer.text)
    if answer.well and numbers:
        return str(numbers[-1])
    problem = answer.problem or "condor_submit gives no number"
    silent = answer.well or NO_ANSWER.search(problem) or "has not answered" in problem
    raise (Unanswered if silent else NotSubmitted)(problem)


def unsaid() -> Mapping[str, str]:
    """Return what a job asks for that gives no memory or disk, as the settings of the pool say.

    Source: condor_config_val(1), "JOB_DEFAULT_REQUEST..." in HTCondor's manual.
    """
    defaults: dict[str, str] = {}
    for name, setting in _UNSAID.items():
        value = " ".join((ask(["condor_config_val", setting]) or "").split())
        if not value:
            continue
        most = "only as much as it has used so far: next to nothing at its first start"
        unit = "MB" if name == "memory" else "kB"
        text = most if _USED.search(value) else f"{value} {unit}"
        defaults[name] = f"{text} ({setting}); HTCondor may end a job that takes more"
    return defaults


def cancel(jobs: Iterable[str]) -> Sequence[str]:
    """Return the command that removes jobs.

    One that was held too long is there for ever: released later by somebody, it would write over
    what a run has made since.
    """
    return ["condor_rm", *jobs]
