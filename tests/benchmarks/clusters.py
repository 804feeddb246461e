"""Short jobs on a real Slurm and a real HTCondor on this machine, with pilots and without.

Both are started as the tests start them: as root, on Debian.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.clusters.analyses import site
from tests.clusters.conftest import Cluster, cluster, not_possible_here
from tests.support import events

from .measure import Failed, Measured
from .report import Figure, Result, Row
from .steps import Settings, Step, check_equal, fasthep, jobs_done, run, smk
from .workflows import SLEEP

__all__ = ["htcondor", "slurm"]

_SYSTEMS = {
    "slurm": ({"SLURM_CONF": "etc/slurm.conf"}, "Slurm"),
    "htcondor": ({"CONDOR_CONFIG": "condor_config"}, "HTCondor"),
}
_POOLS = {"default": None, "high_memory": None, "gpu": None}
_SITE: dict[str, dict[str, Any]] = {
    "default": {"config": {"walltime": "00:30:00", "slurm": {"partition": "standard"}}},
    "pool_profiles": {
        "default": {"resources": {"memory": "500MB"}},
        "high_memory": {
            "resources": {"memory": "1GB"},
            "config": {"slurm": {"partition": "highmem"}},
        },
        "gpu": {
            "resources": {"memory": "500MB", "gpus": 1},
            "config": {"slurm": {"partition": "gpu"}},
        },
    },
}
#: Jobs of one second, and how many at a time.
_MANY, _SLOTS = 500, 8
#: How many jobs at a time a pilot has that is shared.
_SHARED = 4
#: Partitions of four rules, and fewer of them: the slope between both is what one more job costs.
_WIDE, _NARROW, _RULES = 300, 60, 4


def slurm(settings: Settings) -> Result:
    """Return what short jobs take on a Slurm, by pilots and as a batch job each."""
    return _measured("slurm", settings)


def htcondor(settings: Settings) -> Result:
    """Return what short jobs take on an HTCondor, by pilots and as a batch job each."""
    return _measured("htcondor", settings)


def _measured(system: str, settings: Settings) -> Result:
    if reason := not_possible_here():
        raise Failed(f"no batch system can be started: {reason}")
    files, name = _SYSTEMS[system]
    with cluster(system, files) as found:
        rows, figures = _on(found, system, name, settings)
    return Result(
        system,
        f"Jobs on {name}, whose nodes all share the processors of this machine.",
        rows,
        figures,
    )


def _on(
    found: Cluster, system: str, name: str, settings: Settings
) -> tuple[list[Row], list[Figure]]:
    chain = _workflow(found, system, files=4, seconds=1.0)
    many = _workflow(found, system, files=_MANY, seconds=1.0, stages=1, workers=_SLOTS)
    narrow, wide = (_workflow(found, system, files=n, seconds=0.0) for n in (_NARROW, _WIDE))
    single = {"--bundle": "1"}
    partitions = f"{_WIDE} partitions, {_RULES} rules"
    fewer = f"{_NARROW} partitions"
    home = f"{name}, {partitions}, `--bundle 1`, on this machine, `-j 2`"
    each = f"{name}, 13 jobs of 1 s in a chain, a batch job each"
    piloted = f"{name}, the same, pilots"
    short = f"{name}, {_MANY} jobs of 1 s, files known, {_SLOTS} pilots"
    few = f"{name}, the same, {_SLOTS // _SHARED} pilots of {_SHARED} jobs at a time"
    over = f"{name}, {partitions}, `--bundle 1`, pilots"
    home_bundled = f"{name}, {partitions}, in bundles as by default, on this machine, `-j 2`"
    bundled = f"{name}, {partitions}, in bundles as by default, pilots"
    steps = [
        _step(found, each, chain, "plain", 13),
        _step(found, piloted, chain, "pilots", 13),
        _step(found, short, many, "pilots", files_known=True, **single),
        _step(found, few, many, "shared", files_known=True, **single),
        _at_home(home, wide, **single),
        _step(found, over, wide, "pilots", **single),
        _at_home(home_bundled, wide),
        _step(found, bundled, wide, "pilots"),
        _at_home(f"{home}, {fewer}", narrow, **single),
        _step(found, f"{over}, {fewer}", narrow, "pilots", **single),
    ]
    before = f"{each}, the other version, once"
    here, once = replace(settings, other=None), replace(settings, other=None, repeats=1)
    took = run(steps, here)
    if settings.other:
        took |= run([_step(found, before, chain, "plain", 13, python=settings.other)], once)
    alone = f"{name}, {_MANY} jobs of 1 s, files known, a batch job each, {_SLOTS} at a time, once"
    took |= run([_step(found, alone, many, "plain", files_known=True, **single)], once)
    rows = [
        Row(each, took[each]),
        Row(piloted, took[piloted], took[each]),
        Row(alone, took[alone]),
        Row(short, took[short]),
        Row(few, took[few]),
        Row(home, took[home]),
        Row(over, took[over], took[home], 1.3),
        Row(home_bundled, took[home_bundled]),
        Row(bundled, took[bundled], took[home_bundled], 1.3),
    ]
    if settings.other:
        rows.insert(0, Row(before, took[before]))
        rows.insert(1, Row(f"{piloted} (ratio to the row above)", took[piloted], took[before], 0.1))
    if system == "slurm":
        dask = f"{name}, {partitions}, `fasthep run` with Dask, four workers"
        took |= run([_dask(found, dask, wide)], here)
        rows += [
            Row(dask, took[dask]),
            Row(f"{over} (ratio to Dask)", took[over], took[dask], 0.8),
            Row(f"{bundled} (ratio to Dask)", took[bundled], took[dask], 0.8),
        ]
    wall = {step: statistics.median(one.wall for one in runs) for step, runs in took.items()}
    slope = {
        step: (wall[step] - wall[f"{step}, {fewer}"]) / ((_WIDE - _NARROW) * _RULES)
        for step in (home, over)
    }
    ideal = _MANY / _SLOTS
    return rows, [
        Figure(f"{short} (ratio to {ideal:.1f} s)", wall[short] / ideal, 1.15),
        Figure(f"{few} (ratio to {ideal:.1f} s)", wall[few] / ideal, 1.15),
        Figure(
            f"{name}: one more job of a pilot, {slope[over] * 1000:.0f} ms, to one that is forked "
            f"on one machine, {slope[home] * 1000:.0f} ms",
            slope[over] / slope[home],
            2.0,
        ),
    ]


def _workflow(
    found: Cluster, system: str, *, files: int, seconds: float, stages: int = 3, workers: int = 4
) -> Path:
    """Make a workflow in the user's folder: ``plain.yaml``, and ``pilots.yaml`` with pilots.

    In ``shared.yaml`` a pilot runs several jobs at a time; ``dask.yaml`` is the same with all
    stages in one pool: Dask gives a whole partition to a worker.
    """
    folder = found.new_folder()
    (folder / "own_ops.py").write_text(SLEEP.replace("SECONDS", str(seconds)))
    (folder / "data").mkdir()
    events.zmumu_file(folder / "data/0.root", 20, 0, is_data=False)
    for number in range(1, files):
        shutil.copy(folder / "data/0.root", folder / f"data/{number}.root")
    pools = list(_POOLS)
    axis = {"name": "met", "source": "MET_px", "type": "regular"}
    document = {
        "version": 1.0,
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"own.sleep": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": "mc", "files": [f"data/{n}.root" for n in range(files)]}],
        },
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "execution": {"pools": {name: {"workers": workers} for name in pools[:stages]}},
        "analysis": {
            "stages": [
                *(
                    {"id": f"Stage{n}", "op": "own.sleep", "execution": {"require": pools[n]}}
                    for n in range(stages)
                ),
                {
                    "id": "Met",
                    "op": "hep.hist",
                    "execution": {"require": pools[stages - 1]},
                    "params": {"axes": [axis | {"bins": {"low": 0, "high": 100, "nbins": 20}}]},
                },
            ]
        },
    }
    (folder / "plain.yaml").write_text(yaml.safe_dump(document))
    document["execution"]["config"] = {"pilot": True}  # type: ignore[index]
    (folder / "pilots.yaml").write_text(yaml.safe_dump(document))
    fewer = {name: {"workers": max(1, workers // _SHARED)} for name in pools[:stages]}
    shared = {"pools": fewer, "config": {"pilot": {"tasks": _SHARED}}}
    (folder / "shared.yaml").write_text(yaml.safe_dump({**document, "execution": shared}))
    for stage in document["analysis"]["stages"]:  # type: ignore[index]
        del stage["execution"]
    document["execution"] = {
        "backend": "dask",
        "strategy": "slurm",
        "resources": {"small": {"cpus": 1, "memory": "1GB"}},
        "pools": {
            "default": {
                "resources": "small",
                "workers": workers,
                "config": {"walltime": "00:30:00", "queue": "standard"},
            }
        },
    }
    (folder / "dask.yaml").write_text(yaml.safe_dump(document))
    site(folder, _SITE, executor=system)  # it gives everything to the user, too
    return folder


def _step(
    found: Cluster,
    name: str,
    folder: Path,
    kind: str,
    jobs: int | None = None,
    python: str = sys.executable,
    files_known: bool = False,
    **options: str,
) -> Step:
    build = folder / f"build_{kind}"
    more = [word for option in options.items() for word in option]
    ours = smk(str(folder / f"{kind}.yaml"), "-o", str(build), "--profile", str(folder / "site"))
    command = ["env", "-C", str(folder), *found.command(python, *ours[1:], *more)]

    def before() -> None:
        shutil.rmtree(build, ignore_errors=True)
        if files_known:
            words = [*ours[1:4], "translate", *ours[4:], *more]
            subprocess.run(
                found.command(python, *words), cwd=folder, check=True, capture_output=True
            )

    def check(measured: Measured) -> None:
        done = jobs_done(measured)
        if not done or (jobs and done != jobs):
            raise Failed(f"{name}: {done} jobs")
        if kind != "plain" and "pilots cannot be used" in measured.output:
            raise Failed(measured.output)

    return Step(name, command, before, check)


def _at_home(name: str, folder: Path, **options: str) -> Step:
    build = folder / "build_home"
    more = [word for option in options.items() for word in option]
    ours = smk("plain.yaml", "-o", str(build), "-j", "2", "--shrink-to-fit", *more)
    command = ["env", "-C", str(folder), *ours]
    return Step(name, command, lambda: shutil.rmtree(build, ignore_errors=True))


def _dask(found: Cluster, name: str, folder: Path) -> Step:
    """Return the same by FAST-HEP's own backend for Slurm; its results are those of the pilots."""
    build = folder / "build_dask"
    theirs = fasthep("run", "dask.yaml", "--outdir", str(build))
    own = f"PYTHONPATH={folder}"  # FAST-HEP looks for modules nowhere else
    command = ["env", "-C", str(folder), *found.command("env", own, *theirs)]
    return Step(
        name,
        command,
        lambda: shutil.rmtree(build, ignore_errors=True),
        lambda _: check_equal(build, folder / "build_pilots"),
    )
