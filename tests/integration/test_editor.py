"""Workflows in an editor: the language server for YAML takes what is right, and flags a slip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Run
from tests.support import workshop
from tests.support.language_server import Editor, editor

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
MODELINE = "# yaml-language-server: $schema=workflow.schema.json\n"
OURS = sorted(
    [
        *ROOT.glob("workflow/**/*.yaml"),
        *ROOT.glob("tests/workflows/*/workflow.yaml"),
        *ROOT.glob("tests/workflows/*/systematics.yaml"),
        *ROOT.glob("fasthep_smk/cli/templates/*/workflow.yaml"),
    ]
)


RIGHT = """\
data: {datasets: [{name: a, files: [a.root]}]}
sources: {events: {kind: root_tree, tree: events}}
execution: {pools: {default: {workers: 2, resources: {memory: 2GB}}}}
analysis:
  stages:
    - {id: A, op: my.op, applies_to: {eventtype: mc}}
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Editor]:
    with editor() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, smk: Run) -> Path:
    """A folder with the schema that the command prints."""
    folder = tmp_path_factory.mktemp("edited")
    printed = smk("schema", cwd=folder)
    assert printed.returncode == 0, printed.stderr
    (folder / "workflow.schema.json").write_text(printed.stdout)
    return folder


def said(opened: Editor, folder: Path, text: str) -> list[str]:
    """Return what is said of a text, to which a key is added that is surely flagged."""
    path = folder / f"workflow-{len(opened.opened)}.yaml"
    path.write_text(f"{MODELINE}{text}\nno_such_key: 1\n")
    *others, last = opened.problems(path)
    assert last.endswith(": Property no_such_key is not allowed.")
    return others


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_workflow_of_ours_is_right(opened: Editor, folder: Path, path: Path) -> None:
    assert said(opened, folder, path.read_text()) == []


@pytest.mark.parametrize("name", workshop.EXAMPLES)
def test_a_workflow_of_fast_hep_is_right(opened: Editor, folder: Path, name: str) -> None:
    assert said(opened, folder, workshop.workflows()[name].read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sources:", "source:", "Property source is not allowed."),
        ("applies_to:", "applies_too:", "Property applies_too is not allowed."),
        ("memory: 2GB", "memmory: 2GB", "Property memmory is not allowed."),
        ("workers: 2", "workers: two", "Incorrect type. Expected one of integer, null."),
    ],
)
def test_a_slip_is_flagged(opened: Editor, folder: Path, old: str, new: str, message: str) -> None:
    before, found, after = RIGHT.partition(old)
    assert found
    line = (MODELINE + before).count("\n") + 1
    assert said(opened, folder, before + new + after) == [f"line {line}: {message}"]


def test_the_demo_is_checked_where_it_lies(opened: Editor) -> None:
    for path in (ROOT / "workflow/demo").glob("*.yaml"):
        assert path.read_text().startswith("# yaml-language-server: $schema=")
        assert opened.problems(path) == []


def test_what_init_writes_is_checked_at_once(opened: Editor, tmp_path: Path, smk: Run) -> None:
    assert smk("init", cwd=tmp_path).returncode == 0
    workflow = tmp_path / "workflow.yaml"
    assert opened.problems(workflow) == []
    edited = tmp_path / "edited.yaml"
    edited.write_text(workflow.read_text().replace("  datasets:", "  datasetts:", 1))
    (found,) = opened.problems(edited)
    assert found.endswith(": Property datasetts is not allowed.")
