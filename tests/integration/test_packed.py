"""One machine with a limit of memory: as many jobs at a time as fit into it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import events

pytestmark = [pytest.mark.integration, pytest.mark.long]

MB = 10**6
LIMIT, FILES, CORES = 1800 * MB, 12, 6
#: Each job holds 400 MB for a while, besides what Python and its packages take.
OPS = """\
import time

SPEC = {"name": "own.hold", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, **_):
    held = bytearray(400_000_000)
    held[::4096] = b"1" * len(held[::4096])
    time.sleep(2)
    return stream
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with a limit of memory, which ends what takes more."""
    top = Path("/sys/fs/cgroup")
    memory = top / "memory"
    folder, name = memory, "memory.limit_in_bytes"
    if not memory.is_dir():
        folder, name = top, "memory.max"
    own = folder / f"fasthep-smk-{os.getpid()}"
    try:
        own.mkdir()
        (own / name).write_text(str(LIMIT))
    except OSError as error:
        with contextlib.suppress(OSError):
            own.rmdir()
        pytest.skip(f"no control group of memory can be made here: {error}")
    try:
        yield own
    finally:
        with contextlib.suppress(OSError):
            own.rmdir()


def analysis(folder: Path, execution: dict[str, object] | None = None) -> None:
    (folder / "own_ops.py").write_text(OPS)
    files = [f"data/{number}.root" for number in range(FILES)]
    for number, path in enumerate(files):
        if not (folder / path).exists():
            (folder / path).parent.mkdir(exist_ok=True)
            events.zmumu_file(folder / path, 40, number)
    axis = {"name": "met", "source": "MET_px", "type": "regular"}
    bins = {"low": -50, "high": 50, "nbins": 20}
    hist = {"id": "Met", "op": "hep.hist", "params": {"axes": [{**axis, "bins": bins}]}}
    workflow = {
        "version": 1.0,
        "use": {"profiles": ["hep"]},
        "registry": {"transforms": {"own.hold": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": "dy", "files": files}],
        },
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        **({"execution": execution} if execution else {}),
        "analysis": {"stages": [{"id": "Hold", "op": "own.hold"}, hist]},
    }
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow))


def limited(group: Path, folder: Path, outdir: str) -> subprocess.CompletedProcess[str]:
    """Run the analysis in the group, with more cores than jobs fit into its memory."""
    words = f"-m fasthep_smk workflow.yaml -o {outdir} -j {CORES} --bundle 1"
    script = f'echo $$ > {group}/cgroup.procs && exec "{sys.executable}" {words}'
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False, timeout=400
    )


def test_jobs_are_packed_into_the_memory_that_there_is(group: Path, tmp_path: Path) -> None:
    analysis(tmp_path)
    alone = limited(group, tmp_path, "one_per_core")
    assert alone.returncode != 0, "one job per core would fit"

    pool = {"resources": {"memory": "1400MB"}, "config": {"sizes": "auto"}}
    analysis(tmp_path, {"pools": {"default": pool}})
    packed = limited(group, tmp_path, "packed")
    assert packed.returncode == 0, packed.stderr
    records = [
        json.loads(path.read_text()) for path in (tmp_path / "packed/smk/work").rglob("record.json")
    ]
    jobs = [one for one in records if one["rule"].startswith("stage")]
    assert len(jobs) == FILES
    assert not any(one["earlier"] for one in jobs)  # none was killed
    at_once = [
        sum(other["started"] <= one["started"] < other["ended"] for other in jobs) for one in jobs
    ]
    assert 2 <= max(at_once) <= LIMIT // (500 * MB)
