"""What the rules of the generated Snakefile say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.translate.snakefile import render
from fasthep_smk.translate.task_tables import reads_files
from tests.unit.plan.test_jobs import SIM, partition, rules_of
from tests.unit.plans import define, graph, histogram, node

PLAN = graph(
    node("source", "events", tree="events", branches=["px"]),
    define("A", "read.events", "px + 1"),
    histogram("H", "stage.A", "A_x"),
    datasets={"sim": SIM},
)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("here.root", ["read_events"]),
        ("gone.root", []),
        ("{here}.root", []),  # Snakemake would take its braces for wildcards
        ("root://server//here.root", []),
    ],
)
def test_a_rule_whose_jobs_read_local_files_waits_for_them(
    tmp_path: Path, file: str, expected: list[str]
) -> None:
    for name in ("here.root", "{here}.root"):
        (tmp_path / name).touch()
    events = replace(partition("sim"), file=file)
    rules = rules_of(Variation(None, PLAN, (events,)), granularity="stage").values()
    outside = [rule.name for rule in rules if reads_files(rule, tmp_path)]
    text = render(rules, workflow="w", outside=outside)
    assert re.findall(r'input_files\("(\w+)"\)', text) == expected
    first = text[text.index("rule read_events:") : text.index("rule stage_A:")]
    assert ("    input:\n" in first) == bool(expected)


def test_what_htcondor_reads_stands_in_every_snakefile_and_is_explained() -> None:
    """A folder that was translated for one site runs on another with nothing but its profile."""

    def text(**request: int) -> str:
        route = Route((Attempt("large", ResourceRequest(**request)),))
        return render([Rule("finish", "finish", (), route, ())], workflow="w", outside=[])

    assert "HTCondor" not in text()
    asked = re.findall(r"^        (\w+)=(\d+),$", text(memory=2**30, gpus=1), re.M)
    assert asked == [
        ("mem_mb", "1074"),
        ("htcondor_request_mem_mb", "1024"),
        ("gpu", "1"),
        ("request_gpus", "1"),
    ]
    assert "# and gpu, but htcondor_request_mem_mb," in text(memory=2**30)
