"""Compile a workflow with FAST-HEP's own compiler and say clearly what is wrong with it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fasthep_smk import space
from fasthep_smk.errors import Finding, Findings, nearest
from fasthep_smk.flow import documents, upstream
from fasthep_smk.flow.late import import_late
from fasthep_smk.flow.quick_git import quick_git

__all__ = ["Compiled", "compile_workflow", "find_local_modules", "load_document", "readable_errors"]

#: FAST-HEP's renderers import these, and the compiler the renderers: half a second.
_FOR_PLOTS = ("matplotlib", "matplotlib.pyplot", "mplhep")
_FOR_COMPARISONS = ("matplotlib.gridspec", "mplhep.comp")


@dataclass(frozen=True)
class Compiled:
    """One plan of a workflow: the only one, or that of one systematic variation."""

    variation: str | None
    plan: Any


def load_document(workflow: Path) -> dict[str, Any]:
    """Return the workflow with its includes merged.

    Raises:
        Findings: a file is missing, unreadable, not YAML or not a mapping.
    """
    if not workflow.exists():
        candidates = [item.name for item in _yaml_files(workflow.parent)]
        close = nearest(workflow.name, candidates)
        raise Findings.one(
            "the workflow file does not exist",
            file=str(workflow),
            hint=f"did you mean {workflow.parent / close}?" if close else None,
        )
    if workflow.is_dir():
        raise Findings.one(
            "is a folder, not a workflow file",
            file=str(workflow),
            expected="a YAML file such as workflow.yaml",
        )
    with readable_errors(workflow):
        return dict(upstream.load_workflow_with_includes(str(workflow)).doc)


def compile_workflow(
    workflow: Path, outdir: Path, *, chunk_size: int | None = None, source: Path | None = None
) -> list[Compiled]:
    """Compile ``workflow`` into ``outdir/compile`` and return its plans, nominal first.

    ``chunk_size`` is the number of events of a partition, as for ``fasthep run``; ``source`` is
    what the compiler is given in the workflow's place (``fasthep_smk.flow.execution.overlay``).

    Raises:
        Findings: FAST-HEP's compiler refuses the workflow.
    """
    import_late(_FOR_PLOTS, functions=_FOR_COMPARISONS)
    with readable_errors(workflow), quick_git():
        first = upstream.compile_workflow_file(
            source or workflow, outdir=outdir, chunk_size=chunk_size
        )
    compiled = outdir / "compile"
    if not isinstance(first.context.get("variation"), dict):
        return [Compiled(None, documents.read_plan(compiled / "plan.yaml"))]
    summary = yaml.safe_load((compiled / "systematics.yaml").read_text(encoding="utf-8"))
    return [
        Compiled(str(item["name"]), documents.read_plan(outdir / str(item["plan"])))
        for item in summary["variations"]
    ]


def find_local_modules(root: Path, workflow: Path) -> None:
    """Let a workflow's own modules be imported from the current folder and from beside it."""
    for folder in (str(root), str(workflow.resolve().parent)):
        if folder not in sys.path:
            sys.path.append(folder)


@contextlib.contextmanager
def readable_errors(workflow: Path) -> Iterator[None]:
    """Turn what FAST-HEP's compiler raises into one message; its own prints are held back."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        file = mark.name if mark and Path(str(mark.name)).exists() else str(workflow)
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise Findings.one(
            f"is not valid YAML: {problem}",
            file=file,
            key=position,
            hint="check indentation, quotes and brackets around that line",
        ) from error
    except yaml.YAMLError as error:
        raise Findings.one(f"is not valid YAML: {error}", file=str(workflow)) from error
    except UnicodeDecodeError as error:
        culprit = _not_utf8(workflow)
        raise Findings.one("is not UTF-8 text", file=str(culprit), value=str(error)) from error
    except OSError as error:
        if space.shown(error):
            raise
        missing = Path(str(error.filename or workflow))
        close = nearest(missing.name, [item.name for item in _yaml_files(missing.parent)])
        hints = [f"did you mean {missing.parent / close}?"] if close else []
        hints += [f"named by {workflow}"] if missing != workflow else []
        raise Findings.one(
            f"cannot be read: {error.strerror or error}",
            file=str(missing),
            hint="; ".join(hints) or None,
        ) from error
    except (Exception, SystemExit) as error:
        # The compiler imports users' modules: anything can come out of it.
        if os.environ.get("FASTHEP_SMK_DEBUG"):
            raise
        if space.shown(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise Findings([_finding(workflow, error)]) from error


_KEY = re.compile(
    r"(?<![\w.'\"])((?:analysis|data|sources|joins|execution|systematics|styles)"
    r"(?:(?:\.\w+|\[[^\]]*\])+|(?= must be )))"
)


def _finding(workflow: Path, error: BaseException) -> Finding:
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if not message:
        message = type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Finding(
            file=str(workflow),
            problem=f"the module {error.name!r} cannot be imported",
            hint="install it, or put its folder on PYTHONPATH; modules beside the workflow and "
            "in the current folder are found",
        )
    key = _KEY.search(message)
    return Finding(
        file=str(workflow),
        key=key.group(1) if key else None,
        problem=f"FAST-HEP's compiler refuses it: {message}",
    )


def _not_utf8(workflow: Path) -> Path:
    """Return which of a workflow's files is not UTF-8: itself, or one that it includes."""
    try:
        document = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError):
        return workflow
    listed = document.get("include") if isinstance(document, dict) else None
    for name in listed if isinstance(listed, list) else [listed]:
        included = workflow.parent / str(name)
        try:
            included.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return included
        except OSError:
            continue
    return workflow


def _yaml_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [item for item in folder.iterdir() if item.suffix in (".yaml", ".yml")]
