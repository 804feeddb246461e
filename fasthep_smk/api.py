"""Use this package from Python: run workflows, and load their results.

Each run is a process of its own, started as the command: the modules of an analysis are imported
anew, with the edits since the last one, and the caller's process is left as it was.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.storage import last_run
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.util.errors import Findings, RunFailed, SmkError, not_among

if TYPE_CHECKING:
    import hist

__all__ = ["Results", "Translated", "load_results", "run", "translate"]

#: How a message of the command begins.
_MESSAGE = re.compile(r"fasthep-smk(?: \w+)?: (?P<warning>warning: )?(?:error: )?")
#: Options that may be given several times.
_SEVERAL = ("rerun",)
#: A workflow without systematics has one plan, of this name in :attr:`Results.variations`.
_ONLY = "nominal"


@dataclass(frozen=True)
class Translated:
    """Where a translation was written."""

    build: Path

    @property
    def snakefile(self) -> Path:
        return self.build / "smk" / "Snakefile"

    @property
    def profile(self) -> Path:
        """The folder of the generated profile, for ``snakemake --profile``."""
        return self.build / "smk" / "profile"


def run(
    workflow: str | os.PathLike[str],
    *,
    snakemake: Iterable[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    **options: object,
) -> Results:
    """Run a workflow to its end, as ``fasthep-smk workflow.yaml`` does; return its results.

    ``options`` are those of the command (``fasthep-smk run --help``) with ``_`` for ``-``:
    ``run("workflow.yaml", profile="slurm", chunk_size=100_000, keep_going=True)``. ``snakemake``
    are further arguments for Snakemake, ``cwd`` is the folder in which relative paths start.
    What the command prints goes to standard error.

    Raises:
        TypeError: an option has no such value.
        RunFailed: an option or the workflow is wrong, or jobs failed; the message is what the
            command said.
        FileNotFoundError: there is no folder ``cwd``.
    """
    if isinstance(snakemake, str):
        raise TypeError("snakemake must be a list of arguments, each a string")
    if options.get("dry_run"):
        raise TypeError("a dry run has no results: call translate() or type fasthep-smk -n")
    if "help" in options:
        raise TypeError("there is no option 'help' here: call help(fasthep_smk.run)")
    extra, build = list(snakemake), _build(options, cwd)
    _call("run", workflow, options, cwd, ["--", *extra] if extra else [])
    variation = options.get("variation")
    return replace(load_results(build), only=None if variation is None else str(variation))


def translate(
    workflow: str | os.PathLike[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    **options: object,
) -> Translated:
    """Write the Snakemake workflow of a FAST-HEP workflow, run nothing; say where it is.

    ``options`` and ``cwd`` are as for :func:`run`.

    Raises:
        RunFailed: an option or the workflow is wrong; the message is what the command said.
    """
    build = _build(options, cwd)
    _call("translate", workflow, options, cwd)
    return Translated(build)


def load_results(build: str | os.PathLike[str] = "build") -> Results:
    """Return the results in a build folder, with a warning if the last run has not finished.

    Raises:
        Findings: it is no build folder, or no run has ended there.
    """
    folder = Path(build).absolute()
    results = Results(folder)
    if not results.variations:
        raise Findings.one(
            "has no results of a finished run",
            file=str(folder),
            expected="a build folder with run_summary.yaml or reports/VARIATION/run_summary.yaml",
            hint="run the workflow first, or give the --outdir of an earlier run",
        )
    run = last_run.read(folder)
    if run is not None and run["outcome"] != "finished":
        text = f"the last run in {folder} has not finished ({run['outcome']}): results may "
        warnings.warn(f"{text}come from different versions of the workflow", stacklevel=2)
    return results


@dataclass(frozen=True)
class Results:
    """What a run has made for its user, in the build folder ``build``.

    Methods take the name of a systematic ``variation``; without one, it is the nominal plan, or the
    only one that was run: its name is ``only`` if the workflow has several.
    """

    build: Path
    only: str | None = None

    @property
    def variations(self) -> tuple[str, ...]:
        """The names of the systematic variations; ``("nominal",)`` without systematics."""
        return tuple(self._places)

    @cached_property
    def _places(self) -> dict[str, tuple[Path, Path]]:
        """The folder and the summary of each variation, the nominal one first.

        If the last run was one of a workflow without systematics, they are those of the whole.
        """
        whole, summaries = self.build / "run_summary.yaml", self._of_variations()
        newest = max((path.stat().st_mtime_ns for path in summaries.values()), default=0)
        if self.only is None and whole.is_file() and whole.stat().st_mtime_ns > newest:
            return {_ONLY: (self.build / "artifacts", whole)}
        names = sorted(summaries, key=lambda name: (name != _ONLY, name))
        return {
            name: (self.build / "artifacts" / name, summaries[name])
            for name in names
            if self.only in (None, name)
        }

    def histograms(self, variation: str | None = None) -> dict[str, hist.Hist]:
        """Return all histograms (``hist.Hist``) by the ids of their stages."""
        names = self._listed("histograms", variation)
        return {name: self.histogram(name, variation) for name in names}

    def histogram(self, name: str, variation: str | None = None) -> hist.Hist:
        """Return the histogram (``hist.Hist``) of a stage.

        Raises:
            Findings: there is none of this name, or it holds what is no histogram.
        """
        from fasthep_smk.storage import pickles

        path = self._path("histograms", name, variation)
        try:
            return pickles.load_histogram(files.read_plain(path))
        except pickles.RefusedPickle as error:
            hint = "if you trust the author of this file, read it with Python's module pickle"
            raise Findings.one(f"was not read: {error}", file=str(path), hint=hint) from error

    def cutflow(self, name: str, variation: str | None = None) -> JsonObject:
        """Return the cutflow of a stage as FAST-HEP writes it: ``nodes`` with ``stats`` by dataset.

        Raises:
            Findings: there is none of this name.
        """
        cutflow: JsonObject = json.loads(self._path("cutflows", name, variation).read_text())
        return cutflow

    def files(self, variation: str | None = None) -> list[Path]:
        """Return all other files that stages and writers have made, plots and tables included."""
        folder, _ = self._places[self._variation(variation)]
        others = {self.build / "artifacts" / name for name in self._of_variations()}
        skipped = {path for path in others if folder in path.parents}  # sf has the folder of sf/up
        skipped |= {folder / "histograms", folder / "cutflows", folder / "provenance"}
        return [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "manifest.json" and not skipped & {*path.parents}
        ]

    def summary(self, variation: str | None = None) -> JsonObject:
        """Return ``run_summary.yaml``. Its ``missing_partitions``, if any, are not in results."""
        import yaml

        _, path = self._places[self._variation(variation)]
        summary: JsonObject = yaml.safe_load(path.read_text())
        return summary

    def _of_variations(self) -> dict[str, Path]:
        """Return the summaries of systematic variations by their names, which may hold slashes."""
        paths = self.build.glob("reports/*/**/run_summary.yaml")
        return {path.parent.relative_to(self.build / "reports").as_posix(): path for path in paths}

    def _variation(self, name: str | None) -> str:
        names = self.variations
        if name is None and (names[0] == _ONLY or len(names) == 1):
            name = names[0]
        if name is None:
            raise Findings.one(
                "has no nominal results",
                file=str(self.build),
                expected=f"the argument variation=, with one of: {', '.join(names)}",
                hint="add systematics: {include_nominal: true} to the workflow; the next run "
                "then makes nominal results",
            )
        if name not in names:
            raise self._unknown("variation", name, names)
        run = last_run.read(self.build)
        alone = run.get("variation") if run else None
        if alone not in (None, name):
            text = f"the last run made only variation {alone!r}: results of {name!r} may come from "
            warnings.warn(f"{text}an earlier version of the workflow", stacklevel=4)
        return name

    def _listed(self, kind: str, variation: str | None) -> dict[str, Path]:
        manifest = self._places[self._variation(variation)][0] / kind / "manifest.json"
        if not manifest.is_file():
            return {}
        entries = json.loads(manifest.read_text())[kind]
        return {str(entry["id"]): self.build / entry["path"] for entry in entries}

    def _path(self, kind: str, name: str, variation: str | None) -> Path:
        paths = self._listed(kind, variation)
        # FAST-HEP names a result after its stage in these characters.
        name = name if name in paths else re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._")
        if name not in paths:
            raise self._unknown(kind.removesuffix("s"), name, paths)
        return paths[name]

    def _unknown(self, kind: str, name: str, names: Iterable[str]) -> SmkError:
        problem = f"has no {kind} of this name"
        finding = not_among(name, names, problem=problem, file=str(self.build), key=None)
        return Findings(
            [replace(finding, expected=finding.expected or f"a workflow with a {kind}")]
        )


def _build(options: Mapping[str, object], cwd: str | os.PathLike[str] | None) -> Path:
    outdir = options.get("outdir", "build")
    if not isinstance(outdir, str | os.PathLike):
        raise TypeError(f"outdir must be a path, not {outdir!r}")
    return Path(cwd or "", outdir).absolute()


def _call(
    command: str,
    workflow: str | os.PathLike[str],
    options: Mapping[str, object],
    cwd: str | os.PathLike[str] | None,
    extra: Iterable[str] = (),
) -> None:
    name = os.fspath(workflow)
    name = os.path.join(".", name) if name.startswith("-") else name  # noqa: PTH118
    words = [command, *_words(options), name, *extra]
    whole = [sys.executable, "-P", "-m", "fasthep_smk", *words]
    lines: list[str] = []
    # In a group of its own, it hears of Ctrl-C once: from here. A second one would kill its jobs.
    with subprocess.Popen(
        whole,
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        process_group=0,
    ) as process:
        interrupted = False
        while process.returncode is None:
            try:
                for line in process.stdout or ():
                    lines.append(line)
                    print(line, end="", file=sys.stderr)
                process.wait()
            except KeyboardInterrupt:
                interrupted = True
                process.send_signal(signal.SIGINT)  # it ends its jobs, and says so
            except BaseException:
                process.terminate()
                raise
    if interrupted:
        raise KeyboardInterrupt
    if process.returncode:
        ended = f"fasthep-smk ended with status {process.returncode}"
        raise RunFailed(_last_message(lines) or ended)


def _last_message(lines: list[str]) -> str:
    """Return the last message of the command that is no warning; else its last line."""
    message = ""
    for line in lines:
        if (start := _MESSAGE.match(line)) is not None:
            message = "" if start["warning"] else line[start.end() :]
        elif message:
            message += line
    return message.strip() or "".join(lines[-1:]).strip()


def _words(options: Mapping[str, object]) -> list[str]:
    """Return options as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        values: list[object] = [] if value is None or value is False else [value]
        if isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike):
            if name not in _SEVERAL:
                raise TypeError(f"{name} takes one value, not {value!r}")
            values = list(value)
        words += [option if entry is True else f"{option}={entry}" for entry in values]
    return words
