"""What a run needs later is started while its workflow is compiled.

That is a Snakemake that has imported all it needs and waits to be told its arguments, and on this
machine the fork server. Nothing of the workflow's plan is known by then: what turns out not to be
needed is ended without a trace. Each of them ends by itself if this process is killed before it has
told them to go.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.run.credential_need import without_secrets
from fasthep_smk.storage import layout
from fasthep_smk.storage.run_lock import mark

if TYPE_CHECKING:
    from fasthep_smk.run.fork_server import ForkServer
    from fasthep_smk.run.snakemake_process import SnakemakeProcess


def environment(build: Path, held: int | None, system: str = "local") -> dict[str, str]:
    """Return what Snakemake and its jobs get as environment; ``held`` is the run's lock."""
    # Colours would end up in the log; the width of the table must not depend on the terminal.
    plain = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    # Snakemake looks at credentials too, from the build folder.
    for name in ("X509_USER_PROXY", "BEARER_TOKEN_FILE"):
        if plain.get(name, "").strip():
            plain[name] = str(Path(plain[name].strip()).absolute())
    if not _has_cache():
        plain["XDG_CACHE_HOME"] = str(build / ".snakemake" / "cache")
    variables = plain | ({} if held is None else mark(held))
    return variables if system == "local" else without_secrets(variables)


def _has_cache() -> bool:
    """Whether Snakemake can write its cache in the user's home: it does not start without."""
    try:
        home = os.environ.get("XDG_CACHE_HOME", "").strip() or Path("~/.cache").expanduser()
        folder = Path(home, "snakemake")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return os.access(folder, os.W_OK | os.X_OK)


class Prestarted:
    """Processes that were started before a run on ``system``, until it takes them over."""

    def __init__(self, build: Path, held: int, system: str = "local") -> None:
        # A call with nothing to do needs neither.
        from fasthep_smk.run.fork_server import ForkServer
        from fasthep_smk.run.snakemake_process import SnakemakeProcess

        self._system, self._environment = system, environment(build, held, system)
        self._snakemake: SnakemakeProcess | None = None
        self._worker: ForkServer | None = ForkServer(self._environment, system)
        connection = self._worker.connection
        try:
            self._snakemake = SnakemakeProcess(
                system,
                build,
                {**self._environment, **connection.environment},
                shared=(held, *connection.shared),
            )
        except OSError:  # the run says why, when it starts its own
            self.discard()

    def take_worker(self, system: str, wanted: Mapping[str, str]) -> ForkServer | None:
        """Hand over the fork server to a run with the environment ``wanted``, if it has that."""
        if not self._is_for(system, wanted):
            self.discard()
        worker, self._worker = self._worker, None
        return worker

    def take_snakemake(
        self, system: str, arguments: Sequence[str], wanted: Mapping[str, str]
    ) -> SnakemakeProcess | None:
        """Start the run: tell Snakemake its arguments. ``None`` if it has to be started anew."""
        if self._snakemake is None or not self._is_for(system, wanted):
            return None
        process, self._snakemake = self._snakemake, None
        if process.tell(arguments):
            return process
        process.end()
        return None

    def _is_for(self, system: str, wanted: Mapping[str, str]) -> bool:
        """Whether these are a run's: a module of the user's may have changed its environment."""
        return (system, wanted) == (self._system, self._environment)

    def discard(self) -> None:
        """End what was not taken over."""
        process, self._snakemake = self._snakemake, None
        if process is not None:
            process.end()
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.discard()


@contextlib.contextmanager
def prestart(build: Path, held: int | None, system: str) -> Iterator[Prestarted | None]:
    """Start what a run in ``build`` needs; end with the block what it has not taken over."""
    # For another system, what Snakemake has to be told before it starts is not known yet.
    if held is None or system not in SYSTEMS:
        yield None
        return
    try:
        prestarted = Prestarted(build, held, system)
    except OSError:  # no space for a folder: the run says so, if it comes to that
        yield None
        return
    try:
        yield prestarted
    finally:
        prestarted.discard()


def is_likely_idle(workflow: Path, build: Path) -> bool:
    """Guess whether a run will have nothing to do: it has ended, and no file is newer than that.

    What is started in vain takes time from the compiler. A wrong guess costs no more than time.
    """
    with contextlib.suppress(OSError):  # the run says so, if it matters
        ended = _times((build / layout.WORK / "finish").rglob(layout.RECORD))
        folders = {workflow.parent, Path()}
        sources = [
            file for folder in folders for file in folder.glob("*.*") if file.suffix in _SOURCES
        ]
        return bool(ended) and max(_times((workflow, *sources)), default=0.0) < min(ended)
    return False


def _times(paths: Iterable[Path]) -> list[float]:
    """Return when files were modified, without those that cannot be looked at."""
    times = []
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return times


#: What a workflow is made of.
_SOURCES = (".yaml", ".yml", ".py")
