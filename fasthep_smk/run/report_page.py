"""What a run leaves about itself, and the page on its build folder, whether it succeeds or not."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk import sites
from fasthep_smk.storage import failures, last_run, layout
from fasthep_smk.storage.last_run import LastRun, Outcome
from fasthep_smk.util.masking import masked
from fasthep_smk.util.names import printable, shell
from fasthep_smk.util.processes import ONE_THREAD, in_words

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Translation

_WRITER = "fasthep_smk.contrib.report"
#: Seconds that the process which writes the page gets to end by itself.
_PATIENCE = 5.0
#: Seconds that it gets for the last page: one of 10,000 jobs takes 1.5 s.
_LONGEST = 120.0
_PACKAGES = (
    "fasthep-smk", "snakemake", "fasthep-flow", "fasthep-carpenter", "fasthep-curator",
    "fasthep-render",
)  # fmt: skip


class Page:
    """The page on a build folder, and the process that writes it, which is started once.

    It imports what it needs while jobs run, and renews the page now and then. In a session of its
    own, it does not hear of Ctrl-C: the run ends it in any case.
    """

    def __init__(self, build: Path) -> None:
        self._build = build
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start the process, if it is not there.

        Raises:
            OSError: it cannot be started.
        """
        if self._process is None:
            words = [str(self._build), str(os.getpid())]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _WRITER, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,
            )

    def write(self) -> None:
        """Write the page as it is now; if that fails, say so: the run is none the worse."""
        try:
            problem = self._asked_for()
        except (OSError, ValueError) as error:
            problem = failures.one_line(error)
        if problem:
            warning = f"fasthep-smk: warning: {layout.REPORT} was not written: {problem}"
            print(warning, file=sys.stderr)

    def _asked_for(self) -> str:
        """Let the process write the page and end; return why it has not, or nothing."""
        self.start()
        process = self._process
        assert process is not None
        try:
            output, _ = process.communicate(b".", _LONGEST)
        except subprocess.TimeoutExpired:  # it was stopped, or its disk hangs
            process.kill()
            return f"its process has not ended after {_LONGEST:.0f} s"
        self._process = None
        lines = output.decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        if process.returncode == 0:
            return str(json.loads(last))
        ended = f"its process has ended with {in_words(process.returncode)}"
        return f"{ended}: {printable(masked(last))}" if last else ended

    def close(self) -> None:
        """End the process if it is there, and let it write nothing more."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with process:
                process.stdin.close()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()


@contextlib.contextmanager
def noting(translation: Translation, page: Page) -> Iterator[None]:
    """Note that a run goes on, or how it has failed; renew the page, and after a failure write it.

    That of a run that succeeds is written when it is concluded.
    """
    run = _begun(translation)
    last_run.write(translation.build, run)
    try:
        (translation.build / layout.QUEUE_NOTES).unlink(missing_ok=True)  # of an earlier run
        with contextlib.suppress(OSError):  # it is tried again, and told, at a good end
            page.start()
        yield
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        _end(translation.build, run, "stopped" if stopped else "failed", error)
        if page.is_started:  # else perhaps it lacked what the run has died of
            page.write()
        raise


def note_end(translation: Translation) -> None:
    """Note that a run has ended well; ``translation`` is its last one."""
    folders = [translation.build / job.folder for job in translation.rules[-1].jobs.values()]
    is_whole = all((folder / layout.RECORD).exists() for folder in folders)
    if run := last_run.read(translation.build):
        _end(translation.build, run, "finished" if is_whole else "unfinished")


def note_that_all_is_done(translation: Translation) -> None:
    """Note a run with nothing to do, if the last one has not come to its end."""
    run = last_run.read(translation.build)
    if run is not None and run["outcome"] != "finished":
        _end(translation.build, _begun(translation), "finished")


def is_outdated(build: Path) -> bool:
    """Return whether the page is older than the last translation or run, or not there."""
    try:
        written = (build / layout.REPORT).stat().st_mtime
        paths = [build / layout.LAST_RUN, *(build / layout.TASKS).glob("*.json")]
        times = [path.stat().st_mtime for path in paths if path.exists()]
    except OSError:
        return True
    return max(times, default=0.0) > written


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
        "site": str(settings.profile or placement.site.folder or placement.site.system),
        "system": placement.site.system,
        "versions": _versions(),
        "workflow": str(settings.workflow),
        "variation": settings.variation,
        "folder": str(translation.root),
        "digests": dict(translation.digests),
        "reasons": {rule: dict(counts) for rule, counts in reasons.items()},
        "cores": _cores(translation),
        "limits": {**placement.workers},
    }


def _cores(translation: Translation) -> int | None:
    """Return how many cores jobs share; ``None`` if they do not run on one machine."""
    site = translation.placement.site
    here = sites.system(site.system).machine(site)
    if here is None:
        return None
    limits = [number for number in (here.cpus, translation.settings.jobs) if number is not None]
    return min(limits, default=None)


def _versions() -> dict[str, str]:
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _end(build: Path, run: LastRun, outcome: Outcome, error: BaseException | None = None) -> None:
    problem = "" if error is None else masked(str(error))
    ended: LastRun = {**run, "outcome": outcome, "ended": round(time.time(), 3), "problem": problem}
    with contextlib.suppress(OSError):  # the disk may be full: the run says so itself
        last_run.write(build, ended)
