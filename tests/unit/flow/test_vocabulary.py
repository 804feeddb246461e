"""Each annotation of the schema refuses what it is for, and nothing that looks like it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fasthep_smk.config import schema
from fasthep_smk.flow import release
from fasthep_smk.flow.vocabulary import _KEYWORDS, Vocabulary
from fasthep_smk.util.errors import Doubt

DOCUMENT: dict[str, Any] = {
    "data": {
        "defaults": {"eventtype": "data"},
        "datasets": [{"name": "run_a"}, {"name": "ttbar", "eventtype": "mc"}, {"name": "dy"}],
    },
    "joins": {"both": {}},
    "analysis": {"stages": [{"id": "Vars"}, {"id": "Cuts"}]},
}
DRAWN = {"axes": ["met", "n"], "drawn": ["run_a", "ttbar", "dy", "top"]}
INT = {"name": "n", "source": "n", "type": "int"}
REGULAR = {"name": "n", "source": "n", "type": "regular"}


def said(content: object, part: str) -> list[str]:
    vocabulary = Vocabulary(DOCUMENT)
    vocabulary.names |= DRAWN
    found = vocabulary.findings(content, part, file="w.yaml")
    return [f"{one.key}: {one.problem}" for one in found]


@pytest.mark.parametrize(
    ("part", "wrong", "key"),
    [
        ("variation", {"requires": ["Vars", "Cutz"]}, "requires[1]"),
        ("variation", {"applies_to": {"datasets": ["ttbra", "dy"]}}, "applies_to.datasets"),
        ("variation", {"applies_to": {"datasets": ["wjets"]}}, "applies_to.datasets"),
        ("variation", {"applies_to": {"eventtypes": ["signal"]}}, "applies_to.eventtypes[0]"),
        ("variation", {"applies_to": "signal"}, "applies_to"),
        ("variation", {"datasets": {"replace": {"dyy": "ttbar"}}}, "datasets.replace"),
        ("variation", {"datasets": {"replace": {"dy": "ttbra"}}}, "datasets.replace.dy"),
        ("variation", {"mode": "inline", "replace": {"a": "b"}}, "replace"),
        ("variation", {"mode": "inline", "stage": "Vars", "anchor": "Vars"}, "stage"),
        ("variation", {"patch": {"a": 1}}, "patch"),
        ("stage", {"from": "A", "in": "B"}, "in"),
        ("stage", {"op": "hep.render.hist1d", "write": {"kind": "a"}}, "write"),
        ("stage", {"op": "own.op", "when": "final"}, "when"),
        ("stage", {"role": "sink", "render": {"style": "a"}}, "render"),
        ("stage", {"write": [{"kindd": "root_tree"}]}, "write[0].kindd"),
        ("stage", {"write": {"kind": "root_tree", "from": "Cutz"}}, "write.from"),
        ("axis", {**INT, "bins": {"low": 0}}, "bins"),
        ("axis", {**REGULAR, "bins": {"low": 5, "high": 5, "nbins": 2}}, "bins.high"),
        ("axis", {**INT, "type": "category", "bins": ["a", "b", "a"]}, "bins"),
        ("source", {"start": 5, "stop": 2}, "stop"),
        ("source", {"stop": 0}, "stop"),
        ("hep.hist", {"axes": [], "storage": "count", "weight_expr": "w"}, "weight_expr"),
        ("hep.hist", {"axes": [], "variations": {"weights": {}}, "weight_expr": "w"},
         "weight_expr"),
        ("dataset", {"EventType": "mc"}, "EventType"),
        ("dataset", {"eventtype": "daat"}, "eventtype"),
        ("dataset", {"eventtype": "mcc"}, "eventtype"),
        ("style", {"data_mc": {"data": "run_b"}}, "data_mc.data"),
        ("style", {"data_mc": {"data": "dy", "signals": ["top"], "backgrounds": ["top"]}},
         "data_mc.backgrounds"),
        ("style", {"axes": {"x": {"name": "mett"}}}, "axes.x.name"),
        ("style", {"transforms": [{"kind": "scale", "by": "dataset_nam"}]}, "transforms[0].by"),
        ("template", {"x": [{"use": "a", "label": "b"}]}, "x[0].label"),
        ("template", {"x": {"with": {"label": "b"}}}, "x.with"),
        ("hep.select_objects", {"selection": ["1 > 2"]}, "selection[0]"),
        ("profile", {"includes": ["hep"], "registry": {"functions": {}}}, "registry"),
        ("profile", {"registry": {"functions": {"a": {"implt": "b:c"}}}},
         "registry.functions.a.implt"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_named(part: str, wrong: object, key: str) -> None:
    assert [one.partition(": ")[0] for one in said(wrong, part)] == [key]


@pytest.mark.parametrize(
    ("part", "right"),
    [
        ("variation", {"requires": ["Vars", "stage.Cuts", "{stage}"]}),
        ("variation", {"applies_to": {"datasets": ["dy", "wjets"], "eventtypes": ["MC"]}}),
        ("variation", {"mode": "inline", "anchor": "Vars", "weight": None}),
        ("stage", {"op": "hep.render.hist1d", "when": "final", "out": "a.png"}),
        ("stage", {"role": "sink", "when": "final"}),
        ("stage", {"op": "own.op", "needs": ["Vars"], "when": None}),
        ("axis", {**INT, "bins": None}),
        ("axis", {**REGULAR, "bins": {"low": "-1", "high": "1e2", "nbins": 2}}),
        ("source", {"start": 5, "stop": None}),
        ("source", {"stop": -1}),
        ("hep.hist", {"axes": [], "variations": None, "weight_expr": "w"}),
        ("hep.hist", {"axes": [], "variations": {"weights": {}}, "weight_expr": None}),
        ("dataset", {"name": "a", "names": ["b"], "x": 1, "eventtype": "mc_2018"}),
        ("dataset", {"eventtype": "mb"}),
        ("style", {"data_mc": {"signals": ["h125"], "backgrounds": ["top", "wjets"]}}),
        ("style", {"axes": {"x": {"name": "momentum"}, "y": {"name": "nn"}}}),
        ("style", {"style": {"experiment": "MyExperiment", "datasets": {"old": {}}}}),
        ("template", {"x": {"use": "a", "with": {"b": 1}, "x-note": 1, "comment": "c"}}),
        ("profile", {"includes": [], "registry": {"functions": {"a": {"impl": "b:c"}}}}),
    ],
)
def test_what_looks_like_it_is_right(part: str, right: object) -> None:
    assert said(right, part) == []


def keywords(content: object) -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from keywords(value)
    elif isinstance(content, list):
        for one in content:
            yield from keywords(one)


def test_each_keyword_of_the_schema_is_read() -> None:
    used = {one for one in keywords(schema.bundled()) if one.startswith("x-")}
    assert used - {"x-text", "x-part", "x-with"} == set(_KEYWORDS)


def test_a_key_that_a_newer_release_may_read_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = {"op": "own.op", "cache": True, "parms": {}}
    assert not any(isinstance(one, Doubt) for one in _of(stage))
    older = dict.fromkeys(release.TESTED, "2020.1")
    monkeypatch.setattr(release, "TESTED", older)
    release.is_newer.cache_clear()
    try:
        assert {one.key: isinstance(one, Doubt) for one in _of(stage)} == {
            "cache": True,
            "parms": False,
        }
    finally:
        release.is_newer.cache_clear()


def _of(stage: object) -> list[Any]:
    return Vocabulary(DOCUMENT).findings(stage, "stage", file="w.yaml")
