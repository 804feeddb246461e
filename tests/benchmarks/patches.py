"""What each change of other people's code saves: the same commands without it.

A ``sitecustomize`` switches one off in all processes of a run, when its module has been imported.
"""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path

from . import workflows
from .measure import Measured
from .report import Result, Row
from .steps import Settings, Step, fresh, run, smk

__all__ = ["patches"]

#: What is switched off -> the module that holds it, and what is done when that is there.
_OFF = {
    "quick_yaml": (
        "fasthep_smk.flow.patches.quick_yaml",
        "module.quick_yaml = nothing; module.parse_written = module.yaml.safe_load",
    ),
    "quick_git": ("fasthep_smk.flow.patches.quick_git", "module.quick_git = nothing"),
    "known entries": ("fasthep_smk.flow.patches.known_entries", "module.known_entries = nothing"),
    "late imports": (
        "fasthep_smk.flow.patches.late",
        "module.import_late = lambda *_, **__: None",
    ),
    "prestart": ("fasthep_smk.run.prestart", "module.prestart = lambda *_: None"),
    "fork server": ("fasthep_smk.run.fork_server", "module.why_cold = lambda system: 'off'"),
    "jobs without a shell": (
        "fasthep_smk.executors.forked_jobs",
        "module.is_alone = lambda *_: False",
    ),
    "end of Snakemake": (
        "fasthep_smk.executors.start",
        "module._look_again_once = lambda: None",
    ),
    "sizes once": ("fasthep_smk.executors.start", "module._ask_once_for_sizes = lambda: None"),
    "garbage collector": (
        "fasthep_smk",
        "import gc; gc.set_threshold = gc.freeze = gc.disable = lambda *_: None",
    ),
}
_CUSTOMIZE = """\
import contextlib, importlib.abc, importlib.machinery, importlib.util, sys

@contextlib.contextmanager
def nothing(*_, **__):
    yield None

class Off(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        run = found.loader.exec_module
        def exec_module(module):
            run(module)
            switch_off(module)
        found.loader.exec_module = exec_module
        return found

def switch_off(module):
{code}

sys.meta_path.insert(0, Off())
"""


def patches(settings: Settings) -> Result:
    """Return what a run, one with nothing to do and a large translation cost without each."""
    folder = settings.folder
    workflows.write(workflows.tutorial(100_000), folder)
    workflows.write(workflows.many_files(folder, settings.files), folder, "many.yaml")
    steps = _steps(folder, "all of them", None)
    for name in _OFF:
        steps += _steps(folder, name, _without(folder, name))
    found = run(steps, settings)
    rows = [
        Row(f"{what}: {kind}", found[f"{name} {what}"], found[f"all of them {what}"])
        for what in ("run", "again", "translate")
        for name, kind in [("all of them", "as it is"), *((one, f"without {one}") for one in _OFF)]
    ]
    saved = [
        f"{name}: "
        + ", ".join(
            f"{_median(found[f'{name} {what}']) - _median(found[f'all of them {what}']):.2f} s"
            for what in ("run", "again", "translate")
        )
        for name in _OFF
    ]
    title = (
        "The tutorial, the same with nothing to do, and the translation of "
        f"{settings.files:,} files, each without one change of other people's code."
    )
    return Result("patches", title, rows, notes=["saved: run, nothing to do, translate", *saved])


def _steps(folder: Path, name: str, path: Path | None) -> list[Step]:
    ours = folder / "ours"
    prefix = ["env", f"PYTHONPATH={path}"] if path else ["env", "-u", "PYTHONPATH"]
    command = [*prefix, *smk("workflow.yaml", "-o", "ours", "-j", "2")]
    many = [*prefix, *smk("translate", "many.yaml", "-o", "many", "--shrink-to-fit")]
    return [
        Step(f"{name} run", command, fresh(ours)),
        Step(f"{name} again", command),
        Step(f"{name} translate", many, fresh(folder / "many")),
    ]


def _without(folder: Path, name: str) -> Path:
    """Return the folder of a ``sitecustomize`` that switches one off."""
    module, code = _OFF[name]
    path = folder / f"without-{name.replace(' ', '-')}"
    path.mkdir()
    text = _CUSTOMIZE.format(module=module, code=textwrap.indent(code, "    "))
    (path / "sitecustomize.py").write_text(text, encoding="utf-8")
    return path


def _median(runs: list[Measured]) -> float:
    return statistics.median(one.wall for one in runs)
