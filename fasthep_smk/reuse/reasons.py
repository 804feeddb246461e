"""Why a job has to run, in words: the first thing that differs from when it ran last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from fasthep_smk.flow.context_use import SIGHTS
from fasthep_smk.flow.records import Sight
from fasthep_smk.plan.rules import Job, Rule, made_of
from fasthep_smk.plan.signatures import ASKED
from fasthep_smk.reuse.ledger import Ledger, NodeContent, described
from fasthep_smk.storage.record import MadeOf, Record
from fasthep_smk.storage.task_table import OriginFacts
from fasthep_smk.util.documents import JsonObject, YamlMapping

__all__ = ["reason"]


def reason(rule: Rule, job: Job, before: Record, known: Ledger, valid: Mapping[str, object]) -> str:
    """Return why a job that has run before does not stand.

    ``before`` is its last record, ``known`` what digests stand for, ``valid`` the folders of
    the jobs that stand.
    """
    then, now = before["made_of"], made_of(rule, job)
    if before["signature"] == job.signature:
        return "its earlier results are gone"
    for text in (
        *_nodes(rule, job, then, known),
        *_origin(then.get("origin"), now["origin"], job, known, _who_sees(rule, job)),
        *_reads(then["reads"], now["reads"], job, valid),
    ):
        return text
    if job.measured:
        return f"it is to be measured: {', '.join(job.measured)}"
    return "its output columns have changed" if job.origin else "what it sums up has changed"


def _nodes(rule: Rule, job: Job, then: MadeOf, known: Ledger) -> Iterator[str]:
    """Say which node differs, and how: what it does itself before what comes before it."""
    signatures = rule.nodes.get(job.signed_as, {})
    now = {node: described(signatures[node]) for node in job.nodes}
    differ = [
        node
        for node in job.nodes
        if node in then["nodes"] and then["nodes"][node][0] != signatures[node].digest
    ]
    for node in differ:
        old = known.node(then["nodes"][node][0])
        if old is not None:
            yield from _node(node, old, now[node], known, set())
    added = [node for node in job.nodes if node not in then["nodes"]]
    removed = [node for node in then["nodes"] if node not in job.nodes]
    for nodes, word in ((added, "new here"), (removed, "no longer here")):
        if nodes:
            yield f"{', '.join(_short(node) for node in nodes[:3])}: {word}"
    if differ:
        old = known.node(then["nodes"][differ[0]][0])
        same = old is not None and old.content == now[differ[0]].content
        what = "what it reads comes from another" if same else "it is another"
        yield f"{_short(differ[0])}: {what} operation than before"


def _node(
    node: str, old: NodeContent, now: NodeContent, known: Ledger, seen: set[str]
) -> Iterator[str]:
    """Say how a node differs, or else one of those before it."""
    if node in seen:
        return
    seen.add(node)
    changes = list(_content(old.content, now.content))
    if changes:
        more = f" (and {len(changes) - 2} more)" if len(changes) > 2 else ""
        impl = now.content.get("impl")
        yield f"{impl} {_short(node)}: {'; '.join(changes[:2])}{more}"
        return
    if [item[:2] for item in old.upstream] != [item[:2] for item in now.upstream]:
        names = [", ".join(_short(one[1]) for one in item.upstream) for item in (old, now)]
        yield f"{_short(node)}: it reads {names[1]} instead of {names[0]}"
        return
    for (_, ref, was), (_, _, digest) in zip(old.upstream, now.upstream, strict=True):
        before, after = known.node(was), known.node(digest)
        if was != digest and before is not None and after is not None:
            yield from _node(ref, before, after, known, seen)


def _content(old: JsonObject, now: JsonObject) -> Iterator[str]:
    if old.get("implementation") != now.get("implementation"):
        yield from _implementation(str(old.get("implementation")), str(now.get("implementation")))
    for name in now:
        if name == ASKED and old.get(name) != now[name]:
            yield "you have asked for it (--rerun)"
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
            what = "is gone" if not is_now else "has changed" if was else "is new"
            yield f"{rest}, which it names, {what}"
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
            yield f"{path}: another order of keys"
    elif isinstance(old, list) and isinstance(now, list) and len(old) == len(now):
        for number, (one, other) in enumerate(zip(old, now, strict=True)):
            yield from _differences(f"{path}[{number}]", one, other)
    elif old != now:
        yield f"{path} {_value(old)} → {_value(now)}"


def _value(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _who_sees(rule: Rule, job: Job) -> dict[Sight, str]:
    """Return of each sight the first node of a job that has it."""
    known = rule.nodes.get(job.signed_as, {})
    return {
        sight: next(_short(node) for node in job.nodes if sight in known[node].sees)
        for sight in SIGHTS
        if any(sight in known[node].sees for node in job.nodes)
    }


def _origin(
    old: OriginFacts | None,
    now: OriginFacts | None,
    job: Job,
    known: Ledger,
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
        was, new = known.context(old["context"]), contexts.get(now["context"])
        shown = "; ".join(_changes(was, new))
        yield shown or "what its operations see of the dataset and the globals has changed"
    if old["branches"] != now["branches"]:
        yield "other branches are read"
    for sight, node in who.items():
        if old["seen"].get(sight) == now["seen"][sight]:
            continue
        if sight == "dataset":
            yield f"its dataset's files or number of events, which {node} may see, have changed"
        elif sight == "place":
            yield f"its partition has another name or range, which {node} may see"
        elif sight == "run" and old["before"] != now["before"]:
            yield "what runs before the partitions has changed"
        else:
            what = _datasets(known.context(old["run"]), contexts.get(now["run"]))
            yield f"the run's datasets, which {node} may see: {what}"


def _changes(was: object, new: object) -> list[str]:
    """Return the first two differences of two contexts, if both are known."""
    found = list(_differences("", was, new)) if was and new else []
    return [item.lstrip(".") for item in found[:2]]


def _datasets(was: YamlMapping | None, new: YamlMapping | None) -> str:
    """Return which datasets came and went, or else how one of them changed."""
    if not was or not new:
        return "others than before"
    names = [set(one.get("datasets") or ()) for one in (was, new)]
    changed = [f"+ {item}" for item in sorted(names[1] - names[0])]
    changed += [f"- {item}" for item in sorted(names[0] - names[1])]
    return ", ".join(changed) or "; ".join(_changes(was, new)) or "another order"


def _files(old: list[str], now: list[str]) -> Iterator[str]:
    """Say how files differ that are known as ``path|size|mtime|head`` or ``path|sha256:…``."""
    before = {item.partition("|")[0]: item.split("|")[1:] for item in old}
    for item in now:
        path, *facts = item.split("|")
        if path not in before:
            yield f"input {path} instead of {', '.join(before) or 'nothing'}"
        elif before[path] != facts:
            both = len(facts) >= 2 and len(before[path]) >= 2
            if both and facts[0] != before[path][0]:
                yield f"input {path} changed size ({before[path][0]} → {facts[0]} bytes)"
            elif both and facts[1] != before[path][1]:
                yield f"input {path} was written to (another modification time)"
            elif both:
                yield f"input {path} has other first bytes than known, with its size and time"
            else:
                yield f"input {path} has another content, or another --identity was asked for"
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
        yield f"{len(again)} of the {len(now)} jobs that it reads run again"
    if job.origin is None and (added or removed):
        yield f"it reads other jobs than before ({len(added)} new, {len(removed)} gone)"


def _short(node: str) -> str:
    return node.removeprefix("stage.")
