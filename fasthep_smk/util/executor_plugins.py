"""Snakemake's plugins for executors: which module each is, and which are installed."""

from __future__ import annotations

import importlib.util
import pkgutil
import re

_PREFIX = "snakemake_executor_plugin_"
#: What an executor may be called.
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
#: Steps of jobs on a node: no executors that a person chooses.
_STEPS = "-jobstep"


def module_of(executor: str) -> str:
    """Return the module of an executor's plugin; Snakemake finds it by this name."""
    return _PREFIX + executor.replace("-", "_")


def distribution_of(executor: str) -> str:
    """Return what is to be installed for an executor."""
    return f"snakemake-executor-plugin-{executor}"


def is_installed(executor: str) -> bool:
    """Whether Snakemake finds a plugin for an executor of this name."""
    return bool(NAME.fullmatch(executor)) and (
        importlib.util.find_spec(module_of(executor)) is not None
    )


def installed() -> list[str]:
    """Return the executors whose plugins are installed, by name."""
    modules = (module.name for module in pkgutil.iter_modules() if module.name.startswith(_PREFIX))
    names = (name.removeprefix(_PREFIX).replace("_", "-") for name in modules)
    return sorted(name for name in names if not name.endswith(_STEPS))
