"""``fasthep-smk export bundle``: what is in it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run

pytestmark = pytest.mark.integration


def export(analysis: Path, smk: Run) -> dict[str, Any]:
    """Export the small analysis, with a pool of GPUs, to ``out``; return its manifest."""
    document = yaml.safe_load((analysis / "workflow.yaml").read_text())
    document["execution"] = {"pools": {"gpu": {"resources": {"gpus": 1, "memory": "1GB"}}}}
    document["analysis"]["stages"][0]["execution"] = {"require": "gpu"}
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    (analysis / "site").mkdir()
    (analysis / "site/config.yaml").write_text("executor: slurm\n")
    done = smk("export", "bundle", "workflow.yaml", "out", "--profile", "site", cwd=analysis)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((analysis / "out/bundle.json").read_text())
    return found


def test_a_bundle_is_complete(analysis: Path, smk: Run) -> None:
    found = export(analysis, smk)
    out = analysis / "out"
    for one in found["plans"]:
        assert yaml.safe_load((out / one["path"]).read_text())["nodes"]
    assert [one["path"] for one in found["analysis"]] == ["workflow.yaml"]
    for one in found["analysis"]:
        content = (out / "analysis" / one["path"]).read_bytes()
        assert sha256(content).hexdigest() == one["sha256"]
    assert "fasthep-flow==" in (out / found["environment"]["requirements"]).read_text()
    assert not (analysis / "build").exists()

    again = smk("export", "bundle", "workflow.yaml", "out", cwd=analysis)
    assert again.returncode == 1
    assert "OUT: this folder is not empty: nothing was written" in again.stderr
