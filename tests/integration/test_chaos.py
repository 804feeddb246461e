"""Runs that are killed at random moments, again and again: the same call always goes on.

``FASTHEP_SMK_CHAOS_ROUNDS`` says how many rounds there are, ``FASTHEP_SMK_CHAOS_SEED`` with which
number they begin. A round is repeated alone, as far as chance allows, with its number and 1 round.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from fasthep_smk.storage import products
from tests.integration.conftest import WORKFLOW, Run
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration

ROUNDS = int(os.environ.get("FASTHEP_SMK_CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("FASTHEP_SMK_CHAOS_SEED", "1"))
CALL = ("workflow.yaml", "-j", "2", "--chunk-size", "30")  # 7 partitions of 3 datasets
KILLS = 3

OPS = """\
import os, random, time
SPEC = {"name": "own.slow", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    line = f"{ctx['dataset_name']}/{ctx['partition']['part']} {os.getpid()}\\n"
    log = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, line.encode())
    os.close(log)
    time.sleep(random.uniform(0.1, 0.3))
    return stream
"""


def workflow(edited: bool) -> str:
    """The analysis; the edited one has other weights for one of the three datasets."""
    content = yaml.safe_load(WORKFLOW)
    content["smk"] = {"ignore_reads": ["$CHAOS_LOG"]}  # each round has its own
    content["data"]["datasets"] = [
        {"name": "data", "eventtype": "data", "files": ["data/data_0.root"]},
        {"name": "more", "eventtype": "data", "files": ["data/data_1.root"]},
        {"name": "dy", "files": ["data/dy_0.root"]},
    ]
    content["registry"] = {
        "transforms": {"own.slow": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    stages = content["analysis"]["stages"]
    stages.insert(0, {"id": "Slow", "op": "own.slow"})
    if edited:
        scale = next(stage for stage in stages if stage["id"] == "Scale")
        scale["params"]["variables"][0]["expr"] = "EventWeight * 3"
    weighted = {
        "id": "Weighted",
        "op": "hep.hist",
        "applies_to": {"eventtype": "mc"},
        "params": {
            "storage": "weighted",
            "weight_expr": "weight",
            "axes": [
                {
                    "name": "met",
                    "source": "met",
                    "type": "regular",
                    "bins": {"low": 0, "high": 100, "nbins": 20},
                }
            ],
        },
    }
    stages.append(weighted)
    return yaml.safe_dump(content, sort_keys=False)


@dataclass
class Place:
    """A folder with the analysis, and what is running there."""

    folder: Path
    said: list[str] = field(default_factory=list)

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "CHAOS_LOG": str(self.folder / "executions.txt")}

    def executions(self) -> list[str]:
        """The jobs that were begun, ``dataset/part``, in their order."""
        log = self.folder / "executions.txt"
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    def processes(self) -> dict[int, str]:
        """What was started here and lives, by the environment that it has inherited."""
        mark = f"CHAOS_LOG={self.folder / 'executions.txt'}".encode()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (path / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
        return found

    def finished(self) -> dict[str, tuple[str, int, float]]:
        """The jobs that have a record: their signature, and what tells it from a later one.

        Snakemake sets the time of a file that a job has written anew.
        """
        found = {}
        work = self.build / "smk" / "work"
        for path in list(work.rglob("record.json")):
            record = products.read_record(path.parent)
            name = str(path.parent.relative_to(work))
            found[name] = (record["signature"], path.stat().st_ino, record["started"])
        return found

    def start(self) -> subprocess.Popen[bytes]:
        output = self.folder / f"call{len(self.said)}.txt"
        self.said.append(output.name)
        return subprocess.Popen(
            [sys.executable, "-m", "fasthep_smk", *CALL],
            cwd=self.folder,
            env=self.env,
            stdout=output.open("wb"),
            stderr=subprocess.STDOUT,
        )

    def output(self) -> str:
        return (self.folder / self.said[-1]).read_text() if self.said else ""

    def story(self) -> str:
        return "\n".join(f"--- {name}\n{(self.folder / name).read_text()}" for name in self.said)


def prepare(folder: Path, data: Path, *, edited: bool) -> Place:
    folder.mkdir(exist_ok=True)
    (folder / "data").symlink_to(data)
    (folder / "own_ops.py").write_text(OPS)
    (folder / "workflow.yaml").write_text(workflow(edited))
    return Place(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, small_files: Path) -> dict[bool, Path]:
    """The build folders of runs that nobody disturbed: of the analysis, and of the edited one."""
    found = {}
    for edited in (False, True):
        folder = tmp_path_factory.mktemp("undisturbed") / "run"
        place = prepare(folder, small_files, edited=edited)
        process = place.start()
        assert process.wait(300) == 0, place.story()
        assert len(place.executions()) == 7
        found[edited] = place.build
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "run")
    yield place
    for pid in place.processes():  # whatever a failed test left
        os.kill(pid, signal.SIGKILL)


class Killer:
    """Kills something of a run at a random moment."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.place = place
        self.chance = chance
        self.victim = chance.choice(["everything", "a worker", "snakemake", "the wrapper"])
        #: Most moments are such that jobs are under way.
        self.moment = chance.choices(["early", "planned", "begun"], [1, 2, 5])[0]
        self.jobs = chance.randint(1, 6)
        self.delay = chance.uniform(0, {"early": 3.0, "planned": 2.0, "begun": 0.8}[self.moment])

    def __str__(self) -> str:
        return f"{self.victim}, {self.moment}, {self.jobs} jobs, {self.delay:.2f} s"

    def strike(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the moment, and kill; tell whether there was something to kill."""
        before = len(self.place.executions())
        while not self._is_near(before):
            if process.poll() is not None:
                return False
            time.sleep(0.01)
        time.sleep(self.delay)
        victims = self._victims(process)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while self.victim == "everything" and (left := self.place.processes()):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        return bool(victims)

    def _is_near(self, before: int) -> bool:
        if self.moment == "early":
            return True
        if self.moment == "planned":
            return " to run: " in self.place.output()
        return len(self.place.executions()) >= before + self.jobs

    def _victims(self, process: subprocess.Popen[bytes]) -> list[int]:
        if self.victim == "the wrapper":
            return [process.pid]
        found = self.place.processes()
        if self.victim == "a worker":
            workers = [pid for pid, command in found.items() if "fasthep_smk.worker" in command]
            return [self.chance.choice(workers)] if workers else []
        if self.victim == "snakemake":
            return [pid for pid, command in found.items() if "\0-m\0snakemake\0" in command]
        everything = [*found]
        self.chance.shuffle(everything)
        return everything


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_a_run_that_is_killed_goes_on(
    seed: int,
    place: Place,
    undisturbed: dict[bool, Path],
    small_files: Path,
    smk: Run,
) -> None:
    chance = random.Random(seed)
    edited = chance.random() < 0.5
    prepare(place.folder, small_files, edited=edited)
    if edited:
        shutil.copytree(undisturbed[False], place.build)
    snapshots, story = [], [f"seed {seed}, {'edited' if edited else 'new'}"]
    for number in range(KILLS):
        if number and chance.random() < 0.6:
            break
        process = place.start()
        killer = Killer(place, chance)
        struck = killer.strike(process)
        finished, begun = place.finished(), len(place.executions())
        status = process.wait(120)
        snapshots.append((finished, begun))
        story.append(f"{killer}: {'struck' if struck else 'missed'}, status {status}")
    process = place.start()
    status = process.wait(120)
    about = "; ".join(story)
    assert status == 0, f"{about}\n{place.story()}"
    assert compare_builds(undisturbed[edited], place.build) == [], about

    after, executions = place.finished(), place.executions()
    for before, begun in snapshots:
        still = {name for name, what in before.items() if after.get(name, what)[0] == what[0]}
        again = [name for name in still if after.get(name) != before[name]]
        assert not again, f"{about}\n{place.story()}"
        partitions = {"/".join(name.split("/")[-2:]) for name in still}
        assert not partitions & set(executions[begun:]), about

    assert not place.processes(), about
    assert not list((place.build / "smk").glob("stage/*/*")), about
    assert not list(place.build.rglob(".*.tmp-*")), about
    if chance.random() < 0.3:  # which takes time
        nothing = smk(*CALL, "-n", cwd=place.folder)
        assert "Nothing to do" in nothing.stdout, f"{about}\n{nothing.stderr}"
