"""The doctor's probe jobs: one for each pool, sent as a run sends its jobs, and what they say."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt, Route
from fasthep_smk.executors import job_events
from fasthep_smk.executors.read_as_text import REFUSED, said_of_failed_job
from fasthep_smk.plan.rules import Rule
from fasthep_smk.reuse import Reuse
from fasthep_smk.run.credential_need import without_secrets
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.run.snakemake_process import SnakemakeProcess
from fasthep_smk.sites.commands import ask
from fasthep_smk.storage import batch_jobs, layout
from fasthep_smk.translate import profile, snakefile
from fasthep_smk.translate.task_tables import table_texts
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.translate.write import IN_CONTAINER, begin_alone
from fasthep_smk.util import files
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import encode, printable, shell
from fasthep_smk.util.ownership import check_build
from fasthep_smk.util.shapes import ready
from fasthep_smk.util.threads import meanwhile
from fasthep_smk.worker.probe import WorkerFacts

if TYPE_CHECKING:
    from fasthep_smk.config.execution import Execution
    from fasthep_smk.config.routing import Router
    from fasthep_smk.sites import Queued
    from fasthep_smk.translate.profile import Placement

#: Seconds between two looks at the queue, and that Snakemake has to take its jobs out of it.
_LOOK, _GRACE = 2.0, 30.0
#: A probe that cannot even start its Python says why, in a line that begins so.
_MARK = "fasthep-smk: "
#: Lines of what Snakemake and batch systems print are left out if a word is as long as that.
_WORD = re.compile(r"\S{120}")
_SHARED = (
    "check that the workers see this folder, or staging.folder if the site transfers files, and "
    "try to submit a job by hand"
)
_NO_PYTHON = (
    "install fasthep-smk in a folder that workers also see, or send an environment to jobs "
    "(docs/environments.md)"
)
_WAITS = "request less, or other resources, in this pool; if the cluster is busy, raise --timeout"


@dataclass(frozen=True)
class Silence:
    """Why a probe has brought nothing back, and what to do about it."""

    why: str
    fix: str


def probe_rules(router: Router) -> list[Rule]:
    """Return a rule for the probe of each pool."""
    return [_rule(name, router) for name in router.pools.by_name]


def _rule(pool: str, router: Router) -> Rule:
    settings = router.pools.by_name[pool].settings
    attempt = Attempt(
        pool, settings.request, settings.options, settings.origins, pilot=settings.pilot
    )
    return Rule(f"probe_{encode(pool)}", "partition", (), Route((attempt,)), ())


def send_probes(
    rules: Sequence[Rule],
    placement: Placement,
    execution: Execution,
    modules: list[str],
    folder: Path,
    timeout: int,
) -> list[WorkerFacts | Silence]:
    """Send a job to every pool, by the same ways as those of a run; return what each has found."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fasthep-smk-doctor-") as name:
        place = Path(name)
        _write(rules, placement, place)
        with _prepared_transfer(rules, execution, modules, place, folder) as arguments:
            heard = _run(place, rules, placement.site.system, timeout, arguments)
        return [
            answer_of(place / f"{rule.name}.json")
            or _silence(rule, place, placement.site.system, heard)
            for rule in rules
        ]


@contextlib.contextmanager
def _prepared_transfer(
    rules: Iterable[Rule], execution: Execution, modules: list[str], place: Path, folder: Path
) -> Iterator[list[str]]:
    """Prepare what is sent with probes, if the site sends jobs; yield arguments for Snakemake."""
    system, environment = execution.site.system, execution.environment
    if not execution.staging.sends(system) or environment is None:
        yield []
        return
    from fasthep_smk.transfer.setup import Setup

    wildcards: dict[str, list[str]] = {rule.name: [] for rule in rules}
    archives = folder / layout.ENVIRONMENTS
    check_build(archives, option="packed environments", noun="folder")
    setup = Setup(place, system, environment, execution.staging, wildcards, True, archives)
    with setup.ready(modules) as arguments:
        yield arguments


def _write(rules: Sequence[Rule], placement: Placement, place: Path) -> None:
    # A probe that fails has failed: it is not tried again.
    placement = replace(placement, retries=0, together={}, workers={})
    script = (
        f"#!/bin/sh\n{begin_alone()}"
        f"python={shell([sys.executable])}\n"
        "# In a container, Python is the container's.\n"
        f"if {IN_CONTAINER}; then python=python3; fi\n"
        'if ! command -v "$python" >/dev/null; then\n'
        f'    echo "{_MARK}Python $python does not exist on worker $(uname -n)" >&2\n'
        "    exit 127\n"
        "fi\n"
        'exec "$python" -P -m fasthep_smk.worker.probe "$1"\n'
    )
    (place / layout.TASKS).mkdir(parents=True)
    for captured in layout.CAPTURED:  # a batch system may want it to be there
        (place / captured).mkdir(parents=True)
    requests = {
        "system": placement.site.system,
        "credentials": [],
        "rules": {},
        "by_dataset": {},
        "submitted_as": {},
        "fallback_after": {},
    }
    files.write_text(place / layout.REQUESTS, json.dumps(requests))
    # By its table, an executor knows a rule of ours.
    for name, text in table_texts(rules, root=place, waits=Waits(rules, Reuse())).items():
        files.write_text(place / layout.table(name), text)
    files.write_text(place / "smk" / "Snakefile", snakefile.render_probe(rules))
    files.write_text(place / "smk" / "common.smk", snakefile.COMMON)
    files.write_text(place / layout.WORKER, script, executable=True)
    files.write_text(place / "smk" / "profile" / "config.yaml", profile.render(rules, placement))


