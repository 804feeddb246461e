"""Real batch systems on this machine, started once for all tests that ask."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("FASTHEP_SMK_TEST_CACHE", HERE.parent / ".cache"))
# The first time, packages and a Debian tree are downloaded.
START_SECONDS = 900
STOP_SECONDS = 60


@dataclass(frozen=True)
class Cluster:
    """A running batch system, and how to work on it as its user."""

    script: Path
    folder: Path
    env: dict[str, str]
    user: str = "physicist"

    @property
    def shared(self) -> Path:
        """The user's folder, which all nodes see under the same path."""
        return self.folder / "shared"

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line that runs this one as the user, where the user logs in."""
        return [str(part) for part in (self.folder / "login", *arguments)]

    def run(
        self, *arguments: str | Path, cwd: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the user; in the shared folder if no other is given."""
        return subprocess.run(
            self.command(*arguments),
            cwd=cwd or self.shared,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def new_folder(self) -> Path:
        """An empty folder of the user's that all nodes see."""
        folder = Path(tempfile.mkdtemp(dir=self.shared))
        folder.chmod(0o755)
        account = self.shared.stat()
        os.chown(folder, account.st_uid, account.st_gid)
        return folder


@pytest.fixture(scope="module", autouse=True)
def first_events() -> Iterator[None]:
    """Leave the first events out: what operations do here is for jobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FASTHEP_SMK_PREFLIGHT", "")
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests begin first that wait longest: at the end, the others would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """A Slurm with the partitions standard, highmem, gpu, spot and short."""
    with cluster("slurm", {"SLURM_CONF": "etc/slurm.conf"}) as running:
        yield running


@pytest.fixture(scope="session")
def accounts() -> Iterator[Cluster]:
    """The same Slurm with accounting, and with another cluster in the same database."""
    with cluster("slurm_accounts", {"SLURM_CONF": "etc/slurm.conf"}) as running:
        yield running


@pytest.fixture(scope="session")
def htcondor() -> Iterator[Cluster]:
    """An HTCondor pool with slots of 16 GB, of 128 GB and with a GPU."""
    with cluster("htcondor", {"CONDOR_CONFIG": "condor_config"}) as running:
        yield running


@pytest.fixture(scope="session")
def grid_engine() -> Iterator[Cluster]:
    """A Grid Engine with the queues standard.q and large.q."""
    with cluster("grid_engine", {}) as running:
        yield running


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    """A test that fails does not leave its run to the cluster of the next."""
    from tests.clusters.analyses import end_runs  # which imports this module

    yield
    end_runs()


@contextmanager
def cluster(kind: str, files: dict[str, str], name: str | None = None) -> Iterator[Cluster]:
    """Start a cluster unless another worker of this test run did; stop it after its last user.

    With a ``name`` it is another than the one that the tests share.
    """
    if reason := not_possible_here():
        skip_loudly(f"{kind} was not started, its tests do not run: {reason}")
    # Workers of pytest-xdist share what the process that started them stands for.
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    owner = os.getppid() if worker else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"fasthep-smk-{name or kind}-{owner}"
    env = {name: str(folder / file) for name, file in files.items()}
    running = Cluster(HERE / f"{kind}.sh", folder, env)
    mine = folder / "users" / (worker or "only")
    with lock(kind):
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.touch()
        problem = change(running, "up", owner)
        if problem:
            leave(running, mine, owner)
    if problem:
        not_had(kind, problem)
    try:
        yield running
    finally:
        with lock(kind):
            leave(running, mine, owner)


def not_possible_here() -> str:
    """Why no cluster can be started on this machine; nothing if one can."""
    if os.geteuid() != 0:
        return "this is not root"
    release = Path("/etc/os-release")
    if not release.exists() or "ID=debian" not in release.read_text().splitlines():
        return "this is not Debian"
    return ""


def skip_loudly(reason: str) -> NoReturn:
    warnings.warn(reason, stacklevel=2)
    pytest.skip(reason)


def not_had(what: str, problem: str) -> NoReturn:
    """End a test for which something did not start: a failure where all of it must run."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} did not start:\n{problem}", pytrace=False)
    skip_loudly(f"{what} did not start, its tests do not run:\n{problem}")


def change(running: Cluster, command: str, owner: int) -> str:
    """Bring a cluster up or down; what went wrong, if something did."""
    env = {**os.environ, "FASTHEP_SMK_TEST_OWNER": str(owner), "PYTHON": sys.executable}
    seconds = START_SECONDS if command == "up" else STOP_SECONDS
    try:
        done = subprocess.run(
            [running.script, command, running.folder],
            env=env,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"{running.script.name} {command} took more than {seconds} seconds"
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def leave(running: Cluster, mine: Path, owner: int) -> None:
    """Stop the cluster if no other worker uses it."""
    mine.unlink()
    if any(mine.parent.iterdir()):
        return
    if problem := change(running, "down", owner):
        raise RuntimeError(problem)
    shutil.rmtree(running.folder)


@contextmanager
def lock(kind: str) -> Iterator[None]:
    """One worker at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{kind}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
