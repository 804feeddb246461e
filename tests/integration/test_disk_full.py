"""A disk that gets full: one clear message, nothing half-written counts, and the call goes on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fasthep_smk.run import lock
from fasthep_smk.storage import failures
from tests.integration.conftest import Run
from tests.support.compare import compare_builds
from tests.support.forms import in_turn, some

pytestmark = pytest.mark.integration

#: Fills the disk while the file ``fill`` exists, but for so many bytes as it says, and then makes
#: events that do not fit.
OPS = """\
import os
from pathlib import Path
import awkward as ak, numpy as np
SPEC = {"name": "own.fill", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    with open("executions.txt", "a") as log:
        log.write(ctx["dataset_name"] + "/" + ctx["partition"]["part"] + "\\n")
    if ctx["dataset_name"] == "dy" and os.path.exists("fill"):
        disk = os.statvfs("disk")
        left = disk.f_bavail * disk.f_frsize - int(open("fill").read())
        Path("disk/filler").write_bytes(bytes(max(left, 0)))
    noise = np.random.default_rng(1).random((len(stream), 600))
    return ak.with_field(stream, ak.from_regular(noise), "Muon_Px")
"""


@pytest.fixture
def disk(analysis: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a small disk beside the analysis, or make it larger; afterwards it is taken away."""
    folder = analysis / "disk"
    folder.mkdir()

    def sized(options: str, folder: Path = folder) -> Path:
        again = ",remount" if os.path.ismount(folder) else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{options}{again}", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            reason = f"no small disk can be mounted, full disks are not tested: {done.stderr}"
            if os.environ.get("CI") == "true" and os.geteuid() == 0:
                pytest.fail(reason)
            warnings.warn(reason, stacklevel=2)
            pytest.skip(reason)
        return folder

    yield sized
    for mounted in (folder / "build" / ".snakemake", folder):
        if os.path.ismount(mounted):
            subprocess.run(["umount", "--lazy", str(mounted)], check=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The build folder of a run with space enough."""
    from tests.integration.conftest import WORKFLOW

    folder = tmp_path_factory.mktemp("plain")
    (folder / "data").symlink_to(small_files)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    assert smk("workflow.yaml", "-j", "2", cwd=folder).returncode == 0
    return folder / "build"


def run(smk: Run, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return smk("workflow.yaml", "-j", "2", "-o", "disk/build", *arguments, cwd=folder)


def assert_said_once(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """The disk is full, which one, how much is free, what to do; and not a word more of it."""
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("is full") == 1, done.stderr
    assert f"fasthep-smk: {folder}: the disk is full\n" in done.stderr
    assert re.search(r"found: [\d.]+ [kM]?B of [\d.]+ [kM]B are free now", done.stderr)
    assert "hint: make space there, then run the same command again" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "killed" not in done.stderr


def records(build: Path) -> dict[str, tuple[int, int]]:
    work = build / "smk" / "work"
    found = {str(path.parent.relative_to(work)): path.stat() for path in work.rglob("record.json")}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


@pytest.mark.parametrize(
    "size", some(["size=4k", "size=72k", "size=200k", "size=20m,nr_inodes=24"], 2)
)
def test_the_disk_is_full_while_the_translation_is_written(
    analysis: Path, smk: Run, disk: Callable[[str], Path], plain: Path, size: str
) -> None:
    build = disk(size) / "build"
    done = run(smk, analysis)
    assert_said_once(done, build)
    assert " to run" not in done.stderr
    if "inodes" in size:
        assert "all of its 24 inodes are used" in done.stderr
    disk("size=40m,nr_inodes=0")
    done = run(smk, analysis)
    assert done.returncode == 0, done.stderr
    assert compare_builds(plain, build) == []


@pytest.fixture
def filling(analysis: Path) -> Path:
    """The small analysis with a stage that fills the disk."""
    (analysis / "own_ops.py").write_text(OPS)
    workflow = yaml.safe_load((analysis / "workflow.yaml").read_text())
    workflow["registry"] = {
        "transforms": {"own.fill": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    workflow["analysis"]["stages"].insert(0, {"id": "Fill", "op": "own.fill"})
    workflow["analysis"]["stages"][3]["write"][0]["keep"] = ["met", "Muon_Px"]
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    return analysis


@pytest.mark.parametrize(("granularity", "left"), in_turn(["stage", "auto"], [0, 150_000]))
def test_the_disk_is_full_in_a_job(
    filling: Path, smk: Run, disk: Callable[[str], Path], granularity: str, left: int
) -> None:
    """In the middle of an event stream with a rule for each stage, else in that of a skim."""
    (filling / "fill").write_text(str(left))
    build = disk("size=20m") / "build"
    done = run(smk, filling, "--granularity", granularity)
    assert_said_once(done, build)
    assert ", dy/0_0: " in done.stderr
    assert "Snakemake" not in done.stderr
    before = records(build)
    assert not [name for name in before if name.endswith("dy/0_0") and "read" not in name]
    assert not list((build / "smk" / "stage").glob("*"))
    assert not list(build.rglob(".*.tmp-*"))
    for name in before:
        failed = build / "smk" / "work" / name / "record.json"
        assert json.loads(failed.read_text())["files"].keys() <= {
            path.name for path in failed.parent.iterdir()
        }

    (filling / "fill").unlink()
    disk("size=60m")
    executions = (filling / "executions.txt").read_text().split()
    done = run(smk, filling, "--granularity", granularity)
    assert done.returncode == 0, done.stderr
    after = records(build)
    assert {name: after[name] for name in before} == before
    again = (filling / "executions.txt").read_text().split()[len(executions) :]
    assert "dy/0_0" in again
    assert not [name for name in before if "Fill" in name and name.endswith(tuple(again))]


@pytest.mark.parametrize("size", some(["size=8k", "size=4k", "size=4m,nr_inodes=8"], 1))
def test_the_disk_is_full_while_snakemake_writes(
    analysis: Path, smk: Run, disk: Callable[..., Path], plain: Path, size: str
) -> None:
    """Its own folder is on a disk of its own here, so that nothing else gets full before."""
    build = disk("size=40m") / "build"
    assert smk("translate", "workflow.yaml", "-o", "disk/build", cwd=analysis).returncode == 0
    own = disk(f"{size},mode=755", build / ".snakemake")
    done = run(smk, analysis)
    assert_said_once(done, own)
    before = records(build)
    disk("size=4m,nr_inodes=0", own)
    done = run(smk, analysis)
    assert done.returncode == 0, done.stderr
    assert {name: records(build)[name] for name in before} == before
    assert compare_builds(plain, build) == []


def test_a_log_that_cannot_be_written_does_not_stop_a_run(
    analysis: Path, smk: Run, plain: Path
) -> None:
    log = analysis / "disk/build/debug/distributed/snakemake.log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")  # where there never is any space
    done = run(smk, analysis)
    assert done.returncode == 0, done.stderr
    assert compare_builds(plain, analysis / "disk/build") == []


def test_a_failed_job_says_so_on_a_full_disk(disk: Callable[[str], Path]) -> None:
    build = disk("size=64k") / "build"
    failure = failures.Failure(rule="r", key="k", record="x", problem="it was killed")
    failures.note(build, failure)
    with lock.hold(build):
        fill(build)
        failures.note(build, failures.Failure(rule="r", key="k", record="x", problem="a" * 2000))
        failures.note(build, failures.Failure(rule="r", key="k", record="x", problem="b" * 20))
    assert [found.problem for found in failures.read_all(build)] == ["b" * 20]
    assert json.loads((build / "smk" / "lock").read_text())["state"] == "ended"


def test_a_page_that_does_not_fit_names_the_disk(
    analysis: Path, smk: Run, disk: Callable[[str], Path], plain: Path
) -> None:
    build = disk("size=20m") / "build"
    shutil.copytree(plain, build)
    fill(build)
    assert_said_once(smk("report", "disk/build", cwd=analysis), build)


def fill(folder: Path) -> None:
    """Write until there is no space for a single byte more."""
    with (folder / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="28"):
        while True:
            filler.write(bytes(1024))
