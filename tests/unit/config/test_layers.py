"""A later layer wins: mappings merge key by key, anything else replaces, ``null`` removes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fasthep_smk.config.layers import Layer, merge

SITE = Layer("site/pools.yaml", "default", {"config": {"walltime": "1h", "slurm": {"qos": "low"}}})


def test_mappings_merge_key_by_key() -> None:
    pool = Layer("workflow.yaml", "execution.pools.gpu", {"config": {"slurm": {"account": "cms"}}})
    merged = merge([SITE, pool])
    assert merged.values == {
        "config": {"walltime": "1h", "slurm": {"qos": "low", "account": "cms"}}
    }
    assert merged.get("config", "slurm", "qos") == "low"
    assert merged.get("config", "htcondor", "rank") is None


def test_a_list_replaces_a_list() -> None:
    weak, strong = Layer("a", "", {"extra": ["--a", "--b"]}), Layer("b", "", {"extra": ["--c"]})
    assert merge([weak, strong]).values == {"extra": ["--c"]}
    assert merge([strong, weak]).values == {"extra": ["--a", "--b"]}


def test_a_null_removes_a_value_or_a_whole_mapping() -> None:
    one = Layer("workflow.yaml", "", {"config": {"slurm": {"qos": None}}})
    all_of_it = Layer("workflow.yaml", "", {"config": None})
    assert merge([SITE, one]).values == {"config": {"walltime": "1h", "slurm": {}}}
    assert merge([SITE, all_of_it]).values == {}
    assert merge([SITE, all_of_it]).origins == {}


def test_what_was_removed_can_be_said_again() -> None:
    nothing = Layer("a", "", {"config": None})
    again = Layer("b", "", {"config": {"walltime": "2h"}})
    assert merge([SITE, nothing, again]).values == {"config": {"walltime": "2h"}}


def test_a_mapping_and_a_word_replace_each_other() -> None:
    word = Layer("a", "", {"resources": "large"})
    inline = Layer("b", "", {"resources": {"cpus": 8}})
    assert merge([word, inline]).values == {"resources": {"cpus": 8}}
    assert merge([word, inline]).origins == {("resources", "cpus"): inline}
    assert merge([inline, word]).values == {"resources": "large"}
    assert merge([inline, word]).origins == {("resources",): word}


def test_each_value_knows_where_it_was_said_last() -> None:
    pool = Layer("workflow.yaml", "execution.pools['a b']", {"config": {"walltime": "2h"}})
    merged = merge([SITE, pool])
    walltime, qos = merged.origin("config", "walltime"), merged.origin("config", "slurm", "qos")
    assert walltime is pool
    assert qos is SITE
    assert pool.place(("config", "my key")) == (
        "workflow.yaml: execution.pools['a b'].config['my key']"
    )
    assert merged.origin("workers") is None


keys = st.sampled_from("abc")
scalars = st.none() | st.integers(0, 3) | st.booleans() | st.sampled_from(["x", ""])
contents = st.recursive(
    st.dictionaries(keys, scalars | st.lists(scalars, max_size=2), max_size=3),
    lambda inner: st.dictionaries(keys, inner | scalars, max_size=3),
    max_leaves=8,
)


def expected(said: list[tuple[int, Mapping[str, Any]]]) -> tuple[dict[str, Any], dict[Any, int]]:
    """Return the values and the origins of mappings, weakest first, each with its layer's number.

    Looks at each key from the strongest layer downwards, and builds nothing that it takes back.
    """
    values: dict[str, Any] = {}
    origins: dict[Any, int] = {}
    for key in {key for _, content in said for key in content}:
        mappings: list[tuple[int, Mapping[str, Any]]] = []
        below: list[tuple[int, Any]] = []  # the strongest that is no mapping, if any
        for number, content in reversed(said):
            if key in content:
                if not isinstance(content[key], dict):
                    below = [(number, content[key])]
                    break
                mappings.insert(0, (number, content[key]))
        if mappings:
            values[key], inner = expected(mappings)
            origins.update({(key, *path): number for path, number in inner.items()})
        elif below[0][1] is not None:
            values[key], origins[(key,)] = below[0][1], below[0][0]
    return values, origins


@given(st.lists(contents, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
def test_any_layers_merge_by_the_rule(said: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(said)
    layers = [Layer(str(number), "", content) for number, content in enumerate(said)]
    merged = merge(layers)
    values, origins = expected(list(enumerate(said)))
    assert merged.values == values
    assert {path: int(layer.file) for path, layer in merged.origins.items()} == origins
    assert said == before


@given(st.lists(contents, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
def test_layers_that_say_nothing_change_nothing(said: list[dict[str, Any]]) -> None:
    layers = [Layer(str(number), "", content) for number, content in enumerate(said)]
    between = [item for layer in layers for item in (layer, Layer("empty", "", {}))]
    assert merge(between) == merge(layers)
