"""Snakemake's plugins for executors: which module each is, and whether it is installed."""

from __future__ import annotations

import importlib.util
import re

#: What an executor may be called.
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


def module_of(executor: str) -> str:
    """Return the module of an executor's plugin; Snakemake finds it by this name."""
    return f"snakemake_executor_plugin_{executor.replace('-', '_')}"


def distribution_of(executor: str) -> str:
    """Return what is to be installed for an executor."""
    return f"snakemake-executor-plugin-{executor}"


def is_installed(executor: str) -> bool:
    """Whether Snakemake finds a plugin for an executor of this name."""
    return bool(NAME.fullmatch(executor)) and (
        importlib.util.find_spec(module_of(executor)) is not None
    )
