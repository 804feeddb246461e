"""What the reader of YAML says of a file that is none, in words that tell what to change."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from fasthep_smk.util.errors import Finding

__all__ = ["yaml_finding"]

#: What it says -> what is wrong, and what to do.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"found character '\\t' that cannot start",
        "a tab is where spaces belong",
        "indent with spaces",
    ),
    (
        r"mapping values are not allowed",
        "a ':' is where none can be",
        "put quotes around a text that has a ': ', and begin a key below the ones beside it",
    ),
    (
        r"expected <block end>|could not find expected ':'",
        "the line does not go on from those above it",
        "indent it as far as the lines that it belongs to; each key needs a ':'",
    ),
    (
        r"while scanning a quoted scalar",
        "a quote is not closed",
        "close it, or write the text without quotes",
    ),
    (
        r"expected ',' or|while parsing a flow",
        "a bracket is not closed, or a comma is missing",
        "look for the [ or { before it; put quotes around a text that has a ':'",
    ),
    (r"undefined alias", "the anchor that * stands for is not there", "write & before its name"),
    (
        r"found duplicate anchor",
        "two anchors have the same name",
        "give one of them another name",
    ),
    (
        r"could not determine a constructor for the tag",
        "FAST-HEP reads no tags",
        "leave out the word that begins with !, or put the text into quotes",
    ),
    (r"another document", "a second document begins", "a workflow is one: leave out the ---"),
    (
        r"character '[@`%]' that cannot start",
        "no text begins like this without quotes",
        "put quotes around it",
    ),
)


def yaml_finding(workflow: Path, error: yaml.MarkedYAMLError) -> Finding:
    """Return what is wrong with a file of a workflow, and in which line."""
    mark = error.problem_mark or error.context_mark
    file = str(workflow)
    if mark and (named := Path(str(mark.name))).exists() and named.resolve() != workflow.resolve():
        file = str(named)
    said = " ".join(str(part) for part in (error.context, error.problem) if part)
    known = (told for pattern, *told in _KNOWN if re.search(pattern, said))
    problem, hint = next(known, (f"({said})", "look for quotes and brackets around that line"))
    return Finding(
        file=file,
        problem=f"is not valid YAML: {problem}",
        at=f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else None,
        hint=hint,
    )
