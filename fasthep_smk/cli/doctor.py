"""Is a site usable from here? Checks, each with what to do where it fails."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fasthep_smk import sites
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.execution import Execution
from fasthep_smk.config.requests import Attempt, Route
from fasthep_smk.config.routing import Router
from fasthep_smk.credentials.checks import look, problems, renewal
from fasthep_smk.credentials.credential import NAMES, Credential, moment
from fasthep_smk.credentials.secrets import without_secrets
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.run.snakemake_process import SnakemakeProcess
from fasthep_smk.run.stalled import waiting
from fasthep_smk.storage import layout
from fasthep_smk.translate import profile, snakefile
from fasthep_smk.translate.placement import contained, unsafe_path
from fasthep_smk.translate.write import IN_CONTAINER
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError, UsageError
from fasthep_smk.util.names import encode, printable, shell
from fasthep_smk.worker.probe import describe_worker

if TYPE_CHECKING:
    from fasthep_smk.worker.probe import Answer

__all__ = ["Check", "examine"]

State = Literal["ok", "note", "FAILED"]
#: Seconds by which two clocks may differ: time stamps of files are compared across machines.
_CLOCKS = 5.0
#: What ends within so many seconds is worth a word.
_A_DAY = 24 * 3600


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``fix`` is what to do about it."""

    what: str
    state: State
    found: str
    fix: str = ""


def examine(
    execution: Execution,
    *,
    folder: Path,
    timeout: int,
    workflow: Path | None = None,
    modules: Callable[[], list[str]] = list,
) -> list[Check]:
    """Return what works at a site and what does not; a probe job goes to each of its pools.

    ``folder`` is where runs would be started; ``timeout`` is in seconds, for all probes together.
    With a ``workflow``, the environment that it asks for is that of the ``modules`` it names.
    """
    checks = [*_system(execution), _folder(execution, folder), *_credentials(execution.credentials)]
    packed, check = _environment(execution, folder, workflow, modules)
    checks += [check] if check else []
    if any(check.state == "FAILED" for check in checks):
        return checks
    return [*checks, *_probes(execution, packed, folder, timeout)]


def _system(execution: Execution) -> Iterator[Check]:
    name = execution.site.system
    module = sites.system(name)
    try:
        sites.require_plugin(name)
    except UsageError as error:
        yield Check(
            "Snakemake's plugin", "FAILED", "is not installed", str(error).split(": ", 1)[1]
        )
        return
    draft = module.draft()
    if draft is None:
        yield Check(
            f"{name} answers",
            "FAILED",
            "its commands are missing here, or do not answer",
            "log in where jobs are submitted, or choose another --profile",
        )
        return
    known = "; ".join(line.strip() for line in draft.remarks[1:]) or "it is this machine"
    yield Check(f"{name} answers", "ok", known)
    if module.settings(execution.site).get("slurm-status-command") == "squeue":
        yield Check("accounting", "note", "off: the state of jobs is asked of squeue (set for you)")


def _folder(execution: Execution, folder: Path) -> Check:
    if wrong := unsafe_path(execution, folder, folder):
        found = f"{wrong.problem}: {wrong.value}"
        return Check("this folder", "FAILED", found, str(wrong.hint))
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fasthep-smk-"):
            free = shutil.disk_usage(folder).free // 1000**3
    except OSError as error:
        return Check(
            "this folder", "FAILED", f"{folder}: {error.strerror}", "go where you may write"
        )
    return Check("this folder", "ok" if free > 1 else "note", f"{folder}: {free} GB free")


def _credentials(required: Iterable[Requirement]) -> Iterator[Check]:
    """Yield those that are required, and all others that are there."""
    wanted = {one.kind: one for one in required}
    now = time.time()
    for kind, found in {**dict.fromkeys(wanted), **look()}.items():
        requirement = wanted.get(kind, Requirement(kind))
        wrong = problems(requirement, found, now=now)
        state: State = "ok"
        if wrong:
            state = "FAILED" if kind in wanted else "note"
        text = _described(found) if found is not None else ""
        fixes = [one.fix for one in wrong]
        if not wrong and found is not None and found.end is not None and found.end < now + _A_DAY:
            state, fixes = "note", [renewal(requirement, found)]
        said = [*(one.what for one in wrong), *([text] if text else [])]
        name = f"{NAMES[kind]}, required" if kind in wanted else NAMES[kind]
        yield Check(name, state, "; ".join(said), "; ".join(dict.fromkeys(fixes)))


