"""What FAST-HEP's compiler says, with the name that was meant."""

from __future__ import annotations

import pytest

from fasthep_smk.flow.compiler_messages import _meant

REQUIRED = "my.op node stage.Pair parameter 'collection' is required"
STYLE = "Unknown style 'mas'. Available: ['mass', 'table']"


@pytest.mark.parametrize(
    ("said", "params", "hint"),
    [
        (REQUIRED, {"colection": "Muon", "mask": "a"}, "is 'colection' meant to be 'collection'?"),
        (REQUIRED, {"mask": "a"}, None),
        (STYLE, {}, "did you mean 'mass'?"),
        (STYLE.replace("mas'", "plot'"), {}, None),
        ("something else", {"a": 1}, None),
    ],
)
def test_a_near_name_is_a_hint(said: str, params: dict[str, object], hint: str | None) -> None:
    assert _meant(said, params) == hint
