"""A wrong command line is refused in one message, with the nearest right word and status 2."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.cli import main as command
from fasthep_smk.cli.main import main
from fasthep_smk.cli.parser import make_parser, parse
from fasthep_smk.cli.usage import subcommands
from fasthep_smk.config.schema import bundled


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "name a workflow or a command"),
        ("statsu build", "did you mean 'fasthep-smk status'?"),
        ("exlpain w.yaml", "did you mean 'fasthep-smk explain'?"),
        ("help statsu", "did you mean 'fasthep-smk status'?"),
        ("analysis", "there is neither a command nor a workflow file called 'analysis'"),
        ("nowhere.yaml", "nowhere.yaml: the workflow file does not exist"),
        ("nowhere/w", "nowhere/w: the workflow file does not exist"),
        ("check nowhere.yaml", "nowhere.yaml: the workflow file does not exist"),
        ("run .", ".: is a folder, not a workflow file"),
        ("status nowhere", "BUILD: there is no such folder"),
        ("w.yaml --outdri x", "did you mean --outdir?"),
        ("--outdri x w.yaml", "did you mean --outdir?"),
        ("w.yaml --chunksize=3", "did you mean --chunk-size?"),
        ("w.yaml --forceall", "put options of Snakemake after --"),
        ("clean --drya", "did you mean --dry-run?"),
        ("site init slurm --jsn", "'fasthep-smk site init' has no option --jsn"),
        ("site inti slurm", "invalid choice: 'inti' (choose from "),
        ("w.yaml v.yaml", "'fasthep-smk run' does not take 'v.yaml'"),
        ("w.yaml -j some", "'some' is neither a positive whole number nor 'all'"),
        ("w.yaml --cores 0", "'0' is neither a positive whole number nor 'all'"),
        ("w.yaml --chunk-size 10q", "such as 100000, 100k or 1.5M"),
        ("w.yaml --chunk-size 0.5", "such as 100000, 100k or 1.5M"),
        ("w.yaml --keep sum", "invalid choice: 'sum' (choose from "),
        ("run", "the following arguments are required: workflow"),
        ("completion csh", "invalid choice: 'csh'"),
        ("status -- --quiet", "'status' does not start Snakemake"),
    ],
)
def test_one_message(capsys: pytest.CaptureFixture[str], line: str, told: str) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.startswith("fasthep-smk: ")
    assert said.out == ""


def test_a_file_with_the_name_of_no_command_is_a_workflow(folder: Path) -> None:
    (folder / "statsu").touch()
    assert parse(["statsu"]).workflow == Path("statsu")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-j", "all"], {"jobs": None}),
        (["--cores", "3"], {"jobs": 3}),
        (["--jobs", "3"], {"jobs": 3}),
        (["-j3"], {"jobs": 3}),
        (["--chunk-size", "100k"], {"chunk_size": 100_000}),
        (["--chunk-size", "1.5M"], {"chunk_size": 1_500_000}),
        (["--chunk-size", "250"], {"chunk_size": 250}),
    ],
)
def test_values(words: list[str], expected: dict[str, object]) -> None:
    options = parse(["w.yaml", *words])
    assert {name: getattr(options, name) for name in expected} == expected


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for one in subcommands(parser).values():
        yield from parsers(one)


def test_every_command_has_a_function() -> None:
    assert {*command.COMMANDS} == {*subcommands(make_parser())} - {"help"}
    for name, module in command.COMMANDS.items():
        assert callable(getattr(importlib.import_module(module), f"do_{name}"))


def test_no_command_s_module_is_loaded_before_it_is_called() -> None:
    code = "import sys, fasthep_smk.cli.main as m; print(*{*m.COMMANDS.values()} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("topic", [*subcommands(make_parser()), "site init", ""])
def test_help_of_every_command(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", *topic.split()])
    assert ended.value.code == 0
    shown = "" if topic == "help" else f" {topic}"
    assert capsys.readouterr().out.startswith(f"usage: fasthep-smk{shown}".rstrip())


def test_every_option_and_command_says_what_it_is_for() -> None:
    silent = [
        f"{parser.prog} {action.dest}"
        for parser in parsers(make_parser())
        for action in parser._actions
        if not action.help and not action.choices
    ]
    assert silent == []


def test_the_schema_is_that_of_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == bundled()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("fasthep-smk ")
