"""Why a job has to run, in words: the first thing that differs from when it ran last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from fasthep_smk.flow.context_use import SIGHTS
from fasthep_smk.flow.records import Sight
from fasthep_smk.plan.rules import Job, Rule, made_of
from fasthep_smk.plan.signatures import ASKED
from fasthep_smk.reuse.ledger import Ledger, NodeContent, described
from fasthep_smk.reuse.store import JobStore
from fasthep_smk.storage.observed import Checks
from fasthep_smk.storage.record import MadeOf, Record
from fasthep_smk.storage.task_table import OriginFacts
from fasthep_smk.util.documents import JsonObject, YamlMapping


@dataclass(frozen=True)
class Reasons:
    """Says why jobs have to run: what is known, in ``store``, of those that have run ``before``.

    ``told`` are reasons that are known already; these and ``before`` are by the jobs' folders.
    """

    rules: Sequence[Rule]
    store: JobStore
    checks: Checks
    known: Ledger
    before: Mapping[str, Record]
    valid: Mapping[str, object]
    told: Mapping[str, str]

    def of(self, rule: Rule, job: Job) -> str | None:
        """Return why a job has to run; ``None``: it has not run yet."""
        if job.folder in self.told:
            return self.told[job.folder]
        before = self.before.get(job.folder) or self.store.latest(job)
        before = before or self._renamed.record(rule, job)
        if before is None:
            return None
        if before["signature"] == job.signature:
            # An earlier call has put it away, and has run nothing.
            change = self.checks.change(before) or self.store.damage(before)
            if change is not None:
                return change
        return reason(rule, job, before, self.known, self.valid)

    @cached_property
    def _renamed(self) -> Renamed:
        return Renamed(self.store.superseded, self.rules, self.known)


class Renamed:
    """Finds what a job was before: its rule has another name if its stages have."""

    def __init__(
        self, superseded: Iterable[tuple[Path, Record]], rules: Iterable[Rule], ledger: Ledger
    ) -> None:
        names = {rule.name for rule in rules}
        self._known = ledger
        self._records: dict[str, list[Record]] = {}
        for _, record in superseded:
            if record["rule"] not in names:
                self._records.setdefault(record["key"], []).append(record)

    def record(self, rule: Rule, job: Job) -> Record | None:
        """Return the last record that has most nodes of a job; ``None`` if none has any."""

        def shared(record: Record) -> int:
            then = record["made_of"]["nodes"]
            old = {node: self._known.node(then[node][0]) for node in then}
            return len(now.keys() & old.keys()) + len([*_renames(old, now)])

        now = _described(rule, job)
        best = max(reversed(self._records.get(job.key, [])), key=shared, default=None)
        return best if best is not None and shared(best) else None


def reason(
    rule: Rule, job: Job, before: Record, ledger: Ledger, valid: Mapping[str, object]
) -> str:
    """Return why a job that has run before does not stand.

    ``before`` is its last record, ``ledger`` what digests stand for, ``valid`` the folders of
    the jobs that stand.
    """
    then, now = before["made_of"], made_of(rule, job)
    if before["signature"] == job.signature:
        return "its earlier results are missing"
    for text in (
        *_nodes(rule, job, then, ledger),
        *_origin(then.get("origin"), now["origin"], job, ledger, _who_sees(rule, job)),
        *_reads(then["reads"], now["reads"], job, valid),
    ):
        return text
    if job.measured:
        return f"it is measured now: {', '.join(job.measured)}"
    changed = "its output columns" if job.origin else "the results that it merges"
    return f"{changed} have changed"


def _nodes(rule: Rule, job: Job, then: MadeOf, ledger: Ledger) -> Iterator[str]:
    """Say which node has another name or differs, and how, or else which node before it."""
    signatures, now = rule.nodes.get(job.signed_as, {}), _described(rule, job)
    old = {node: ledger.node(digest) for node, (digest, _) in then["nodes"].items()}
    for was, node in _renames(old, now):
        yield f"{_short(was)} is now called {_short(node)}"
    differ = [
        node
        for node in job.nodes
        if node in old and then["nodes"][node][0] != signatures[node].digest
    ]
    for node in differ:
        if (content := old[node]) is not None:
            for ref, text in _node(node, content, now[node], ledger, set()):
                yield text if ref == node else f"its input changed: {text}"
    added = [node for node in job.nodes if node not in old]
    removed = [node for node in old if node not in now]
    for nodes, word in ((added, "new in this job"), (removed, "no longer in this job")):
        if nodes:
            yield f"{', '.join(_short(node) for node in nodes[:3])}: {word}"
    if differ:
        yield f"{_short(differ[0])} or its input changed"


def _described(rule: Rule, job: Job) -> dict[str, NodeContent]:
    signatures = rule.nodes.get(job.signed_as, {})
    return {node: described(signatures[node]) for node in job.nodes}


def _renames(
    old: Mapping[str, NodeContent | None], now: Mapping[str, NodeContent]
) -> Iterator[tuple[str, str]]:
    """Yield the nodes that only have another name, with the earlier one first."""
    gone = {node: item for node, item in old.items() if node not in now and item is not None}
    for node, item in now.items():
        for was in gone if node not in old else ():
            if {**gone[was].content, "id": node} == item.content:
                yield was, node


def _node(
    node: str, old: NodeContent, now: NodeContent, ledger: Ledger, seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield a node that differs, and how: this one, or else those before it."""
    if node in seen:
        return
    seen.add(node)
    changes = list(_content(old.content, now.content))
    if changes:
        more = f" (and {len(changes) - 2} more)" if len(changes) > 2 else ""
        impl = now.content.get("impl")
        yield node, f"{impl} {_short(node)}: {'; '.join(changes[:2])}{more}"
        return
    if [item[:2] for item in old.upstream] != [item[:2] for item in now.upstream]:
        names = [", ".join(_short(entry[1]) for entry in item.upstream) for item in (old, now)]
        yield node, f"{_short(node)}: it reads {names[1]} instead of {names[0]}"
        return
    for (_, ref, was), (_, _, digest) in zip(old.upstream, now.upstream, strict=True):
        before, after = ledger.node(was), ledger.node(digest)
        if was == digest:
            continue
        if before is None or after is None:
            yield ref, _short(ref)
        else:
            yield from _node(ref, before, after, ledger, seen)


