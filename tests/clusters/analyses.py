"""Analyses for the test clusters, in a folder that their nodes see."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.clusters.conftest import Cluster
from tests.support import events

ROOT = Path(__file__).parents[2]
FASTHEP_SMK = Path(sys.executable).parent / "fasthep-smk"

# An op that does what a file beside the workflow says: take time, take memory, or fail.
MOODY_OPS = """\
import fcntl
import json
import os
import subprocess
import time
from pathlib import Path

SPEC = {"name": "own.moody", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    # The same job twice at once is never right: the lock ends with the process.
    global canary
    canary = Path(Path(dict(ctx["partition"])["file"]).name + ".canary").open("w")
    try:
        fcntl.flock(canary, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        Path("twice.txt").write_text(ctx["dataset_name"])
    # Where each try ran, for the test: one line per try, however it ended.
    with Path("tries.txt").open("a") as tries:
        tries.write(f"{os.environ['FASTHEP_SMK_POOL']} {ctx['dataset_name']}\\n")
    mood = json.loads(Path("mood.json").read_text())
    if mood.get("memory"):
        held = bytearray(mood["memory"])
        # Step by step: in one call, no other thread could look at the memory meanwhile.
        for start in range(0, len(held), 20_000_000):
            part = slice(start, start + 20_000_000, 4096)
            held[part] = b"1" * len(held[part])
            time.sleep(0.01)
        time.sleep(5)
    if mood.get("leaves"):
        with Path("left.txt").open("a") as left:
            left.write(f"{subprocess.Popen(['sleep', '1000']).pid}\\n")
    nap = mood.get("sleep", 0)
    time.sleep(nap.get(ctx["dataset_name"], 0) if isinstance(nap, dict) else nap)
    if mood.get("fail") in (True, dict(ctx["partition"])["file"]):
        raise RuntimeError("as the mood says")
    return stream
"""


def three_pools(folder: Path) -> Path:
    """FAST-HEP's example of three pools (index, inference, histogram), with events of its own."""
    for file in (ROOT / "workflow" / "pools").glob("*"):
        if file.suffix in (".yaml", ".py"):
            shutil.copy(file, folder)
    for seed, name in enumerate(("data_0", "data_1", "dy_0", "dy_1")):
        path = folder / "data" / f"{name}.root"
        events.analysis_file(path, 400 + 100 * seed, seed, is_data=name.startswith("data"))
    return given_away(folder) / "inline.yaml"


def demo(folder: Path) -> Path:
    """The Z -> mu mu demo: 208,000 events in five datasets."""
    shutil.copy(ROOT / "workflow" / "demo" / "workflow.yaml", folder)
    script = ROOT / "workflow" / "demo" / "make_events.py"
    subprocess.run([sys.executable, script, folder / "data"], check=True, capture_output=True)
    return given_away(folder) / "workflow.yaml"


def moody(folder: Path, *, execution: dict[str, Any], pools: dict[str, Any]) -> Path:
    """One stage with an op that does as ``mood.json`` says, then a histogram; three partitions."""
    (folder / "own_ops.py").write_text(MOODY_OPS)
    (folder / "mood.json").write_text("{}")
    for seed, name in enumerate(("data_0", "data_1", "dy_0")):
        events.zmumu_file(folder / "data" / f"{name}.root", 50, seed)
    axis = {"name": "met", "source": "MET_px", "type": "regular"}
    axis["bins"] = {"low": -50, "high": 50, "nbins": 20}  # type: ignore[assignment]
    workflow = {
        "version": 1.0,
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"own.moody": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [
                {"name": "data", "files": ["data/data_0.root", "data/data_1.root"]},
                {"name": "dy", "files": ["data/dy_0.root"]},
            ],
        },
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        "execution": {"pools": pools},
        "smk": {"ignore_reads": ["mood.json"]},  # another mood is no other result
        "analysis": {
            "stages": [
                {"id": "Moody", "op": "own.moody", "execution": execution},
                {"id": "Met", "op": "hep.hist", "params": {"axes": [axis]}},
            ]
        },
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow))
    return given_away(folder) / "workflow.yaml"


def set_mood(folder: Path, **mood: Any) -> None:
    """Say how the moody op behaves: ``sleep``, ``memory``, ``fail`` (at one file, or ever).

    ``sleep`` is a time, or one for each dataset. ``leaves`` makes it leave a child running.
    """
    temporary = folder / "mood.json.new"
    temporary.write_text(json.dumps(mood))
    temporary.rename(folder / "mood.json")


def records(build: Path) -> list[dict[str, Any]]:
    """The records of all finished jobs."""
    return [json.loads(path.read_text()) for path in sorted(build.glob("smk/work/**/record.json"))]


def site(folder: Path, pools: dict[str, Any], **settings: Any) -> Path:
    """A site profile in ``folder/site``."""
    profile = folder / "site"
    profile.mkdir(exist_ok=True)
    (profile / "config.yaml").write_text(yaml.safe_dump(settings))
    (profile / "pools.yaml").write_text(yaml.safe_dump(pools))
    given_away(folder)
    return profile


def start(
    cluster: Cluster, workflow: Path, *options: str, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start ``fasthep-smk`` as the cluster's user; the caller waits for it."""
    before = ["env", *(f"{name}={value}" for name, value in (variables or {}).items())]
    return subprocess.Popen(
        cluster.command(*before, FASTHEP_SMK, workflow.name, *options),
        cwd=workflow.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def given_away(folder: Path) -> Path:
    """Make the cluster's user the owner of all that is in a folder."""
    account = folder.stat()
    for path in folder.rglob("*"):
        os.chown(path, account.st_uid, account.st_gid, follow_symlinks=False)
    return folder
