"""Workflows that are right and unusual: none is refused, and each has the results of FAST-HEP.

They stand in ``tests/unusual``. The long form runs each with ``fasthep run`` and with us, at each
granularity, and compares everything, bit by bit where that means anything; `ignore` are files that
FAST-HEP gets wrong (docs/differences.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import unusual, warm
from tests.support.compare import compare_builds
from tests.support.forms import LONG
from tests.support.partitions import drop_empty_partitions

pytestmark = pytest.mark.integration

CASES = [
    pytest.param(case, id=f"{case['file']}-{case['name'].replace(' ', '_')}")
    for case in unusual.load()
]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unusual.make_data(tmp_path_factory.mktemp("unusual"))


@pytest.mark.parametrize("case", CASES)
def test_it_is_not_refused(case: dict[str, Any], data: Path, tmp_path: Path) -> None:
    workflow = unusual.write(case, tmp_path, data)
    env = unusual.environment(tmp_path)
    options = case.get("options", ())
    done = warm.run("check", workflow.name, *options, cwd=tmp_path, env=env)
    said = done.stdout + done.stderr
    assert (done.returncode, "ready to run" in said) == (0, True), said
    warnings = [line for line in said.splitlines() if "warning" in line.lower()]
    expected = case.get("warns", [])
    assert len(warnings) == len(expected), said
    for line, text in zip(warnings, expected, strict=True):
        assert line.startswith(f"fasthep-smk: warning: {text}"), said


@LONG
@pytest.mark.parametrize("granularity", ["auto", "stage"])
@pytest.mark.parametrize("case", CASES)
def test_the_results_are_those_of_fasthep_run(
    case: dict[str, Any], granularity: str, data: Path, tmp_path: Path
) -> None:
    workflow = unusual.write(case, tmp_path, data)
    env = unusual.environment(tmp_path)
    reference, ours = tmp_path / "reference", tmp_path / "ours"
    sized = ["--chunk-size", str(case["chunk"])] if "chunk" in case else []
    command = ["run", workflow.name, "--outdir", reference, *sized]
    fasthep_run(*command, folder=tmp_path, env=env)
    variations = case.get("variations", ())
    for variation in variations:
        if variation != "nominal":  # which has just been run
            plan = reference / "compile" / variation / "plan.yaml"
            fasthep_run("run-plan", plan, "--outdir", reference, folder=tmp_path, env=env)
    how = ["-j2", "--granularity", granularity, *sized, *case.get("options", ())]
    done = warm.run(workflow.name, "--outdir", ours, *how, cwd=tmp_path, env=env)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    drop_empty_partitions(reference, ours, root=tmp_path)
    ignore = [*case.get("ignore", ()), "reports/warnings.md"]  # which FAST-HEP has no words for
    if variations:  # FAST-HEP has one for all of them
        ignore.append("artifacts/provenance/*")
    differences = compare_builds(reference, ours, ignore=ignore)
    assert not differences, "\n".join(differences)


def fasthep_run(*words: str | Path, folder: Path, env: dict[str, str]) -> None:
    done = warm.run(*words, cwd=folder, env=env, program=warm.FASTHEP)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
