"""Findings about the ROOT files of a workflow, and what stages read of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow.meaning import hidden_findings
from fasthep_smk.flow.patches.known_entries import Entries, known_entries
from fasthep_smk.flow.places import datasets_at, mapping, place_of
from fasthep_smk.flow.workflow_checks import root_trees_of
from fasthep_smk.plan.partitions import SourceFacts, files_of
from fasthep_smk.storage.inputs import Inputs
from fasthep_smk.storage.root_files import RootFile
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell
from fasthep_smk.util.remote import is_remote, server_of
from fasthep_smk.util.yaml_values import as_yaml

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan

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
        (key, name, [file for file in listed if not is_remote(file)])
        for key, name, listed in _listed(document)
    ]
    groups = [listed for _, _, listed in local]
    facts = inputs.look([file for listed in groups for file in listed], trees, alike=groups)
    findings = list(_of_trees(document, facts, workflow))
    absent = {finding.value for finding in findings}
    for key, name, listed in local:
        for file in listed:
            problem = facts[file].problem
            lacking = _NO_TREE.match(problem or "")
            if problem and not (lacking and as_yaml(lacking["tree"]) in absent):
                findings.append(
                    Finding(
                        file=file,
                        key=f"dataset {name!r}",
                        problem=problem,
                        place=place_of(f"{key}.files", listed, file),
                        hint=_beside(file, inputs.root, workflow),
                    )
                )
    return findings


def entries_told(
    document: YamlMapping, inputs: Inputs, workflow: str
) -> AbstractContextManager[None]:
    """Let FAST-HEP's compiler take what is known of files, in the block, instead of opening them.

    Servers are asked for all remote files at once, if it wants to know of any file.

    Raises:
        Findings: in the block, it wants to know of a file whose server does not answer.
    """
    datasets = {name: listed for _, name, listed in _listed(document)}
    remote = [file for listed in datasets.values() for file in listed if is_remote(file)]

    def entries(paths: Sequence[str], trees: Sequence[str]) -> Entries | None:
        inputs.ask_servers(remote)
        if inputs.silent and any(server_of(path) in inputs.silent for path in paths):
            raise Findings(server_findings(datasets, inputs, workflow))
        return inputs.entries(paths, trees)

    return known_entries(entries, quiet=not remote)


def server_findings(
    datasets: Mapping[str, Iterable[str]], inputs: Inputs, workflow: str
) -> list[Finding]:
    """Return the servers that did not answer, with how many files of the datasets they have."""
    findings = []
    for server, problem in inputs.silent.items():
        counts = [sum(server_of(file) == server for file in files) for files in datasets.values()]
        if any(counts):
            there = _number(sum(map(bool, counts)), "dataset")
            text = f"it has {_number(sum(counts), 'file')} of {there}"
            findings.append(
                Finding(
                    file=workflow,
                    key="data.datasets",
                    problem=f"{server} does not answer: {text}",
                    value=problem,
                    hint="check the server's name and whether it runs, then run the same command "
                    "again",
                )
            )
    return findings


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _listed(document: YamlMapping) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the key and the name of each dataset with its list of files."""
    for key, name, content in datasets_at(document):
        if isinstance(files := content.get("files"), list):
            yield key, name, [file for file in files if isinstance(file, str)]


def _of_trees(
    document: YamlMapping, facts: Mapping[str, RootFile], workflow: Path
) -> Iterator[Finding]:
    """Yield the trees that no file holds."""
    lacking: dict[str, list[tuple[str, re.Match[str]]]] = {}
    for file, root_file in facts.items():
        if no_tree := _NO_TREE.match(root_file.problem or ""):
            lacking.setdefault(no_tree["tree"], []).append((file, no_tree))
    opened = [root_file for root_file in facts.values() if root_file.problem is None]
    for tree, files in lacking.items():
        if opened or (len(lacking) > 1 and len(files) < len(facts)):
            return  # others hold it: it is the file that is the wrong one
        file, match = files[0]
        more = f" (and {len(files) - 1} more files)" if len(files) > 1 else ""
        yield Finding(
            file=str(workflow),
            key=_key_of_tree(document, tree),
            problem=f"{file}{more} holds no tree of this name",
            value=as_yaml(tree),
            expected=f"a tree of the files, such as {match['close'] or match['held']}",
            hint=f"did you mean {match['close']!r}?" if match["close"] else None,
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
        "it is next to the workflow, but paths start in the folder that you run in: "
        f"{shell(['cd', folder])}, and run there"
    )


def hidden_columns(
    plan: Plan,
    sources: Sequence[SourceFacts],
    inputs: Inputs,
    document: YamlMapping,
    *,
    workflow: str,
) -> list[Finding]:
    """Return the names of globals, constants and columns that hide others in expressions."""
    trees = [source.tree for source in sources if source.tree is not None]
    branches: set[str] = set()
    if plan.context.get("globals") or plan.registry.get("constants"):
        looked = inputs.look([file for file in files_of(plan) if not is_remote(file)], trees)
        of_trees = [facts.branches.get(tree) for facts in looked.values() for tree in trees]
        branches.update(*filter(None, of_trees))
    listed = {*mapping(document.get("fields"))}.union(
        *(source.all_branches or () for source in sources)
    )
    return hidden_findings(plan, document, listed, branches, workflow=workflow)
