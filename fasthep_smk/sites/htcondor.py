"""HTCondor, through snakemake-executor-plugin-htcondor (its documentation names the resources)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites import Draft, NotSubmitted, Unanswered
from fasthep_smk.sites.commands import ask, number, order
from fasthep_smk.sites.htcondor_queue import ONCE, RUNNING, HTCondorQueue, ads_of, status
from fasthep_smk.sites.nodes import (
    AMOUNTS,
    ClusterNode,
    fits,
    in_words,
    larger_than_any,
    one_cpu,
)
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding, not_among

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

__all__ = ["COMMAND", "HTCondor", "nodes", "status"]

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
_OF_A_SLOT = ("TotalSlotCpus", "TotalSlotMemory", "TotalSlotDisk", "TotalSlotGPUs")
_MODELS = ("GPUs_DeviceName", "CUDADeviceName")
#: Its settings for what a job asks for that does not say it.
_UNSAID = {"memory": "JOB_DEFAULT_REQUESTMEMORY", "disk": "JOB_DEFAULT_REQUESTDISK"}
#: In them, what a job has used so far: nothing, before its first attempt.
_USED = re.compile("MemoryUsage|DiskUsage")
#: A job's environment is empty; without PATH, Snakemake dies in it. The last three name files of
#: credentials; BEARER_TOKEN, which is one, stays here.
_GETENV = "PATH,HOME,LANG,LC_ALL,X509_USER_PROXY,BEARER_TOKEN_FILE,KRB5CCNAME"


class HTCondor(HTCondorQueue):
    """HTCondor: slots, flavours, ClassAds."""

    PLUGIN = "snakemake_executor_plugin_htcondor"
    SNAKEMAKE = "fasthep_smk.executors.htcondor"
    AMOUNTS = ("allowed_execute_duration",)
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
    #: Its submit language fills in what a dollar sign begins, and a line ends there. It splits
    #: commands at spaces, and the plugin takes quotes out of them.
    NOT_IN_FOLDERS = frozenset("$\n\r\0")
    NOT_IN_PROGRAMS = NOT_IN_FOLDERS | frozenset(" \t\"'")
    TAKES_PILOTS = True
    #: Nothing has reached the schedd: a job was not queued, and can be submitted again.
    NO_ANSWER = re.compile(r"failed to connect|unable to locate|can't find address", re.IGNORECASE)
    #: Something may have: the schedd's last answer was not heard.
    NO_WORD = re.compile(r"commit transaction|timed out|timeout|end.of.message", re.IGNORECASE)
    REMEDIES = (
        ("accounting|acct ?group", "config: {htcondor: {accounting_group: GROUP}}"),
        ("requirements", "config: {htcondor: {requirements: EXPRESSION}}"),
        ("rank", "config: {htcondor: {rank: EXPRESSION}}"),
        ("concurrency", "config: {htcondor: {concurrency_limits: NAME}}"),
        ("container|docker|image", "config: {htcondor: {container_image: IMAGE}}"),
    )

    def settings(self, _site: Site) -> Mapping[str, object]:
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

    def resources(self, attempt: Attempt) -> Mapping[str, object]:
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
            terms["classad_ConcurrencyLimits"] = (
                limits if isinstance(limits, str) else ",".join(limits)
            )
        # Snakemake in a job answers SIGTERM by finishing its work: a job that was removed or held
        # would run on beside its next attempt.
        terms["htcondor_submit_kill_sig"] = 9
        for name, value in (options.get("classads") or {}).items():
            terms[f"classad_{name}"] = value
        for name, value in (options.get("submit") or {}).items():
            terms[f"{COMMAND}{name.replace('.', '__')}"] = value
        return terms

    def longest(self, attempt: Attempt) -> int | None:
        """Return the longest time that a pool says of its slots, itself or by its flavours."""
        options = attempt.options.get("htcondor", {})
        if options.get("max_runtime"):
            return units.parse_duration(options["max_runtime"])
        flavours = queues.queues_of(options.get("flavours"))
        if named := options.get("job_flavour"):
            flavours = [flavour for flavour in flavours if flavour.name == named]
        return queues.longest(flavours, attempt.request)

    def most_memory(self, attempt: Attempt) -> int | None:
        """Return the memory of the largest slot that a job fits in."""
        options, request = attempt.options.get("htcondor", {}), attempt.request
        fitting = (
            slot.memory
            for slot in nodes()
            if slot.cpus >= request.cpus and slot.gpus >= request.gpus and slot.memory
        )
        largest = max(fitting, default=None)
        flavours = queues.queues_of(options.get("flavours"))
        if not flavours or any(options.get(key) for key in _OWN_TIME):
            return largest
        memories = {} if largest is None else {flavour.name: largest for flavour in flavours}
        return queues.most_memory(flavours, request, memories)

    def problems(self, attempts: Iterable[Attempt], _site: Site) -> Iterable[Finding]:
        """Yield attempts that no slot can ever run, or whose flavour there is not."""
        shapes = [slot.shape for slot in nodes()]
        for attempt in attempts:
            if wrong := queues.too_large(attempt, "htcondor", "flavours", unless=_OWN_TIME):
                yield wrong
            options = attempt.options.get("htcondor", {})
            if (named := options.get("job_flavour")) and options.get("flavours") == queues.CERN:
                flavours = [flavour.name for flavour in queues.queues_of(queues.CERN)]
                if (
                    named not in flavours
                ):  # HTCondor takes any: such jobs are ended after 20 minutes
                    yield not_among(
                        named,
                        flavours,
                        problem="CERN has no job flavour of this name",
                        file=None,
                        key=attempt.place("config.htcondor.job_flavour"),
                    )
            request = attempt.request
            wanted = (request.cpus, request.memory or 0, request.gpus)
            if not shapes or fits(wanted, shapes):
                continue
            most = [max(each) for each in zip(*shapes, strict=True)]
            excess = (name for name, w, h in zip(AMOUNTS, wanted, most, strict=True) if w > h)
            yield larger_than_any(
                attempt,
                wanted,
                shapes,
                amount=next(excess, "memory"),
                what="any slot of HTCondor",
                hint="such a job would wait forever: ask for less",
            )

    def batch_job(self) -> str | None:
        """Return the id of the HTCondor job that this process runs in, from its ClassAd."""
        return _in_ad("_CONDOR_JOB_AD", r"^ClusterId = (\d+)")

    def slot(self) -> str | None:
        """Return the slot that this process runs in, from its ClassAd."""
        name = _in_ad("_CONDOR_MACHINE_AD", r'^Name = "([^"]+)"')
        return f"slot {name}" if name else None

    def draft(self) -> Draft | None:
        """Return a pool for small slots, one for the most memory and one for GPUs."""
        there = nodes()
        if not there:
            return None
        shapes = [slot.shape for slot in there]
        plain = min(shapes, key=lambda shape: (shape[2], shape[1]))
        largest = max(shapes, key=lambda shape: shape[1])
        profiles: dict[str, object] = {"default": {"resources": one_cpu(plain)}}
        if largest[1] > plain[1]:
            profiles["high_memory"] = {"resources": one_cpu(largest)}
        if with_gpus := [shape for shape in shapes if shape[2]]:
            profiles["gpu"] = {"resources": one_cpu(with_gpus[0], gpus=1)}
        remarks = ["The number of slots of each kind:", *in_words(there, "slot")]
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

    def submit(self, command: str, name: str, attempt: Attempt, output: Path) -> str:
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
        for key, value in self.resources(attempt).items():
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
        silent = answer.well or self.NO_ANSWER.search(problem) or "has not answered" in problem
        raise (Unanswered if silent else NotSubmitted)(problem)

    def unsaid(self) -> Mapping[str, str]:
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

    def cancel(self, jobs: Iterable[str]) -> Sequence[str]:
        """Return the command that removes jobs.

        One that was held too long is there for ever: released later by somebody, it would write
        over what a run has made since.
        """
        return ["condor_rm", *jobs]


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
        for ad in ads_of(
            ["condor_status", "-constraint", 'SlotType =!= "Dynamic"'], *_OF_A_SLOT, *_MODELS
        )
        or ()
    ]


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
