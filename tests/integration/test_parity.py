"""The same results as ``fasthep run``, for workflows that together touch the whole language.

Each case of ``tests/support/cases.py`` is run by FAST-HEP itself and by us, at each granularity,
with one job and with several at a time; everything below ``artifacts`` and ``reports`` is compared,
bit by bit where that means anything. The short form runs a case once: granularities, and whole
files and chunks of them, come in turn. Where FAST-HEP is wrong (see docs/differences.md), the files
that the error reaches are compared with values computed by plain uproot, awkward and hist instead
(``test_right_where_fasthep_is_wrong.py``).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import cases, warm
from tests.support.compare import compare_builds
from tests.support.forms import LONG
from tests.support.partitions import drop_empty_partitions

pytestmark = pytest.mark.integration

#: Of the workshop's examples, those that touch nothing that no case before them does.
REPEATED = ("l1trigger", "mssi", "runtime_smoke", "split_packages")
#: Each granularity, and how many jobs at a time.
GRANULARITIES = (("auto", "1"), ("stage", "4"))


def short(case: cases.Case, chunk: int | None, granularity: str) -> bool:
    """Tell whether the short form has this run of a case."""
    first = min(case.chunk_sizes, key=lambda size: (size is None) == len(case.name) % 2)
    # With a rule for each stage, many partitions or variations take long.
    others = [one for one in SHORT if one.name not in SLOW]
    mine = "stage" if case in others and others.index(case) % 2 == 0 else "auto"
    return case in SHORT and (chunk, granularity) == (first, mine)


SHORT = [case for case in cases.CASES if case.name.removeprefix("workshop_") not in REPEATED]
SLOW = ("data_mc", "plan_systematics", "plugins", "pools")
RUNS = [
    pytest.param(
        *(case, chunk, granularity, jobs),
        id=f"{case.name}-{chunk or 'whole'}-{granularity}",
        marks=[] if short(case, chunk, granularity) else [LONG],
    )
    for case in cases.CASES
    for chunk in case.chunk_sizes
    for granularity, jobs in GRANULARITIES
]


def keep_shared_files(build: Path, variation: str) -> set[str]:
    """Put aside what the next variation would overwrite; return the artifacts it records."""
    for path in (build / "artifacts/files").glob("*/manifest.json"):
        goal = build / "artifacts" / variation / "files" / path.parent.name / path.name
        path.rename(goal)
    return recorded_artifacts(build)


def recorded_artifacts(build: Path) -> set[str]:
    manifest = json.loads((build / "artifacts/provenance/manifest.json").read_text())
    return {record["artifact"] for record in manifest["records"]}


@pytest.mark.parametrize(("case", "chunk", "granularity", "jobs"), RUNS)
def test_the_results_are_those_of_fasthep_run(
    case: cases.Case, chunk: int | None, granularity: str, jobs: str, tmp_path: Path
) -> None:
    workflow = case.prepare(tmp_path)
    env = case.env(tmp_path)
    sized = ["--chunk-size", str(chunk)] if chunk else []
    reference = tmp_path / "reference"
    warm.fasthep("run", workflow.name, "--outdir", reference, *sized, cwd=tmp_path, env=env)
    artifacts: set[str] = set()
    for variation in case.variations:
        if variation != "nominal":  # which has just been run
            plan = reference / "compile" / variation / "plan.yaml"
            warm.fasthep("run-plan", plan, "--outdir", reference, cwd=tmp_path, env=env)
        artifacts |= keep_shared_files(reference, variation)

    ours = tmp_path / granularity
    how = ["-j", jobs, "--granularity", granularity, *sized, *case.options]
    done = warm.run(workflow.name, "--outdir", ours, *how, cwd=tmp_path, env=env)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    drop_empty_partitions(reference, ours, root=tmp_path)
    ignore = list(case.ignore_at(chunk))
    if case.variations:
        ignore.append("artifacts/provenance/*")
        recorded = {a for a in artifacts if (reference / a).exists()}
        assert recorded_artifacts(ours) == recorded
    differences = compare_builds(reference, ours, ignore=ignore)
    assert not differences, "\n".join(differences)


def test_the_cases_cover_the_whole_language() -> None:
    by_key, missing = cases.coverage()
    width = max(map(len, by_key))
    print()
    for key, names in by_key.items():
        print(f"{key:{width}}  {', '.join(names) or cases.NOT_COVERED.get(key)}")
    assert not missing, f"no case covers {missing}"
    _, missing = cases.coverage(tuple(SHORT))
    assert not missing, f"no case of the short form covers {missing}"
