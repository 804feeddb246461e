"""What counts as done is on disk before it counts: the system calls of real jobs, in order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clusters.conftest import skip_loudly
from tests.integration.conftest import Run
from tests.support.programs import program

pytestmark = pytest.mark.integration

TRACED = "write,writev,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,openat,link"
CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)")


@dataclass
class Disk:
    """Which files would not survive a power loss as they are, by the calls that were made so far.

    ``written`` are files whose content, ``named`` those whose name is not on disk.
    """

    written: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    #: What was not on disk when a file got its name.
    before: dict[str, set[str]] = field(default_factory=dict)

    def call(self, name: str, arguments: str, folder: str) -> None:
        paths = [str(Path(folder, path)) for path in re.findall(r'"([^"]*)"', arguments)]
        opened = re.match(r"\d+<([^>]*)>", arguments)
        if name in ("write", "writev", "pwrite64", "ftruncate") and opened:
            self.written.add(opened[1])
        elif name in ("fsync", "fdatasync") and opened:
            self.written.discard(opened[1])
            self.named = {path for path in self.named if str(Path(path).parent) != opened[1]}
        elif name == "openat" and "O_CREAT" in arguments:
            self.written.add(paths[-1])
            self.named.add(paths[-1])
        elif name.startswith("rename"):
            source, goal = paths[-2:]
            self.before[goal] = self.written | self.named
            if source in self.written:
                self.written.add(goal)
            self.written.discard(source)
            self.named.discard(source)
            self.named.add(goal)


def trace(folder: Path, log: Path, *command: str | Path) -> Disk:
    """Run a command in a folder under strace; return what it has put on disk."""
    arguments = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-y",
        "-s",
        "4096",
        "-e",
        f"trace={TRACED}",
        "-o",
        log,
        *command,
    ]
    subprocess.run(arguments, cwd=folder, check=True)
    disk, begun = Disk(), dict[str, str]()
    for line in log.read_text(errors="replace").splitlines():
        if found := BEGUN.match(line):
            begun[found[1]] = found[3]
        elif found := RESUMED.match(line):
            if int(found[4]) >= 0:
                disk.call(found[2], begun.pop(found[1]) + found[3], str(folder))
        elif (found := CALL.match(line)) and int(found[4]) >= 0:
            disk.call(found[2], found[3], str(folder))
    return disk


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    """The program strace, where this machine lets it look at processes."""
    traced = subprocess.run([program("strace"), "true"], capture_output=True, text=True)
    if traced.returncode:
        reason = "strace cannot be used, what is on disk when was not looked at: "
        skip_loudly(reason + traced.stderr.splitlines()[-1])


def test_all_of_a_job_is_on_disk_before_its_record_is(
    analysis: Path, smk: Run, tmp_path: Path
) -> None:
    assert smk("translate", "workflow.yaml", "--granularity", "stage", cwd=analysis).returncode == 0
    build = (analysis / "build").resolve()
    tables = [json.loads(path.read_text()) for path in build.glob("smk/tasks/*.json")]
    left = [(table["rule"], key, job) for table in tables for key, job in table["jobs"].items()]
    seen: set[str] = set()
    while left:
        is_ready = [all((build / name).exists() for name in job["inputs"]) for _, _, job in left]
        rule, key, job = left.pop(is_ready.index(True))
        worker = (sys.executable, "-P", "-m", "fasthep_smk.worker", rule, *key.split("/"))
        if key and key != "dy/0_0":
            subprocess.run(worker, cwd=build, check=True)
            continue
        disk = trace(build, tmp_path / "trace", *filter(None, worker))
        record = build / job["record"]
        content = json.loads(record.read_text())
        must = [*(record.parent / name for name in content["files"])]
        must += [build / name for name in content["results"]]
        assert not {str(path) for path in must} & disk.before[str(record)], rule
        assert str(record) not in disk.written | disk.named
        seen |= {path.suffix for path in must}
    assert seen >= {".arrow", ".zip", ".root", ".pkl", ".png"}