def _described(found: Credential) -> str:
    """Return all that is known of a credential; nothing of it is secret."""
    if found.problem is not None:
        return f"{found.where}: {found.problem}"
    left = "" if found.end is None else f", {(found.end - time.time()) / 3600:.1f} h left"
    parts = [
        found.where,
        found.subject and f"subject {found.subject}",
        found.issuer and f"issuer {found.issuer}",
        found.attested and f"VOMS {', '.join(found.vos) or 'attributes'}",
        found.mode is not None and f"mode {found.mode:03o}",
        f"expires {moment(found.end)}{left}" if found.end is not None else "no expiry time",
    ]
    return "; ".join(part for part in parts if part)


def _environment(
    execution: Execution,
    folder: Path,
    workflow: Path | None,
    modules: Callable[[], list[str]],
) -> tuple[list[str], Check | None]:
    """Return the modules of the environment that is asked for, and what there is to say of it."""
    asked = execution.environment
    what = "environment"
    sent = execution.staging.sends(execution.site.system)
    if asked is None:
        return [], None
    if asked.type == "container":
        return [], Check(what, "ok", f"container {asked.image}")
    if not asked.is_packed:
        prefix = Path(sys.prefix if asked.prefix == "current" else asked.prefix)
        there = os.access(prefix / "bin" / "python", os.X_OK)
        if sent and not there:  # this machine need not have it
            return [], Check(what, "ok", f"{asked.type} {prefix}, on the workers")
        found = f"{asked.type} {prefix}" + ("" if there else ": holds no bin/python")
        fix = "" if there else f"fix the prefix in {asked.file}"
        return [], Check(what, "ok" if there else "FAILED", found, fix)
    from fasthep_smk.transfer.environment.command import describe_environment

    try:
        named = modules()
        built, text = describe_environment(asked, named, folder / layout.ENVIRONMENTS)
    except SmkError as error:
        return [], Check(what, "FAILED", " ".join(f"{asked.type}: {error}".split())[:300])
    text += "; jobs are sent it" if sent else "; used only by jobs in transfer mode"
    fix = "" if built else f"{shell(['fasthep-smk', 'pack', *([workflow] if workflow else [])])}"
    return named, Check(what, "ok" if built else "note", text, fix)


def _probes(execution: Execution, modules: list[str], folder: Path, timeout: int) -> list[Check]:
    """Send a job to every pool, by the same ways as those of a run, and compare what it finds."""
    router = execution.router
    rules = [_rule(name, router) for name in router.pools.by_name]
    here = describe_worker()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fasthep-smk-doctor-") as name:
        place = Path(name)
        _write(rules, execution, place)
        with _outfit(rules, execution, modules, place, folder) as arguments:
            reasons = _run(place, execution.site.system, timeout, arguments)
        return [_outcome(rule, place, here, reasons) for rule in rules]


@contextlib.contextmanager
def _outfit(
    rules: list[Rule], execution: Execution, modules: list[str], place: Path, folder: Path
) -> Iterator[list[str]]:
    """Have what probes travel with, where jobs do; yield arguments for Snakemake."""
    system, environment = execution.site.system, execution.environment
    if not execution.staging.sends(system) or environment is None:
        yield []
        return
    from fasthep_smk.transfer.setup import Setup

    wildcards: dict[str, list[str]] = {rule.name: [] for rule in rules}
    archives = folder / layout.ENVIRONMENTS
    setup = Setup(place, system, environment, execution.staging, wildcards, True, archives)
    with setup.ready(modules) as arguments:
        yield arguments


def _rule(pool: str, router: Router) -> Rule:
    settings = router.pools.by_name[pool].settings
    attempt = Attempt(pool, settings.request, settings.options, settings.origins)
    route = Route((attempt,))
    return Rule(f"probe_{encode(pool)}", "partition", (), route, ())


