"""What each Snakemake process of ours does before it is Snakemake, whatever the batch system.

``--told-by FD EVENTS``: it imports what it needs, and then waits for its arguments at the first
descriptor, a line with a JSON list; the process that started it may find that there is nothing to
do. It ends silently if nothing comes, and with that process as long as nothing has come. At the
second descriptor it reports the events of the run.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import importlib
import importlib.util
import inspect
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterable
from pathlib import Path

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from fasthep_smk.executors import reporting, scheduler
from fasthep_smk.executors.fallback import prepare_routes
from fasthep_smk.executors.submissions import prepare_to_take_over
from fasthep_smk.flow import patches
from fasthep_smk.storage import layout
from fasthep_smk.util.processes import signal_at_parents_end
from fasthep_smk.util.scratch import VARIABLE
from fasthep_smk.util.snakemake_types import (
    SnakemakeJob,
    SnakemakeScheduler,
    job_scheduler,
    run_command_line,
)

#: Snakemake always imports all its plugins. That for Slurm imports these, in a quarter of the time
#: of a start, for the report that ``--slurm-efficiency-report`` asks for.
_FOR_ONE_PLUGIN = ("numpy", "pandas")


def be_snakemake(plugin: types.ModuleType | None = None, executor: type | None = None) -> None:
    """Run Snakemake's command line, once this process is told its arguments.

    An ``executor`` of ours takes the place of that of a ``plugin`` for a batch system. While this
    process waits, the build folder may still be that of an earlier run.
    """
    signal_at_parents_end(signal.SIGKILL)
    # In the background of a script, Ctrl-C is ignored, and we have inherited that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(file=2)  # its log says where it crashed
    gc.disable()  # what is imported stays: nothing of it is to be collected
    for name in _FOR_ONE_PLUGIN:
        _import_when_used(name)
    if plugin is not None and executor is not None:
        put_in_place_of(plugin, executor)
    importlib.import_module("snakemake.cli")
    _prepare()
    _, told_by, events = sys.argv[1:]
    _wait_to_be_told(int(told_by))
    reporting.begin(int(events))
    if plugin is not None and executor is not None:
        prepare_to_take_over()
        _let_pilots_run(plugin, executor)
    gc.freeze()
    gc.enable()
    try:
        run_command_line()
    finally:
        gc.freeze()  # the end of the process is quicker


def put_in_place_of(plugin: types.ModuleType, executor: type) -> None:
    """Let Snakemake take an executor of ours in place of that of a plugin, or of its own."""
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    ours = types.ModuleType(plugin.__name__)
    vars(ours).update(vars(plugin), Executor=executor)
    registry = ExecutorPluginRegistry()
    name = plugin.__name__.rpartition(".")[2].removeprefix(registry.module_prefix)
    registry.register_plugin(f"{registry.module_prefix}{name}", ours)


def _let_pilots_run(plugin: types.ModuleType, executor: type) -> None:
    """Lay pilots over an executor of ours where they run jobs of the build folder that this is in.

    They are an optional part, of which nothing else is loaded here.
    """
    if Path(layout.PILOTS).is_file():
        pilots = importlib.import_module("fasthep_smk.contrib.pilots.executor")
        put_in_place_of(plugin, pilots.piloted(executor))


def _import_when_used(name: str) -> None:
    """Let a module, if it is there, be loaded when one of its names is used."""
    stand_in, spec = types.ModuleType(name), importlib.util.find_spec(name)
    if spec is None:
        return
    stand_in.__spec__ = spec

    def load(attribute: str) -> object:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    vars(stand_in)["__getattr__"] = load
    sys.modules.setdefault(name, stand_in)


def _wait_to_be_told(descriptor: int) -> None:
    """Read the arguments and become Snakemake, as if started now; end if there are none."""
    importlib.import_module("snakemake.cli").get_argument_parser()  # imports the plugins
    with os.fdopen(descriptor, "rb") as stream:
        line = stream.readline()  # what a user's module has forked may keep the pipe open
    try:
        arguments = json.loads(line)
    except ValueError:  # nothing, or half of it: who started us has ended
        os._exit(0)
    signal_at_parents_end(0)
    sys.argv[1:] = map(str, arguments)


def _prepare() -> None:
    """Change in Snakemake what a run needs."""
    prepare_routes()
    local = importlib.import_module("fasthep_smk.executors.forked_jobs")
    put_in_place_of(local.local, local.LocalExecutor)
    scheduler.register()
    _lend_to_snakemake()
    _keep_folders()
    _ask_once_for_sizes()
    _look_again_once()


def _keep_folders() -> None:
    """Let Snakemake remove no folder at the end of a run.

    It (9.27) removes the folders of missing files of its jobs that are empty, and their parents:
    also that of input files which were moved away in the meantime.
    """
    dag = importlib.import_module("snakemake.dag").DAG
    if hasattr(dag, "cleanup_workdir"):
        patches.KEPT_FOLDERS.make(dag, cleanup_workdir=lambda _self: None)


def _lend_to_snakemake() -> None:
    """Let Snakemake, in this process, make its temporary folder in that of the run.

    The next run removes that if Snakemake is killed. Its jobs see nothing of it: theirs are where
    they would be.
    """
    folder = os.environ.pop(VARIABLE, None)
    if folder is None:
        return
    make = functools.partial(tempfile.TemporaryDirectory, dir=folder)
    workflow = importlib.import_module("snakemake.workflow")
    lent = types.SimpleNamespace(**{**vars(tempfile), "TemporaryDirectory": make})
    patches.TEMPORARY_FOLDER.make(workflow, tempfile=lent)


def _ask_once_for_sizes() -> None:
    """Let Snakemake's scheduler look once at each file that jobs read, not each time a job ends."""
    scheduler = job_scheduler()

    async def update_input_sizes(self: SnakemakeScheduler, jobs: Iterable[SnakemakeJob]) -> None:
        cached = self._input_sizes
        new = list({path for job in jobs for path in job.input if cached.get(path) is None})
        there = await asyncio.gather(*[path.exists() for path in new])
        existing = [path for path, is_there in zip(new, there, strict=True) if is_there]
        cached.update(dict.fromkeys(new))
        sizes = await asyncio.gather(*[path.size() for path in existing])
        cached.update(zip(existing, sizes, strict=True))

    # In another release it may be another kind of function.
    if inspect.iscoroutinefunction(getattr(scheduler, "update_input_sizes", None)):
        patches.SIZES_ONCE.make(scheduler, update_input_sizes=update_input_sizes)


def _look_again_once() -> None:
    """Let Snakemake's scheduler plan one look at its jobs for each second, not one for each round.

    Each look plans another, a second later, and Snakemake would wait for all of them at its end.
    """
    scheduler = job_scheduler()
    planned: set[tuple[int, int]] = set()

    def later(self: SnakemakeScheduler, delay: float) -> None:
        now = time.monotonic()
        look = id(self), math.ceil(now + delay)
        if look in planned:
            return

        def begin() -> None:
            planned.discard(look)
            self._open_jobs.release()

        timer = threading.Timer(look[1] - now, begin)
        timer.daemon = True
        timer.start()
        planned.add(look)

    if hasattr(scheduler, "_schedule_reevalutation"):  # a private name: it may be gone
        patches.END_AT_ONCE.make(scheduler, _schedule_reevalutation=later)
