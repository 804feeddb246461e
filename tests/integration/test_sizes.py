"""Sizes that are measured: kept in a file, and asked for by the next run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Run

pytestmark = pytest.mark.integration


def test_what_jobs_took_is_asked_for_by_the_next_run(analysis: Path, smk: Run) -> None:
    done = smk("workflow.yaml", cwd=analysis)
    assert done.returncode == 0, done.stderr
    printed = smk("sizes", cwd=analysis)
    assert printed.returncode == 0, printed.stderr
    (analysis / "sizes.yaml").write_text(printed.stdout)
    found = json.loads(smk("sizes", "--json", cwd=analysis).stdout)["sizes"]
    ask = {one["rule"]: one["memory"]["ask"] for one in found}
    most = {one["rule"]: one["memory"]["most"] for one in found}
    assert all(ask[rule] > most[rule] > 50e6 for rule in ask)

    # The amounts are new, and no result follows from them.
    done = smk("workflow.yaml", "--sizes", "sizes.yaml", cwd=analysis)
    assert "everything was up to date" in done.stdout, done.stderr
    # Of another build folder, all jobs run, and ask for what was measured in the first.
    done = smk("workflow.yaml", "--sizes", "sizes.yaml", "-o", "second", cwd=analysis)
    assert done.returncode == 0, done.stderr
    records = [
        json.loads(path.read_text()) for path in analysis.glob("second/smk/work/**/record.json")
    ]
    assert {one["rule"] for one in records} == set(ask)
    assert all(one["asked"]["memory"] == ask[one["rule"]] for one in records)
