"""Which value of a workflow a message of FAST-HEP's is about."""

from __future__ import annotations

import pytest
import yaml

from fasthep_smk.flow.places import quoted

DOCUMENT = yaml.safe_load(
    """
primary_stream: evnts
data: {datasets: [{name: data, files: [data.root], lumi: 0.5}]}
sources: {events: {kind: root_tree, tree: events, branches: [MET]}}
joins: {both: {kind: hep.join, by: luminosityBlock}}
analysis:
  stages:
    - id: Objects
      op: hep.define
      params: {variables: [{Good: "Muon.Pt > 20"}, {N: "sum(Good & (MET > 20))"}, {a b: pt}]}
    - id: MET
      op: hep.hist
      params:
        axes: [{name: met, source: MET, bins: {low: 0, high: 200, nbins: 100}}]
        weight_expr: >-
          w *
          sf
      write: [{op: hep.write, path: 'MET > 20'}]
"""
)
VARIABLES = "analysis.stages['Objects'].params.variables"
HISTOGRAM = "analysis.stages['MET']"


@pytest.mark.parametrize(
    ("stage", "message", "key"),
    [
        ("Objects", "'Muon.Pt > 20' is no selection", f"{VARIABLES}[0].Good"),
        ("Objects", "cannot parse Muon.Pt > 20: no", f"{VARIABLES}[0].Good"),
        # The longest of those that are quoted, in one word; not what only contains it.
        ("Objects", "name MET in sum(Good & (MET > 20))", f"{VARIABLES}[1].N"),
        ("Objects", "xMuon.Pt > 20 is none", None),
        ("Objects", "Muon.Pt > 200 is none", None),
        # A name of a key, and what is short, only in quotation marks.
        ("Objects", "Good is no column", None),
        ("Objects", "'Good' is no column", f"{VARIABLES}[0].Good"),
        ("Objects", "no branch pt", None),
        ("Objects", 'no branch "pt"', f"{VARIABLES}[2]['a b']"),
        # Nothing as a whole: the expression in which the quoted name stands.
        ("Objects", "KeyInFileError: not found: 'Muon' in file 'x.root'", f"{VARIABLES}[0].Good"),
        ("Objects", "don't know 'Electron'", None),
        # Blanks and ends of lines are all the same.
        ("MET", "'w * sf' is no number", f"{HISTOGRAM}.params.weight_expr"),
        ("MET", "an array of 100 events", None),
        ("MET", "nbins must not be '100'", f"{HISTOGRAM}.params.axes[0].bins.nbins"),
        # The stage is what the message begins with; what it says more counts more.
        ("MET", "stage MET (hep.hist): no", f"{HISTOGRAM}.op"),
        ("MET@up", "stage X (hep.hist): no", f"{HISTOGRAM}.op"),
        ("MET", "stage X (hep.hist): 'MET > 20'", f"{HISTOGRAM}.write[0].path"),
        ("MET", "writer of stage 'MET' has no 'low'", f"{HISTOGRAM}.params.axes[0].bins.low"),
        (
            "MET",
            "hep.write parameter 'path' must be one of ['met', 'MET > 20']",
            f"{HISTOGRAM}.write[0].path",
        ),
        # Nodes that belong to no stage.
        ("read.events", "no tree 'events'", "sources.events.tree"),
        ("join.both", "no luminosityBlock", "joins.both.by"),
        ("Nowhere", "'MET > 20'", None),
        # In the whole workflow what is not in quotation marks may be any word.
        (None, "no data", None),
        (None, "no file data.root", "data.datasets['data'].files[0]"),
        (None, "primary_stream is no 'evnts'", "primary_stream"),
        (None, "Unknown 'Muon'. Available: ['MET', 'Objects']", f"{VARIABLES}[0].Good"),
        (None, "no dataset 'data'", "data.datasets['data'].name"),
        (None, "'lumi' is none", "data.datasets['data'].lumi"),
        (None, "not found: 'Muon'", f"{VARIABLES}[0].Good"),
    ],
)
def test_a_message_is_about_the_longest_value_that_it_quotes(
    stage: str | None, message: str, key: str | None
) -> None:
    assert quoted(DOCUMENT, stage, message) == key
