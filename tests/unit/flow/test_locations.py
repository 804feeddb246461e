"""The line of a finding: in which of a workflow's files, and where its key stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.flow.locations import located
from fasthep_smk.util.errors import Finding

PART = """\
data:
  datasets: [{name: a, files: [a.root]}]
analysis:
  globals: {cut: 20.0, name: a}
  stages:
    - id: First
      op: hep.define
"""
WORKFLOW = """\
include: part.yaml
x-usual: &usual
  storage: weighted
analysis:
  globals:
    name: b
    2018: c
  stages:
    - op: hep.hist
      id: Second
      params:
        <<: *usual
        axes:
          - source: x
            name: met
      render:
        style: met
        when: end
styles:
  base:
    op: hep.render.hist1d
    figure: {dpi: 50}
  met:
    use: base
    with:
      axes:
        x: {name: met}
"""


@pytest.mark.parametrize(
    ("key", "at"),
    [
        ("data.datasets['a'].files[0]", "part.yaml, line 2"),
        ("analysis.globals.cut", "part.yaml, line 4"),
        # Where both have the key, the workflow's own value counts.
        ("analysis.globals.name", "w.yaml, line 6"),
        ("analysis.globals[2018]", "w.yaml, line 7"),
        ("analysis.stages['First'].op", "part.yaml, line 7"),
        ("analysis.stages['Second'].params.axes['met'].source", "w.yaml, line 14"),
        ("analysis.stages['Second'].params.axes[0].name", "w.yaml, line 15"),
        # What an anchor brings, and the nearest place above what is not there.
        ("analysis.stages['Second'].params.storage", "w.yaml, line 3"),
        ("analysis.stages['Second'].params.weight_expr", "w.yaml, line 11"),
        ("analysis.stages['Second'].params.axes[7].name", "w.yaml, line 13"),
        # One plot instead of a list, and what a style has from another one.
        ("analysis.stages['Second'].render[0].when", "w.yaml, line 18"),
        ("styles.met.figure.dpi", "w.yaml, line 22"),
        ("styles.met.axes.x.name", "w.yaml, line 27"),
        ("styles.met.legend", "w.yaml, line 23"),
        ("nowhere.at.all", None),
    ],
)
def test_a_key_has_a_file_and_a_line(
    key: str, at: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("part.yaml").write_text(PART)
    Path("w.yaml").write_text(WORKFLOW)
    (found,) = located(
        [Finding(file="w.yaml", key=key, problem="x")], Path("w.yaml"), shown="w.yaml"
    )
    assert (found.at or "").removeprefix(f"{tmp_path}/") == (at or "")
