"""What a workflow can use: all that FAST-HEP's packages and the workflow itself have registered.

What is said of each is taken from its specification, its signature and its docstring, and, where
these are silent on a parameter, from the schema of the language.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fasthep_smk.config import schema
from fasthep_smk.flow import upstream
from fasthep_smk.flow.compile import load_with_digests, registry_of
from fasthep_smk.flow.local_modules import find_local_modules
from fasthep_smk.flow.op_identity import modules_of_entry

__all__ = ["KINDS", "Component", "Parameter", "called_as", "registered"]

#: The sections of a registry that a workflow's author chooses from, and what is in them.
KINDS = {
    "transforms": "operation",
    "sources": "source",
    "sinks": "writer",
    "observers": "observer",
    "execution_modifiers": "modifier",
    "functions": "function",
    "constants": "constant",
    "hooks": "hook",
}
RENDERER = "renderer"
_RENDERERS = "hep.render."
#: The profile whose components are told where no workflow says which it uses.
_USUAL = "hep"
#: What FAST-HEP hands an implementation besides its parameters.
_OF_DATA = {"datasets", "defaults"}
_HANDED = ("self", "stream", "target", "ctx", "meta", "data", "params")
_SYMBOLS = {
    "field_list": "the columns that {0} names",
    "expr": "the columns in the expression {0}",
    "expr_or_field": "the column {0}, or the columns in it if it is an expression",
    "cutflow": "the columns in the cuts of {0}",
    "relative_expr": "the columns of the collection in the expressions of {0}",
    "scoped_expr": "the columns of the objects in the expressions of {0}",
    "count": "the number of what {0} names",
}
_PARAMS = re.compile(r"\bparams\.")
_CALL = re.compile(r"\w+\(")


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
    """Something registered: what it is, what a workflow can say to it, what it reads and makes.

    ``own`` is that of the workflow; ``problem`` says why nothing more is known of it.
    """

    kind: str
    name: str
    summary: str = ""
    documentation: str = ""
    signature: str = ""
    parameters: tuple[Parameter, ...] = ()
    reads: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    takes: str = ""
    makes: tuple[str, ...] = ()
    implementation: str = ""
    own: bool = False
    problem: str = ""


def registered(workflow: Path | None, root: Path) -> list[Component]:
    """Return what a workflow can use, by kind and name; without one, what FAST-HEP brings.

    Raises:
        Findings: the workflow, or a profile that it uses, cannot be read.
    """
    document: Mapping[str, object] = {"use": {"profiles": [_USUAL]}}
    own: Mapping[str, object] = {}
    if workflow is not None:
        document, _ = load_with_digests(workflow)
        said = document.get("registry")
        own = said if isinstance(said, dict) else {}
        find_local_modules(root, workflow, modules_of_entry(dict(own)))
    named = workflow or root / "workflow.yaml"
    registry = registry_of(document, named, root)
    found = []
    for section, kind in KINDS.items():
        of_workflow = own.get(section)
        names = of_workflow if isinstance(of_workflow, dict) else {}
        for name, entry in sorted((registry.get(section) or {}).items()):
            shown = RENDERER if str(name).startswith(_RENDERERS) else kind
            found.append(_component(shown, str(name), entry, own=name in names))
    found = _without_others(found, registry)
    order = [*KINDS.values()]
    order.insert(order.index("writer") + 1, RENDERER)
    return sorted(found, key=lambda one: order.index(one.kind))


def _without_others(found: list[Component], registry: Mapping[str, object]) -> list[Component]:
    """Return components; of renderers, without the settings that are of another one."""
    renderers = [one.name for one in found if one.kind == RENDERER]
    settings = {name.rpartition(".")[2] for name in (*renderers, *_mapping(registry.get("render")))}

    def own(component: Component) -> tuple[Parameter, ...]:
        others = settings - {component.name.rpartition(".")[2]}
        return tuple(one for one in component.parameters if one.name not in others)

    return [replace(one, parameters=own(one)) if one.kind == RENDERER else one for one in found]


def _component(kind: str, name: str, entry: object, *, own: bool) -> Component:
    references = entry if isinstance(entry, dict) else {"impl": entry}
    implementation = str(references.get("impl") or "")
    try:
        # A module of the user's may print, or end the program.
        with contextlib.redirect_stdout(io.StringIO()):
            spec = _loaded(references.get("spec"))
            made = _loaded(references.get("impl"))
    except (Exception, SystemExit) as error:
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        return Component(kind, name, implementation=implementation, own=own, problem=problem)
    documentation = _documentation(made)
    result = _mapping(_part(spec, "result"))
    return Component(
        kind,
        name,
        summary=_summary(made, spec, result, documentation),
        documentation=documentation,
        signature=called_as(name, made) if kind == "function" else "",
        parameters=() if kind in ("function", "constant") else _parameters(name, kind, spec, made),
        reads=tuple(_symbols(_part(spec, "requires"))),
        provides=tuple(_symbols(_part(spec, "provides"))),
        takes=_kind_of(_mapping(_part(spec, "input"))),
        makes=tuple(_makes(result)),
        implementation=implementation,
        own=own,
    )


def _loaded(reference: object) -> object:
    return upstream.load_object(reference) if isinstance(reference, str) else None


def _part(spec: object, name: str) -> object:
    return spec.get(name) if isinstance(spec, dict) else getattr(spec, name, None)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _documentation(made: object) -> str:
    """Return the docstring of an implementation: its own, not that of what it is made from."""
    own = vars(made).get("__doc__") if isinstance(made, type) else getattr(made, "__doc__", None)
    is_documented = isinstance(made, type) or callable(made)
    return inspect.cleandoc(own) if is_documented and isinstance(own, str) else ""


def _summary(made: object, spec: object, result: Mapping[str, object], documentation: str) -> str:
    described = _part(spec, "description")
    if isinstance(described, str):
        return _line(described)
    # NumPy's begin with the signature.
    paragraphs = [one for one in documentation.split("\n\n") if one and not _CALL.match(one)]
    if paragraphs:
        return _line(paragraphs[0])
    results = [result, *(_mapping(one) for one in result.values())]
    told = [str(one["description"]) for one in results if isinstance(one.get("description"), str)]
    if told:
        return _line(" ".join(told))
    module = sys.modules.get(str(getattr(made, "__module__", "")))
    return _line((getattr(module, "__doc__", None) or "").partition("\n\n")[0])


def _line(text: str) -> str:
    """Return the first sentence of a text, in one line."""
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]


def called_as(name: str, made: object) -> str:
    """Return how a function is called; what only names keywords of NumPy's is left out."""
    try:
        told = inspect.signature(made) if callable(made) else inspect.Signature()
        plain = [one.replace(annotation=one.empty) for one in told.parameters.values()]
        called = str(inspect.Signature(plain))
    except (TypeError, ValueError):
        first = _documentation(made).partition("\n")[0]
        called = first[first.find("(") :] if "(" in first else "()"
    for end in (", /, out=None", ", /)"):
        called = f"{called.partition(end)[0]})" if end in called else called
    return f"{name}{called}"


