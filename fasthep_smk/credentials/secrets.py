"""Keep a token that is itself in the environment away from batch systems."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SECRET", "without_secrets"]

#: Its value is the token. The other variables of credentials name files.
SECRET = "BEARER_TOKEN"


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for what submits jobs.

    Slurm's ``--export=ALL`` and HTCondor's ``getenv = true`` copy the environment into the records
    of the jobs, which others may read, and which outlive the token.
    """
    return {name: value for name, value in variables.items() if name != SECRET}