def _content(old: JsonObject, now: JsonObject) -> Iterator[str]:
    if old.get("implementation") != now.get("implementation"):
        yield from _implementation(str(old.get("implementation")), str(now.get("implementation")))
    for name in now:
        if name == ASKED and old.get(name) != now[name]:
            yield "requested by --rerun"
        elif name != "implementation":
            yield from _differences(name, old.get(name), now[name])


def _implementation(old: str, now: str) -> Iterator[str]:
    """Say which part of an implementation differs: ``module:object@…|import:…@…|file:…@…``."""
    before, after = (dict(map(_part, text.split("|"))) for text in (old, now))
    for name in dict.fromkeys([*after, *before]):
        was, is_now = before.get(name, ""), after.get(name, "")
        kind, _, rest = name.partition(":")
        module = rest if kind == "import" else kind
        if was == is_now:
            continue
        if kind == "file":
            change = "is gone" if not is_now else "has changed" if was else "is new"
            yield f"the file {rest} {change}"
        elif not was or not is_now:
            yield f"{module}: {'new' if is_now else 'gone'}"
        elif kind == "import" and not _DIGEST.fullmatch(is_now):
            yield f"{rest} {was} → {is_now}"
        elif was.partition("@")[0] != is_now.partition("@")[0] and "@" in is_now:
            yield f"{name.partition('.')[0]} {was.partition('@')[0]} → {is_now.partition('@')[0]}"
        else:
            yield f"{module}: source changed"


_DIGEST = re.compile("[0-9a-f]{16}")


def _part(text: str) -> tuple[str, str]:
    """Return the name of a part of an implementation, and what identifies it."""
    name, _, value = text.rpartition("@") if text.startswith("file:") else text.partition("@")
    return name, value


def _differences(path: str, old: object, now: object) -> Iterator[str]:
    """Yield ``path old → new`` for each leaf that differs."""
    if isinstance(old, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*old, *now]):
            yield from _differences(f"{path}.{name}", old.get(name), now.get(name))
        if old.keys() == now.keys() and list(old) != list(now):
            yield f"{path}: the order of keys has changed"
    elif isinstance(old, list) and isinstance(now, list) and len(old) == len(now):
        for number, (was, new) in enumerate(zip(old, now, strict=True)):
            yield from _differences(f"{path}[{_name_of(new, number)!r}]", was, new)
    elif names := _came_and_went(_names(old), _names(now)):
        yield f"{path}: {names}"
    elif old != now:
        yield f"{path} {_value(old)} → {_value(now)}"