def _parameters(name: str, kind: str, spec: object, made: object) -> tuple[Parameter, ...]:
    declared, arguments = _mapping(_part(spec, "params")), dict(_arguments(made))
    described = _described(name, kind)
    names = dict.fromkeys((*declared, *arguments))
    if kind == "source":  # the datasets are handed to it
        names = dict.fromkeys(one for one in names if one in (described or set(names) - _OF_DATA))
    named_by_schema = (one for one in described if _is_read(_mapping(described[one])))
    found = []
    for one in dict.fromkeys((*names, *named_by_schema)):
        said, argument = _mapping(declared.get(one)), arguments.get(one)
        default = _default(said, argument)
        allowed = said.get("allowed")
        found.append(
            Parameter(
                one,
                str(said.get("type") or _annotation(argument)),
                bool(said.get("required", argument is not None and default is None)),
                default,
                tuple(map(str, allowed)) if isinstance(allowed, list | tuple) else (),
                _meaning(_mapping(described.get(one))) or str(said.get("description") or ""),
            )
        )
    return tuple(found)


def _described(name: str, kind: str) -> Mapping[str, object]:
    """Return what the schema of the language says of the parameters of a component."""
    parts = _mapping(schema.load("workflow", schema.LANGUAGE)["$defs"])
    if kind == RENDERER:
        return _mapping(_mapping(parts["style"]).get("properties"))
    if (kind, name) == ("source", "root_tree"):
        of_source = _mapping(_mapping(parts["source"]).get("then"))
        return _mapping(of_source.get("properties"))
    return _mapping(_mapping(parts.get(name)).get("properties")) if "." in name else {}


def _meaning(part: Mapping[str, object]) -> str:
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        whole = schema.load(reference.removeprefix("#/$defs/"), schema.LANGUAGE)
        referred = _mapping(_mapping(whole["$defs"])[reference.removeprefix("#/$defs/")])
        part = {**referred, **part}
    return str(part.get("description") or "")


def _is_read(part: Mapping[str, object]) -> bool:
    return not str(part.get("description")).startswith("not read")


def _arguments(made: object) -> Iterator[tuple[str, inspect.Parameter]]:
    try:
        signature = inspect.signature(made) if callable(made) else None
    except (TypeError, ValueError):
        return
    for name, one in signature.parameters.items() if signature else ():
        if name not in _HANDED and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            yield name, one


def _default(said: Mapping[str, object], argument: inspect.Parameter | None) -> str | None:
    if "default" in said:
        return _shown(said["default"])
    if argument is None or argument.default is inspect.Parameter.empty:
        return None
    return _shown(argument.default)


def _shown(value: object) -> str:
    """Return a value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return repr(value)


def _annotation(argument: inspect.Parameter | None) -> str:
    if argument is None or argument.annotation is inspect.Parameter.empty:
        return ""
    said = argument.annotation
    return str(said if isinstance(said, str) else getattr(said, "__name__", said))


def _symbols(contract: object) -> Iterator[str]:
    """Yield in words which columns a specification says are read or made."""
    listed = _mapping(contract).get("symbols")
    for rule in listed if isinstance(listed, list) else ():
        said = _mapping(rule)
        kind, named = str(said.get("kind")), _PARAMS.sub("", str(said.get("from", "")))
        suffixes = said.get("suffixes")
        if kind == "template":
            yield _PARAMS.sub("", str(said.get("template")))
        elif kind == "field_prefix" and isinstance(suffixes, list):
            yield ", ".join(f"{{{named}}}_{suffix}" for suffix in suffixes)
        elif kind == "field_prefix":
            more = _PARAMS.sub("", str(said.get("suffixes_from", "")))
            yield f"{{{named}}}_ with each name of {more}"
        else:
            yield _SYMBOLS.get(kind, "{0} (" + kind + ")").format(named)


def _kind_of(input_: Mapping[str, object]) -> str:
    return str(input_.get("kind") or "")


def _makes(result: Mapping[str, object]) -> Iterable[str]:
    if isinstance(result.get("kind"), str):
        return [_product("", result)]
    products = ((name, _mapping(one)) for name, one in result.items())
    return [_product(name, one) for name, one in products if one.get("kind")]


def _product(port: str, said: Mapping[str, object]) -> str:
    form = said.get("format")
    made = f"{said['kind']} ({form})" if form else str(said["kind"])
    return f"{port}: {made}" if port and port != said["kind"] else made
