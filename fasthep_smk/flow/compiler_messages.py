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

import yaml

from fasthep_smk.flow import upstream
from fasthep_smk.flow.local_modules import why_not_found
from fasthep_smk.flow.places import datasets_at, mapping, named, place_of, stages_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, Findings, nearest, not_among
from fasthep_smk.util.yaml_files import load
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["compiler_finding"]

_KEY = re.compile(
    r"(?<![\w.'\"])((?:analysis|data|sources|joins|execution|systematics|styles|registry)"
    r"(?:(?:\.\w+|\[[^\[\]]*\])+|(?= must be )))"
)
_NODE = re.compile(r"Failed to parse data dependencies for node '(?:stage\.)?(.+?)' \(.*?\)")
_INCLUDED = "include cycle detected: "
_CIRCLE = "Lowered graph contains a cycle"
_SHAPE = re.compile(r"Included YAML must be a mapping/dict: (.+)")
_OPENED = re.compile(
    r"(?s)Failed to inspect ROOT dataset metadata for dataset='(.+?)' file='(.+?)': (.+)"
)


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
    known = _syntax(workflow, document, message, error) or _name(workflow, document, message)
    if known is not None:
        return known
    if message.startswith(_INCLUDED):
        files = [Path(one).name for one in re.findall(r"Path\('([^']+)'\)", message)]
        return Finding(
            file=str(workflow),
            key="include",
            problem="files include each other",
            value=" → ".join(files),
            expected="files that do not",
        )
    if shape := _SHAPE.match(message):
        return _no_mapping(Path(shape[1]), workflow)
    if opened := _OPENED.search(message):
        return _unopened(document, *opened.groups(), workflow=str(workflow))
    if message == _CIRCLE:
        return Finding(
            file=str(workflow),
            key="analysis.stages",
            problem="stages wait for each other in a circle",
            expected="stages that need only earlier ones: see from and needs",
        )
    told = (
        _wrong_value(workflow, document, message)
        or _said(workflow, document, message)
        or _of_spec(workflow, document, message)
    )
    if told is not None:
        return told
    key = _KEY.search(message)
    node = _NODE.match(message)
    place = named(key.group(1), document) if key else None
    if node and place is None:
        stage = node[1].partition("@")[0]
        place, message = f"analysis.stages[{stage!r}].params", message[node.end() :].lstrip(": ")
    return Finding(
        file=str(workflow),
        key=place,
        problem=f"FAST-HEP's compiler refuses it ({message})",
    )


def _no_mapping(file: Path, workflow: Path) -> Finding:
    """Return that a file is YAML, and no workflow: a list, a number, a text."""
    content: object = None
    with contextlib.suppress(OSError, yaml.YAMLError, UnicodeError, Findings):
        content = load(file)
    kind = "a list" if isinstance(content, list) else "one value"
    shown = str(workflow) if file.resolve() == workflow.resolve() else str(file)
    return Finding(
        file=shown,
        problem=f"is {kind}, not a workflow of keys with values",
        value=as_yaml(content),
        at=f"{shown}, line 1",
        expected="data: …, sources: …, analysis: …",
        hint="leave out the '-' before the keys" if isinstance(content, list) else None,
    )


def _unopened(
    document: YamlMapping, dataset: str, file: str, reason: str, *, workflow: str
) -> Finding:
    """Return which input file the compiler could not look into."""
    for key, name, content in datasets_at(document):
        if name == dataset:
            return Finding(
                file=workflow,
                key=place_of(f"{key}.files", content.get("files"), file),
                problem=f"cannot be opened: {' '.join(reason.split())}",
                value=as_yaml(file),
                expected="a ROOT file that can be read now",
            )
    return Finding(file=file, problem=f"cannot be opened: {reason}")


#: What the compiler wants at a key, in its words and in ours.
_MUST_BE = re.compile(r"(?P<key>[A-Za-z_][^ ]*(?: \('[^']*'\)[^ ]*)?) must be (?P<what>.+)")
_WORDS = (
    (r"^an? non-empty (string|stage id string)", "a text"),
    (r"^an? non-empty list.*", "a list with at least one entry"),
    (r"non-empty ", ""),
    (r"\ba mapping\b", "keys with values"),
    (r"\bstrings?\b", "text"),
    (r"\ba boolean\b", "true or false"),
    (r"\ban? (positive )?integer\b", "a whole number"),
    (r"'module:object'", "module:object, such as my_ops:met"),
)


