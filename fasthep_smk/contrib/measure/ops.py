"""``fasthep-smk ops``: what a workflow can use, all of it in one line each, or one in full.

That is all that FAST-HEP's packages and the workflow itself have registered. What is said of each
is taken from its specification, its signature and its docstring, and, where these are silent on a
parameter, from the schema of the language.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from tabulate import tabulate

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.compile import load_with_digests, registry_of
from fasthep_smk.flow.local_modules import find_local_modules
from fasthep_smk.flow.op_identity import modules_of_entry
from fasthep_smk.flow.places import mapping
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import UsageError, nearest
from fasthep_smk.util.names import printable

#: How renderers are called, which are registered among the writers.
_RENDER = "hep.render."
#: The sections of a registry that a workflow's author chooses from: what is in them, and where a
#: workflow names it.
SECTIONS = {
    "transforms": ("operation", "in 'op' of a stage"),
    "sources": ("source", "in 'kind' of a source"),
    "sinks": ("writer", "in 'kind', below 'write'"),
    _RENDER: ("renderer", "in 'op' of a style"),
    "observers": ("observer", "in 'kind', below 'inspect' or 'observers'"),
    "execution_modifiers": ("modifier", "in 'execution.modifiers' of a stage"),
    "functions": ("function", "in expressions"),
    "constants": ("constant", "in expressions"),
    "hooks": ("hook", "in 'kind', below 'execution_hooks'"),
}
_PLACES = dict(SECTIONS.values())
#: What FAST-HEP hands an implementation besides its parameters.
_HANDED = (
    "self", "stream", "target", "ctx", "meta", "data", "params", "datasets", "defaults",
    "metadata_only",
)  # fmt: skip
#: Values that YAML writes in another way than Python.
_WORDS = {"None": "none", "True": "true", "False": "false"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a component; ``default`` as text, None if there is none."""

    name: str
    kind: str = ""
    required: bool = False
    default: str | None = None
    allowed: tuple[str, ...] = ()
    meaning: str = ""


@dataclass(frozen=True)
class Component:
    """Something registered: what it is, and what a workflow can say to it.

    ``own`` is that of the workflow; ``reads`` are columns that it reads and no parameter names;
    ``problem`` says why nothing more is known of it.
    """

    kind: str
    name: str
    own: bool
    summary: str = ""
    parameters: tuple[Parameter, ...] = ()
    reads: tuple[str, ...] = ()
    problem: str = ""


def do_ops(options: argparse.Namespace) -> int:
    """Print what a workflow can use, or one of those in full.

    Raises:
        Findings: the workflow cannot be read.
        UsageError: nothing has the name that is asked for.
    """
    everything, name = registered(options.workflow, Path.cwd()), options.name
    components = [component for component in everything if name in (None, component.name)]
    if name is not None and not components:
        close = nearest(name, [component.name for component in everything])
        more = "" if options.workflow else "; --workflow workflow.yaml adds your own operations"
        raise UsageError(
            f"there is no operation or component {printable(name)!r}"
            + (f"\n    hint: did you mean {close!r}?" if close else "")
            + f"\n    hint: 'fasthep-smk ops' lists all{more}"
        )
    if options.json:
        print(json.dumps([asdict(component) for component in components], indent=1))
    else:
        print(as_text(components, full=name is not None), end="")
    return 0


def registered(workflow: Path | None, root: Path) -> list[Component]:
    """Return what a workflow can use, by kind and name; without one, what FAST-HEP brings.

    Raises:
        Findings: the workflow, or a profile that it uses, cannot be read.
    """
    document: Mapping[str, object] = {"use": {"profiles": ["hep"]}}
    if workflow is not None:
        document, _ = load_with_digests(workflow)
    own = mapping(document.get("registry"))
    if workflow is not None:
        find_local_modules(root, workflow, modules_of_entry(dict(own)))
    registry = registry_of(document, workflow or root / "workflow.yaml", root)
    renderers = {
        str(key).removeprefix(_RENDER)
        for section in ("sinks", "render")
        for key in registry.get(section) or ()
    }
    components = [
        _component(kind, str(name), mapping(entry) or {"impl": entry}, renderers, own=name in ours)
        for section, (kind, _) in SECTIONS.items()
        for ours in [mapping(own.get(section))]
        for name, entry in sorted((registry.get(section) or {}).items())
    ]
    return sorted(components, key=lambda component: [*_PLACES].index(component.kind))


def _component(
    kind: str, name: str, entry: Mapping[str, object], renderers: set[str], *, own: bool
) -> Component:
    """Return what is known of an entry of a registry; a style has settings by ``renderers``."""
    described = mapping(mapping(_parts().get(name)).get("properties")) if "." in name else {}
    if name.startswith(_RENDER):
        kind, others = "renderer", renderers - {name.removeprefix(_RENDER)}
        settings = mapping(_parts()["style"]["properties"])
        described = {key: part for key, part in settings.items() if key not in others}
    elif (kind, name) == ("source", "root_tree"):
        described = mapping(_parts()["source"]["then"]["properties"])
    elif (kind, name) == ("writer", "root_tree"):
        written = mapping(_parts()["write"]["properties"])
        described = {key: part for key, part in written.items() if "description" in part}
    try:
        # A module of the user's may print, or end the program.
        with contextlib.redirect_stdout(io.StringIO()):
            spec, impl = (
                upstream.load_object(path) if isinstance(path, str) else None
                for path in (entry.get("spec"), entry.get("impl"))
            )
    except (Exception, SystemExit) as error:
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        return Component(kind, name, own, problem=problem)
    content = asdict(spec) if is_dataclass(spec) and not isinstance(spec, type) else mapping(spec)
    return Component(
        kind,
        name,
        own,
        summary=_summary(impl, content),
        parameters=tuple(_parameters(mapping(content.get("params")), impl, described)),
        reads=tuple(dict.fromkeys(_columns(content.get("requires")))),
    )


