"""Settings of the processes of pytest."""

from __future__ import annotations

import gc
import os

import pytest

# What a helper asserts is told as if a test did.
pytest.register_assert_rewrite("tests.support", "tests.clusters.analyses")


def pytest_configure() -> None:
    """Search for garbage as seldom as a command of ours does in a process of its own.

    Many tests call `main` in the process of pytest, where it leaves these settings as they are.
    Runs are not at the site of who runs the tests.
    """
    os.environ.pop("SNAKEMAKE_PROFILE", None)
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    """All that is imported and collected stays until the end: it is not searched again."""
    gc.freeze()