def _wrong_value(workflow: Path, document: YamlMapping, message: str) -> Finding | None:
    """Return which value is of another kind than the compiler wants."""
    message = re.sub(r"^dataset\[(.+?)\](?=[.\[])", r"data.datasets['\1']", message)
    found = _MUST_BE.fullmatch(message)
    if found is None:
        return None
    what = found["what"].rstrip(".")
    for word, ours in _WORDS:
        what = re.sub(word, ours, what)
    value = _value_at(document, found["key"])
    hint = None
    if "module:object" in what and isinstance(value, str) and "." in value and ":" not in value:
        hint = f"write {':'.join(value.rsplit('.', 1))}"
    holder = _value_at(document, found["key"].rpartition(".")[0])
    return Finding(
        file=str(workflow),
        key=named(found["key"], document),
        problem="is missing" if value is None and holder else "is not a valid value",
        value=None if value is None else as_yaml(value),
        expected=what,
        hint=hint,
    )


#: The number of an entry and the variation, at the end of a node's name; and the first half of
#: what the compiler says of a file that two nodes write.
_ENTRY = r"(?:\.\d+)?(?:@[^']*)?"
_CLAIM = (
    r"Conflicting output artifact claim for '(.+?)': "
    rf"node '\w+\.([^'@]+?){_ENTRY}' declares '(.+?)',"
)
#: What the compiler says -> at which key, what is wrong, and what is expected. ``{0}`` and so on
#: are the groups, ``{streams}`` the sources and joins of the workflow.
_SAID = (
    (r"(\S+)\.(\w+) is required", "{0}.{1}", "is missing", None),
    (r"(\S+) missing (\w+)", "{0}.{1}", "is missing", None),
    (r"\S+ node write\.(.+)\.(\d+)(?:@\S*)? parameter '(\w+)' expected (.+), got \w+",
     "analysis.stages[{0!r}].write[{1}].{2}", "is not a valid value", "a value of type {3}"),
    (r"\S+ node write\.(.+)\.(\d+)(?:@\S*)? parameter '(\w+)' must be one of \[(.+)\], got (.*)",
     "analysis.stages[{0!r}].write[{1}].{2}", "is not a valid value: {4}", "{3}"),
    (r"\S+ node (?:stage\.)?(.+?)(?:@[^@]*)? parameter '(\w+)' expected (.+), got \w+",
     "analysis.stages[{0!r}].params.{1}", "is not a valid value", "a value of type {2}"),
    (r"Source '(.+)' dataset '(.+)' has no files", "data.datasets[{1!r}].files", "is empty",
     "at least one file"),
    (r"Multiple input streams available.*", "primary_stream", "is missing: there are several "
     "sources, and a stage does not say from which it takes its events", "{streams}"),
    (r"Stage '(.+)' input entries must be mappings, got \w+", "analysis.stages[{0!r}].from",
     "is not a valid value", "the name of a stage, or a list of {{node: a stage, as: a name}}"),
    (r"(\S+) template references unknown matrix axis '(.*)'", "{0}.matrix.{1}",
     "is missing: the variation speaks of {{{1}}}", "a list of values"),
    (r"Unknown execution hook kind '(.+)'", "execution_hooks", "no hook is called {0!r}",
     "a hook of a profile (use.profiles), or of registry.hooks"),
    (rf"{_CLAIM} and node '\w+\.\2{_ENTRY}' declares .*",
     "analysis.stages[{1!r}]", "writes the same file twice: {0} ({2})",
     "a file of its own for each, by another out or path"),
    (rf"{_CLAIM} and node '\w+\.([^'@]+?){_ENTRY}' declares .*",
     "analysis.stages[{3!r}]", "writes the same file as stage {1!r}: {0} ({2})",
     "a file of its own, by another out or path"),
    (r"Style 'use' cycle detected: ((.+?) -> .*)", "styles[{1!r}].use",
     "styles are made from each other: {0}", "a style that does not use this one"),
)  # fmt: skip


