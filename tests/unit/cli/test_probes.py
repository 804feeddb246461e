"""The small jobs that the doctor sends to pools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fasthep_smk.cli import probes
from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.config.site import Site
from fasthep_smk.plan.rules import Rule
from fasthep_smk.storage import layout
from fasthep_smk.translate.profile import Placement


def test_a_probe_that_is_alone_on_its_node_writes_what_it_has_found(tmp_path: Path) -> None:
    """It is started as a job is: with the time of its submission first."""
    attempt = Attempt("gpu", ResourceRequest(), {})
    rule = Rule("probe_gpu", "partition", (), Route((attempt,)), ())
    probes._write([rule], Placement(Site("local"), attempts={"probe_gpu": (attempt,)}), tmp_path)
    worker = tmp_path / layout.WORKER
    command = ["sh", str(worker), layout.ALONE, "1795533268.984", "probe_gpu.json"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "probe_gpu.json").read_text())["host"]


def test_what_another_pool_has_printed_is_not_its_own(tmp_path: Path) -> None:
    """A name may begin like another one."""
    for name in ("probe_gpu", "probe_gpu_large"):
        folder = tmp_path / layout.CAPTURED[0] / f"rule_{name}"
        folder.mkdir(parents=True)
        (folder / "17.log").write_text(f"said by {name}\n")
    assert list(probes._printed("probe_gpu", tmp_path)) == ["said by probe_gpu"]
    assert list(probes._printed("probe_gpu_large", tmp_path)) == ["said by probe_gpu_large"]
