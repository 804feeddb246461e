"""Analyses for the test clusters, in a folder that their nodes see."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from fasthep_smk.contrib.report import document
from fasthep_smk.contrib.report.facts import gather
from fasthep_smk.storage import layout
from tests.clusters.conftest import Cluster
from tests.support import events, warm
from tests.support.browser import show
from tests.support.recomputed import differences

ROOT = Path(__file__).parents[2]
FASTHEP_SMK = Path(sys.executable).parent / "fasthep-smk"

# An op that does what a file beside the workflow says: take time, take memory, or fail.
MOODY_OPS = """\
import ctypes
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
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
    # Before the test sees this try, and says how the next one behaves.
    mood = json.loads(Path("mood.json").read_text())
    # Where each try ran, for the test: one line per try, however it ended.
    with Path("tries.txt").open("a") as tries:
        tries.write(f"{os.environ['FASTHEP_SMK_POOL']} {ctx['dataset_name']}\\n")
    if mood.get("above"):
        with Path("above.txt").open("a") as above:
            above.write("".join(f"{line}\\n" for line in ancestors(os.getppid())))
    end = mood.get("ends", {}).get(ctx["dataset_name"])
    if end in ENDS:
        ENDS[end]()
    mood["sleep"] = 600 if end == "time" else mood.get("sleep", 0)
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
            child = subprocess.Popen(["sleep", "1000"]).pid
            left.write(f"{child} {stat(child)[19]}\\n")  # with when it has started
    nap = mood.get("sleep", 0)
    nap = nap.get(ctx["dataset_name"], 0) if isinstance(nap, dict) else nap
    end = time.monotonic() + nap
    while time.monotonic() < end and not json.loads(Path("mood.json").read_text()).get("awake"):
        time.sleep(0.1)
    if mood.get("fail") in (True, dict(ctx["partition"])["file"]):
        raise RuntimeError("as the mood says")
    return stream


ENDS = {
    "fault": lambda: ctypes.string_at(0),
    "sys_exit": lambda: sys.exit(0),
    "os_exit": lambda: os._exit(0),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "memory": lambda: fills(b"1" * 1_500_000_000),
}


def fills(memory):
    # One call that takes seconds: meanwhile no thread of ours looks at the memory, but Slurm does.
    re.match("(a+)+$", "a" * 28 + "b")


def ancestors(pid):
    # The command lines of this process and those above it.
    while pid:
        yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\\0", b" ").decode()
        pid = int(stat(pid)[1])


def stat(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
"""


def three_pools(folder: Path, *, each: int = 2) -> Path:
    """FAST-HEP's example of three pools (index, inference, histogram), with events of its own.

    Each of its two datasets has two files, or one.
    """
    for file in (ROOT / "workflow" / "pools").glob("*"):
        if file.suffix in (".yaml", ".py"):
            shutil.copy(file, folder)
    if each == 1:
        analysis = folder / "analysis.yaml"
        analysis.write_text(re.sub(r", data/\w+_1\.root", "", analysis.read_text()))
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


def moody(
    folder: Path,
    *,
    execution: dict[str, Any],
    pools: dict[str, Any],
    datasets: Mapping[str, int] = MappingProxyType({"data": 2, "dy": 1}),
) -> Path:
    """One stage with an op that does as ``mood.json`` says, then a histogram.

    A partition for each file of the ``datasets``, which have so many.
    """
    (folder / "own_ops.py").write_text(MOODY_OPS)
    (folder / "mood.json").write_text("{}")
    files = {name: [f"data/{name}_{n}.root" for n in range(of)] for name, of in datasets.items()}
    for seed, path in enumerate(path for paths in files.values() for path in paths):
        events.zmumu_file(folder / path, 50, seed)
    axis = {"name": "met", "source": "MET_px", "type": "regular"}
    axis["bins"] = {"low": -50, "high": 50, "nbins": 20}  # type: ignore[assignment]
    workflow = {
        "version": 1.0,
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"own.moody": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": name, "files": paths} for name, paths in files.items()],
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

    ``leaves`` makes it leave a child running, ``above`` notes the processes above it, ``ends`` says
    how it ends, by dataset: ``memory``, ``time`` or one of ``ENDS``.
    ``sleep`` is a time, or one for each dataset; ``awake`` ends the sleep of jobs under way.
    """
    temporary = folder / "mood.json.new"
    temporary.write_text(json.dumps(mood))
    temporary.rename(folder / "mood.json")


def at_home(folder: Path, workflow: str, outdir: str, *options: str) -> Path:
    """Run an analysis on this machine alone, for results to compare with; its build folder."""
    done = warm.run(workflow, "-o", outdir, *options, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / outdir


def has_a_right_page(build: Path, scratch: Path) -> None:
    """All numbers of the page follow from what the run has left, and a browser shows it."""
    assert differences(build, document.as_data(document.report_on(gather(build)))) == []
    shown = show(build / layout.REPORT, scratch)
    assert (shown.console, shown.requests) == ([], [])
    assert "<title>finished: " in shown.document
    for chart in ("timeline", "concurrency", "memory"):
        assert "<svg" in shown.document.partition(f'id="{chart}"')[2].partition("</figure>")[0]


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


#: The runs of a test.
_started: list[subprocess.Popen[str]] = []


def start(
    cluster: Cluster, workflow: Path, *options: str, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start ``fasthep-smk`` as the cluster's user; the caller waits for it."""
    before = ["env", *(f"{name}={value}" for name, value in (variables or {}).items())]
    process = subprocess.Popen(
        cluster.command(*before, FASTHEP_SMK, workflow.name, *options),
        cwd=workflow.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _started.append(process)
    return process


def end_runs() -> None:
    """End what a test has left running, with its jobs: they would be in the way of the next."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def given_away(folder: Path) -> Path:
    """Make the cluster's user the owner of all that is in a folder."""
    account = folder.stat()
    for path in folder.rglob("*"):
        os.chown(path, account.st_uid, account.st_gid, follow_symlinks=False)
    return folder
