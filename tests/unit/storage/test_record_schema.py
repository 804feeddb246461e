"""The schema of records knows what records may say."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import get_args

from fasthep_smk.storage import failures


def test_every_kind_of_failure_may_come_before_a_success() -> None:
    text = (files("fasthep_smk.storage") / "record.schema.json").read_text(encoding="utf-8")
    earlier = json.loads(text)["properties"]["earlier"]["items"]["properties"]
    assert set(earlier["kind"]["enum"]) == set(get_args(failures.Kind))
