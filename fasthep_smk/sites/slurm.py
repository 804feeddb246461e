"""Slurm, through snakemake-executor-plugin-slurm (its documentation names the resources)."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fasthep_smk.config import queues
from fasthep_smk.config.requests import Attempt
from fasthep_smk.sites import Draft, NotSubmitted, Unanswered
from fasthep_smk.sites.commands import ask, order
from fasthep_smk.sites.nodes import AMOUNTS, Shape, fits, larger_than_any
from fasthep_smk.sites.slurm_partitions import (
    SlurmPartition,
    configuration,
    default_of,
    first_pools,
    partitions,
)
from fasthep_smk.sites.slurm_queue import SlurmQueue, is_unknown, status
from fasthep_smk.util import units
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, not_among
from fasthep_smk.util.names import shell

if TYPE_CHECKING:
    from pathlib import Path

    from fasthep_smk.config.site import Site

__all__ = ["Slurm", "is_unknown", "number_in", "status"]

#: What ``sbatch --parsable`` prints of a job, with the cluster that it is in, where it names that.
_SUBMITTED = re.compile(r"\s*(\d{1,20})(;\S*)?\s*", re.ASCII)

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
_PENDING = "such a job would wait forever: choose another partition, or a smaller pool"
_REFUSED = "Slurm does not let you use this {}"
#: Settings of Slurm's that name what may change the account or QOS that a job asks for.
_REWRITING = ("JobSubmitPlugins", "CliFilterPlugins")
#: With one of these variables, jobs go to another cluster.
_ELSEWHERE = ("SBATCH_CLUSTERS", "SLURM_CLUSTERS")


class Slurm(SlurmQueue):
    """Slurm: partitions, accounts, QOS; with accounting or without."""

    PLUGIN = "snakemake_executor_plugin_slurm"
    #: Runs Snakemake with faults of that plugin fixed.
    SNAKEMAKE = "fasthep_smk.executors.slurm"
    AMOUNTS = ("mem_mb",)
    #: The controller is asked by the first one.
    COMMANDS: Mapping[str, Sequence[str]] = {
        "sinfo": ("--noheader", "--format=%R"),
        "squeue": (),
        "sbatch": (),
        "scancel": (),
        "scontrol": (),
    }
    #: The plugin hands a job's command to a shell between double quotes: what these begin would run
    #: there, and once more in the job's own shell.
    NOT_IN_FOLDERS = frozenset("$`\n\r\0")
    NOT_IN_PROGRAMS = NOT_IN_FOLDERS
    TAKES_PILOTS = True
    #: sbatch has one exit status for all errors. Nothing has reached the controller: a job is not
    #: queued, and can be submitted again.
    NO_ANSWER = re.compile(r"unable to contact slurm controller", re.IGNORECASE)
    #: srun, which starts what a Snakemake on the node runs, has one exit status for all, too.
    SRUN_IS_SILENT = re.compile(
        rf"^srun: error: .*{NO_ANSWER.pattern}", re.IGNORECASE | re.MULTILINE
    )
    #: Something may have: sbatch has heard no answer.
    NO_WORD = re.compile(r"timed out|timeout|has not answered", re.IGNORECASE)
    REMEDIES = (
        (
            "slurm_extra",
            "config: {slurm: {extra: [OPTION]}}",
            "'extra' must not contain options that have a key of their own (docs/pools.md)",
        ),
        (
            r"(QOS|Assoc)\w*MaxWall",
            'config: {walltime: "01:00:00"}',
            "'sacctmgr show qos format=name%30,maxwall' lists the limits",
        ),
        (r"--mem\b", "config: {sizes: fixed}", "leave memory out of the resources"),
        (
            r"\baccount\b",
            "config: {slurm: {account: ACCOUNT}}",
            "'sacctmgr show associations user=$USER format=account%30,partition,qos%40' lists your "
            "accounts",
        ),
        (
            "qos",
            "config: {slurm: {qos: QOS}}",
            "'sacctmgr show qos format=name%30,maxwall' lists the QOS",
        ),
        (
            "reservation",
            "config: {slurm: {reservation: NAME}}",
            "'scontrol show reservations' lists all",
        ),
        ("partition", "config: {slurm: {partition: NAME}}", "'sinfo --summarize' lists all"),
        (
            "feature|constraint",
            "config: {slurm: {constraint: FEATURE}}",
            "'sinfo --format=\"%R %f\"' lists all",
        ),
        (
            "gres|gpu|tres",
            "config: {slurm: {gres: NAME:COUNT}}",
            "'sinfo --format=\"%R %G\"' lists all",
        ),
        (
            "time ?limit|wall",
            'config: {walltime: "01:00:00"}',
            "'sinfo --format=\"%R %l\"' lists the limits",
        ),
        (
            "licen[sc]e",
            "config: {slurm: {extra: [--licenses=NAME]}}",
            "'scontrol show licenses' lists all",
        ),
        (
            "node configuration|memory|cpu|processor",
            "smaller resources",
            "'sinfo --format=\"%R %c %m\"' lists what nodes have",
        ),
    )

    def settings(self, _site: Site) -> Mapping[str, object]:
        """Return Snakemake's options; without Slurm's accounting, states come from squeue."""
        options: dict[str, object] = {
            "executor": "slurm",
            "jobs": 200,
            "latency-wait": 60,
            "slurm-init-seconds-before-status-checks": 5,
            "seconds-between-status-checks": 10,
            "slurm-logdir": "debug/distributed/out",
        }
        if configuration().get("AccountingStorageType") == "accounting_storage/none":
            # The plugin would take sacct where it is installed and wait for ever.
            options |= {"slurm-status-command": "squeue", "slurm-no-account": True}
        return options

    def resources(self, attempt: Attempt) -> Mapping[str, object]:
        """Return the plugin's resources. Slurm's megabyte is 2²⁰ bytes, Snakemake's 10⁶."""
        options = _placed(attempt)
        terms = {ours: options[key] for key, ours in _RESOURCES.items() if options.get(key)}
        if attempt.request.memory is not None:
            terms["mem_mb"] = units.whole_mib(attempt.request.memory)
        if options.get("gres") and attempt.request.gpus:
            terms["gpu"] = 0  # the GPUs are among the gres
        words = [f"--reservation={options['reservation']}"] if options.get("reservation") else []
        for key in ("gpu_model", "gres"):
            if "-" in str(
                terms.get(key)
            ):  # the plugin takes no such name, and lets nobody say --gpus
                model = str(terms.pop(key)).removeprefix("gpu:")
                words += ["-G", model if ":" in model else f"{model}:{attempt.request.gpus or 1}"]
                terms["gpu"] = 0
        extra = options.get("extra") or []
        words += extra if isinstance(extra, list) else shlex.split(extra)
        if words:
            # The plugin hands this to a shell: each word is quoted.
            terms["slurm_extra"] = shell(words)
        return terms

    def longest(self, attempt: Attempt) -> int | None:
        """Return the time limit of a job's partition, the longest of several."""
        options = attempt.options.get("slurm", {})
        wanted = options.get("partition")
        if not wanted and (choices := queues.queues_of(options.get("partitions"))):
            return queues.longest(choices, attempt.request)
        by_name = partitions() or {}
        wanted = wanted or default_of(by_name)
        limits = [by_name[name].walltime for name in str(wanted).split(",") if name in by_name]
        return (
            max((limit for limit in limits if limit is not None), default=None)
            if all(limits)
            else None
        )

    def most_memory(self, attempt: Attempt) -> int | None:
        """Return the memory of the largest node of a job's partitions that has its cpus and GPUs.

        In bytes; ``None``: that is not known.
        """
        options, request = attempt.options.get("slurm", {}), attempt.request
        gpus = 0 if options.get("gres") else request.gpus
        nodes: dict[str, int] = {}
        by_name = partitions() or {}
        for name, partition in by_name.items():
            fitting = [
                memory
                for cpus, memory, count in partition.up
                if cpus >= request.cpus and count >= gpus and memory
            ]
            if fitting:
                nodes[name] = max(fitting)
        if not options.get("partition") and (
            choices := queues.queues_of(options.get("partitions"))
        ):
            return queues.most_memory(choices, request, nodes)
        names = str(options.get("partition") or default_of(by_name)).split(",")
        return max((nodes[name] for name in names if name in nodes), default=None)

    def problems(self, attempts: Iterable[Attempt], site: Site) -> Iterable[Finding]:
        """Yield attempts that no node of their partition can ever run."""
        by_name = partitions()
        for attempt in attempts:
            if wrong := queues.too_large(attempt, "slurm", "partitions", unless=("partition",)):
                yield wrong
                continue
            if by_name is None:
                continue
            wanted = _placed(attempt).get("partition")
            names = _goes_to(attempt, site, by_name)
            leaf = "config.slurm.partition"
            if not attempt.options.get("slurm", {}).get("partition"):
                leaf = f"config.slurm.partitions.{wanted}"
            for name in names:
                if name not in by_name:
                    problem = "Slurm has no partition of this name"
                    key = _place(attempt, leaf)
                    yield not_among(name, by_name, problem=problem, file=None, key=key)
            here = [by_name[name] for name in names if name in by_name]
            where = f"partition {', '.join(partition.name for partition in here)}"
            yield from _too_large(
                attempt, here, where if wanted else f"{where}, the default partition,"
            )

    def refused(self, attempts: Iterable[Attempt], site: Site) -> Iterable[tuple[Attempt, Finding]]:
        """Yield accounts and QOS that this user may not name, if Slurm refuses jobs for that.

        Nothing where a plugin or filter of the site may change what jobs ask for, nor of jobs that
        may go to another cluster than the one here.
        Sources: slurm.conf(5), "AccountingStorageEnforce"; sacctmgr(1), "show associations".
        """
        named = [
            attempt
            for attempt in attempts
            if {"account", "qos"} & attempt.options.get("slurm", {}).keys()
            and not _is_elsewhere(attempt, site)
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

    def cancel(self, jobs: Iterable[str]) -> Sequence[str]:
        """Return the command that cancels jobs."""
        return ["scancel", "--quiet", *jobs]

    def batch_job(self) -> str | None:
        """Return the id of the Slurm job that this process runs in."""
        return os.environ.get("SLURM_JOB_ID")

    def slot(self) -> str | None:
        """Return the partition that this process runs in."""
        name = os.environ.get("SLURM_JOB_PARTITION")
        return f"partition {name}" if name else None

    def submit(self, command: str, name: str, attempt: Attempt, output: Path) -> str:
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
        for option in (
            "partition",
            "account",
            "qos",
            "constraint",
            "cluster",
            "nodes",
            "reservation",
        ):
            if options.get(option):
                words.append(f"--{option}{'s' if option == 'cluster' else ''}={options[option]}")
        extra = options.get("extra") or []
        words += extra if isinstance(extra, list) else shlex.split(extra)
        answer = order(words, f"#!/bin/sh\nexec {command}\n")
        job = number_in(answer.text)
        if answer.well and job:
            return job
        problem = answer.problem or answer.text.strip()
        is_silent = self.NO_ANSWER.search(problem) or self.NO_WORD.search(problem)
        if not (answer.well or job):
            raise (Unanswered if is_silent else NotSubmitted)(problem or "sbatch does not say why")
        raise Unanswered(f"sbatch gives no number: {problem}")  # it may be in the queue

    def unsaid(self) -> Mapping[str, str]:
        """Return what a job gets that asks for no memory, unless its partition says otherwise.

        Source: slurm.conf(5), "DefMemPerCPU" and "DefMemPerNode".
        """
        settings = configuration()
        of = next((unit for unit in ("CPU", "Node") if f"DefMemPer{unit}" in settings), None)
        if of is None:
            return {}
        value = settings[f"DefMemPer{of}"]
        share = (
            "all that its node has" if value == "UNLIMITED" else f"{value} MB for each {of.lower()}"
        )
        return {"memory": f"{share} (DefMemPer{of}), unless its partition says otherwise"}

    def draft(self) -> Draft | None:
        return first_pools()


def _placed(attempt: Attempt) -> YamlMapping:
    """Return the options of an attempt, with the smallest partition that suffices for it.

    A pool that names its partition keeps that.
    """
    options = attempt.options.get("slurm", {})
    if options.get("partition"):
        return options
    partition = queues.chosen(options.get("partitions"), attempt.request)
    return options if partition is None else {**options, "partition": partition}


def _goes_to(attempt: Attempt, site: Site, by_name: Mapping[str, SlurmPartition]) -> list[str]:
    """Return the partitions that a job goes to; none if they are not known to sinfo here."""
    if _is_elsewhere(attempt, site):
        return []
    names = _placed(attempt).get("partition")
    if not names:
        names = default_of(by_name) if _takes_default(site) else ""
    return str(names).split(",") if names else []


def _is_elsewhere(attempt: Attempt, site: Site) -> bool:
    """Whether a job may go to another cluster: sinfo tells of the partitions of the one here."""
    options = attempt.options.get("slurm", {})
    named = options.get("cluster") or re.search(r"(^|\W)(-M|--cluster)", repr(options.get("extra")))
    return bool(named) or "slurm_cluster" in repr(site.settings)


def _takes_default(site: Site) -> bool:
    """Whether a job that names no partition goes to the default one.

    A site may name one for all jobs, or say which partitions the plugin chooses from.
    """
    text = repr(site.settings)
    return "slurm_partition" not in text and "slurm-partition-config" not in text


def _place(attempt: Attempt, leaf: str) -> str:
    """Return where a setting is written down; of a mapping, where its first value is."""
    inner = (key for key in attempt.origins if key.startswith(f"{leaf}."))
    return attempt.place(leaf if leaf in attempt.origins else next(inner, leaf))


def number_in(text: str) -> str | None:
    """Return the number of a job in what sbatch prints, to which sites add lines of their own.

    It is the last line that is nothing but a number, or that and the name of a cluster.
    """
    numbers = [match[1] for match in map(_SUBMITTED.fullmatch, text.splitlines()) if match]
    return numbers[-1] if numbers else None


def _too_large(attempt: Attempt, here: Sequence[SlurmPartition], where: str) -> Iterable[Finding]:
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


def _not_among(attempt: Attempt, option: str, there: Iterable[str], problem: str) -> Finding:
    key, value = attempt.place(f"config.slurm.{option}"), attempt.options["slurm"][option]
    return not_among(str(value), sorted(there), problem=problem, file=None, key=key)


def _wanted(attempt: Attempt) -> Shape:
    """Return what an attempt asks for; the GPUs of a ``gres`` may be of a kind of their own."""
    request, by_gres = attempt.request, attempt.options.get("slurm", {}).get("gres")
    return request.cpus, request.memory or 0, 0 if by_gres else request.gpus or 0
