"""What a run leaves about itself, and the page on its build folder, whether it succeeds or not."""

from __future__ import annotations

import contextlib
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.storage import failures, last_run, layout, queue
from fasthep_smk.storage.last_run import LastRun, Outcome
from fasthep_smk.util import system_errors
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import printable, shell
from fasthep_smk.util.threads import meanwhile

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Translation

__all__ = ["is_outdated", "noting", "write_page"]

_PAGE = "fasthep_smk.contrib.report.page"
#: Seconds after which a run has its first page.
_FIRST = 10.0
#: Seconds after which a batch system is asked again why jobs wait.
_ASKED = 30.0
_PACKAGES = (
    "fasthep-smk", "snakemake", "fasthep-flow", "fasthep-carpenter", "fasthep-curator",
    "fasthep-render",
)  # fmt: skip


@contextlib.contextmanager
def noting(translation: Translation) -> Iterator[None]:
    """Note that a run goes on, and how it has ended; renew the page, and after a failure write it.

    That of a run that succeeds is written when it is concluded.
    """
    run = _begun(translation)
    last_run.write(translation.build, run)
    try:
        with _renewing(
            translation.build, None if run["system"] == "local" else _pools(translation)
        ):
            yield
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        _end(translation.build, run, "stopped" if stopped else "failed", error)
        write_page(translation.build)
        raise
    _end(translation.build, run, "finished")


def _pools(translation: Translation) -> dict[str, str]:
    """Return the pool of each rule's first attempt."""
    return {rule: tried[0].pool for rule, tried in translation.placement.attempts.items()}


@contextlib.contextmanager
def _renewing(build: Path, pools: Mapping[str, str] | None = None) -> Iterator[None]:
    """Write the page now and then while the block lasts, so seldom that it costs next to nothing.

    On a batch system, where rules have ``pools``, it is also noted why jobs wait. What goes wrong
    with it is not said now: if it still does at the end, it is said then.
    """
    queue.forget(build)

    def renew(over: threading.Event) -> None:
        wait, asked = _FIRST, -_ASKED
        while not over.wait(wait):
            if pools is not None and time.monotonic() - asked >= _ASKED:
                with contextlib.suppress(Exception):
                    queue.note(build, pools)
                asked = time.monotonic()
            page = import_module(_PAGE)  # a short run needs none

            started = time.perf_counter()
            with contextlib.suppress(Exception):
                page.write(build, renewed=wait)
            wait = page.pause(time.perf_counter() - started)

    with meanwhile(renew):
        yield


def write_page(build: Path) -> None:
    """Write the page of a build folder; if that fails, say so: the run is none the worse."""
    # Imported when needed: a run with nothing to do writes none.
    page = import_module(_PAGE)

    try:
        page.write(build)
    except Exception as error:  # whatever it is, the results are there
        if isinstance(error, Findings):
            text, fix = error.findings[0].problem, error.findings[0].hint
        else:
            text, fix = printable(failures.one_line(error)), system_errors.fix(error, build)
        hint = f"; {printable(fix)}" if fix else ""
        warning = f"fasthep-smk: warning: {layout.REPORT} was not written: {text}{hint}"
        print(warning, file=sys.stderr)


def is_outdated(build: Path) -> bool:
    """Return whether the page is older than what was translated last, or not there."""
    try:
        written = (build / layout.REPORT).stat().st_mtime
        tables = [path.stat().st_mtime for path in (build / layout.TASKS).glob("*.json")]
    except OSError:
        return True
    return max(tables, default=0.0) > written


def _begun(translation: Translation) -> LastRun:
    settings, placement = translation.settings, translation.placement
    rules = {job.folder: rule.name for rule in translation.rules for job in rule.jobs.values()}
    reasons: dict[str, Counter[str]] = {}
    for folder, why in translation.reuse.reasons.items():
        reasons.setdefault(rules.get(folder, folder), Counter())[masked(why)] += 1
    return {
        "outcome": "running",
        "problem": "",
        "started": round(time.time(), 3),
        "ended": None,
        "command": masked(shell(["fasthep-smk", *sys.argv[1:]])),
        "site": str(settings.profile or placement.site.system),
        "system": placement.site.system,
        "versions": _versions(),
        "workflow": str(settings.workflow),
        "folder": str(translation.root),
        "digests": dict(translation.digests),
        "reasons": {rule: dict(found) for rule, found in reasons.items()},
        "cores": _cores(translation),
        "limits": {**placement.workers},
    }


def _cores(translation: Translation) -> int | None:
    """Return how many cores jobs share; ``None`` if they do not run on one machine."""
    site = translation.placement.site
    here = sites.system(site.system).machine(site)
    if here is None:
        return None
    known = [one for one in (here.cpus, translation.settings.jobs) if one is not None]
    return min(known, default=None)


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _end(build: Path, run: LastRun, outcome: Outcome, error: BaseException | None = None) -> None:
    problem = "" if error is None else masked(str(error))
    ended: LastRun = {**run, "outcome": outcome, "ended": round(time.time(), 3), "problem": problem}
    with contextlib.suppress(OSError):  # the disk may be full: the run says so itself
        last_run.write(build, ended)