def _said(workflow: Path, document: YamlMapping, message: str) -> Finding | None:
    """Return what some of the compiler's messages mean."""
    streams = ", ".join(_streams(document))
    for pattern, key, problem, expected in _SAID:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return Finding(
                file=str(workflow),
                key=named(key.format(*found.groups()), document),
                problem=problem.format(*found.groups()),
                expected=expected.format(*found.groups(), streams=streams) if expected else None,
            )
    return None


#: What the entries of a spec's ``symbols`` may be.
_KINDS = {
    "requires": ("field_list", "field_prefix", "expr", "expr_or_field"),
    "provides": ("field_list", "field_prefix", "template"),
}
_OF_SPEC = re.compile(
    r"(?s)(?:Unsupported|Registered|Template|Cannot resolve|template|requires|provides|\w+_\w+)"
    r"(?:\.symbols)?\b.* for '(?P<op>[^']+)'.*"
)
_KIND = re.compile(r"Unsupported (requires|provides)\.symbols kind for '.+': '?(.*?)'?")
_RESULT = re.compile(r"Registered component spec for '.+' declares single result kind '(.+)' .*")


def _of_spec(workflow: Path, document: YamlMapping, message: str) -> Finding | None:
    """Return what is wrong with the spec of a user's own operation."""
    node = _NODE.match(message)
    message = message[node.end() :].lstrip(": ") if node else message
    found = _OF_SPEC.fullmatch(message)
    registry = mapping(document.get("registry"))
    for section, entries in registry.items() if found else ():
        entry = mapping(entries).get(found["op"]) if found else None
        if found is None or not isinstance(entry, dict):
            continue
        where = f"registry.{section}[{found['op']!r}].spec"
        reference = str(entry.get("spec"))
        if kind := _KIND.fullmatch(message):
            return not_among(
                kind[2],
                _KINDS[kind[1]],
                problem=f"{reference}: {kind[1]}.symbols has no entries of this kind",
                file=str(workflow),
                key=where,
            )
        if result := _RESULT.fullmatch(message):
            return not_among(
                result[1],
                ("event_stream", "histogram", "cutflow"),
                problem=f"{reference}: result.kind is none that FAST-HEP knows",
                file=str(workflow),
                key=where,
            )
        return Finding(
            file=str(workflow),
            key=where,
            value=reference,
            problem=f"FAST-HEP's compiler refuses the spec ({message})",
        )
    return None


def _value_at(document: object, key: str) -> object:
    """Return what a workflow says at a key as the compiler writes it."""
    for name, number, quoted in re.findall(r"([^.\[\]]+)|\[(\d+)\]|\[['\"](.*?)['\"]\]", key):
        if number:
            listed = document if isinstance(document, list) else []
            document = listed[int(number)] if int(number) < len(listed) else None
        else:
            document = mapping(document).get(quoted or name)
    return document


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
    return Finding(
        file=str(workflow),
        key=place_of(key, content, text),
        problem=f"is not an expression: {cause.msg}",
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
            value=as_yaml(name),
            expected="stream, or hist of a histogram, cutflow of a selection",
            hint=f"did you mean {close!r}?"
            if (close := nearest(name, _PORTS)) not in (None, name)
            else None,
        )
    for pattern, problem, names in _UNKNOWN:
        found = pattern.match(message)
        if found:
            listed = [one for one in names(document) if Path(one) != workflow]
            within = _renders(document) if names is _styles else document
            return _unknown(workflow, document, found[1], problem, listed, within)
    return None


def _renders(document: YamlMapping) -> YamlMapping:
    """Return the parts of a workflow that name styles: stages may be called like one."""
    stages = mapping(document.get("analysis")).get("stages")
    listed = stages if isinstance(stages, list) else []
    naming = [
        {
            "render": mapping(one).get("render"),
            "params": {"style": mapping(mapping(one).get("params")).get("style")},
        }
        for one in listed
    ]
    return {"analysis": {"stages": naming}, "styles": document.get("styles")}


def _unknown(
    workflow: Path,
    document: YamlMapping,
    name: str,
    problem: str,
    known: list[str],
    within: YamlMapping | None = None,
) -> Finding:
    close = nearest(name, known, cutoff=0.6)
    return Finding(
        file=str(workflow),
        key=named(place_of("", within or document, name).removeprefix("."), document) or None,
        problem=problem,
        value=as_yaml(name),
        expected=", ".join(known) if 0 < len(known) < 12 and name not in known else None,
        hint=f"did you mean {close!r}?" if close else None,
    )
