"""What the pages show, held against what there is: commands, options, keys, names of Python.

A block of a page says in which language it is. In a ``yaml`` block stands a workflow or some of its
sections; another part of the language is named after it: ``yaml site`` is a ``pools.yaml``, and
``yaml stage`` a stage (the names are those of the parts of the schemas). ``sh`` are commands,
``python`` is Python, ``snakemake`` a Snakefile, ``diff`` an edit, and ``text`` anything else, such
as what a command prints.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import itertools
import re
import shlex
import tomllib
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fasthep_cli.app
import typer.main
import yaml
from markdown_it import MarkdownIt
from snakemake.cli import get_argument_parser

import fasthep_smk
from fasthep_smk import api
from fasthep_smk.cli.parser import make_parser, parse
from fasthep_smk.cli.usage import subcommands
from fasthep_smk.config import schema
from fasthep_smk.util.errors import UsageError

__all__ = ["ROOT", "Block", "blocks", "commands", "options_of", "pages", "problems"]

ROOT = Path(__file__).parents[2]
INCOMPLETE = r"arguments are required|expected one argument"
LANGUAGES = ("yaml", "sh", "python", "snakemake", "diff", "text", "{toctree}")
#: Programs of others, of which nothing is known here.
OTHERS = (
    *("cd", "export", "eval", "source", "sh", "git", "python", "jupyter", "sbatch", "squeue"),
    *("voms-proxy-init", "tests/clusters/slurm.sh", "tests/clusters/htcondor.sh", ".venv/bin/pip"),
    *(
        ".venv/bin/pre-commit",
        "apt-get",
        "ls",
        "man",
        "nohup",
        "scp",
        "sleep",
        "ssh",
        "tail",
        "tmux",
    ),
)


@dataclass(frozen=True)
class Block:
    """A block of a page: where it begins, in which language it is, and what it says."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the pages of this repository, but for the texts for other projects."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("workflow/**/*.md")]
    return sorted([*found, *ROOT.glob("tests/clusters/*.md")])


def blocks(page: str, text: str) -> list[Block]:
    """Return the blocks of a page."""
    tokens = MarkdownIt().parse(text)
    return [
        Block(page, (one.map or [0])[0] + 1, one.info.strip() or "", one.content)
        for one in tokens
        if one.type in ("fence", "code_block")
    ]


def spans(text: str) -> Iterator[tuple[int, str]]:
    """Yield what stands as code within the text of a page, each with its line."""
    for token in MarkdownIt().enable("table").parse(text):
        for child in token.children or ():
            if child.type == "code_inline":
                yield (token.map or [0])[0] + 1, child.content


def problems(page: str, text: str) -> list[str]:
    """Return what a page shows and what there is not."""
    found = []
    for block in blocks(page, text):
        first, _, part = block.language.partition(" ")
        check = CHECKS.get(first)
        if first not in LANGUAGES:
            found.append(f"{block}: not one of {', '.join(LANGUAGES)}: {block.language!r}")
        elif check is not None:
            found += [f"{block}: {one}" for one in check(block.text, part)]
    for line, code in spans(text):
        if re.match(r"(fasthep-smk|fasthep|make|snakemake) [a-z.-]", code) and "…" not in code:
            # The name of a command in a sentence need not have its arguments.
            command = code.replace("COMMAND", "run")
            said = [one for one in _in_shell(command, "") if not re.search(INCOMPLETE, one)]
            found += [f"{page}:{line}: {one}" for one in said]
        elif (option := re.match(r"--[a-z][a-z-]+", code)) and option[0] not in known_options():
            found.append(f"{page}:{line}: nobody has the option {option[0]}")
    return found


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell block, also of those within ``$(…)``.

    A command may begin with variables, ``NAME=value``.
    """
    for line in text.replace("\\\n", " ").splitlines():
        for inner in re.findall(r"\$\(([^)]*)\)", line):
            yield from commands(inner)
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if re.fullmatch(r"[|&;]+", word):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def _in_shell(text: str, _part: str) -> Iterator[str]:
    for line in commands(text):
        words = [*itertools.dropwhile(re.compile(r"[A-Z_]+=").match, line)]
        end = next((place for place, word in enumerate(words) if word[0] in "<>"), len(words))
        program, arguments = words[0], words[1:end]
        if program in PROGRAMS:
            try:
                if problem := PROGRAMS[program](arguments):
                    yield f"{' '.join(words)}: {problem}"
            except UsageError as error:
                yield f"{' '.join(words)}: {error}"
        elif program not in OTHERS:
            yield f"{program}: not a known program"


def _ours(arguments: list[str]) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            extra = parse(arguments).snakemake
    except SystemExit as error:  # --help and --version
        return None if error.code in (0, None) else said.getvalue()
    unknown = _unknown(arguments[: -len(extra) or None], set(options_of(make_parser())))
    return unknown or (_snakemake(extra) if extra else None)


def _unknown(arguments: list[str], options: set[str]) -> str | None:
    """Return what is no option, though a parser may take it for short for one."""
    long = (word.partition("=")[0] for word in arguments if re.match(r"--\w", word))
    return next((f"there is no option {word}" for word in long if word not in options), None)


def _snakemake(arguments: list[str]) -> str | None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            get_argument_parser().parse_args(arguments)
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    return _unknown(arguments, set(options_of(get_argument_parser())))


def _fasthep(arguments: list[str]) -> str | None:
    """Return what FAST-HEP's command would not understand."""
    command = typer.main.get_command(fasthep_cli.app.app)
    while (below := getattr(command, "commands", None)) and arguments:
        if arguments[0] not in below:
            return f"there is no command {arguments[0]}"
        command, arguments = below[arguments[0]], arguments[1:]
    return _unknown(arguments, {text for one in command.params for text in one.opts})


