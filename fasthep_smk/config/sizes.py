"""A file of sizes: what the jobs of rules ask for, as ``fasthep-smk sizes`` writes it.

A rule is known by its stages and its pool, which survive an edit of the workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from fasthep_smk.config import schema
from fasthep_smk.config.requests import AMOUNTS
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings, WrongArgument, not_among, read_value
from fasthep_smk.util.yaml_files import load_each_key_once


@dataclass(frozen=True, kw_only=True)
class Size:
    """What jobs ask for at first: bytes and seconds, ``None``: what their pool says.

    ``file`` and ``key`` are where it stands; one that a run has measured itself has no file.
    """

    stages: tuple[str, ...]
    pool: str
    scope: str = "partition"
    memory: int | None = None
    walltime: int | None = None
    file: str = ""
    key: str = ""

    def place(self, leaf: str) -> str:
        """Return where an amount stands, for a message."""
        return f"{self.file}: {self.key}.{leaf}" if self.file else self.key


def read_sizes(path: Path) -> list[Size]:
    """Return what a file of sizes says.

    Raises:
        WrongArgument: there is no such file.
        Findings: it cannot be read, or something in it is wrong.
    """
    try:
        content = load_each_key_once(path)
    except FileNotFoundError:
        raise WrongArgument.one(
            "there is no such file",
            key="--sizes",
            value=str(path),
            expected="a file that 'fasthep-smk sizes > sizes.yaml' has written",
        ) from None
    findings = schema.findings_of(content, "sizes", file=str(path))
    entries = [] if findings else cast("YamlMapping", content)["sizes"]
    sizes = list(_sizes(entries, str(path), findings))
    firsts: dict[object, Size] = {}
    for size in sizes:
        first = firsts.setdefault((size.scope, frozenset(size.stages), size.pool), size)
        if first is not size:
            problem = f"repeats what {first.key} sets for the same jobs"
            findings.append(Finding(file=size.file, key=size.key, problem=problem))
    if findings:
        raise Findings(findings)
    return sizes


def _sizes(entries: Sequence[YamlMapping], file: str, findings: list[Finding]) -> Iterator[Size]:
    for number, entry in enumerate(entries):
        key, ask = f"sizes[{number}]", entry.get("ask") or {}
        amounts = {
            name: read_value(
                AMOUNTS[name], ask.get(name), findings, file=file, key=f"{key}.ask.{name}"
            )
            for name in ("memory", "walltime")
        }
        yield Size(
            stages=tuple(entry["stages"]),
            pool=entry["pool"],
            scope=entry.get("scope") or "partition",
            file=file,
            key=key,
            **amounts,
        )


def unknown_names(
    sizes: Iterable[Size], *, stages: Iterable[str], pools: Iterable[str]
) -> Iterator[Finding]:
    """Yield stages and pools that a workflow does not have, each with the nearest that it has."""
    stages, pools = list(stages), list(pools)
    for size in sizes:
        for number, stage in enumerate(size.stages):
            if stage not in stages:
                problem = "the workflow has no such stage"
                key = f"{size.key}.stages[{number}]"
                yield not_among(stage, stages, problem=problem, file=size.file, key=key)
        if size.pool not in pools:
            problem = "the workflow has no pool of this name"
            yield not_among(
                size.pool, pools, problem=problem, file=size.file, key=f"{size.key}.pool"
            )


def entry_of(sizes: Iterable[Size], *, scope: str, stages: Sequence[str], pool: str) -> list[Size]:
    """Return the entries that jobs of a rule take in a pool: that of its stages.

    A rule that has more stages than when it was measured takes the entries of some of them.
    """
    there = [size for size in sizes if size.scope == scope and size.pool == pool]
    exact = [size for size in there if set(size.stages) == set(stages)]
    return exact or [size for size in there if size.stages and set(size.stages) <= set(stages)]
