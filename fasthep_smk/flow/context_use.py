"""What of a run's context an operation may see, besides its events, dataset and globals.

An operation is handed a context (``ctx``) that holds everything: all datasets, all their files,
the partition's name. Most look at little of it. A result that depends on nothing but its events,
its dataset's metadata and the globals stands when a dataset or a file is added and when files are
cut otherwise.

======== ====================================================================================
sight    what is seen
======== ====================================================================================
names    the names of all datasets of the run, in their order
dataset  the whole entry of its own dataset, with its list of files and number of events
place    the partition: its name, file and range; what files are named after
run      everything, all datasets with their metadata and files included
======== ====================================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.records import Sight
from fasthep_smk.util import files
from fasthep_smk.util.documents import YamlMapping

SIGHTS: tuple[Sight, ...] = ("names", "dataset", "place", "run")

#: Entries of the context that are the same for all partitions of a dataset, whatever else there
#: is in the run, or that say where files go, which no result may depend on.
_OWN = frozenset(
    {
        "dataset_name",
        "dataset_eventtype",
        "dataset_group",
        "dataset_is_data",
        "dataset_xs",
        "dataset_n_unskimmed_events",
        "dataset_filter_efficiency",
        "eventtype",
        "globals",
        "primary_stream",
        "expr_registry",
        "node_id",
        "stage_id",
        "variation",
        "outdir",
        "build_paths",
        "provenance",
        "_warnings",
        "runtime_resources",
        "resources",
        "resolved_resources",
    }
)


_OURS = "fasthep_smk"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
#: What shows all variables of a function that calls it, or of any function.
_OF_VARIABLES = ("locals", "eval", "exec")
_OF_FRAMES = ("f_locals", "getargvalues")
#: What sources speak of that look at the systematic variation.
_OF_VARIATIONS = (b"variation", b"build_paths", b"outdir")

#: The source that reads its own partition and nothing else.
_ROOT_TREE = "fasthep_carpenter.sources.root_tree:"

#: Entries of the context that show more, and what they show.
_SHOWS: Mapping[str, Sight] = {
    "dataset_names": "names",
    "dataset": "dataset",
    "dataset_nevents": "dataset",
    "partition": "place",
}
#: What FAST-HEP puts into the context.
OF_CONTEXT = _OWN.union(_SHOWS, ("datasets", "execution", "scope", "workflow_path"))


def sights(
    *,
    role: str,
    implementation: str,
    params: YamlMapping,
    modifiers: Iterable[str],
    known: Iterable[str] = (),
) -> frozenset[Sight]:
    """Return what an operation may see of the run besides its own events and dataset.

    ``implementation`` is its ``module:object``, ``modifiers`` those of its modifiers; ``known``
    names the workflow's globals.
    """
    seen: set[Sight] = set()
    for reference in (implementation, *modifiers):
        module = reference.partition(":")[0]
        if not op_identity.is_published(module):
            seen |= _seen_by(reference, frozenset(known))
    if role == "source" and not implementation.startswith(_ROOT_TREE):
        seen.add("run")  # one may read other files of its dataset than its partition's
    if role in ("sink", "observer"):
        seen.add("place")  # it names its files after the partition
    if role == "observer":
        seen.add("names")  # one may report on the first dataset only
    # The number of events of a dataset changes with its files; expressions can use it.
    if "nevents" in files.exact_json(dict(params)):
        seen.add("dataset")
    if any(_lists_datasets(axis) for axis in params.get("axes") or ()):
        seen.add("names")
    return frozenset(seen)


def _seen_by(reference: str, global_names: frozenset[str]) -> set[Sight]:
    """Return what a user's operation may see; one that cannot be read may see everything."""
    if op_identity.is_installed(reference.partition(":")[0]):
        return {"run"}  # it may stand in another module of its package
    keys = context_keys(reference)
    if keys is None:
        return {"run"}
    return {_SHOWS.get(key, "run") for key in keys - _OWN - global_names}


def _lists_datasets(axis: object) -> bool:
    """Whether the bins of a histogram's axis are the datasets of the run."""
    return (
        isinstance(axis, Mapping) and axis.get("source") == "dataset_name" and not axis.get("bins")
    )


def sees_variation(implementation: str, modifiers: Iterable[str]) -> bool:
    """Whether a user's operation may depend on the systematic variation it runs for.

    Published ones do not (they see it only in where files go). A user's may read
    ``ctx["variation"]`` or write files of its own: one whose sources speak of either, or hand the
    whole context to what cannot be read, is never shared between variations.
    """
    return any(map(_sees_variation, (implementation, *modifiers)))


@cache
def _sees_variation(reference: str) -> bool:
    module = reference.partition(":")[0]
    if not module or op_identity.is_published(module):
        return False
    if context_keys(reference) is None:
        return True
    texts = [path.read_bytes() for path in _sources(module).values()]
    return any(word in text for text in texts for word in _OF_VARIATIONS)


@cache
def context_keys(reference: str) -> frozenset[str] | None:
    """Return the entries of ``ctx`` that ``module:object`` looks up; ``None``: perhaps all.

    Searched are the user's own modules. Only ``ctx["name"]``, ``ctx.get("name")`` and our
    ``rng(ctx)`` are understood. A context that is handed on, or looked at in any other way, may be
    used for everything; so may one that reaches an object which is no function or class of these
    modules, but what a library made of one.
    """
    module, _, name = reference.partition(":")
    trees: dict[str, ast.Module] = {}
    for own, path in _sources(module).items():
        try:
            trees[own] = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
    if not _is_own(trees, module, name):
        return None
    entries: set[str] = set()
    for tree in trees.values():
        keys = _keys(tree)
        if keys is None:
            return None
        entries |= keys
    return frozenset(entries)