def _write(rules: list[Rule], execution: Execution, place: Path) -> None:
    attempts = {rule.name: rule.route.attempts for rule in rules}
    here = sites.system(execution.site.system).machine(execution.site)
    if here is not None:
        attempts = {
            name: tuple(sites.shrink(one, here)[0] for one in given)
            for name, given in attempts.items()
        }
    attempts = {
        name: tuple(contained(one, execution) for one in given) for name, given in attempts.items()
    }
    placement = profile.Placement(
        execution.site,
        attempts=attempts,
        staging=execution.staging,
        environment=execution.environment,
    )
    script = (
        f"#!/bin/sh\npython={shell([sys.executable])}\n"
        "# In a container, Python is the container's.\n"
        f"if {IN_CONTAINER}; then python=python3; fi\n"
        'exec "$python" -P -m fasthep_smk.worker.probe "$1"\n'
    )
    (place / "smk" / "tasks").mkdir(parents=True)
    files.write_text(place / "smk" / "Snakefile", snakefile.render_probe(rules))
    files.write_text(place / "smk" / "common.smk", snakefile.COMMON)
    files.write_text(place / "smk" / "worker", script)
    files.write_text(place / "smk" / "profile" / "config.yaml", profile.render(rules, placement))


def _run(place: Path, system: str, timeout: int, arguments: list[str]) -> str:
    """Run the probes; return what Snakemake or the batch system said if they did not end well."""
    snakemake = SnakemakeProcess(
        system,
        place,
        without_secrets({**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}),
        arguments=["--profile", "smk/profile", "--keep-going", *arguments],
    )
    reader = Reader(None)
    waits: list[str] | None = None

    def give_up() -> None:
        nonlocal waits
        waits = []
        try:
            waits = waiting(sites.system(system).queued(place))
        finally:
            snakemake.signal(signal.SIGINT)
            kill.start()

    kill = threading.Timer(30, snakemake.signal, [signal.SIGKILL])
    limit = threading.Timer(timeout, give_up)
    limit.start()
    try:
        status = snakemake.follow(reader)
    finally:
        limit.cancel()
        limit.join()  # it may have begun, and starts the other one
        kill.cancel()
    if waits is not None:
        said = "; ".join(waits)
        return f"no answer in {timeout} s" + (f" ({said})" if said else "")
    return "" if status == 0 else " ".join(" ".join(reader.tail).split())[-300:]


def _outcome(rule: Rule, place: Path, here: Answer, reasons: str) -> Check:
    what = f"pool {rule.route.attempts[0].pool!r}"
    try:
        worker = _answer((place / f"{rule.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return Check(
            what,
            "FAILED",
            f"its probe job brought nothing back: {reasons or 'its file is not visible here'}",
            "do the workers see what this site says they do (this folder; with staging.mode: "
            "transfer, its staging.folder)? Try a submission by hand",
        )
    wrong = list(_differences(worker, here))
    text = f"{worker['host']}: Python {worker['python']}, {worker['cpus']} cpus"
    text += f", {worker['gpus']} GPUs" if worker["gpus"] else ""
    if wrong:
        return Check(
            what, "FAILED", f"{text}; {'; '.join(wrong)}", "use the same environment there"
        )
    return Check(what, "ok", text)


def _answer(text: str) -> Answer:
    """Return what a probe has found; ``ValueError`` if it is not that: it comes from elsewhere."""
    found = json.loads(text)
    kinds = {"host": str, "python": str, "cpus": int, "gpus": int, "packages": dict, "clock": float}
    if not isinstance(found, dict) or not all(
        isinstance(found.get(name), kind) for name, kind in kinds.items()
    ):
        raise ValueError("is not the answer of a probe job")
    return {
        "host": printable(found["host"]),
        "python": printable(found["python"]),
        "packages": found["packages"],
        "clock": found["clock"],
        "cpus": found["cpus"],
        "gpus": found["gpus"],
    }


def _differences(worker: Answer, here: Answer) -> Iterable[str]:
    for name, version in here["packages"].items():
        there = worker["packages"].get(name)
        if there != version:
            yield f"{name} {printable(str(there))} there, {version} here"
    if worker["python"] != here["python"]:
        yield f"Python {worker['python']} there, {here['python']} here"
    # It was written between our question and now.
    if worker["clock"] < here["clock"] - _CLOCKS or worker["clock"] > time.time() + _CLOCKS:
        yield f"its clock is off by {worker['clock'] - time.time():.0f} s"