class _Heard(Reader):
    """What Snakemake reports of the probes, and what the batch system said when they were ended.

    ``failed`` is what the executor says of a probe, ``waits`` what became of one that was given up,
    both by rule.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.failed: dict[str, str] = {}
        self.waits: dict[str, str] = {}

    def event(self, event: job_events.Event) -> None:
        super().event(event)
        if isinstance(event, job_events.JobFailed):
            self.failed[event.rule] = said_of_failed_job(event.message)


def _run(
    place: Path, rules: Sequence[Rule], system: str, timeout: int, arguments: list[str]
) -> _Heard:
    """Run the probes until all have ended, or are not worth waiting for."""
    module = sites.system(system)
    heard = _Heard()
    variables = without_secrets({**os.environ, "NO_COLOR": "1", "COLUMNS": "200"})
    snakemake = SnakemakeProcess(system, place, variables)
    snakemake.tell(["--profile", "smk/profile", "--keep-going", *arguments])

    def watch(over: threading.Event) -> None:
        end = time.monotonic() + timeout
        while not over.wait(_LOOK):
            left = [
                rule.name
                for rule in rules
                if rule.name not in heard.failed and not (place / f"{rule.name}.json").exists()
            ]
            jobs = module.queued(place) or ()
            # A site may put something before the names of jobs.
            queued = {name: job for name in left for job in jobs if job.name.endswith(name)}
            held = {name for name, job in queued.items() if job.held}
            late = time.monotonic() > end
            if not late and not (left and held.issuperset(left)):
                continue
            for name in left:
                reason = _in_words(queued.get(name))
                heard.waits[name] = reason if name in held else f"no answer in {timeout} s{reason}"
            snakemake.signal(signal.SIGINT)
            if not over.wait(_GRACE):
                snakemake.signal(signal.SIGKILL)
            return

    try:
        with meanwhile(watch):
            snakemake.follow(heard)
    finally:
        # One that was held, or whose Snakemake was killed, would be there for ever.
        if there := [job.batch_id for job in module.queued(place) or () if job.state != "ending"]:
            ask(module.cancel(there))
    return heard


def _in_words(queued: Queued | None) -> str:
    """Return what the batch system says of a probe."""
    if queued is None:
        return ""
    why = queued.reason if queued.where.startswith("rule ") else f"{queued.where}: {queued.reason}"
    if queued.held:
        return f"its job will not start until somebody acts ({why})"
    waits = queued.state == "waiting"
    return f": its job waits ({why})" if waits else ": its job runs, and has not answered"


def _silence(rule: Rule, place: Path, system: str, heard: _Heard) -> Silence:
    """Return the one reason why a probe has brought nothing back."""
    module, name = sites.system(system), rule.name
    message = heard.failed.get(name, "")
    if message.startswith(REFUSED):
        return Silence(message, module.remedy(message.removeprefix(REFUSED)) or _WAITS)
    printed = list(_printed(name, place))
    if marked := [line for line in printed if line.startswith(_MARK)]:
        return Silence(marked[-1].removeprefix(_MARK), _NO_PYTHON)
    if waits := heard.waits.get(name):
        return Silence(waits, _WAITS)
    jobs = [job.batch_id for job in batch_jobs.read(place) if job.rule == name and job.batch_id]
    fate = (module.fate(jobs[-1]) if jobs else None) or message
    why = [text for text in (fate, *printed[-1:]) if text]
    if not why:
        why = [line for line in map(str.strip, heard.tail) if line and not _WORD.search(line)][-1:]
    unseen = "the answer of its job is not visible here"
    return Silence(masked(": ".join(why)) or unseen, _SHARED)


def _printed(name: str, place: Path) -> Iterator[str]:
    """Yield the lines that a probe has printed, by what the batch system captured."""
    noted = [Path(job.captured) for job in batch_jobs.read(place) if job.rule == name]
    paths = (place / layout.CAPTURED[0]).rglob("*")
    mine = [
        path
        for path in paths
        if {name, f"rule_{name}"} & {*path.relative_to(place).parts}
        or path.name.startswith((f"{name}-", f"{name}."))
    ]
    logs = (place / layout.LOGS / name).rglob("*.log")
    for path in dict.fromkeys([*mine, *logs, *(place / file for file in noted if file.name)]):
        with contextlib.suppress(OSError):
            for line in files.read_plain(path).decode(errors="replace").splitlines():
                if (text := printable(line.strip())) and not _WORD.search(text):
                    yield text


def answer_of(path: Path) -> WorkerFacts | None:
    """Return what a probe has found; ``None`` if that is none: it comes from elsewhere."""
    try:
        answer = msgspec.json.decode(path.read_bytes(), type=ready(WorkerFacts))
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    for name in ("host", "python", "where"):
        answer[name] = printable(answer[name])
    answer["models"] = [printable(model) for model in answer["models"]]
    return answer
