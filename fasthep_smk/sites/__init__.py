"""Batch systems, one module each: ``local``, ``slurm``, ``htcondor``, and ``other`` for all others.

Each says in its system's own terms what a job asks for, how Snakemake is to be set up, and
what the system itself knows: its partitions or slots, and why jobs wait.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fasthep_smk.config.requests import SYSTEMS, Attempt, ResourceRequest
from fasthep_smk.util import units
from fasthep_smk.util.errors import Finding, SmkError, UsageError
from fasthep_smk.util.executor_plugins import distribution_of

if TYPE_CHECKING:
    from fasthep_smk.config.site import Site

#: The group of entry points by which packages say more of an executor.
GROUP = "fasthep_smk.sites"
#: The classes of the systems that we know: their names as people write them.
_CLASSES = {"local": "Local", "slurm": "Slurm", "htcondor": "HTCondor"}
_AMOUNTS = ("cpus", "memory", "disk", "gpus")


class NotSubmitted(SmkError):
    """A batch system has not taken a job; the message is its own sentence."""


class Unanswered(NotSubmitted):
    """A batch system does not answer: whether it has taken the job is not known."""


#: ``ending``: it was cancelled, or is just about to be gone.
QueueState = Literal["waiting", "running", "ending"]


@dataclass(frozen=True)
class Queued:
    """A job in the queue: what it is called there, where it is or waits, and why it waits.

    ``held``: it does not start before somebody changes something.
    """

    batch_id: str
    name: str
    state: QueueState
    where: str
    reason: str = ""
    held: bool = False


@dataclass(frozen=True)
class BatchState:
    """What a batch system says of a job that was submitted.

    ``held``: it may go on when somebody lets it, and has waited for that ``since`` then (seconds
    since 1970). ``gone``: there is no such job. ``said`` is in the system's own words. ``node`` is
    where it ran, if that is known. ``shut``: it waits in a partition that starts none now.
    ``lost``: it has failed, and is not to blame.
    """

    kind: Literal["alive", "held", "done", "failed", "gone"]
    said: str = ""
    since: float = 0.0
    node: str = ""
    shut: bool = False
    lost: bool = False


@dataclass(frozen=True)
class Draft:
    """A first ``pools.yaml`` for a site, with remarks on what the batch system has.

    ``files`` are further files of the profile, by their names. ``invented`` says which values are
    not the system's, each with what it means.
    """

    pools: Mapping[str, object]
    remarks: list[str]
    files: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    invented: Sequence[str] = ()


class System:
    """A batch system, or one machine. What this class says holds where a system says nothing else.

    That is a machine without a queue: whoever derives from it adds what there is.
    """

    #: The module that Snakemake needs for it, if any.
    PLUGIN: str | None = None
    #: What is started as Snakemake: itself, or a module of ours that repairs its plugin.
    SNAKEMAKE: str
    #: How often a failed job is tried again where it is not given. Nodes fail and jobs are
    #: preempted: what has failed once may well succeed.
    RETRIES = 2
    #: Resources that say how much a job needs: a pool that says nothing takes another's word.
    AMOUNTS: tuple[str, ...] = ()
    #: Snakemake's options for jobs that are sent what they need.
    TRAVELLING: Mapping[str, object] = {}
    #: Its commands that a run needs, each with words to which it answers, or without.
    COMMANDS: Mapping[str, Sequence[str]] = {}
    #: Characters of folders, and of the paths of interpreters, that it takes for something else.
    NOT_IN_FOLDERS: frozenset[str] = frozenset()
    NOT_IN_PROGRAMS: frozenset[str] = frozenset()
    #: Whether :meth:`queued` and :meth:`cancel` know what is in the queue.
    LISTS_JOBS = True
    #: Whether jobs can be put on hold, and submitted without Snakemake, as pilots are.
    TAKES_PILOTS = False
    #: What it complains of where it does not take a job, and what to change; the first that fits
    #: counts.
    REMEDIES: Sequence[tuple[str, ...]] = ()
    #: What is said of a job that is not taken: it has not reached the system; it may have.
    NO_ANSWER: re.Pattern[str]
    NO_WORD: re.Pattern[str]

    def settings(self, _site: Site) -> Mapping[str, object]:
        """Return Snakemake's options for this system, asking it where that helps."""
        return {}

    def resources(self, _attempt: Attempt) -> Mapping[str, object]:
        """Return the executor's own resources of a job, besides those every Snakefile has."""
        return {}

    def machine(self, _site: Site) -> ResourceRequest | None:
        """Return the size of the one machine that all jobs share, if it is one."""
        return None

    def longest(self, _attempt: Attempt) -> int | None:
        """Return for how many seconds the site lets a job run; ``None``: not known, or for ever."""
        return None

    def most_memory(self, _attempt: Attempt) -> int | None:
        """Return the memory of the largest node that has a job's cpus and GPUs, in bytes.

        Of those on which it may run; ``None``: that is not known.
        """
        return None

    def problems(self, _attempts: Iterable[Attempt], _site: Site) -> Iterable[Finding]:
        """Return attempts that the site can never run."""
        return ()

    def refused(
        self, _attempts: Iterable[Attempt], _site: Site
    ) -> Iterable[tuple[Attempt, Finding]]:
        """Return attempts that the system will refuse for who asks, and what is wrong."""
        return ()

    def notes(self) -> list[str]:
        """Return what a user should know of a run with a system that we do not know."""
        return []

    def unsaid(self) -> Mapping[str, str]:
        """Return in words what a job gets that does not say how much memory or disk it needs."""
        return {}

    def queued(self, _folder: Path) -> list[Queued] | None:
        """Return the jobs in the queue that were submitted from a folder, a run's build folder.

        ``None`` if the system does not answer.
        """
        return []

    def arrived(self, _folder: Path, _name: str, _since: float) -> list[str] | None:
        """Return the ids of jobs of a name that were submitted from a folder since a time.

        In whatever state they are, the latest last; ``None`` if the system does not answer.
        """
        return None

    def cancel(self, _jobs: Iterable[str]) -> Sequence[str]:
        """Return the command that takes jobs out of the queue, given by their ids."""
        return ["true"]

    def hold(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Put jobs on hold, from which none starts.

        Returns for each whether it is on hold and has never started; ``None``: that is not known
        now.
        """
        return dict.fromkeys(jobs, False)

    def withdraw(self, jobs: Iterable[str]) -> Mapping[str, bool | None]:
        """Take jobs that are on hold out of the queue.

        Returns for each whether it is gone without having started; ``None``: that is not known now.
        """
        return dict.fromkeys(jobs, False)

    def submit(self, command: str, name: str, attempt: Attempt, output: Path) -> str:
        """Submit a shell command under a name, with what an attempt asks for; return the batch id.

        It starts once, as far as the system can be told: where its node dies it is not to start
        again. What it prints goes to a file, without a suffix here.

        Raises:
            NotSubmitted: it was refused; ``Unanswered`` where it is unknown whether it was.
        """
        raise NotImplementedError

    def batch_job(self) -> str | None:
        """Return the id of the batch job that this process runs in."""
        return None

    def slot(self) -> str | None:
        """Return in words which of the system's places for jobs this process runs in."""
        return None

    def draft(self) -> Draft | None:
        """Return a first description of the site's pools; ``None`` if it does not answer."""
        return None

    def fate(self, _job: str) -> str | None:
        """Return in one line what the system says of how a job ended."""
        return None

    def remedy(self, said: str) -> str | None:
        """Return what to do about a job that the system has not taken, by its own sentence."""
        for pattern, change, *where in self.REMEDIES:
            if re.search(pattern, said, re.IGNORECASE):
                return "; ".join([f"{change} in the pool, or in the site's pools.yaml", *where])
        return None


@cache
def system(name: str) -> System:
    """Return a system, by its name in :data:`fasthep_smk.config.requests.SYSTEMS`.

    Of any other executor, what an installed package says of it, or what holds for all.

    Raises:
        UsageError: what a package says cannot be used.
    """
    if name in SYSTEMS:
        module = importlib.import_module(f"fasthep_smk.sites.{name}")
        made: System = getattr(module, _CLASSES[name])()
        return made
    base: Any = importlib.import_module("fasthep_smk.sites.other").Other
    points = [*metadata.entry_points(group=GROUP, name=name)]
    try:
        loaded = points[0].load()(name) if points else base(name)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"entry point {name!r} of {GROUP!r} cannot be used: {text}") from error
    if not isinstance(loaded, base):
        raise UsageError(
            f"entry point {name!r} of {GROUP!r} cannot be used: {points[0].value} is not a class "
            "that is derived from fasthep_smk.sites.other.Other"
        )
    known: System = loaded
    return known


