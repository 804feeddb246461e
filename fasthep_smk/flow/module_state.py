"""Warn of random numbers that modules of the user's own keep from one partition to the next.

Each partition imports an operation's module anew, so that a generator which the module makes begins
anew: with a seed, it gives all partitions the same numbers. ``fasthep run`` imports the module once
and draws on. :func:`fasthep_smk.rng` is right with both.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from fasthep_smk.flow.context_use import own_sources

#: What makes a random generator, seeds one or draws from one: how the names of these begin.
_RANDOM = (
    "numpy.random.", "random.", "torch.rand", "torch.normal", "torch.manual_seed",
    "torch.cuda.manual_seed", "torch.Generator", "jax.random.", "cupy.random.",
    "tensorflow.random.", "tensorflow.keras.utils.set_random_seed", "ROOT.TRandom", "ROOT.gRandom",
)  # fmt: skip
#: Of these, what has no state.
_STATELESS = ("numpy.random.SeedSequence",)
_CACHES = ("functools.cache", "functools.lru_cache")
#: The methods that run when an object of a class is made.
_MAKERS = ("__new__", "__init__", "__post_init__")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def state_warnings(modules: Iterable[str], root: Path) -> list[str]:
    """Return a warning for each place where an own module keeps random numbers.

    Looked at are ``modules`` and the user's own ones that they import. Files below ``root`` are
    named relative to it.
    """
    paths: dict[str, Path] = {}
    for module in modules:
        paths |= own_sources(module)
    own: dict[str, _Module] = {}
    for name, path in paths.items():
        try:
            own[name] = _Module(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            continue  # it cannot be imported: a finding
    warnings = []
    for name, source in own.items():
        path = paths[name]
        file = os.path.relpath(path, root) if path.is_relative_to(root) else str(path)
        warnings += [_warning(file, line, source.lines[line - 1]) for line in source.kept(own)]
    return list(dict.fromkeys(warnings))


def _warning(file: str, line: int, text: str) -> str:
    return (
        f"{file}, line {line}, `{text.strip()}`: the random numbers of a module start again "
        "for each partition and stage, as if the module had just been imported. With a seed, each "
        "partition and stage draws the same numbers: smeared values are correlated and depend on "
        "--chunk-size. Without a seed, no result can be reproduced. Draw them with rng(ctx) in the "
        "operation, after `from fasthep_smk import rng` (docs/differences.md, Random numbers)"
    )


class _Module:
    """A module's source: what its names stand for, and what it runs when it is imported."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._tree = ast.parse(text)
        self._names: dict[str, str] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self._names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                self._names |= {
                    alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names
                }
        self._defined = {
            node.name: node
            for node in self._tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }

    def kept(self, own: dict[str, _Module]) -> list[int]:
        """Return the lines whose random numbers outlive an operation.

        ``own`` are the user's modules, whose functions may be called when this one is imported.
        """
        calls = [*_calls(self._tree.body), *self._remembered()]
        return sorted({call.lineno for call in calls if self._is_random(call, own, ())})

    def _remembered(self) -> Iterator[ast.Call]:
        """Yield the calls in functions whose values are remembered: by a cache, in a global."""
        for function in ast.walk(self._tree):
            if not isinstance(function, _FUNCTIONS):
                continue
            inside = list(ast.walk(function))
            shared = {
                name for node in inside if isinstance(node, ast.Global) for name in node.names
            }
            cached = any(
                self._name(decorator.func if isinstance(decorator, ast.Call) else decorator)
                in _CACHES
                for decorator in function.decorator_list
            )
            for node in inside:
                if (
                    isinstance(node, ast.Assign)
                    and isinstance(node.value, ast.Call)
                    and any(
                        isinstance(target, ast.Name) and target.id in shared
                        for target in node.targets
                    )
                ) or (cached and isinstance(node, ast.Return) and isinstance(node.value, ast.Call)):
                    yield node.value

    def _is_random(
        self, call: ast.Call, own: dict[str, _Module], seen: tuple[ast.AST, ...]
    ) -> bool:
        """Whether a call is one of a random function, or comes to one by own functions."""
        name = self._name(call.func) or ""
        if name.startswith(_RANDOM):
            return name not in _STATELESS
        module, node = self._find(name, own)
        if node is None or node in seen:
            return False
        body = node.body
        if isinstance(node, ast.ClassDef):
            makers = [fn for fn in body if isinstance(fn, _FUNCTIONS) and fn.name in _MAKERS]
            body = [statement for maker in makers for statement in maker.body]
        return any(module._is_random(inner, own, (*seen, node)) for inner in _calls(body))

    def _find(
        self, name: str, own: dict[str, _Module]
    ) -> tuple[_Module, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None]:
        """Return the own function or class of a full name, and the module that it is in."""
        place, _, last = name.rpartition(".")
        if not place:
            return self, self._defined.get(last)
        for full, module in own.items():
            if full == place or (place[0] == "." and f".{full}".endswith("." + place.strip("."))):
                return module, module._defined.get(last)
        return self, None

    def _name(self, node: ast.AST) -> str | None:
        """Return the full name of ``name.attribute``, by what the module imports."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or (attributes and node.id not in self._names):
            return None
        return ".".join([self._names.get(node.id, node.id), *attributes])


def _calls(nodes: Iterable[ast.AST | None]) -> Iterator[ast.Call]:
    """Yield the calls that these statements make when they run; not those in functions they define.

    A seeded generator that is used up at once, as in ``default_rng(1).normal(size=9)``, is none.
    """
    used_up: set[ast.AST] = set()
    pending = list(nodes)  # no recursion: sums of a thousand terms are as deep
    while pending:
        node = pending.pop()
        if node is None:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += [*node.args.defaults, *node.args.kw_defaults]
            pending += getattr(node, "decorator_list", [])
        elif isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            pending += node.orelse  # the rest is for when the module is a program
        elif isinstance(node, ast.Call):
            if node not in used_up:
                yield node
            if isinstance(node.func, ast.Attribute) and node.func.attr != "spawn":
                generator = node.func.value
                if isinstance(generator, ast.Call) and (generator.args or generator.keywords):
                    used_up.add(generator)
            pending += ast.iter_child_nodes(node)
        else:
            pending += ast.iter_child_nodes(node)