def _summary(impl: object, spec: Mapping[str, object]) -> str:
    """Return the first sentence that is said of a component."""
    result = mapping(spec.get("result"))
    results = [result, *map(mapping, result.values())]
    # Its own docstring, not that of what it is made from; NumPy's begin with the signature.
    own = vars(impl).get("__doc__") if isinstance(impl, type) else getattr(impl, "__doc__", None)
    text = inspect.cleandoc(own) if callable(impl) and isinstance(own, str) else ""
    paragraphs = [part for part in text.split("\n\n") if not re.match(r"\w+\(", part)]
    texts = (
        spec.get("description"),
        *paragraphs[:1],
        " ".join(str(result["description"]) for result in results if "description" in result),
    )
    summary = next((" ".join(str(text).split()) for text in texts if text), "")
    return re.split(r"(?<=\.)\s", summary)[0]


def _parameters(
    declared: Mapping[str, object], impl: object, described: Mapping[str, object]
) -> Iterator[Parameter]:
    """Yield the parameters that a specification, a signature and the schema know."""
    arguments: Mapping[str, inspect.Parameter] = {}
    if callable(impl):
        with contextlib.suppress(TypeError, ValueError):  # it does not say
            arguments = inspect.signature(impl).parameters
    absent = inspect.Parameter("absent", inspect.Parameter.KEYWORD_ONLY)
    of_rest = (absent.VAR_KEYWORD, absent.VAR_POSITIONAL)
    named = {
        name: argument
        for name, argument in arguments.items()
        if name not in _HANDED and argument.kind not in of_rest
    }
    listed = [name for name in described if not _meaning(described[name]).startswith("not read")]
    specified = [name for name in declared if name not in _HANDED]
    for name in dict.fromkeys((*specified, *named, *listed)):
        spec, argument = mapping(declared.get(name)), named.get(name, absent)
        default = spec.get("default", argument.default)
        has_default = default is not inspect.Parameter.empty
        noted = "" if argument.annotation is argument.empty else argument.annotation
        allowed = spec.get("allowed")
        yield Parameter(
            name,
            str(spec.get("type") or getattr(noted, "__name__", noted)),
            bool(spec.get("required", argument is not absent and not has_default)),
            _WORDS.get(repr(default), repr(default)) if has_default else None,
            tuple(map(str, allowed)) if isinstance(allowed, list | tuple) else (),
            _meaning(described.get(name)) or str(spec.get("description") or ""),
        )


@cache
def _parts() -> YamlMapping:
    """Return the parts of the schema of the language, by their names."""
    return mapping(schema.bundled()["$defs"])


def _meaning(part: object) -> str:
    """Return what the schema of the language says of a parameter."""
    referred = str(mapping(part).get("$ref", "")).rpartition("/")[2]
    whole = {**mapping(_parts().get(referred)), **mapping(part)}
    return str(whole.get("description") or "")


def _columns(contract: object) -> Iterator[str]:
    """Yield which columns a specification says are read besides those that parameters name."""
    listed = mapping(contract).get("symbols")
    for rule in map(mapping, listed if isinstance(listed, list) else ()):
        if isinstance(suffixes := rule.get("suffixes"), list):
            source = str(rule.get("from", "")).replace("params.", "")
            yield ", ".join(f"{{{source}}}_{suffix}" for suffix in suffixes)


def as_text(components: Iterable[Component], *, full: bool) -> str:
    """Return components as lines for a person; in full, or one line each."""
    lines = _in_full(components) if full else _in_brief(components)
    return "\n".join(lines).rstrip("\n") + "\n"


def _in_brief(components: Iterable[Component]) -> Iterator[str]:
    for kind, group in groupby(components, key=lambda component: component.kind):
        names = [(printable(entry.name), entry) for entry in group]
        width = max(len(name) for name, _ in names)
        yield f"{kind.capitalize()}s ({_PLACES[kind]})"
        for name, entry in names:
            mark = " (own)" if entry.own else ""
            yield f"    {name:{width}}{mark}  {printable(entry.problem or entry.summary)}".rstrip()
        yield ""
    yield "'fasthep-smk ops NAME' describes one of them"


def _in_full(components: Iterable[Component]) -> Iterator[str]:
    for entry in components:
        yield f"{printable(entry.name)}: {entry.kind}{', your own' if entry.own else ''}"
        yield f"    {printable(entry.problem or entry.summary)}"
        yield ""
        headers = ["parameter", "kind", "required", "default", "meaning"]
        rows = []
        for item in entry.parameters:
            meaning = item.meaning + (f" ({', '.join(item.allowed)})" if item.allowed else "")
            texts = (item.name, item.kind, "yes" * item.required, item.default or "", meaning)
            rows.append([*map(printable, texts)])
        if rows:
            yield tabulate(rows, headers=headers, disable_numparse=True)
            yield ""
        yield from (f"reads {printable(columns)}" for columns in entry.reads)
        yield ""
