"""Before a run: are the credentials that it needs there, and will they last?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.credentials import Kind, Requirement
from fasthep_smk.credentials import tokens
from fasthep_smk.credentials.checks import Problem, look, problems, renewal
from fasthep_smk.credentials.credential import Credential, moment
from fasthep_smk.plan.rules import reads_remote
from fasthep_smk.run.duration import Duration, longest
from fasthep_smk.run.loads import loads_of
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.units import format_duration

if TYPE_CHECKING:
    from fasthep_smk.plan.rules import Rule, Variation
    from fasthep_smk.translate.profile import Placement

__all__ = ["check", "findings_now", "found_in_passing"]

#: Where it is not given how long jobs take, a credential that ends sooner is worth a warning.
_SOON = 3600
#: Folders that each machine has its own of.
_NOT_SHARED = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def check(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    placement: Placement,
    *,
    valid: frozenset[str] = frozenset(),
    at_a_time: int | None = None,
    allow_expiring: bool = False,
) -> list[str]:
    """Return warnings about the credentials of a run that would start now.

    With ``allow_expiring``, one that expires before the run may end is a warning too. The other
    arguments are those of :func:`fasthep_smk.run.loads.loads_of`.

    Raises:
        Findings: a credential that is required is missing, not valid, open to others, or does not
            last.
    """
    now = time.time()
    if not placement.credentials:
        return [*_stays_here(placement), *found_in_passing(variations, now=now)]
    loads = loads_of(rules, placement, valid=valid, at_a_time=at_a_time)
    duration = longest(loads)
    found = look(one.kind for one in placement.credentials)
    until = now + duration.seconds if duration.seconds else None
    wrong = [
        problem
        for one in placement.credentials
        for problem in problems(one, found.get(one.kind), now=now, until=until)
    ]
    refused = [one for one in wrong if not (one.early and allow_expiring)]
    findings = [_finding(one, duration) for one in refused]
    system = placement.site.system
    findings += _out_of_reach(placement.credentials, found, system)
    if findings:
        raise Findings(findings)
    warnings = [*_stays_here(placement), *(_warning(one) for one in wrong)]
    if system != "local" and not placement.transfers:
        warnings += _not_shared(found.values())
    if duration.is_lower_bound:
        warnings += _soon(placement.credentials, found, duration, now)
    return warnings


def findings_now(required: Iterable[Requirement]) -> list[Finding]:
    """Return what is wrong now with the credentials that are required."""
    required, now = list(required), time.time()
    found = look(one.kind for one in required)
    wrong = [item for one in required for item in problems(one, found.get(one.kind), now=now)]
    return [_finding(item) for item in wrong]


def found_in_passing(
    variations: Iterable[Variation],
    *,
    now: float,
    looked: Callable[[], Mapping[Kind, Credential]] = look,
) -> list[str]:
    """Return warnings about credentials that no stage requires, if remote files are read."""
    if not reads_remote(variations):
        return []
    warnings = []
    for kind, one in looked().items():
        for problem in problems(Requirement(kind), one, now=now):
            shown = f"{problem.what} ({problem.found}), and there are remote input files"
            warnings.append(f"{shown}: {problem.fix}")
    return warnings


def _finding(problem: Problem, duration: Duration | None = None) -> Finding:
    required, fix = problem.required, problem.fix
    expected = problem.expected
    if problem.early and duration is not None:
        expected += f": {_said(duration)}"
        fix += "; or --allow-expiring: jobs wait when it has ended, until it is renewed"
    return Finding(
        file=required.file or None,
        key=required.key or None,
        problem=problem.what,
        value=problem.found,
        expected=expected,
        hint=fix,
    )


def _said(duration: Duration) -> str:
    """Return in words where the expected end comes from."""
    text = f"its jobs may take {format_duration(round(duration.seconds))}"
    if duration.is_lower_bound:
        text += f", and longer: nothing is known of {', '.join(duration.unknown[:3])}"
        text += ", ..." if len(duration.unknown) > 3 else ""
    return text


def _warning(problem: Problem) -> str:
    return f"{problem.what} ({problem.found}): jobs will wait then; {problem.fix}"


def _out_of_reach(
    required: Iterable[Requirement], found: Mapping[Kind, Credential], system: str
) -> Iterable[Finding]:
    """Yield a token in a variable, where jobs run elsewhere: they would not get it.

    A batch system would keep it, readable by others, in the records of its jobs.
    """
    for one in required:
        known = found.get(one.kind)
        if system != "local" and one.kind == "token" and known is not None and known.path is None:
            yield Finding(
                file=one.file or None,
                key=one.key or None,
                problem=f"the bearer token does not reach the jobs of {system}",
                value=f"in the variable {tokens.VARIABLE}, which no batch system is told",
                expected="a token in a file that the workers see",
                hint=renewal(one, known),
            )


def _stays_here(placement: Placement) -> Iterable[str]:
    """Yield that a token in a variable, which no stage requires, is not handed over."""
    required = any(one.kind == "token" for one in placement.credentials)
    if placement.site.system != "local" and os.environ.get(tokens.VARIABLE) and not required:
        yield (
            f"{tokens.VARIABLE} is not handed to {placement.site.system}, which would keep it in "
            f"the records of its jobs: put the token into a file of mode 600 that workers see, "
            f"and name it by {tokens.FILE_VARIABLE}"
        )


def _not_shared(found: Iterable[Credential]) -> Iterable[str]:
    for one in found:
        path = Path(os.path.realpath(one.path)) if one.path is not None else None
        if path is not None and any(path.is_relative_to(folder) for folder in _NOT_SHARED):
            variable = {"x509": "X509_USER_PROXY", "token": tokens.FILE_VARIABLE}
            name = variable.get(one.kind, "KRB5CCNAME")
            yield (
                f"the {one.name} is in {one.path}, which workers on other machines do not see: "
                f"put it where they do, and name it by {name}"
            )


def _soon(
    required: Iterable[Requirement],
    found: Mapping[Kind, Credential],
    duration: Duration,
    now: float,
) -> Iterable[str]:
    for one in required:
        end = found[one.kind].end
        if end is not None and now + duration.seconds <= end < now + _SOON:
            unknown = ", ".join(duration.unknown[:3])
            yield (
                f"the {found[one.kind].name} expires {moment(end)}, and how long {unknown} takes "
                f"is not known: {renewal(one, found[one.kind])}"
            )
