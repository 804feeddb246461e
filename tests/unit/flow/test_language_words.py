"""Every word of a closed list, misspelt once: told with its key and the word that was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fasthep_smk.config import schema
from fasthep_smk.flow.language import language_findings
from fasthep_smk.flow.workflow_checks import document_findings, double_findings
from fasthep_smk.util.errors import Finding
from tests.support import slips

#: Parts of the schema that stand below a key which says what it is.
OPS = sorted(name for name in schema.bundled()["$defs"] if "." in name)
#: Closed lists that are no part of the schema.
OTHERS: list[tuple[slips.Place, list[str]]] = [
    (("data", "datasets", 0, "eventtype"), ["data", "mc"]),
    (("data", "defaults", "eventtype"), ["data", "mc"]),
    (("analysis", "stages", 0, "write", 0, "when"), ["partition", "dataset", "final"]),
    (("analysis", "stages", 0, "render", "when"), ["partition", "dataset", "final"]),
]


def of_language() -> Iterator[Any]:
    for place, words in [*slips.words_of_language().items(), *OTHERS]:
        for word in words:
            yield pytest.param(place, word, id=f"{'.'.join(map(str, place))}={word}")


def of_parts() -> Iterator[Any]:
    for part in (*OPS, "style"):
        for place, words in slips.words_of_part(part).items():
            for word in words:
                yield pytest.param(
                    part, place, word, id=f"{part}.{'.'.join(map(str, place))}={word}"
                )


def is_told(found: list[Finding], word: str, odd: str) -> bool:
    texts = [str(one) for one in found if repr(odd) in str(one)]
    return any(f"did you mean {word!r}?" in one for one in texts)


@pytest.mark.parametrize(("place", "word"), list(of_language()))
def test_a_misspelt_word_of_the_language(place: slips.Place, word: str) -> None:
    odd = slips.slip(word, 2)
    document = slips.only(place, odd)
    found = language_findings(document, workflow="w.yaml")
    found += double_findings(document, workflow="w.yaml")
    found += document_findings(document, workflow="w.yaml")
    for section in ("execution", "smk"):
        found += schema.findings_of(document.get(section, {}), section, file="w.yaml", key=section)
    for stage in (document.get("analysis") or {}).get("stages") or ():
        said = stage.get("execution", {})
        found += schema.findings_of(said, "stage_execution", file="w.yaml", key="execution")
    assert is_told(found, word, odd), "\n".join(map(str, found))


@pytest.mark.parametrize(("part", "place", "word"), list(of_parts()))
def test_a_misspelt_word_of_an_operation_or_a_style(
    part: str, place: slips.Place, word: str
) -> None:
    odd = slips.slip(word, 2)
    found = schema.findings_of(slips.only(place, odd), part, file="w.yaml", key="here")
    assert is_told(found, word, odd), "\n".join(map(str, found))