def _make(arguments: list[str]) -> str | None:
    makefile = (ROOT / "Makefile").read_text()
    for word in arguments:
        target = word.replace(".venv/", "$(VENV)/")
        if "=" not in word and f"\n{target}:" not in makefile:
            return f"the Makefile has no {word}"
    return None


def _pip(arguments: list[str]) -> str | None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for names in re.findall(r"\[([\w,]+)\]", " ".join(arguments)):
        if missing := set(names.split(",")) - set(extras["optional-dependencies"]):
            return f"there is no extra {', '.join(missing)}"
    return None


PROGRAMS: dict[str, Callable[[list[str]], str | None]] = {
    "fasthep-smk": _ours,
    "fasthep": _fasthep,
    "snakemake": _snakemake,
    "make": _make,
    "pip": _pip,
}


@cache
def known_options() -> frozenset[str]:
    """Return the options of all commands of ours, Snakemake, FAST-HEP and others."""
    return frozenset(
        {text for parser in (make_parser(), get_argument_parser()) for text in options_of(parser)}
        | _options_of_fasthep(typer.main.get_command(fasthep_cli.app.app))
        | {"--cpus-per-task", "--mem", "--gpus", "--time", "--nice"}
    )


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from options_of(one)


def _options_of_fasthep(command: Any) -> set[str]:
    found = {text for one in command.params for text in one.opts}
    return found.union(*map(_options_of_fasthep, getattr(command, "commands", {}).values()))


def _in_yaml(text: str, part: str) -> Iterator[str]:
    """Yield what is not in the schema; sections that a fragment leaves out may be missing."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield str(error)
        return
    name = part or "workflow"
    if not schema.holds(name):
        yield f"there is no part {part!r} of a schema"
        return
    for one in schema.findings_of(content, name, file=""):
        top = not re.search(r"[.\[]", one.key or "")
        if not (name == "workflow" and top and one.problem == "is missing"):
            yield str(one)


def _in_python(text: str, _part: str) -> Iterator[str]:
    """Yield what does not compile, and names and arguments of ours that there are not."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    known: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "fasthep_smk":
                    known[one.asname or "fasthep_smk"] = fasthep_smk
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fasthep_smk"):
            module = importlib.import_module(str(node.module))
            for one in node.names:
                if not hasattr(module, one.name):
                    yield f"{node.module} has no {one.name}"
                known[one.asname or one.name] = getattr(module, one.name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = _made(node.value, known)
            if made is not None:
                known[node.targets[0].id] = made
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            if owner is not None and not hasattr(owner, node.attr):
                yield f"{node.value.id} has no {node.attr}"
        if isinstance(node, ast.Call) and (problem := _call(node, known)):
            yield problem


def _called(node: ast.expr, known: dict[str, object]) -> object:
    """Return the function of ours that is called, if it is one."""
    if not isinstance(node, ast.Call):
        return None
    found: object = None
    if isinstance(node.func, ast.Name):
        found = known.get(node.func.id)
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        found = getattr(known.get(node.func.value.id), node.func.attr, None)
    # A package that has been imported can be called like the function of its name.
    if inspect.ismodule(found) and found.__name__.startswith("fasthep_smk."):
        return getattr(api, found.__name__.rpartition(".")[2], None)
    return found


def _made(node: ast.expr, known: dict[str, object]) -> object:
    """Return the class of what a call of ours returns."""
    function = _called(node, known)
    if not inspect.isfunction(function):
        return None
    made = typing.get_type_hints(function).get("return") if known else None
    return made if inspect.isclass(made) and made.__module__.startswith("fasthep_smk") else None


def _call(node: ast.Call, known: dict[str, object]) -> str | None:
    function = _called(node, known)
    if not inspect.isfunction(function):
        return None
    names = {one.arg for one in node.keywords if one.arg}
    parameters = inspect.signature(function).parameters
    if "options" in parameters:
        names -= {action.dest for action in subcommands(make_parser())[function.__name__]._actions}
        names -= {name for name in parameters if name != "options"}
    if unknown := names - set(parameters):
        return f"{function.__name__} has no argument {', '.join(sorted(unknown))}"
    return None


CHECKS: dict[str, Callable[[str, str], Iterator[str]]] = {
    "yaml": _in_yaml,
    "sh": _in_shell,
    "python": _in_python,
}