def title(name: str) -> str:
    """Return the name of a batch system as people write it."""
    return _CLASSES.get(name, name)


def unknown(name: str) -> str:
    """Return in words why it is not known what is in a system's queue."""
    if system(name).LISTS_JOBS:
        return f"{title(name)} does not answer"
    return f"executor {name!r} cannot tell what is in its queue"


def unsaid(name: str, attempts: Iterable[Attempt]) -> Mapping[str, str]:
    """Return in words what a batch system gives to attempts that do not say what they need."""
    missing = {
        amount
        for attempt in attempts
        for amount in ("memory", "disk")
        if getattr(attempt.request, amount) is None
    }
    defaults = system(name).unsaid() if missing else {}
    return {amount: text for amount, text in defaults.items() if amount in missing}


def require_plugin(name: str) -> None:
    """Raise ``UsageError`` if Snakemake lacks the plugin for a system."""
    module = system(name).PLUGIN
    if module is not None and importlib.util.find_spec(module) is None:
        package = f"'fasthep-smk[{name}]'" if name in SYSTEMS else distribution_of(name)
        raise UsageError(f"Snakemake's plugin for {name} is not installed: pip install {package}")


def common_resources(attempt: Attempt) -> dict[str, int]:
    """Return what a job asks for in terms that need no profile: every Snakefile of ours has them.

    ``mem_mb`` and ``disk_mb`` are in units of 10⁶ bytes, ``runtime`` in minutes. HTCondor's plugin
    reads its own words only, in units of 2²⁰ bytes: they are there for every site, so that a folder
    which was translated for another one runs on HTCondor with nothing but a profile such as
    ``profiles/htcondor``.
    """
    request = attempt.request
    resources: dict[str, int] = {}
    if request.memory is not None:
        resources["mem_mb"] = units.whole_mb(request.memory)
        resources["htcondor_request_mem_mb"] = units.whole_mib(request.memory)
    if request.disk is not None:
        resources["disk_mb"] = units.whole_mb(request.disk)
        resources["htcondor_request_disk_mb"] = units.whole_mib(request.disk)
    if request.walltime is not None:
        resources["runtime"] = units.whole_minutes(request.walltime)
    if request.gpus:
        resources["gpu"] = resources["request_gpus"] = request.gpus
    return resources


