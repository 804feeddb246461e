"""What jobs that travel run with: the environment is packed before the first of them leaves."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TextIO

from fasthep_smk.flow.modules import modules_of
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.ownership import check_build, problem_above

if TYPE_CHECKING:
    from fasthep_smk.config.environment import Environment
    from fasthep_smk.config.staging import Staging
    from fasthep_smk.storage.job_settings import Travel
    from fasthep_smk.translate.translation import Translation


@contextlib.contextmanager
def prepared(translation: Translation, *, tell: TextIO | None = None) -> Iterator[list[str]]:
    """Prepare what is sent with a run's jobs; yield arguments for Snakemake.

    Their environment is packed, unless workers have it. ``tell`` is told what takes a while.

    Raises:
        Findings: the environment cannot be packed, or what was packed does not work.
    """
    placement = translation.placement
    assert placement.environment is not None, (
        "a site that sends jobs without an environment is refused before"
    )
    modules = {
        name for variation in translation.variations for name in modules_of(variation.graph.plan)
    }
    setup = Setup(
        translation.build,
        placement.site.system,
        placement.environment,
        placement.staging,
        {rule.name: list(rule.named_by) for rule in translation.rules},
    )
    with setup.ready(sorted(modules), tell=tell) as arguments:
        yield arguments


@dataclass(frozen=True)
class Setup:
    """What the jobs of a build folder travel with on a batch system.

    ``wildcards`` name the jobs of each rule. Jobs that are probes only say where they are.
    ``archives`` is where packed environments are kept, in the build folder if it is not said.
    """

    build: Path
    system: str
    environment: Environment
    staging: Staging
    wildcards: Mapping[str, list[str]]
    probes: bool = False
    archives: Path | None = None

    @contextlib.contextmanager
    def ready(self, modules: list[str], *, tell: TextIO | None = None) -> Iterator[list[str]]:
        """Have all of it in its place for a run; yield arguments for Snakemake.

        Raises:
            Findings: the environment cannot be packed, or there is no place for what is sent.
        """
        # Imported when needed: most runs send nothing.
        from fasthep_smk.transfer.spool import NODE, Spool

        python = _python(self, modules, tell)
        spool = _spool(self.staging, self.build) if self.system == "slurm" else None
        if spool is not None:
            _fill(spool, self.build / python if self.environment.is_packed else None)
        content: Travel = {
            "spool": None if spool is None else str(spool),
            "python": python,
            "brings_python": self.environment.is_packed,
            "shared": list(self.staging.shared),
            "wildcards": dict(self.wildcards),
            "probes": self.probes,
        }
        files.write_text(self.build / layout.TRANSFER, json.dumps(content, indent=1) + "\n")
        mine = Spool(self.build)
        mine.forget_credentials()  # a run that was killed has left some
        # Where this is installed, a schedd of another machine may not see it.
        _copy(NODE, mine.node)
        try:
            yield [] if spool is None else ["--slurm-logdir", str(spool / "out")]
        finally:
            mine.close()


def _spool(staging: Staging, build: Path) -> Path | None:
    """Return the folder for a build's jobs where the batch system sends nothing; make it.

    Raises:
        Findings: it cannot be made, or belongs to another user.
    """
    if staging.folder is None:
        return None
    top = Path(staging.folder)
    try:
        top.mkdir(parents=True, exist_ok=True)
        if (problem := problem_above(top / "here")) is not None:
            raise PermissionError(errno.EPERM, problem)
        spool = _mine(top) / files.digest_of(str(build))
        _make_closed(spool)
        check_build(spool, option="staging.folder", noun="folder")
    except OSError as error:
        raise Findings.one(
            f"cannot be used: {error.strerror or error}",
            file=staging.file,
            key="staging.folder",
            value=str(top),
        ) from error
    return spool


def _mine(top: Path) -> Path:
    """Return this user's folder in a shared one; make it.

    If somebody else has taken its name, it is one with an ending: that keeps nobody from working.
    """
    usual = top / f"fasthep-smk-{os.getuid()}"
    for folder in (usual, *sorted(top.glob(f"{usual.name}.*"))):
        with contextlib.suppress(OSError):
            _make_closed(folder)
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{usual.name}.", dir=top))  # of mode 700


def _make_closed(folder: Path) -> None:
    """Make a folder that nobody else can enter: jobs run what lies there, and credentials do.

    What is looked at is what is opened, not what has the name a moment later.

    Raises:
        OSError: it belongs to another user, or a link, which its owner may turn elsewhere.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(errno.EPERM, f"{folder} belongs to another user")
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _fill(spool: Path, archive: Path | None) -> None:
    """Put the environment of jobs into the spool, if they have one; no earlier one stays."""
    for old in spool.glob("*.run"):
        if archive is None or old.name != archive.name:
            old.unlink()
    if archive is not None:
        goal = spool / archive.name
        if not goal.is_file() or goal.stat().st_size != archive.stat().st_size:
            _copy(archive, goal)


def _copy(path: Path, goal: Path) -> None:
    with files.atomic_path(goal) as temporary:
        shutil.copy(path, temporary)


def _python(setup: Setup, modules: list[str], tell: TextIO | None) -> str:
    """Return the Python of jobs, or the archive of one: on workers, or relative to the build."""
    environment = setup.environment
    if environment.type == "container":
        return "python3"
    if not environment.is_packed:
        return str(Path(environment.prefix) / "bin" / "python")
    build, mine = packing(), setup.build / layout.ARCHIVES
    folder = setup.archives or mine
    packed = build.pack(build.contents_of(environment.type, modules), folder, tell=tell)
    if tell is not None and packed.seconds is not None:
        size = f"{packed.size / 1e6:.0f} MB"
        print(f"packed and tested in {packed.seconds:.0f} s: {size}", file=tell)
    if folder != mine:
        mine.mkdir(parents=True, exist_ok=True)
        shutil.copy(packed.path, mine)
    return f"{layout.ARCHIVES}/{packed.path.name}"


def packing() -> ModuleType:
    """Return what packs environments: an optional part, which is loaded when one is packed."""
    return importlib.import_module("fasthep_smk.contrib.pack.build")
