"""Where the boxes and lines of the graph of rules go."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from xml.etree import ElementTree

import pytest

from fasthep_smk.contrib.report import graph
from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.storage.jobs import STATES, State

CANARY = "<script>document.title='canary'</script>"


def some(number: int, seed: int) -> dict[str, list[str]]:
    """A graph in which each rule reads up to three of those before it."""
    chance = random.Random(seed)
    names = [f"r{one}" for one in range(number)]
    return {
        name: chance.sample(names[:at], min(at, chance.randint(0, 3)))
        for at, name in enumerate(names)
    }


@pytest.mark.parametrize("number", [0, 1, 2, 7, 40])
def test_no_box_lies_on_another_and_each_is_below_what_it_reads(number: int) -> None:
    reads = some(number, number)
    found = graph.placed(reads)
    assert set(found) == set(reads)
    for (x, y), (other_x, other_y) in combinations(found.values(), 2):
        assert abs(x - other_x) >= graph._WIDTH or abs(y - other_y) >= graph._HEIGHT
    assert all(found[one][1] < found[rule][1] for rule, sources in reads.items() for one in sources)
    assert all(x >= graph._WIDTH / 2 and y >= graph._HEIGHT / 2 for x, y in found.values())


def test_a_rule_is_one_layer_below_the_last_that_it_reads() -> None:
    found = graph.placed({"a": [], "b": ["a"], "c": ["a", "b"], "d": []})
    layer = {rule: y for rule, (_, y) in found.items()}
    assert layer["a"] == layer["d"] < layer["b"] < layer["c"]


def test_lines_that_need_not_cross_do_not() -> None:
    reads = {"a": [], "b": [], "c": [], "x": ["c"], "y": ["b"], "z": ["a"]}
    place = {rule: x for rule, (x, _) in graph.placed(reads).items()}
    above = sorted("abc", key=place.__getitem__)
    below = sorted("xyz", key=place.__getitem__)
    assert [dict(zip("abc", "zyx", strict=True))[rule] for rule in above] == below


@pytest.mark.parametrize("reads", [{"a": ["a"]}, {"a": ["b"], "b": ["a"]}, {"a": ["gone"]}])
def test_damaged_tables_have_a_graph(reads: Mapping[str, Sequence[str]]) -> None:
    assert set(graph.placed(reads)) == set(reads)


def test_many_layers_need_no_recursion() -> None:
    names = [f"r{one}" for one in range(3000)]
    reads = {name: names[at - 1 : at] if at else [] for at, name in enumerate(names)}
    assert len({y for _, y in graph.placed(dict(reversed(reads.items()))).values()}) == 3000


def test_a_line_passes_beside_a_box() -> None:
    """From a to c, past b, which stands between them."""
    rules = [
        RuleFacts(name, pools=[], states=dict.fromkeys(STATES, 1), reads=reads, stages=[], jobs=[])
        for name, reads in {"a": [], "b": ["a"], "c": ["b", "a"]}.items()
    ]
    drawn = graph.as_svg(rules, {})
    points = [re.findall(r"[\d.]+", path) for path in re.findall('<path d="([^"]*)"', drawn)]
    middles = [(float(x) + 3 * float(by) + 3 * float(to) + float(to_x)) / 8
               for x, _, by, _, to, _, to_x, _ in points]  # fmt: skip
    assert middles[:2] == [112, 112]  # where all boxes are
    assert middles[2] > 112 + graph._WIDTH / 2
    assert middles[2] < float(re.findall('width="([^"]*)"', drawn)[0])


def test_hostile_names_are_text() -> None:
    states: dict[State, int] = {"done": 1, "running": 1, "failed": 1, "to do": 0}
    row = RuleFacts(CANARY, pools=['" onload="'], states=states, reads=[], stages=[], jobs=[])
    root = ElementTree.fromstring(graph.as_svg([row], {'" onload="': "#123456"}))
    assert {one.tag for one in root.iter()} == {"svg", "a", "title", "rect", "text"}
    assert root.find(".//title").text == (  # type: ignore[union-attr]
        f'{CANARY}: 1 of 3 done, 1 run, 1 failed; pool " onload="'
    )
    assert all("onload" not in one.attrib for one in root.iter())
