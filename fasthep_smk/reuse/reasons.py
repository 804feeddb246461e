"""Why a job has to run, in words: the first thing that differs from when it ran last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from fasthep_smk.flow.context_use import SIGHTS
from fasthep_smk.flow.records import Sight
from fasthep_smk.plan.rules import Job, Rule, made_of
from fasthep_smk.plan.signatures import ASKED
from fasthep_smk.reuse.ledger import Ledger, NodeContent
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
        before = before or renamed(rule, job, self._of_other_rules.get(job.key, ()), self.known)
        if before is None:
            return None
        if before["signature"] == job.signature:
            # An earlier call has put it away, and has run nothing.
            change = self.checks.change(before) or self.store.damage(before)
            if change is not None:
                return change
        return reason(rule, job, before, self.known, self.valid)

    @cached_property
    def _of_other_rules(self) -> Mapping[str, list[Record]]:
        """The last records of rules that there are no more, by the keys of their jobs."""
        names = {rule.name for rule in self.rules}
        records: dict[str, list[Record]] = {}
        for _, record in self.store.superseded:
            if record["rule"] not in names:
                records.setdefault(record["key"], []).append(record)
        return records


def renamed(rule: Rule, job: Job, records: Sequence[Record], known: Ledger) -> Record | None:
    """Return what a job was before: its rule has another name if its stages have.

    It is the last record that has most of its nodes; ``None`` if none has any.
    """
    now = _now(rule, job, known)

    def shared(record: Record) -> int:
        then = _then(record["made_of"], known)
        return len(now.keys() & then.keys()) + len([*_renames(then, now)])

    best = max(reversed(records), key=shared, default=None)
    return best if best is not None and shared(best) else None


def reason(rule: Rule, job: Job, before: Record, known: Ledger, valid: Mapping[str, object]) -> str:
    """Return why a job that has run before does not stand.

    ``before`` is its last record, ``known`` what digests stand for, ``valid`` the folders of the
    jobs that stand.
    """
    if before["signature"] == job.signature:
        return "its earlier results are missing"
    then, now = before["made_of"], made_of(rule, job)
    for text in (
        *_nodes(then, now, known),
        *_origin(then.get("origin"), now, known),
        *_reads(then["reads"], now, valid),
    ):
        return text
    if job.measured:
        return f"it is measured now: {', '.join(job.measured)}"
    changed = "its output columns" if job.origin else "the results that it merges"
    return f"{changed} have changed"


# --- nodes ----------------------------------------------------------------------------------------


def _now(rule: Rule, job: Job, known: Ledger) -> dict[str, NodeContent | None]:
    return _then(made_of(rule, job), known)


def _then(made: MadeOf, known: Ledger) -> dict[str, NodeContent | None]:
    """Return what is known of the nodes of a job."""
    return {node: known.node(digest) for node, (digest, _) in made["nodes"].items()}


def _renames(
    old: Mapping[str, NodeContent | None], now: Mapping[str, NodeContent | None]
) -> Iterator[tuple[str, str]]:
    """Yield the nodes that only have another name, with the earlier one first."""
    for node in now.keys() - old.keys():
        for was in old.keys() - now.keys():
            before, after = old[was], now[node]
            if before and after and {**before.content, "id": node} == after.content:
                yield was, node


def _nodes(then: MadeOf, now: MadeOf, known: Ledger) -> Iterator[str]:
    """Say which node has another name or differs, and how, or else which node before it."""
    old, new = then["nodes"], now["nodes"]
    for was, node in _renames(_then(then, known), _then(now, known)):
        yield f"{_short(was)} is now called {_short(node)}"
    for node, (digest, _) in new.items():
        if node in old and old[node][0] != digest:
            for ref, text in _changes(node, old[node][0], digest, known, set()):
                yield text if ref == node else f"its input changed: {text}"
    for nodes, word in (
        ([node for node in new if node not in old], "new in this job"),
        ([node for node in old if node not in new], "no longer in this job"),
    ):
        if nodes:
            yield f"{', '.join(map(_short, nodes[:3]))}: {word}"


def _changes(
    node: str, was: str, now: str, known: Ledger, seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield a node that differs, and how: this one, or else those before it."""
    old, new = known.node(was), known.node(now)
    if was == now or node in seen:
        return
    seen.add(node)
    if old is None or new is None:
        yield node, f"{_short(node)} or what it reads has changed"
    elif changes := list(_content(old.content, new.content)):
        more = f" (and {len(changes) - 2} more)" if len(changes) > 2 else ""
        yield node, f"{new.content['impl']} {_short(node)}: {'; '.join(changes[:2])}{more}"
    elif [item[:2] for item in old.upstream] != [item[:2] for item in new.upstream]:
        names = [", ".join(_short(entry[1]) for entry in item.upstream) for item in (old, new)]
        yield node, f"{_short(node)}: it reads {names[1]} instead of {names[0]}"
    else:
        for (_, ref, before), (_, _, after) in zip(old.upstream, new.upstream, strict=True):
            yield from _changes(ref, before, after, known, seen)


def _content(old: JsonObject, now: JsonObject) -> Iterator[str]:
    for name in now:
        if name == ASKED and old.get(name) != now[name]:
            yield "requested by --rerun"
        elif name == "implementation":
            yield from _implementation(str(old.get(name)), str(now[name]))
        else:
            yield from _differences(name, old.get(name), now[name])


