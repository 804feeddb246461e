"""A first look at some partitions, which all results say, and from which the full run goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Run
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration

CUT = ("--chunk-size", "20")


def partitions(build: Path) -> dict[str, Any]:
    """Return the records of partitions by their jobs."""
    found = [json.loads(path.read_text()) for path in build.glob("smk/work/**/record.json")]
    return {f"{one['rule']}/{one['key']}": one for one in found if one["rule"].startswith("stage")}


def speaking_of_it(build: Path) -> set[str]:
    """The files for people and programs that speak of a sample."""
    found = [*build.glob("artifacts/**/*.json"), *build.glob("reports/**/*.*")]
    found += [*build.glob("run_summary.yaml"), build / "report.html"]
    words = ('"sample": {', "sample:", "of a sample", "A sample: ", "# Sample")
    texts = {str(path.relative_to(build)): path.read_text() for path in found}
    return {name for name, text in texts.items() if any(word in text for word in words)}


@pytest.fixture
def varied(analysis: Path) -> Path:
    """The small analysis with a systematic variation."""
    document = yaml.safe_load((analysis / "workflow.yaml").read_text())
    variables = document["analysis"]["stages"][0]["params"]["variables"]
    variables.append({"name": "met_up", "expr": "1.1 * sqrt(MET_px ** 2 + MET_py ** 2)"})
    document["systematics"] = {
        "include_nominal": True,
        "variations": [{"name": "up", "mode": "plan", "replace": {"met": "met_up"}}],
    }
    (analysis / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return analysis


def test_a_full_run_goes_on_from_a_sample(varied: Path, smk: Run) -> None:
    sample = smk("workflow.yaml", *CUT, "--sample", "30%", cwd=varied)
    assert sample.returncode == 0, sample.stderr
    assert "THE RESULTS COVER PART OF THE DATA" in sample.stderr
    assert "forecast of a full run after this one: " in sample.stdout
    build = varied / "build"
    first = partitions(build)
    # Two of five partitions of the data and two of four of the simulation, in both variations.
    assert {key.rpartition("/")[0].split("/")[-1] for key in first} == {"data", "dy"}
    assert len({tuple(key.split("/")[-2:]) for key in first}) == 4
    manifests = {str(path.relative_to(build)) for path in build.glob("artifacts/**/manifest.json")}
    assert manifests | {"report.html"} <= speaking_of_it(build)
    assert json.loads(smk("status", "--json", cwd=varied).stdout)["sample"] is True
    ahead = json.loads(smk("forecast", "workflow.yaml", *CUT, "--json", cwd=varied).stdout)
    again = smk("workflow.yaml", *CUT, "--sample", "30%", "--json", cwd=varied)
    assert "everything was up to date" in again.stderr
    assert json.loads(again.stdout)["outcome"] == "sample"
    dry = smk("workflow.yaml", *CUT, "--sample", "30%", "-n", cwd=varied).stdout
    assert re.match(r"Sample: 4 of 9 partitions \(.*\)\nNothing to do: all (\d+) jobs", dry), dry

    full = smk("workflow.yaml", *CUT, "--json", cwd=varied)
    assert full.returncode == 0, full.stderr
    assert json.loads(full.stdout)["outcome"] == "finished"
    assert "PART OF THE DATA" not in full.stderr
    after = partitions(build)
    assert len(after) > len(first)
    to_do = sum(one["to_do"] for one in ahead["rules"] if one["rule"].startswith("stage"))
    assert to_do == len(after) - len(first)
    assert ahead["unknown"] == []
    assert {key: after[key] for key in first} == first  # none of it ran again
    assert speaking_of_it(build) == set()

    alone = smk("workflow.yaml", *CUT, "-o", "alone", cwd=varied)
    assert alone.returncode == 0, alone.stderr
    assert compare_builds(varied / "alone", build) == []
    plots = [path.relative_to(build) for path in build.glob("artifacts/**/*.png")]
    assert plots
    for plot in plots:
        assert (build / plot).read_bytes() == (varied / "alone" / plot).read_bytes()
