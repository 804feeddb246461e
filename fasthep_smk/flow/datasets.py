"""Findings about files whose events would count twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fasthep_smk.flow.places import datasets_at, mapping, variations_of
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.remote import same_file
from fasthep_smk.util.yaml_values import as_yaml

#: What differs between two datasets that list one file by mistake.
_NO_DIFFERENCE = (
    *("name", "files", "nevents", "group", "xs", "n_unskimmed_events", "filter_efficiency"),
    *("comment", "description"),
)
#: By these, an expression tells which of the events are whose.
_TOLD_APART = re.compile(r"\bdataset_(name|group)\b\s*\S|\S\s*\bdataset_(name|group)\b")


def dataset_findings(document: Mapping[str, object], *, workflow: str) -> Iterator[Finding]:
    """Yield files that stand twice, in a dataset or in two that nothing tells apart."""
    seen: dict[str, tuple[str, dict[str, object]]] = {}
    exchanged = {
        str(one)
        for _, variation in variations_of(document)
        for pair in mapping(mapping(variation.get("datasets")).get("replace")).items()
        for one in pair
    }
    told_apart = any(map(_TOLD_APART.search, _texts(document.get("analysis"))))
    for key, name, content in datasets_at(document):
        own = {key: value for key, value in content.items() if key not in _NO_DIFFERENCE}
        files = content.get("files")
        for number, file in enumerate(files if isinstance(files, list) else ()):
            if not isinstance(file, str):
                continue
            same = same_file(file)
            other, said = seen.get(same, (None, own))
            # By what is said of it, an operation may tell which of the events are whose; of those
            # that variations exchange, one is there.
            same_events = said == own and not {other, name} <= exchanged and not told_apart
            if other is not None and (other == name or same_events):
                yield Finding(
                    file=workflow,
                    key=f"{key}.files[{number}]",
                    problem="the dataset lists this file twice: its events would count twice"
                    if other == name
                    else f"dataset {other!r} lists this file, too: its events would count twice",
                    value=as_yaml(file),
                    expected="each file once",
                    hint=None
                    if other == name
                    else "if both are right, add a key to tell them apart, such as part: low_mass",
                )
            seen[same] = (name, own)


def _texts(content: object) -> Iterator[str]:
    """Yield all texts among the values of a document."""
    left = [content]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
