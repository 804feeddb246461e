"""What makes an operation another operation, and which columns and jobs may be shared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.files import digest_of
from fasthep_smk.flow import identity
from tests.unit.plans import define, graph, node


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, with nothing remembered of earlier ones."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for cached in (identity.of_object, identity.sources_of):
        cached.cache_clear()


def identity_of(reference: str) -> str:
    for cached in (identity.of_object, identity.sources_of):
        cached.cache_clear()
    return identity.of_object(reference)


def test_an_op_changes_with_its_source_and_with_what_it_imports(module_folder: Path) -> None:
    (module_folder / "smk_helper.py").write_text("FACTOR = 2\n")
    (module_folder / "smk_ops.py").write_text("from smk_helper import FACTOR\n")
    first = identity_of("smk_ops:run")
    assert identity_of("smk_ops:run") == first
    (module_folder / "smk_helper.py").write_text("FACTOR = 3\n")
    second = identity_of("smk_ops:run")
    (module_folder / "smk_ops.py").write_text("from smk_helper import FACTOR  # new\n")
    assert len({first, second, identity_of("smk_ops:run")}) == 3


def test_modules_that_import_each_other_come_to_an_end(module_folder: Path) -> None:
    (module_folder / "smk_a.py").write_text("import smk_b\n")
    (module_folder / "smk_b.py").write_text("import smk_a, os, numpy\n")
    names = [path.name for path in identity.sources_of("smk_a") if path.parent == module_folder]
    assert names == ["smk_a.py", "smk_b.py"]


def test_relative_imports_are_followed(module_folder: Path) -> None:
    package = module_folder / "smk_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tools.py").write_text("X = 1\n")
    (package / "ops.py").write_text("from . import tools\n")
    assert package / "tools.py" in identity.sources_of("smk_package.ops")


def test_a_published_op_is_known_by_its_version() -> None:
    found = identity.of_object("fasthep_carpenter.operations.define:run_define_transform")
    assert "@2026." in found


def test_files_that_parameters_name_belong_to_the_op(tmp_path: Path) -> None:
    (tmp_path / "weights.csv").write_text("1\n")
    params = {"tables": [{"path": "weights.csv"}], "expr": "a + b"}
    first = identity.of_named_files(params, [tmp_path])
    (tmp_path / "weights.csv").write_text("2\n")
    assert len(first) == 1
    assert identity.of_named_files(params, [tmp_path]) != first


@pytest.mark.parametrize(
    ("source", "shared"),
    [("def run(stream, ctx): ...", True), ("def run(ctx): ctx['variation']", False),
     ("def run(ctx): ctx['build_paths']", False)],
)  # fmt: skip
def test_an_op_that_may_depend_on_the_variation_is_not_shared(
    module_folder: Path, source: str, shared: bool
) -> None:
    name = f"smk_varied_{abs(hash(source))}"
    (module_folder / f"{name}.py").write_text(source)
    registry = {"transforms": {"own": {"spec": f"{name}:S", "impl": f"{name}:run"}}}
    assert identity.mentions_variation(registry, "transforms", "own") is not shared
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("source", "honours"),
    [("ctx['partition'].get('start')", True), ("def partition_start(self): ...", False)],
)
def test_a_source_honours_ranges_if_it_reads_them(
    module_folder: Path, source: str, honours: bool
) -> None:
    name = f"smk_source_{int(honours)}"
    (module_folder / f"{name}.py").write_text(source)
    registry = {"sources": {"own": {"impl": f"{name}:run"}}}
    assert identity.honours_ranges(registry, "own") is honours


def test_a_stage_with_a_modifier_may_read_every_column() -> None:
    source = node("source", "events", tree="events")
    plain = graph(source, define("A", "read.events", "px"))
    modified = graph(
        source, define("A", "read.events", "px", execution={"modifiers": [{"name": "own"}]})
    )
    assert plain.nodes["stage.A"].reads == {"px", "A_x"}
    assert modified.nodes["stage.A"].reads is None


def test_a_digest_depends_on_content_only() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({1: "x", "all": 2}) == digest_of({"all": 2, 1: "x"})
    assert digest_of({"s": {"a", "b", "c"}}) == digest_of({"s": {"c", "a", "b"}})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    assert digest_of({"a": 1}) != digest_of({"a": 1.0})