def too_large(attempts: Iterable[Attempt], here: ResourceRequest) -> Iterable[Finding]:
    """Yield attempts that ask for more than a machine has; Snakemake would cut them in silence."""
    for attempt in attempts:
        for name in _excess(attempt, here):
            yield Finding(
                key=attempt.place(f"resources.{name}"),
                problem=f"pool {attempt.pool!r} is larger than this machine",
                value=f"{name}: {attempt.request.shown(name)}",
                expected=f"at most {here.shown(name)}",
                hint="--shrink-to-fit shrinks it to this machine; --profile chooses another site",
            )


def shrink(attempt: Attempt, here: ResourceRequest) -> tuple[Attempt, list[str]]:
    """Return the attempt with no more than a machine has, and what was cut, in words."""
    excess = _excess(attempt, here)
    cuts = [
        f"pool {attempt.pool!r}: {name} {here.shown(name)} instead of {attempt.request.shown(name)}"
        for name in excess
    ]
    request = replace(attempt.request, **{name: getattr(here, name) for name in excess})
    most = dict(attempt.most)
    if here.memory is not None:
        most["memory"] = min(most.get("memory", here.memory), here.memory)
    return replace(attempt, request=request, most=most), cuts


def _excess(attempt: Attempt, here: ResourceRequest) -> list[str]:
    return [
        name
        for name in _AMOUNTS
        for asked, has in [(getattr(attempt.request, name), getattr(here, name))]
        if asked is not None and has is not None and asked > has
    ]