@cache
def own_sources(module: str) -> dict[str, Path]:
    """Return the analysis's own modules among a module and what it imports.

    FAST-HEP's packages and ours are not among them, also where they are installed to be edited.
    """
    return {
        name: path
        for name, path in op_identity.own_sources(module).items()
        if not op_identity.is_published(name) and name.partition(".")[0] != _OURS
    }


def _sources(module: str) -> dict[str, Path]:
    """Return what is searched for an operation: own modules; of an installed one, its module."""
    path = op_identity.module_file(module)
    if path is not None and op_identity.is_installed(module):
        return {module: path}
    return own_sources(module)


def _is_own(trees: Mapping[str, ast.Module], module: str, name: str) -> bool:
    """Whether an object is a function or class of these modules, as it is written there."""
    if module not in trees:
        return False
    bound = [node for node in ast.walk(trees[module]) if name in _binds(node)]
    return bool(bound) and all(_is_plain(node, name, trees) for node in bound)


def _binds(node: ast.AST) -> list[str]:
    """Return the names that a statement or expression gives to something."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []


def _is_plain(node: ast.AST, name: str, trees: Mapping[str, ast.Module]) -> bool:
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        places = [own for own in trees if own == base or (node.level and own.endswith(f".{base}"))]
        return any(_is_own(trees, own, original) for own in places)
    if not isinstance(node, _DEFINITIONS):
        return False
    made_by = [*node.decorator_list, *(node.bases if isinstance(node, ast.ClassDef) else [])]
    return {_first_name(maker) for maker in made_by} <= _harmless(trees)


def _harmless(trees: Mapping[str, ast.Module]) -> set[str | None]:
    """Return the names of what is the user's own or FAST-HEP's, in these modules."""
    names: set[str | None] = {"object", "Protocol", "ABC", "dataclass", "dataclasses"}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and op_identity.is_published(node.module or ""):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def _first_name(node: ast.AST) -> str | None:
    """Return the name that an expression such as ``name.attribute(...)`` begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _keys(tree: ast.AST) -> set[str] | None:
    """Return the entries of contexts that a module looks up, ``None`` if that cannot be told."""
    entries: set[str] = set()
    understood: set[ast.AST] = set()
    generators = _names_of_rng(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ast.Name("ctx") as name, ast.Constant(str(key))) | ast.Call(
                ast.Attribute(ast.Name("ctx") as name, "get"), [ast.Constant(str(key)), *_]
            ):
                entries.add(key)
                understood.add(name)
            case ast.Call() if generators and ast.unparse(node.func) in generators:
                # What its seed is made of is in every signature.
                args = [
                    *node.args[:1],
                    *(keyword.value for keyword in node.keywords if keyword.arg == "ctx"),
                ]
                understood.update(arg for arg in args if ast.unparse(arg) == "ctx")
    escapes = any(node not in understood and _escapes(node) for node in ast.walk(tree))
    return None if escapes else entries


def _escapes(node: ast.AST) -> bool:
    """Whether a context may be used here in a way that is not understood."""
    match node:
        case ast.Name("ctx", ast.Load()) | ast.Attribute(attr="ctx"):
            return True
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in _OF_FRAMES
        case ast.Constant(str(text)):
            # Looked up by name, in **arguments perhaps; pandas takes variables so.
            return text == "ctx" or "@ctx" in text
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            return _uses_rest(node) or _uses_variables(node)
    return False


def _names_of_rng(tree: ast.AST) -> set[str]:
    """Return how a module calls our ``rng``, unless it gives these names to something else."""
    rngs: set[str] = set()
    taken: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == _OURS and not node.level:
            rngs.update(alias.asname or alias.name for alias in node.names if alias.name == "rng")
        elif isinstance(node, ast.Import):
            names = [alias.asname or alias.name for alias in node.names if alias.name == _OURS]
            rngs.update(f"{name}.rng" for name in names)
        else:
            taken += _binds(node)
            taken += [node.arg] if isinstance(node, ast.arg) else []
    return {name for name in rngs if name.partition(".")[0] not in taken}


def _has_context(function: _Function) -> bool:
    """Whether a function has the context for an argument that may be given by name."""
    return any(arg.arg == "ctx" for arg in (*function.args.args, *function.args.kwonlyargs))


def _uses_rest(function: _Function) -> bool:
    """Whether a function looks at its ``**rest``, where the context may be."""
    rest = function.args.kwarg
    if rest is None or _has_context(function):
        return False
    return any(isinstance(node, ast.Name) and node.id == rest.arg for node in ast.walk(function))


def _uses_variables(function: _Function) -> bool:
    """Whether a function that has a context looks at its variables in some other way."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return _has_context(function) and any(
        isinstance(call.func, ast.Name)
        and (call.func.id in _OF_VARIABLES or (call.func.id in ("vars", "dir") and not call.args))
        for call in calls
    )


def forget() -> None:
    """Forget what modules were: they are looked at again."""
    for function in (_sees_variation, context_keys, own_sources):
        function.cache_clear()
