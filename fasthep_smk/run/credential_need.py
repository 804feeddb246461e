"""Whether a run has to do with credentials at all; most have not, and import nothing for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.credentials.secrets import SECRET
from fasthep_smk.plan.rules import reads_remote
from fasthep_smk.util.errors import Findings

if TYPE_CHECKING:
    from fasthep_smk.plan.rules import Variation
    from fasthep_smk.translate.profile import Placement

__all__ = ["concerns", "explaining"]


def concerns(variations: Iterable[Variation], placement: Placement) -> bool:
    """Tell whether anything about credentials is to be looked at before a run."""
    elsewhere = placement.site.system != "local"
    in_variable = elsewhere and bool(os.environ.get(SECRET))
    return bool(placement.credentials) or in_variable or reads_remote(variations)


@contextlib.contextmanager
def explaining(workflow: Path, profile: str | None) -> Iterator[None]:
    """Add to findings what is wrong with the credentials that a workflow and its site require.

    FAST-HEP's compiler opens input files: without a valid credential it fails before a run's own
    check of them.

    Raises:
        Findings: the body has raised them.
    """
    try:
        yield
    except Findings as error:
        from fasthep_smk.run.credential_check import findings_now

        raise Findings([*findings_now(workflow, profile), *error.findings]) from None
