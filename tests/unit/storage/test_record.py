"""The record of a job: its types say what its published schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import pytest

from fasthep_smk.flow import records
from fasthep_smk.storage import failures, record

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "fasthep_smk" / "storage" / "record.schema.json").read_text()
)
PROPERTIES = SCHEMA["properties"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (record.Record, SCHEMA),
        (record.Asked, PROPERTIES["asked"]),
        (record.Used, PROPERTIES["used"]),
        (record.EarlierAttempt, PROPERTIES["earlier"]["items"]),
        (record.MadeOf, PROPERTIES["made_of"]),
        (record.ProductEntry, PROPERTIES["products"]["items"]),
        (record.RunFacts, PROPERTIES["runs"]["items"]),
        (record.PoolCount, PROPERTIES["ran_on"]["items"]),
        (record.ValueFacts, PROPERTIES["values"]["additionalProperties"]),
        (record.FileFacts, SCHEMA["$defs"]["file"]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_types_are_those_of_the_schema(kind: Any, schema: dict[str, Any]) -> None:
    hints = get_type_hints(kind, localns=vars(records), include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    # The checksum is that of the file: who reads a record has compared it.
    assert hints.keys() == schema["properties"].keys() - {"checksum"}
    assert kind.__required_keys__ - optional == {*schema.get("required", ())} - {"checksum"}


def test_every_kind_of_failure_may_come_before_a_success() -> None:
    kind = PROPERTIES["earlier"]["items"]["properties"]["kind"]
    assert set(kind["enum"]) == set(get_args(failures.FailureKind))