def _implementation(old: str, now: str) -> Iterator[str]:
    """Say which part of an implementation differs: ``module:object@…|import:…@…|file:…@…``."""
    before, after = (dict(map(_part, text.split("|"))) for text in (old, now))
    for name in dict.fromkeys([*after, *before]):
        was, new = before.get(name, ""), after.get(name, "")
        kind, _, rest = name.partition(":")
        what = {"file": f"the file {rest}", "import": rest}.get(kind, kind)
        versions = [value.partition("@")[0] for value in (was, new)]
        if not was or not new:
            yield f"{what} is {'gone' if was else 'new'}"
        elif kind == "file" and was != new:
            yield f"{what} has changed"
        elif versions[0] != versions[1] and ("@" in new or "." in new):
            yield f"{what.partition('.')[0]} {versions[0]} → {versions[1]}"
        elif was != new:
            yield f"{what}: source changed"


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
            # A number would count what FAST-HEP has added, too.
            name = new.get("name", number) if isinstance(new, dict) else number
            yield from _differences(f"{path}[{name!r}]", was, new)
    elif names := _came_and_went(_names(old), _names(now)):
        yield f"{path}: {names}"
    elif old != now:
        texts = ["nothing" if value is None else str(value) for value in (old, now)]
        was, new = (text if len(text) <= 60 else f"{text[:57]}..." for text in texts)
        yield f"{path} {was} → {new}"


def _names(items: object) -> list[str]:
    """Return the names of the items of a list, if all have one."""
    listed = items if isinstance(items, list) else []
    names = [item.get("name") if isinstance(item, dict) else None for item in listed]
    return [] if None in names else list(map(str, names))


def _came_and_went(old: Iterable[str], now: Iterable[str]) -> str:
    was, new = set(old), set(now)
    changed = [f"+ {item}" for item in sorted(new - was)]
    return ", ".join(changed + [f"- {item}" for item in sorted(was - new)])


def _short(node: str) -> str:
    return node.removeprefix("stage.")


# --- where events come from, and other jobs -------------------------------------------------------


def _origin(old: OriginFacts | None, made: MadeOf, known: Ledger) -> Iterator[str]:
    now = made["origin"]
    if not old or not now:
        return
    yield from _files(old["files"], now["files"])
    if old["entries"] != now["entries"]:
        yield f"its entries are {now['entries']} instead of {old['entries']}"
    if old["context"] != now["context"]:
        changes = _of_context(known.context(old["context"]), known.context(now["context"]))
        yield changes or "the dataset's metadata or the globals have changed"
    if old["branches"] != now["branches"]:
        yield "it reads other branches"
    for sight in SIGHTS:
        who = next((node for node, (_, sees) in made["nodes"].items() if sight in sees), None)
        if who is None or old["seen"].get(sight) == now["seen"][sight]:
            continue
        if sight == "run" and old["before"] != now["before"]:
            yield "the work before the partitions has changed"
        what = _SEEN.get(sight)
        if what is None:
            was, new = (known.context(origin["run"]) or {} for origin in (old, now))
            names = _came_and_went(was.get("datasets") or (), new.get("datasets") or ())
            changes = names or _of_context(was, new) or "their order has changed"
            what = f"the list of datasets: {changes}"
        yield f"{_short(who)} depends on {what}"


_SEEN: Mapping[Sight, str] = {
    "dataset": "its dataset's files or number of events, which have changed",
    "place": "the name or range of its partition, which has changed",
}


def _of_context(was: YamlMapping | None, new: YamlMapping | None) -> str:
    """Return the first two differences of two contexts, if both are known."""
    differences = _differences("", was, new) if was and new else iter(())
    return "; ".join(item.lstrip(".") for item in islice(differences, 2))


def _files(old: list[str], now: list[str]) -> Iterator[str]:
    """Say how files differ that are known as ``path|size|mtime|head`` or ``path|sha256:…``."""
    before = {item.partition("|")[0]: item.split("|")[1:] for item in old}
    for item in now:
        path, *facts = item.split("|")
        if path not in before:
            yield f"its input is {path} instead of {', '.join(before) or 'nothing'}"
        elif before[path] != facts:
            what = ["content, or the option --identity"]
            if len(facts) == len(before[path]) == len(_FACTS):
                pairs = zip(_FACTS, before[path], facts, strict=True)
                what = [name for name, was, new in pairs if was != new]
            yield f"input {path} has changed: its {', '.join(what)}"
    if len(old) != len(now):
        yield "the list of input files has changed"


_FACTS = ("size", "modification time", "first bytes")


def _reads(old: list[str], made: MadeOf, valid: Mapping[str, object]) -> Iterator[str]:
    """Say which of the jobs that it reads run again, or are others."""
    if made["origin"] is not None:
        return
    now = made["reads"]
    if again := [folder for folder in now if folder in old and folder not in valid]:
        yield f"it reads the results of {len(now)} jobs, and {len(again)} of these jobs run again"
    if added_and_gone := set(now) ^ set(old):
        new = len(added_and_gone & set(now))
        counts = f"{new} new, {len(added_and_gone) - new} gone"
        yield f"the jobs whose results it reads have changed ({counts})"
