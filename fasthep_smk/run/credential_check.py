"""Before a run: are the credentials that it needs there, and will they last?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.credentials import CredentialKind, Requirement
from fasthep_smk.credentials import tokens
from fasthep_smk.credentials.checks import CredentialProblem, look, problems, renewal
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.plan.rules import reads_remote
from fasthep_smk.translate.snakefile import lengthened
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.units import format_duration

if TYPE_CHECKING:
    from fasthep_smk.plan.rules import Rule, Variation
    from fasthep_smk.translate.profile import Placement

#: Where no job says how long it may take, a credential that ends sooner is worth a warning.
_SOON = 3600
#: Folders that each machine has its own of.
_NOT_SHARED = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def check(
    rules: Iterable[Rule],
    variations: Iterable[Variation],
    placement: Placement,
    *,
    valid: frozenset[str] = frozenset(),
    allow_expiring: bool = False,
) -> list[str]:
    """Return warnings about the credentials of a run that would start now.

    The jobs whose folders are in ``valid`` are done. With ``allow_expiring``, a credential that
    expires before a job that starts now may end is a warning too.

    Raises:
        Findings: a credential that is required is missing, not valid, open to others, or does not
            last for the longest job.
    """
    now, system = time.time(), placement.site.system
    if not placement.credentials:
        return [*_stays_here(placement), *_found_in_passing(variations)]
    longest = _longest(rules, placement, valid)
    until = now + (_SOON if longest is None else longest)
    credentials = look(requirement.kind for requirement in placement.credentials)
    wrong = [
        problem
        for requirement in placement.credentials
        for problem in problems(
            requirement, credentials.get(requirement.kind), now=now, until=until
        )
    ]
    only_said = allow_expiring or longest is None
    findings = [
        *(_finding(problem, longest) for problem in wrong if not (problem.early and only_said)),
        *(_out_of_reach(placement.credentials, credentials) if system != "local" else ()),
    ]
    if findings:
        raise Findings(findings)
    warnings = [*_stays_here(placement), *(_warning(problem) for problem in wrong)]
    if system != "local" and not placement.transfers:
        warnings += _not_shared(credentials.values())
    return warnings


def _longest(rules: Iterable[Rule], placement: Placement, valid: frozenset[str]) -> float | None:
    """Return the seconds that the longest job to run may take; ``None`` if no job has a limit.

    What starts later waits for a credential that has expired, until it is renewed.
    """
    limits = [
        lengthened(rule, placement.attempts[rule.name], placement.longest)[0].request.walltime
        for rule in rules
        if any(job.folder not in valid for job in rule.jobs.values())
    ]
    seconds = [limit for limit in limits if limit is not None]
    return max(seconds, default=None if limits else 0.0)


def findings_now(required: Iterable[Requirement]) -> list[Finding]:
    """Return what is wrong now with the credentials that are required."""
    required, now = list(required), time.time()
    credentials = look(requirement.kind for requirement in required)
    wrong = [
        item
        for requirement in required
        for item in problems(requirement, credentials.get(requirement.kind), now=now)
    ]
    return [_finding(item) for item in wrong]


def _found_in_passing(variations: Iterable[Variation]) -> list[str]:
    """Return warnings about credentials that no stage requires, if remote files are read."""
    if not reads_remote(variations):
        return []
    return [
        f"{problem.what} ({problem.found}), and some input files are remote: {problem.fix}"
        for kind, credential in look().items()
        for problem in problems(Requirement(kind), credential, now=time.time())
    ]


def _finding(problem: CredentialProblem, longest: float | None = None) -> Finding:
    required, fix = problem.required, problem.fix
    expected = problem.expected
    if problem.early and longest is not None:
        expected += f": it may take {format_duration(round(longest))}"
        fix += "; or add --allow-expiring: jobs then wait until you renew it"
    return Finding(
        file=required.file or None,
        key=required.key or None,
        problem=problem.what,
        value=problem.found,
        expected=expected,
        hint=fix,
    )


def _warning(problem: CredentialProblem) -> str:
    when = "after that, jobs wait until you renew it"
    return f"{problem.what} ({problem.found}): {when}: {problem.fix}"


def _out_of_reach(
    required: Iterable[Requirement], credentials: Mapping[CredentialKind, Credential]
) -> Iterable[Finding]:
    """Yield a token in a variable: jobs that run elsewhere would not get it.

    A batch system would keep it, readable by others, in the records of its jobs.
    """
    for requirement in required:
        credential = credentials.get(requirement.kind)
        if requirement.kind == "token" and credential is not None and credential.path is None:
            yield Finding(
                file=requirement.file or None,
                key=requirement.key or None,
                problem="the bearer token does not reach the jobs of a batch system",
                value=f"in the variable {tokens.VARIABLE}, which is not passed to a batch system",
                expected="a token in a file that the workers see",
                hint=renewal(requirement, credential),
            )


def _stays_here(placement: Placement) -> Iterable[str]:
    """Yield that a token in a variable, which no stage requires, is not handed over."""
    required = any(requirement.kind == "token" for requirement in placement.credentials)
    if placement.site.system != "local" and os.environ.get(tokens.VARIABLE) and not required:
        yield (
            f"jobs do not get the variable {tokens.VARIABLE}, because {placement.site.system} "
            f"would keep the token in its records of jobs: put the token into a file of mode 600 "
            f"that workers see, and set {tokens.FILE_VARIABLE} to its path"
        )


def _not_shared(credentials: Iterable[Credential]) -> Iterable[str]:
    for credential in credentials:
        path = Path(os.path.realpath(credential.path)) if credential.path is not None else None
        if path is not None and any(path.is_relative_to(folder) for folder in _NOT_SHARED):
            variable = {"x509": "X509_USER_PROXY", "token": tokens.FILE_VARIABLE}
            name = variable.get(credential.kind, "KRB5CCNAME")
            yield (
                f"the {credential.name} is in {credential.path}, which workers on other machines "
                f"do not see: put it into a folder that they see, and set {name} to its new path"
            )
