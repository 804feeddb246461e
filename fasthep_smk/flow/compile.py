"""Compile a workflow with FAST-HEP's own compiler and say clearly what is wrong with it."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from fasthep_smk.flow import context_use, op_identity, plan_files, upstream
from fasthep_smk.flow.distributions import is_installed_file
from fasthep_smk.flow.patches.late import import_late
from fasthep_smk.flow.patches.quick_git import quick_git
from fasthep_smk.util import disk_full, files
from fasthep_smk.util.documents import JsonObject, YamlMapping
from fasthep_smk.util.errors import Finding, Findings, SmkError, WrongArgument, chain_of, nearest

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, Registry

#: FAST-HEP's renderers import these, and the compiler the renderers: half a second.
_FOR_PLOTS = ("matplotlib", "matplotlib.pyplot", "mplhep")
_FOR_COMPARISONS = ("matplotlib.gridspec", "mplhep.comp")
_COMPARISONS = ("fasthep_render.hist.comparison", "fasthep_render.hist.data_mc")


@dataclass(frozen=True)
class CompiledPlan:
    """One plan of a workflow: the only one, or that of one systematic variation.

    ``warnings`` are those of FAST-HEP's compiler for all plans of the workflow.
    """

    variation: str | None
    plan: Plan
    warnings: tuple[str, ...] = ()


def load_with_digests(workflow: Path) -> tuple[JsonObject, dict[str, str]]:
    """Return the workflow with its includes merged, and a digest of each of its files by path.

    Raises:
        WrongArgument: the workflow is not there, or is no file.
        Findings: a file is unreadable, not YAML or not a mapping, or an included one is missing.
    """
    if not workflow.exists():
        close = nearest(workflow.name, [item.name for item in _yaml_files(workflow.parent)])
        raise WrongArgument.one(
            "the workflow file does not exist",
            file=str(workflow),
            hint=f"did you mean {workflow.parent / close}?" if close else None,
        )
    if not workflow.is_file():
        problem = "is a pipe or a device, but must be a file that can be read several times"
        raise WrongArgument.one(
            "is a folder, not a workflow file" if workflow.is_dir() else problem,
            file=str(workflow),
            expected="a YAML file such as workflow.yaml",
        )
    try:
        str(workflow.absolute()).encode()
    except UnicodeEncodeError:
        raise WrongArgument.one(
            "FAST-HEP cannot write the path of the workflow file, because the path is not UTF-8 "
            "text",
            file=ascii(str(workflow)),
            value=ascii(str(workflow.absolute())),
            hint="rename the file or its folder",
        ) from None
    with readable_errors(workflow):
        loaded = upstream.load_workflow_with_includes(str(workflow))
        try:
            json.dumps(loaded.doc, default=str, skipkeys=True)
        except (ValueError, RecursionError):
            problem = "contains itself: an alias (*) is inside its own anchor (&)"
            raise Findings.one(problem, file=str(workflow)) from None
        return dict(loaded.doc), {str(path): files.sha256_file(Path(path)) for path in loaded.files}


def compile_workflow(
    workflow: Path, outdir: Path, *, chunk_size: int | None = None, source: Path | None = None
) -> list[CompiledPlan]:
    """Compile ``workflow`` into ``outdir/compile`` and return its plans, nominal first.

    ``chunk_size`` is the number of events of a partition, as for ``fasthep run``; ``source`` is
    what the compiler is given in the workflow's place (``fasthep_smk.flow.overlay.overlay``).

    Raises:
        Findings: FAST-HEP's compiler refuses the workflow.
    """
    import_late(_FOR_PLOTS, _FOR_COMPARISONS, _COMPARISONS)
    with readable_errors(workflow, outdir), quick_git(), _noted() as messages:
        first = upstream.compile_workflow_file(
            source or workflow, outdir=outdir, chunk_size=chunk_size
        )
    compiled = outdir / "compile"
    warned = tuple(messages)
    if not isinstance(first.context.get("variation"), dict):
        return [CompiledPlan(None, plan_files.read_plan(compiled / "plan.yaml"), warned)]
    summary = yaml.safe_load((compiled / "systematics.yaml").read_text(encoding="utf-8"))
    return [
        CompiledPlan(str(item["name"]), plan_files.read_plan(outdir / str(item["plan"])), warned)
        for item in summary["variations"]
    ]


@contextlib.contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect what FAST-HEP's compiler warns of; other warnings are shown as usual."""
    messages: list[str] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield messages
    finally:
        for warning in caught:
            if warning.category is UserWarning and "hepflow" in Path(warning.filename).parts:
                messages.append(str(warning.message))
            else:
                warnings.showwarning(
                    warning.message, warning.category, warning.filename, warning.lineno
                )


