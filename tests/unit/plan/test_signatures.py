"""What is looked at once, however many partitions there are."""

from __future__ import annotations

from typing import Any

import pytest

from fasthep_smk.plan import signatures
from fasthep_smk.plan.partitions import Partition
from tests.unit import plans


def test_what_names_all_files_is_signed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f{number}.root" for number in range(50)]
    dataset = {"name": "a", "files": names}
    source = plans.node("source", "events", tree="events")
    graph = plans.graph(
        source, plans.define("One", "read.events", "px + 1"), datasets={"a": dataset}
    )
    signed: list[Any] = []
    digest = signatures.digest_of
    monkeypatch.setattr(signatures, "digest_of", lambda item: signed.append(item) or digest(item))
    origins = signatures.Origins(graph)
    found = [origins.of(dataset, Partition(n, "a", n, "events", n), [n]) for n in names]
    assert len({one.own for one in found}) == len({one.seen["place"] for one in found}) == 50
    assert {one.seen["dataset"] for one in found} == {digest(dataset)}
    with_all_files = [item for item in signed if "f0.root" in str(item) and "f1.root" in str(item)]
    assert len(with_all_files) == 2  # the run, and the dataset