def _name_of(item: object, otherwise: object = None) -> object:
    """Return what names an item of a list; its number counts what FAST-HEP has added, too."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else otherwise


def _names(items: object) -> list[str]:
    """Return the names of the items of a list, if all have one."""
    names = [_name_of(item) for item in items] if isinstance(items, list) else []
    return [] if None in names else [str(name) for name in names]


def _came_and_went(old: Iterable[str], now: Iterable[str]) -> str:
    was, new = set(old), set(now)
    changed = [f"+ {item}" for item in sorted(new - was)]
    return ", ".join(changed + [f"- {item}" for item in sorted(was - new)])


def _value(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _who_sees(rule: Rule, job: Job) -> dict[Sight, str]:
    """Return of each sight the first node of a job that has it."""
    nodes = rule.nodes.get(job.signed_as, {})
    return {
        sight: next(_short(node) for node in job.nodes if sight in nodes[node].sees)
        for sight in SIGHTS
        if any(sight in nodes[node].sees for node in job.nodes)
    }


def _origin(
    old: OriginFacts | None,
    now: OriginFacts | None,
    job: Job,
    ledger: Ledger,
    who: Mapping[Sight, str],
) -> Iterator[str]:
    if not old or not now:
        return
    if old["files"] != now["files"]:
        yield from _files(old["files"], now["files"])
    if old["entries"] != now["entries"]:
        yield f"its entries are {_entries(now['entries'])} instead of {_entries(old['entries'])}"
    contexts = job.origin.contexts if job.origin else {}
    if old["context"] != now["context"]:
        was, new = ledger.context(old["context"]), contexts.get(now["context"])
        shown = "; ".join(_changes(was, new))
        yield shown or "the dataset's metadata or the globals have changed"
    if old["branches"] != now["branches"]:
        yield "it reads other branches"
    for sight, node in who.items():
        if old["seen"].get(sight) == now["seen"][sight]:
            continue
        if sight == "dataset":
            yield f"{node} depends on its dataset's files or number of events, which have changed"
        elif sight == "place":
            yield f"{node} depends on the name or range of its partition, which has changed"
        elif sight == "run" and old["before"] != now["before"]:
            yield "the work before the partitions has changed"
        else:
            change = _datasets(ledger.context(old["run"]), contexts.get(now["run"]))
            yield f"{node} depends on the list of datasets: {change}"


def _changes(was: object, new: object) -> list[str]:
    """Return the first two differences of two contexts, if both are known."""
    differences = list(_differences("", was, new)) if was and new else []
    return [item.lstrip(".") for item in differences[:2]]


def _datasets(was: YamlMapping | None, new: YamlMapping | None) -> str:
    """Return which datasets came and went, or else how one of them changed."""
    if not was or not new:
        return "the list has changed"
    changed = _came_and_went(*(context.get("datasets") or () for context in (was, new)))
    return changed or "; ".join(_changes(was, new)) or "their order has changed"


def _files(old: list[str], now: list[str]) -> Iterator[str]:
    """Say how files differ that are known as ``path|size|mtime|head`` or ``path|sha256:…``."""
    before = {item.partition("|")[0]: item.split("|")[1:] for item in old}
    for item in now:
        path, *facts = item.split("|")
        if path not in before:
            yield f"its input is {path} instead of {', '.join(before) or 'nothing'}"
        elif before[path] != facts:
            both = len(facts) >= 2 and len(before[path]) >= 2
            if both and facts[0] != before[path][0]:
                yield f"input {path} changed size ({before[path][0]} → {facts[0]} bytes)"
            elif both and facts[1] != before[path][1]:
                yield f"input {path} was modified (its modification time changed)"
            elif both:
                yield (
                    f"input {path} has changed: size and time are the same, but not its first bytes"
                )
            else:
                yield f"input {path} or the option --identity has changed"
    if len(old) != len(now):
        yield "the list of input files has changed"


def _entries(entries: Literal["all"] | list[int | None]) -> str:
    if entries == "all":
        return "all"
    start, stop = entries
    return f"{start or 0} to {'the end' if stop is None else stop}"


def _reads(old: list[str], now: list[str], job: Job, valid: Mapping[str, object]) -> Iterator[str]:
    added = [folder for folder in now if folder not in old]
    removed = [folder for folder in old if folder not in now]
    again = [folder for folder in now if folder in old and folder not in valid]
    if job.origin is None and again:
        yield f"it reads the results of {len(now)} jobs, and {len(again)} of these jobs run again"
    if job.origin is None and (added or removed):
        counts = f"{len(added)} new, {len(removed)} gone"
        yield f"the jobs whose results it reads have changed ({counts})"


def _short(node: str) -> str:
    return node.removeprefix("stage.")