def registry_of(document: YamlMapping, workflow: Path, root: Path) -> Registry:
    """Return what a workflow, whose includes are merged, and its profiles register.

    Raises:
        Findings: a profile cannot be read.
    """
    with readable_errors(workflow):
        context = upstream.CompileContext(workflow, root)
        registry: Registry = upstream.resolve_workflow_registry(
            dict(document), context=context
        ).registry
        return registry


def forget_modules() -> None:
    """Forget the user's modules: what compiles the workflow next imports them again."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = file and not is_installed_file(file) and name.partition(".")[0] != "fasthep_smk"
        if own and name != "__main__" and not op_identity.is_published(name):
            del sys.modules[name]
    op_identity.forget()
    context_use.forget()


@contextlib.contextmanager
def readable_errors(workflow: Path, build: Path | None = None) -> Iterator[None]:
    """Turn what FAST-HEP's compiler raises into one message; its own prints are held back.

    What it cannot write into ``build`` is another matter than what it cannot read.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except SmkError:
        raise
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        from fasthep_smk.util.yaml_files import unreadable

        of_text = isinstance(error, UnicodeDecodeError)
        raise unreadable(_read_by(error, workflow) if of_text else workflow, error) from error
    except OSError as error:
        if disk_full.shown(error) or build in Path(os.fsdecode(error.filename or "")).parents:
            raise
        if error.filename is None:
            raise Findings([_compiler_finding(workflow, error)]) from error
        missing = Path(str(error.filename))
        there = [item.name for item in _yaml_files(missing.parent)]
        if missing.absolute().parent == workflow.absolute().parent:
            there = [name for name in there if name not in (workflow.name, missing.name)]
        close = nearest(missing.name, there, cutoff=0.7)
        hints = [f"did you mean {missing.parent / close}?"] if close else []
        hints += [f"{workflow} names it"] if missing.absolute() != workflow.absolute() else []
        raise Findings.one(
            f"cannot be read: {error.strerror or error}",
            file=str(missing),
            hint="; ".join(hints) or None,
        ) from error
    except (Exception, SystemExit) as error:
        # The compiler imports users' modules: anything can come out of it.
        if os.environ.get("FASTHEP_SMK_DEBUG"):
            raise
        if disk_full.shown(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        for cause in chain_of(error):
            if isinstance(cause, Findings):  # from what was asked for while it compiled
                raise cause from None
        raise Findings([_compiler_finding(workflow, error)]) from error


def _compiler_finding(workflow: Path, error: BaseException) -> Finding:
    """Return what the compiler has refused, in our words: loaded when it refuses something."""
    from fasthep_smk.flow.compiler_messages import compiler_finding

    return compiler_finding(workflow, error)


def _read_by(error: BaseException, workflow: Path) -> Path:
    """Return which of a workflow's files FAST-HEP was reading: itself, or one that it includes."""
    held = [frame.f_locals.get("path") for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [Path(path) for path in held if isinstance(path, str | Path)]
    return files[-1] if files and not files[-1].samefile(workflow) else workflow


def _yaml_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [item for item in folder.iterdir() if item.suffix in (".yaml", ".yml")]
