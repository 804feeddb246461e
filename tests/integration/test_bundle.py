"""``fasthep-smk export bundle``: what is in it, what maps to what; REANA's own loader reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.integration.conftest import Run
from tests.support.forms import LONG

pytestmark = pytest.mark.integration

#: The release that reads workflows with Snakemake 9. It wants another jsonschema than we do.
REANA = "reana-commons[snakemake]==0.95.0a26"
LOAD = """
import json, sys
from reana_commons.snakemake import snakemake_load
print(json.dumps(snakemake_load("smk/Snakefile", workdir=sys.argv[1])))
"""


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
    assert "reana: gpus: refused: REANA has no resource for GPUs\n" in done.stdout
    found: dict[str, Any] = json.loads((analysis / "out/bundle.json").read_text())
    return found


def test_a_bundle_is_complete_and_says_what_maps_to_what(analysis: Path, smk: Run) -> None:
    found = export(analysis, smk)
    out = analysis / "out"
    jsonschema.validate(found, json.loads((out / "bundle.schema.json").read_text()))
    for one in found["plans"]:
        assert yaml.safe_load((out / one["path"]).read_text())["nodes"]
    assert [one["path"] for one in found["analysis"]] == ["workflow.yaml"]
    for one in found["analysis"]:
        content = (out / "analysis" / one["path"]).read_bytes()
        assert sha256(content).hexdigest() == one["sha256"]
    assert "fasthep-flow==" in (out / found["environment"]["requirements"]).read_text()
    states = {
        target: {one["feature"]: one["state"] for one in features}
        for target, features in found["mapping"].items()
    }
    assert states["reana"]["gpus"] == states["reana"]["local input"] == "refused"
    assert states["reana"]["memory"] == "approximated"
    assert states["snakemake"]["gpus"] == states["snakemake"]["memory"] == "supported"
    assert not (analysis / "build").exists()

    again = smk("export", "bundle", "workflow.yaml", "out", cwd=analysis)
    assert again.returncode == 1
    assert "OUT: something is here already: nothing was written" in again.stderr


@LONG
def test_the_loader_of_reana_takes_the_snakefile(
    analysis: Path, smk: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    export(analysis, smk)
    folder = tmp_path_factory.mktemp("reana")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin/python")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--python", python, "install", "--pre", REANA], check=True)
    build = analysis / "out/build"
    done = subprocess.run(
        [python, "-c", LOAD, str(build)], cwd=build, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    steps = json.loads(done.stdout.splitlines()[-1])["steps"]
    assert steps[-1]["name"] == "finish"
    assert all(one["commands"][0].startswith("sh smk/worker ") for one in steps)
