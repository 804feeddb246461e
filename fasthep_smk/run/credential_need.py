"""Whether a run has to do with credentials at all; most have not, and import nothing for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fasthep_smk.plan.rules import reads_remote
from fasthep_smk.util.errors import Findings

if TYPE_CHECKING:
    from fasthep_smk.config.credentials import Requirement
    from fasthep_smk.plan.rules import Variation
    from fasthep_smk.translate.profile import Placement
    from fasthep_smk.translate.translation import Placed

#: Its value is a token. The other variables of credentials name files.
_SECRET = "BEARER_TOKEN"


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for what submits jobs.

    Slurm's ``--export=ALL`` and HTCondor's ``getenv = true`` copy the environment into the records
    of the jobs, which others may read, and which outlive the token.
    """
    return {name: value for name, value in variables.items() if name != _SECRET}


def concerns(variations: Iterable[Variation], placement: Placement) -> bool:
    """Whether anything about credentials is to be looked at before a run."""
    elsewhere = placement.site.system != "local"
    in_variable = elsewhere and bool(os.environ.get(_SECRET))
    return bool(placement.credentials) or in_variable or reads_remote(variations)


def warnings_of(placed: Placed, *, valid: frozenset[str] = frozenset()) -> list[str]:
    """Return warnings about the credentials of a run that would start now.

    The jobs whose folders are in ``valid`` are done.

    Raises:
        Findings: a required credential is missing, not valid, open to others, or does not last.
    """
    if not concerns(placed.variations, placed.placement):
        return []
    from fasthep_smk.run import credential_check

    return credential_check.check(
        placed.rules,
        placed.variations,
        placed.placement,
        valid=valid,
        allow_expiring=placed.settings.allow_expiring,
    )


@contextlib.contextmanager
def explaining(required: Iterable[Requirement]) -> Iterator[None]:
    """Add to findings what is wrong with the credentials that are required.

    FAST-HEP's compiler opens input files: without a valid credential it fails before a run's own
    check of them.

    Raises:
        Findings: the body has raised them.
    """
    try:
        yield
    except Findings as error:
        from fasthep_smk.run.credential_check import findings_now

        error.findings[:0] = findings_now(required)
        raise
