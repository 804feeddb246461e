"""Branches that input files do not have.

FAST-HEP takes each column that no stage makes for a branch. A run would find out at the first file
that lacks it, which may be the last of all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fasthep_smk.flow.expression_rules import unknown_function
from fasthep_smk.flow.places import mapping, scalars, stages_by_id
from fasthep_smk.flow.reads import full_registry
from fasthep_smk.flow.upstream import ExecutionPlan
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest
from fasthep_smk.util.yaml_values import as_yaml


@dataclass(frozen=True)
class Lack:
    """A branch that ``source`` reads and some files do not have.

    ``files`` are the datasets and files that lack it, ``branches`` those that the first of the
    files does have; ``other`` is a source whose tree in that file has it.
    """

    branch: str
    source: str
    tree: str
    files: tuple[tuple[str, str], ...]
    branches: frozenset[str]
    other: str | None = None


def branch_findings(
    lacks: Sequence[Lack],
    plan: ExecutionPlan,
    document: YamlMapping,
    readers: Mapping[str, Sequence[str]],
    *,
    workflow: str,
) -> list[Finding]:
    """Return one finding for each mistake; ``readers`` are the stages that read a branch."""
    registry = full_registry(plan)
    origins = mapping(mapping(plan.data_flow).get("origins"))
    columns = {name for name, origin in origins.items() if origin.get("kind") == "produced"}
    groups: dict[tuple[tuple[str, str | None], object], list[Lack]] = {}
    for lack in lacks:
        place = _place(document, lack.branch, readers.get(lack.branch, ()))
        groups.setdefault((place, (lack.source, lack.files)), []).append(lack)
    findings = []
    for ((key, text), _), group in groups.items():
        lack = group[0]
        (dataset, file), more = lack.files[0], len(lack.files) - 1
        files = f"{file} and {more} more file{'s' * (more > 1)}" if more else file
        listed = ", ".join(repr(lack.branch) for lack in group)
        stages = readers.get(lack.branch, ())
        problem = f"tree {lack.tree!r} has no branch {listed}"
        reads = "read" if len(stages) > 1 else "reads"
        problem += f", which {', '.join(stages)} {reads}" if stages else ""
        function = unknown_function(text or "", registry)
        if function and function.startswith(f"there is no function '{lack.branch}"):
            problem = function
        close = nearest(lack.branch, {*lack.branches, *columns} - {lack.branch}, cutoff=0.75)
        hint = f"did you mean {close!r}?" if close else None
        if lack.other is not None:
            hint = (
                f"source {lack.other!r} has this branch: write 'missing_branches: ignore' for "
                f"source {lack.source!r}"
            )
        findings.append(
            Finding(
                file=workflow,
                key=key,
                problem=problem,
                value=None if text is None else as_yaml(text),
                expected=f"a branch of {files} (dataset {dataset!r}, source {lack.source!r}), or a "
                "column that an earlier stage makes",
                hint=hint,
            )
        )
    return findings


def _place(document: YamlMapping, branch: str, readers: Sequence[str]) -> tuple[str, str | None]:
    """Return where the workflow names a branch, or the collection that it belongs to, and how."""
    stages = [entry for name, entry in stages_by_id(document).items() if name in readers]
    parts = [
        (f"{key}.{part}", stage.get(part)) for key, stage in stages for part in ("params", "write")
    ]
    parts += [(part, document.get(part)) for part in ("sources", "systematics")]
    texts = [
        (place, value)
        for key, content in parts
        for place, value, is_key in scalars(key, content)
        if isinstance(value, str) and not is_key
    ]
    word = re.compile(rf"(?<!\w){re.escape(branch)}(?!\w)")
    places = [place for place in texts if word.search(place[1])]
    places += [place for place in texts if branch.startswith(f"{place[1]}_")]
    return places[0] if places else (parts[0][0], None)
