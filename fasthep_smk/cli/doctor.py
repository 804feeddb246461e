"""Is a site usable from here? Checks, each with what to do where it fails."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tabulate import tabulate

from fasthep_smk import sites
from fasthep_smk.cli.probes import Silence, probe_rules, send_probes
from fasthep_smk.cli.steps import begin
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.execution import Execution
from fasthep_smk.credentials.checks import look, problems, renewal
from fasthep_smk.credentials.credential import NAMES, Credential, moment
from fasthep_smk.flow.modules import modules_of
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run import pipeline
from fasthep_smk.sites.commands import order
from fasthep_smk.storage import layout
from fasthep_smk.transfer.setup import packing
from fasthep_smk.translate.placement import place, unsafe_path
from fasthep_smk.translate.profile import Placement
from fasthep_smk.translate.translation import execution_of_site
from fasthep_smk.util.errors import Finding, Findings, SmkError, UsageError
from fasthep_smk.util.names import printable, shell
from fasthep_smk.util.scratch import scratch
from fasthep_smk.worker.probe import WorkerFacts, describe_worker

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Placed

CheckState = Literal["ok", "note", "FAILED"]
#: Seconds by which two clocks may differ: time stamps of files are compared across machines.
_CLOCKS = 5.0
#: Seconds. A credential that ends sooner is reported.
_A_DAY = 24 * 3600
_ELSEWHERE = (
    "log in to a machine that can submit jobs (and load the batch system's module), or choose "
    "another --profile"
)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``fix`` is what to do about it."""

    what: str
    state: CheckState
    found: str
    fix: str = ""


def do_doctor(options: argparse.Namespace) -> int:
    """Print what was checked; the exit status is 1 if the site cannot be used."""
    look_at = partial(examine, folder=Path.cwd(), timeout=options.timeout)
    if options.workflow is None:
        alone = execution_of_site(options.profile)
        pipeline.say_site(alone.site)
        checks = look_at(alone)
    else:
        with scratch() as folder:
            start = begin(options, folder / "build", folder / "aside")
            loaded = pipeline.load(start)
            place = partial(pipeline.placed, loaded)
            checks = look_at(loaded.execution, workflow=options.workflow, placing=place)
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        rows = [[check.what, check.state, check.found, check.fix] for check in checks]
        widths = [None, None, 60, 40]
        print(tabulate(rows, headers=["what", "", "found", "fix"], maxcolwidths=widths))
    return int(any(check.state == "FAILED" for check in checks))


def examine(
    execution: Execution,
    *,
    folder: Path,
    timeout: int,
    workflow: Path | None = None,
    placing: Callable[[], Placed] | None = None,
) -> list[Check]:
    """Return what works at a site and what does not; a probe job goes to each of its pools.

    ``folder`` is where runs would be started; ``timeout`` is in seconds, for all probes together.
    With a ``workflow``, ``placing`` takes the steps of a run up to that which places its jobs. No
    probe is sent while a run would be refused.
    """
    checks = [
        *_system(execution),
        _folder(execution, folder),
        *credential_checks(execution.credentials),
    ]
    rules, placement, modules, more_checks = _placed(execution, placing)
    checks += more_checks
    if check := _environment(execution, folder, workflow, modules):
        checks.append(check)
    if any(check.state == "FAILED" for check in checks):
        return checks
    here = describe_worker()
    answers = send_probes(rules, placement, execution, modules, folder, timeout)
    outcomes = [_outcome(*pair, here) for pair in zip(rules, answers, strict=True)]
    return [*checks, *outcomes]


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
    missing = [command for command in module.COMMANDS if shutil.which(command) is None]
    for command in missing:
        yield Check(command, "FAILED", "there is no such command here", _ELSEWHERE)
    if missing:
        return
    for command, words in module.COMMANDS.items():
        answer = order([command, *words]) if words else None
        if answer is not None and not answer.well:
            yield Check(f"{name} answers", "FAILED", answer.problem or command, _ELSEWHERE)
            return
    if module.notes():  # what it has is not known, and said with the pools
        yield Check("Snakemake's plugin", "ok", f"is installed: {module.PLUGIN}")
        return
    draft = module.draft()
    if draft is None:
        yield Check(f"{name} answers", "FAILED", "it lists no nodes", _ELSEWHERE)
        return
    summary = "; ".join(line.strip() for line in draft.remarks[1:]) or "jobs run on this machine"
    yield Check(f"{name} answers", "ok", summary)
    if module.settings(execution.site).get("slurm-status-command") == "squeue":
        found = "off: fasthep-smk gets the states of jobs from squeue"
        yield Check("accounting", "note", found)


