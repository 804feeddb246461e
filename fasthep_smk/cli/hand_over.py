"""``python -m fasthep_smk.cli.hand_over BUILD ask``, ``run THREADS`` or ``refuse``.

Called by ``smk/results.smk``. Snakemake compares times: so a result that came back from an earlier
edit, which is older than what a user has made since, gets the time at which it came back.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from fasthep_smk.cli.main import main as fasthep_smk
from fasthep_smk.cli.parser import parse
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.util.names import is_plain
from fasthep_smk.util.scratch import scratch

#: Seconds since 1970: nothing is older than the marker.
_LONG_AGO = 1


class _Answer(TypedDict):
    """What ``why --json`` says of results: paths relative to the build folder."""

    to_run: list[object]
    restored: int
    made: list[str]
    left_over: list[str]


def main(arguments: Sequence[str]) -> int:
    """Say what the analysis makes, run it, or refuse the rest; return the exit status."""
    build, action = Path(arguments[0]).absolute(), arguments[1]
    if action == "refuse":
        return _failed("no stage of the analysis makes this file any more")
    try:
        how = json.loads((build / layout.HOW_TO_ASK).read_text(encoding="utf-8"))
        if how["only"] is not None:
            raise SmkError(
                f"only variation {how['only']!r} was translated; to translate all, type\n"
                f"    fasthep-smk translate {how['workflow']} --outdir {build}"
            )
        os.chdir(how["folder"])
        words = [how["workflow"], "--outdir", str(build), *how["what"]]
        if action == "run":
            cores = ["-j", arguments[2]] if _runs_here(words) else []
            if status := fasthep_smk(["run", *words, *how["how"], *cores]):
                return status
        answer = _asked(words)
    except FileNotFoundError as error:
        return _failed(f"{error.filename} is missing: translate the workflow again")
    except SmkError as error:
        return _failed(str(error))
    if answer is None:
        return 1
    old = bool(answer["to_run"] or answer["restored"])
    if old and action == "run":
        return _failed("the analysis was edited while it ran")
    if old:
        (build / layout.HANDED_OVER).unlink(missing_ok=True)
    else:
        _mark(build, answer["made"])
    _stamp(build / layout.OLD_RESULTS, new=old)
    _stamp(build / layout.LEFT_OVER, new=bool(answer["left_over"]))
    if action == "ask":
        reply = {
            "made": list(filter(is_plain, answer["made"])),
            "left_over": list(filter(is_plain, answer["left_over"])),
        }
        for path in {*answer["made"]}.difference(reply["made"]):
            _failed(f"no rule can wait for {path}: Snakemake would read this path as a pattern")
        print(json.dumps(reply))
    return 0


def _failed(text: str) -> int:
    """Print what is wrong; return the exit status that says so."""
    print(f"fasthep-smk: {text}", file=sys.stderr)
    return 1


def _runs_here(words: list[str]) -> bool:
    """Whether jobs run on this machine: elsewhere, the cores of this one do not limit them."""
    # Imported when needed: to ask for results needs none of it.
    from fasthep_smk.cli.steps import begin
    from fasthep_smk.translate.translation import load

    options = parse(["run", *words])
    with scratch() as folder:
        loaded = load(begin(options, folder / "build", folder / "aside"))
    return loaded.execution.site.system == "local"


def _asked(words: list[str]) -> _Answer | None:
    """Return what ``why`` says; ``None`` if it refuses the workflow, which it has said."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        status = fasthep_smk(["why", "--json", *words])
    if status:
        return None
    answer: _Answer = json.loads(text.getvalue())
    return answer


def _mark(build: Path, names: Iterable[str]) -> None:
    """Note that all results are there; those that are others than before are new now."""
    marker = build / layout.HANDED_OVER
    try:
        before = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    there = {}
    for name in names:
        with contextlib.suppress(OSError):
            if before.get(name) != _seen(build / name):
                os.utime(build / name)
            there[name] = _seen(build / name)
    if there != before:
        files.write_text(marker, json.dumps(there, indent=1) + "\n")
    os.utime(marker, (_LONG_AGO, _LONG_AGO))


def _stamp(path: Path, *, new: bool) -> None:
    """Let a file be as new as can be, or older than all others.

    Of small files Snakemake compares the content, too.
    """
    if new or not path.exists():
        path.write_text(f"{time.time_ns()}\n", encoding="utf-8")
    if not new:
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def _seen(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
