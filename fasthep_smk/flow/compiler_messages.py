"""What FAST-HEP's compiler says when it refuses a workflow, as findings.

It names what it looked for, seldom where that stands or what there is instead: both are looked up
in the workflow.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path

from fasthep_smk.flow import upstream
from fasthep_smk.flow.local_modules import why_not_found
from fasthep_smk.flow.missing_keys import missing_parameter
from fasthep_smk.flow.places import mapping, named, place_of, stages_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, nearest

__all__ = ["compiler_finding"]

_KEY = re.compile(
    r"(?<![\w.'\"])((?:analysis|data|sources|joins|execution|systematics|styles|registry)"
    r"(?:(?:\.\w+|\[[^\[\]]*\])+|(?= must be )))"
)
_NODE = re.compile(r"Failed to parse data dependencies for node '(?:stage\.)?(.+?)' \(.*?\)")
_CIRCLE = "Lowered graph contains a cycle"


def compiler_finding(workflow: Path, error: BaseException) -> Finding:
    """Return what is wrong with a workflow that the compiler has refused."""
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    message = message or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Finding(
            file=str(workflow),
            problem=f"the module {error.name!r} cannot be imported",
            hint=why_not_found(error.name)
            or "install it, or put its folder on PYTHONPATH; modules beside the workflow and "
            "in the current folder are found",
        )
    document = _document(workflow)
    known = (
        _syntax(workflow, document, message, error)
        or _name(workflow, document, message)
        or missing_parameter(document, message, workflow=str(workflow))
    )
    if known is not None:
        return known
    if message == _CIRCLE:
        return Finding(
            file=str(workflow),
            key="analysis.stages",
            problem="stages wait for each other in a circle",
            expected="stages that need only earlier ones: see from and needs",
        )
    key = _KEY.search(message)
    node = _NODE.match(message)
    place = named(key.group(1), document) if key else None
    if node and place is None:
        stage = node[1].partition("@")[0]
        place, message = f"analysis.stages[{stage!r}].params", message[node.end() :].lstrip(": ")
    return Finding(
        file=str(workflow),
        key=place,
        problem=f"FAST-HEP's compiler refuses it: {message}",
    )


def _document(workflow: Path) -> YamlMapping:
    with contextlib.suppress(Exception):  # it cannot be read: that is told by the message itself
        return dict(upstream.load_workflow_with_includes(str(workflow)).doc)
    return {}


def _syntax(
    workflow: Path, document: YamlMapping, message: str, error: BaseException
) -> Finding | None:
    """Return which expression Python cannot read."""
    node = _NODE.match(message)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SyntaxError):
        cause = cause.__cause__
    if node is None or cause is None or not cause.text:
        return None
    stage, text = node[1].partition("@")[0], cause.text.strip()
    key, content = f"analysis.stages[{stage!r}].params", None
    for place, one in stages_of(document):
        if one.get("id") == stage:
            key, content = f"{place}.params", one.get("params")
    start = cause.offset or 0
    where = f" at {text[start - 1 :]!r}" if 0 < start <= len(text) else ""
    return Finding(
        file=str(workflow),
        key=place_of(key, content, text),
        problem=f"is not an expression: {cause.msg}{where}",
        value=text,
        expected="an expression such as (a > 1) & (b < 2)",
    )


def _streams(document: YamlMapping) -> list[str]:
    listed = [*mapping(document.get("sources")), *mapping(document.get("joins"))]
    return [str(name) for name in listed] or ["events"]


def _stages(document: YamlMapping) -> list[str]:
    return [str(stage.get("id")) for _, stage in stages_of(document)]


def _nodes(document: YamlMapping) -> list[str]:
    streams = [
        f"{kind}.{one}" for one in _streams(document) for kind in ("read", "join", "project")
    ]
    return [*(f"stage.{one}" for one in _stages(document)), *streams]


def _styles(document: YamlMapping) -> list[str]:
    return [str(name) for name in mapping(document.get("styles"))]


def _layouts(document: YamlMapping) -> list[str]:
    return [str(name) for name in mapping(document.get("outputs"))]


def _profiles(_: YamlMapping) -> list[str]:
    local = Path(".hepflow/profiles")
    found = [path.stem for path in local.glob("*.yaml")] if local.is_dir() else []
    return [*found, *_packaged("hepflow")]


def _packaged(package: str) -> list[str]:
    with contextlib.suppress(ModuleNotFoundError, OSError, ValueError):
        files = resources.files(f"{package}.profiles").iterdir()
        return sorted(one.name.removesuffix(".yaml") for one in files if one.name.endswith(".yaml"))
    return []


def _files(_: YamlMapping) -> list[str]:
    found = [
        path for pattern in ("*/*.yaml", ".hepflow/profiles/*.yaml") for path in _glob(pattern)
    ]
    return [str(path) for path in found]


def _glob(pattern: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from Path().glob(pattern)


#: What the compiler says of a name that it does not find -> what is wrong, and what names there
#: are.
_Names = Callable[[YamlMapping], Iterable[str]]
_UNKNOWN: tuple[tuple[re.Pattern[str], str, _Names], ...] = (
    (re.compile(r"Unknown style '(.+?)'\. Available"), "there is no style of this name", _styles),
    (
        re.compile(r"Writer on stage .* references unknown output layout '(.+)'"),
        "outputs has no entry of this name",
        _layouts,
    ),
    (
        re.compile(r"Top-level observer .* references unknown node '(.+)'"),
        "nothing of this name can be observed",
        _nodes,
    ),
    (
        re.compile(r"primary_stream references unknown stream '(.+)'"),
        "no source or join has this name",
        _streams,
    ),
    (re.compile(r"Profile path '(.+)' not found"), "there is no such profile", _files),
    (
        re.compile(r"duplicate systematics variation name: (.+)"),
        "two variations have this name",
        lambda _: (),
    ),
    (
        re.compile(r"Profile '([^':]+)' not found"),
        "there is no profile of this name",
        _profiles,
    ),
)
_PORT = re.compile(
    r"Node '(?:stage\.|render\.)?(.+?)(?:\.0)?' input references missing output "
    r"(?:stage\.|read\.|join\.)?(.+)"
)
_PORTS = ("stream", "hist", "cutflow")
_OF_PACKAGE = re.compile(r"Profile '([^':]+):([^']+)' not found")


def _name(workflow: Path, document: YamlMapping, message: str) -> Finding | None:
    """Return which name the compiler has not found, and the nearest that there is."""
    packaged = _OF_PACKAGE.match(message)
    if packaged:
        package, name = packaged.groups()
        known = [f"{package}:{one}" for one in _packaged(package)]
        problem = "the package has no profile of this name"
        return _unknown(workflow, document, f"{package}:{name}", problem, known)
    port = _PORT.match(message)
    if port:
        stage, name = port[1], port[2].rpartition(".")[2]
        return Finding(
            file=str(workflow),
            key=f"analysis.stages[{stage!r}].from",
            problem=f"stage {port[2].rpartition('.')[0]!r} has no output of this name",
            value=repr(name),
            expected="stream, or hist of a histogram, cutflow of a selection",
            hint=f"did you mean {close!r}?" if (close := nearest(name, _PORTS)) else None,
        )
    for pattern, problem, names in _UNKNOWN:
        found = pattern.match(message)
        if found:
            listed = [one for one in names(document) if Path(one) != workflow]
            return _unknown(workflow, document, found[1], problem, listed)
    return None


def _unknown(
    workflow: Path, document: YamlMapping, name: str, problem: str, known: list[str]
) -> Finding:
    close = nearest(name, known, cutoff=0.6)
    return Finding(
        file=str(workflow),
        key=named(place_of("", document, name).removeprefix("."), document) or None,
        problem=problem,
        value=repr(name),
        expected=", ".join(known) if 0 < len(known) < 12 and name not in known else None,
        hint=f"did you mean {close!r}?" if close else None,
    )
