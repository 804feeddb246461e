"""What a run needs later is started while its workflow is compiled.

That is a Snakemake that has imported all it needs and waits to be told its arguments, and on this
machine the fork server. Nothing of the workflow's plan is known by then: what turns out not to be
needed is ended without a trace. Each of them ends by itself if this process is killed before it has
told them to go. Where they were not started early, a run starts them itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from fasthep_smk.config.requests import SYSTEMS
from fasthep_smk.run.credential_need import without_secrets
from fasthep_smk.storage import layout
from fasthep_smk.storage.run_lock import mark


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
    """What a run on ``system`` needs: a fork server, and a Snakemake that waits to be told.

    ``held`` is the lock of the build folder, which Snakemake shares.

    Raises:
        OSError: there is no space for a temporary folder, or Snakemake cannot be started.
    """

    def __init__(
        self, build: Path, system: str, variables: Mapping[str, str], held: int | None
    ) -> None:
        # A call with nothing to do needs neither.
        from fasthep_smk.run.fork_server import ForkServer
        from fasthep_smk.run.snakemake_process import SnakemakeProcess

        self._system, self._variables = system, variables
        self.worker = ForkServer(variables, system)
        shared = [*self.worker.shared, *([] if held is None else [held])]
        try:
            self.snakemake = SnakemakeProcess(
                system, build, {**variables, **self.worker.variables}, shared
            )
        except OSError:
            self.worker.discard()
            raise

    def is_for(self, system: str, variables: Mapping[str, str]) -> bool:
        """Whether a run can have these: they wait, and have its environment.

        A module of the user's may have changed that.
        """
        return self.snakemake.waits and (system, variables) == (self._system, self._variables)

    def end(self) -> None:
        """End both, or let the fork server end with a Snakemake that goes on."""
        if self.snakemake.is_told:
            self.worker.end()
        else:
            self.snakemake.discard()
            self.worker.discard()


def prestart(build: Path, held: int, system: str) -> Prestarted | None:
    """Start what a run in ``build`` needs, if that can be known before it is translated."""
    # For another system, what Snakemake has to be told before it starts is not known yet.
    if system in SYSTEMS:
        with contextlib.suppress(OSError):  # the run says why, when it starts its own
            return Prestarted(build, system, environment(build, held, system), held)
    return None


def is_likely_idle(workflow: Path, build: Path) -> bool:
    """Guess whether a run will have nothing to do: it has ended, and no file is newer than that.

    What is started in vain takes time from the compiler. A wrong guess costs no more than time.
    """
    with contextlib.suppress(OSError):  # the run says so, if it matters
        ended = map(_time, (build / layout.WORK / "finish").rglob(layout.RECORD))
        files = [file for folder in {workflow.parent, Path()} for file in folder.glob("*.*")]
        sources = [file for file in files if file.suffix in (".yaml", ".yml", ".py")]
        return max(map(_time, [workflow, *sources])) < min(ended, default=0.0)
    return False


def _time(path: Path) -> float:
    """Return when a file was modified; 0 if it cannot be looked at."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
