"""A batch system that fasthep-smk does not know, Grid Engine, with the site of docs/own-site.md."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.analyses import (
    FASTHEP_SMK,
    ROOT,
    at_home,
    given_away,
    moody,
    records,
    set_mood,
    start,
)
from tests.clusters.conftest import Cluster
from tests.support.compare import compare_builds

pytestmark = [pytest.mark.integration, pytest.mark.cluster]
LONG = pytest.mark.long
PAGE = ROOT / "docs" / "own-site.md"
FILES = {"data": 1, "dy": 1}
NOTE = "executor 'cluster-generic' is not one that fasthep-smk knows"


def block(after: str) -> str:
    """The first block of the page after some words."""
    text = PAGE.read_text(encoding="utf-8").partition(after)[2]
    found = re.search(r"^```[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def site(folder: Path) -> Path:
    """The site of the page, in a hurry."""
    profile = folder / "site"
    profile.mkdir()
    settings = yaml.safe_load(block("\n`config.yaml`\n"))
    settings["seconds-between-status-checks"] = 1
    (profile / "config.yaml").write_text(yaml.safe_dump(settings))
    (profile / "pools.yaml").write_text(block("\n`pools.yaml`\n"))
    status = profile / "status.sh"
    status.write_text(block("`chmod +x status.sh`"))
    status.chmod(0o755)
    given_away(folder)
    return profile


def analysis(folder: Path) -> Path:
    """The moody analysis, its stage in the pool large."""
    pools = {"default": {}, "large": {}}
    workflow = moody(folder, execution={"prefer": "large"}, pools=pools, datasets=FILES)
    site(folder)
    return workflow


def queued(cluster: Cluster) -> dict[str, str]:
    """The jobs in the queue: their numbers, and the queues of those that run."""
    said = cluster.run("qstat").stdout.splitlines()[2:]
    rows = [line.split() for line in said]
    return {row[0]: row[7].partition("@")[0] if "@" in row[7] else "" for row in rows}


def accounting(cluster: Cluster) -> list[dict[str, str]]:
    """What Grid Engine has written down of each job that has ended."""
    said = cluster.run("qacct", "-j", "*").stdout
    return [
        dict(re.findall(r"^(\S+) +(.*\S)", one, re.MULTILINE))
        for one in re.split(r"^=+$", said, flags=re.MULTILINE)[1:]
    ]


def both_run(folder: Path) -> bool:
    """Whether the two jobs of the stage are at work."""
    tries = folder / "tries.txt"
    return tries.exists() and len(tries.read_text().splitlines()) == 2


def within(seconds: float, what: Any) -> Any:
    """What a function says, as soon as it says something."""
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def test_pools_are_queues_and_a_killed_job_is_tried_again(
    grid_engine: Cluster, tmp_path: Path
) -> None:
    """Limits, retries and reruns are those of any batch system; results are those of no one."""
    folder = grid_engine.new_folder()
    workflow = analysis(folder)
    set_mood(folder, sleep={"dy": 300})
    given_away(folder)
    before = {one["jobnumber"] for one in accounting(grid_engine)}
    run = start(grid_engine, workflow, "--profile", "site")
    tries = folder / "tries.txt"
    assert within(90, lambda: tries.exists() and "dy" in tries.read_text())
    set_mood(folder)
    given_away(folder)
    victims = within(60, lambda: len(found := queued(grid_engine)) == 1 and found)
    assert [*victims.values()] == ["large.q"]
    (victim,) = victims
    assert grid_engine.run("qdel", victim).returncode == 0
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert said.count(NOTE) == 1

    mine = [one for one in accounting(grid_engine) if one["jobnumber"] not in before]
    asked = {(one["qname"], one["category"].partition("memory_mb=")[2]) for one in mine}
    assert {name for name, _ in asked} == {"standard.q", "large.q"}
    assert {memory for name, memory in asked if name == "large.q"} == {"8000 -pe smp 1"}
    assert sorted(tries.read_text().splitlines()) == ["large data"] + ["large dy"] * 2
    made = {one["rule"]: one for one in records(folder / "build")}
    assert {one["system"] for one in made.values()} >= {"cluster-generic"}
    assert {one["attempt"] for one in records(folder / "build")} == {1, 2}

    again = grid_engine.run(FASTHEP_SMK, workflow.name, "--profile", "site", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "everything was up to date" in again.stdout + again.stderr
    here = tmp_path / "here"
    here.mkdir()
    moody(here, execution={}, pools={}, datasets=FILES)
    assert not compare_builds(at_home(here, "workflow.yaml", "build"), folder / "build")


@LONG
def test_what_a_killed_run_has_left_is_named(grid_engine: Cluster) -> None:
    """No run begins beside jobs of which nobody knows whether they go on."""
    folder = grid_engine.new_folder()
    workflow = analysis(folder)
    set_mood(folder, sleep=300)
    given_away(folder)
    run = start(grid_engine, workflow, "--profile", "site")
    assert within(120, lambda: both_run(folder))
    ids = [*queued(grid_engine)]
    lock = json.loads((folder / "build" / "smk" / "lock").read_text())
    subprocess.run(["kill", "-9", str(lock["snakemake"]), str(lock["pid"])], check=True)
    run.wait(timeout=30)

    status = grid_engine.run(FASTHEP_SMK, "status", "build", cwd=folder)
    assert "cannot tell what is in its queue" in status.stdout
    retry = grid_engine.run(FASTHEP_SMK, "retry", ids[0], "build", cwd=folder)
    assert retry.returncode != 0
    assert "cannot tell what is in its queue" in retry.stderr
    again = grid_engine.run(FASTHEP_SMK, workflow.name, "--profile", "site", cwd=folder)
    assert again.returncode != 0
    assert f"Cancel them there: {', '.join(ids)}" in again.stderr
    assert "add --cancel" in again.stderr

    assert grid_engine.run("qdel", *ids).returncode == 0
    assert within(30, lambda: not queued(grid_engine))
    set_mood(folder)
    given_away(folder)
    done = grid_engine.run(FASTHEP_SMK, workflow.name, "--profile", "site", "--cancel", cwd=folder)
    assert done.returncode == 0, done.stderr


@LONG
def test_a_run_that_is_cancelled_leaves_nothing_in_the_queue(grid_engine: Cluster) -> None:
    """By the command of the site; whether that worked is for the user to see.

    The plugin may have asked for their states once more before the run ends, and seen it.
    """
    folder = grid_engine.new_folder()
    workflow = analysis(folder)
    set_mood(folder, sleep=300)
    given_away(folder)
    run = start(grid_engine, workflow, "--profile", "site")
    assert within(120, lambda: both_run(folder))
    stopped = grid_engine.run(FASTHEP_SMK, "cancel", "build", cwd=folder)
    are_gone = "Cancel them there: " not in stopped.stderr
    assert stopped.returncode == (0 if are_gone else 1), stopped.stderr
    assert run.wait(timeout=30) == 130
    assert within(30, lambda: not queued(grid_engine))
    set_mood(folder)
    given_away(folder)
    again = grid_engine.run(FASTHEP_SMK, workflow.name, "--profile", "site", cwd=folder)
    assert (again.returncode == 0) == are_gone, again.stderr
    if not are_gone:
        assert "add --cancel" in again.stderr
        options = ("--profile", "site", "--cancel")
        done = grid_engine.run(FASTHEP_SMK, workflow.name, *options, cwd=folder)
        assert done.returncode == 0, done.stderr


@LONG
def test_the_doctor_sends_a_job_to_each_pool(grid_engine: Cluster) -> None:
    folder = grid_engine.new_folder()
    workflow = analysis(folder)
    done = grid_engine.run(
        FASTHEP_SMK,
        "doctor",
        workflow.name,
        "--profile",
        "site",
        "--json",
        cwd=folder,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {one["what"]: one for one in json.loads(done.stdout)}
    assert checks["pool 'large'"]["state"] == checks["pool 'default'"]["state"] == "ok"
    explained = grid_engine.run(
        FASTHEP_SMK, "explain", workflow.name, "--profile", "site", cwd=folder
    )
    assert explained.returncode == 0, explained.stderr
    assert "queue=large.q" in explained.stdout.replace(": ", "=")


@pytest.fixture
def package(grid_engine: Cluster) -> Iterator[dict[str, str]]:
    """The package of the page, installed: variables that let Python find it."""
    folder = grid_engine.new_folder()
    (folder / "my_grid_engine.py").write_text(block("This class is for Grid Engine:"))
    metadata = folder / "my_grid_engine-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-grid-engine\nVersion: 1\n")
    named = block("Register the class with an entry point").replace('"', "")
    named = named.replace("[project.entry-points.", "[")
    (metadata / "entry_points.txt").write_text(named)
    given_away(folder)
    yield {"PYTHONPATH": str(folder)}


@LONG
def test_a_package_says_more_of_a_batch_system(
    grid_engine: Cluster, package: dict[str, str]
) -> None:
    """Its jobs are seen in the queue, and are cancelled, as on a system that we know."""
    folder = grid_engine.new_folder()
    workflow = analysis(folder)
    set_mood(folder, sleep=300)
    given_away(folder)
    run = start(grid_engine, workflow, "--profile", "site", variables=package)
    assert within(120, lambda: both_run(folder))
    asked = ["env", *(f"{name}={value}" for name, value in package.items()), FASTHEP_SMK]
    status = grid_engine.run(*asked, "status", "build", cwd=folder)
    assert "2 jobs in the queue" in status.stdout, status.stdout
    assert "running" in status.stdout
    lock = json.loads((folder / "build" / "smk" / "lock").read_text())
    subprocess.run(["kill", "-9", str(lock["snakemake"]), str(lock["pid"])], check=True)
    run.wait(timeout=30)
    set_mood(folder)
    given_away(folder)
    done = grid_engine.run(*asked, workflow.name, "--profile", "site", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 jobs of an earlier run cancelled" in done.stdout + done.stderr
    assert not queued(grid_engine)
