"""Findings about the ROOT files of a workflow, before FAST-HEP's compiler opens them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from fasthep_smk.flow.places import datasets_at, mapping, place_of
from fasthep_smk.flow.workflow_checks import root_trees_of
from fasthep_smk.storage.inputs import Inputs, problem_finding
from fasthep_smk.storage.root_files import FileFacts
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import shell
from fasthep_smk.util.remote import is_remote
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["file_findings"]

_NO_TREE = re.compile(
    r"holds no tree '(?P<tree>.*)'; (?:did you mean '(?P<close>.*)'\?|it holds (?P<held>.*))"
)


def file_findings(document: YamlMapping, inputs: Inputs, workflow: Path) -> list[Finding]:
    """Return what is wrong with the local files of all datasets.

    A tree that none of them holds is the source's mistake, and told once.
    """
    trees = root_trees_of(document)
    if not trees:
        return []
    local = [
        (key, name, [file for file in listed if isinstance(file, str) and not is_remote(file)])
        for key, name, content in datasets_at(document)
        if isinstance(listed := content.get("files"), list)
    ]
    groups = [listed for _, _, listed in local]
    facts = inputs.look([file for listed in groups for file in listed], trees, alike=groups)
    found = list(_of_trees(document, facts, workflow))
    told = {one.value for one in found}
    for key, name, listed in local:
        for file in listed:
            problem = facts[file].problem
            lacking = _NO_TREE.match(problem or "")
            if problem and not (lacking and as_yaml(lacking["tree"]) in told):
                place, hint = (
                    place_of(f"{key}.files", listed, file),
                    _beside(file, inputs.root, workflow),
                )
                found.append(problem_finding(file, name, problem, place=place, hint=hint))
    return found


def _of_trees(
    document: YamlMapping, facts: Mapping[str, FileFacts], workflow: Path
) -> Iterator[Finding]:
    """Yield the trees that no file holds."""
    lacking: dict[str, list[tuple[str, re.Match[str]]]] = {}
    for file, found in facts.items():
        if no_tree := _NO_TREE.match(found.problem or ""):
            lacking.setdefault(no_tree["tree"], []).append((file, no_tree))
    opened = [one for one in facts.values() if one.problem is None]
    for tree, files in lacking.items():
        if opened or (len(lacking) > 1 and len(files) < len(facts)):
            return  # others hold it: it is the file that is the wrong one
        file, said = files[0]
        more = f" (and {len(files) - 1} more files)" if len(files) > 1 else ""
        yield Finding(
            file=str(workflow),
            key=_key_of_tree(document, tree),
            problem=f"{file}{more} holds no tree of this name",
            value=as_yaml(tree),
            expected=f"a tree of the files, such as {said['close'] or said['held']}",
            hint=f"did you mean {said['close']!r}?" if said["close"] else None,
        )


def _key_of_tree(document: YamlMapping, tree: str) -> str:
    for name, source in mapping(document.get("sources")).items():
        if str(mapping(source).get("tree")) == tree:
            return f"sources.{name}.tree"
    return "data.defaults.tree_primary"


def _beside(file: str, root: Path, workflow: Path) -> str | None:
    """Return what to do about a file that is sought in one folder, and lies in another."""
    folder = workflow.parent
    if (root / file).exists() or not (root / folder / file).exists():
        return None
    return (
        "it lies beside the workflow, but paths start in the folder that you run in: "
        f"{shell(['cd', folder])}, and run there"
    )