def _folder(execution: Execution, folder: Path) -> Check:
    if wrong := unsafe_path(execution, folder, folder):
        problem = f"{wrong.problem}: {wrong.value}"
        return Check("this folder", "FAILED", problem, str(wrong.hint))
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fasthep-smk-"):
            free = shutil.disk_usage(folder).free // 1000**3
    except OSError as error:
        fix = "go to a folder that you can write to"
        return Check("this folder", "FAILED", f"{folder}: {error.strerror}", fix)
    return Check("this folder", "ok" if free > 1 else "note", f"{folder}: {free} GB free")


def credential_checks(required: Iterable[Requirement]) -> Iterator[Check]:
    """Yield those that are required, and all others that are there."""
    wanted = {requirement.kind: requirement for requirement in required}
    now = time.time()
    for kind, credential in {**dict.fromkeys(wanted), **look()}.items():
        requirement = wanted.get(kind, Requirement(kind))
        state: CheckState = "ok"
        texts, fixes = [], []
        for problem in problems(requirement, credential, now=now):
            state = "FAILED" if kind in wanted else "note"
            texts.append(problem.what)
            fixes.append(problem.fix)
        if credential is not None:
            texts.append(_described(credential))
            if state == "ok" and credential.end is not None and credential.end < now + _A_DAY:
                state, fixes = "note", [renewal(requirement, credential)]
        name = f"{NAMES[kind]}, required" if kind in wanted else NAMES[kind]
        yield Check(name, state, "; ".join(texts), "; ".join(dict.fromkeys(fixes)))


def _described(credential: Credential) -> str:
    """Return all that is known of a credential; nothing of it is secret."""
    if credential.problem is not None:
        return f"{credential.where}: {credential.problem}"
    end = "no expiry time"
    if credential.end is not None:
        left = (credential.end - time.time()) / 3600
        end = f"expires {moment(credential.end)}, {left:.1f} h left"
    parts = [
        credential.where,
        credential.subject and f"subject {credential.subject}",
        credential.issuer and f"issuer {credential.issuer}",
        credential.attested and f"VOMS {', '.join(credential.vos) or 'attributes'}",
        credential.mode is not None and f"mode {credential.mode:03o}",
        end,
    ]
    return "; ".join(part for part in parts if part)


def _environment(
    execution: Execution,
    folder: Path,
    workflow: Path | None,
    modules: list[str],
) -> Check | None:
    """Return what there is to say of the environment that is asked for."""
    asked = execution.environment
    name = "environment"
    sent = execution.staging.sends(execution.site.system)
    if asked is None:
        return None
    if asked.type == "container":
        return Check(name, "ok", f"container {asked.image}")
    if not asked.is_packed:
        prefix = Path(sys.prefix if asked.prefix == "current" else asked.prefix)
        there = os.access(prefix / "bin" / "python", os.X_OK)
        if sent and not there:  # this machine need not have it
            return Check(name, "ok", f"{asked.type} {prefix}, on the workers")
        described = f"{asked.type} {prefix}" + ("" if there else ": has no bin/python")
        fix = "" if there else f"correct the prefix in {asked.file}"
        return Check(name, "ok" if there else "FAILED", described, fix)
    try:
        archives = folder / layout.ENVIRONMENTS
        built, text = packing().describe_environment(asked.type, modules, archives)
    except SmkError as error:
        return Check(name, "FAILED", " ".join(f"{asked.type}: {error}".split())[:300])
    text += "; it is sent to jobs" if sent else "; used only by jobs in transfer mode"
    fix = "" if built else f"{shell(['fasthep-smk', 'pack', *([workflow] if workflow else [])])}"
    return Check(name, "ok" if built else "note", text, fix)


def _placed(
    execution: Execution, placing: Callable[[], Placed] | None
) -> tuple[list[Rule], Placement, list[str], list[Check]]:
    """Place probes and the workflow as a run would; return what is in the way, in checks.

    And rules and placement of the probes, and the modules that the workflow names.
    """
    rules = probe_rules(execution.router)
    placement, findings, notes = place(rules, execution, shrink=True)
    checks: list[Check] = []
    modules: set[str] = set()
    try:
        if placing is not None:
            placed = placing()
            modules = {name for compiled in placed.plans for name in modules_of(compiled.plan)}
            jobs = sum(len(rule.jobs) for rule in placed.rules)
            checks.append(Check("workflow", "ok", f"{jobs} jobs in {len(placed.rules)} rules"))
    except Findings as error:
        findings = [*findings, *error.findings]
    except SmkError as error:
        checks.append(Check("workflow", "FAILED", " ".join(str(error).split())))
    checks += map(_refused, {str(finding): finding for finding in findings}.values())
    if sites.system(execution.site.system).machine(execution.site) is None:
        checks += [Check("site", "note", text) for text in notes]
    return rules, placement, sorted(modules), checks


def _refused(finding: Finding) -> Check:
    """Return the check of what a run would be refused for, in its words."""
    name = ": ".join(part for part in (finding.file, finding.key) if part) or "site"
    text = "; ".join(part for part in (finding.problem, finding.value, finding.at) if part)
    expected = f"expected: {finding.expected}" if finding.expected else None
    return Check(name, "FAILED", text, "; ".join(filter(None, (expected, finding.hint))))


def _outcome(rule: Rule, answer: WorkerFacts | Silence, here: WorkerFacts) -> Check:
    name = f"pool {rule.route.attempts[0].pool!r}"
    if isinstance(answer, Silence):
        return Check(name, "FAILED", answer.why, answer.fix)
    text = f"{answer['host']}{', ' * bool(answer['where'])}{answer['where']}: Python "
    text += f"{answer['python']}, {_count(answer['cpus'] or 0, 'cpu')}"
    if answer["gpus"]:
        models = f" ({', '.join(dict.fromkeys(answer['models']))})" if answer["models"] else ""
        text += f", {_count(answer['gpus'], 'GPU')}{models}"
    asked = rule.route.attempts[0].request.gpus
    if asked > answer["gpus"]:
        seen = answer["gpus"] or "none"
        wrong = f"the pool requests {_count(asked, 'GPU')}, but its job sees {seen}"
        return Check(name, "FAILED", f"{text}; {wrong}", "let this pool use nodes with GPUs")
    if differences := "; ".join(_differences(answer, here)):
        fix = "use the same environment on the worker as here"
        return Check(name, "FAILED", f"{text}; {differences}", fix)
    return Check(name, "ok", text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _differences(worker: WorkerFacts, here: WorkerFacts) -> Iterable[str]:
    for name, version in here["packages"].items():
        there = worker["packages"].get(name)
        if there != version:
            yield f"{name} {printable(str(there))} on the worker, {version} here"
    if worker["python"] != here["python"]:
        yield f"Python {worker['python']} on the worker, {here['python']} here"
    # It was written between our question and now.
    if worker["clock"] < here["clock"] - _CLOCKS or worker["clock"] > time.time() + _CLOCKS:
        yield f"the worker's clock is off by {worker['clock'] - time.time():.0f} s"
