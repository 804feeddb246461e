"""What makes an operation another operation, and which columns and jobs may be shared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.distributions import package_identity
from fasthep_smk.util.files import digest_of
from tests.unit.plans import define, graph, node


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, with nothing remembered of earlier ones."""
    monkeypatch.syspath_prepend(str(tmp_path))
    op_identity.forget()
    yield tmp_path
    op_identity.forget()


def identity_of(reference: str) -> str:
    op_identity.forget()
    return op_identity.of_object(reference)


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
    names = [path.name for path in op_identity.sources_of("smk_a") if path.parent == module_folder]
    assert names == ["smk_a.py", "smk_b.py"]


def test_relative_imports_are_followed(module_folder: Path) -> None:
    package = module_folder / "smk_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tools.py").write_text("X = 1\n")
    (package / "ops.py").write_text("from . import tools\n")
    assert package / "tools.py" in op_identity.sources_of("smk_package.ops")


def test_a_published_op_is_known_by_its_version() -> None:
    found = op_identity.of_object("fasthep_carpenter.operations.define:run_define_transform")
    assert "@2026." in found


def test_packages_above_a_module_and_installed_ones_that_it_imports_belong_to_it(
    module_folder: Path,
) -> None:
    package = module_folder / "smk_above"
    package.mkdir()
    (package / "__init__.py").write_text("X = 1\n")
    (package / "ops.py").write_text("import json, numpy as np, smk_absent\n")
    parts = identity_of("smk_above.ops:run").split("|")
    assert [part.partition("@")[0] for part in parts] == [
        "smk_above.ops:run", "import:smk_above", "import:numpy", "import:smk_absent",
    ]  # fmt: skip
    assert parts[-1] == "import:smk_absent@not installed"
    (package / "__init__.py").write_text("X = 2\n")
    assert identity_of("smk_above.ops:run").split("|")[1] != parts[1]


def test_a_library_installed_from_a_folder_changes_with_its_code(module_folder: Path) -> None:
    site = module_folder / "lib/site-packages"
    info = site / "smk_local-1.0.dist-info"
    for folder in (info, site / "smk_local"):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: smk_local\nVersion: 1.0\n")
    (info / "direct_url.json").write_text('{"dir_info": {}, "url": "file:///home/me/local"}')
    sys.path.insert(0, str(site))
    try:
        found = []
        for code in ("F = 1\n", "F = 2\n"):  # "pip install ." twice, with the same version
            (site / "smk_local/__init__.py").write_text(code)
            record = f"smk_local/__init__.py,sha256={digest_of(code)},6\nRECORD,,\n"
            (info / "RECORD").write_text(record)
            op_identity.forget()
            found.append(package_identity("smk_local"))
        assert found[0] != found[1]
        assert all(one.startswith("1.0") for one in found)
    finally:
        sys.path.remove(str(site))


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
    assert op_identity.honours_ranges(registry, "own") is honours


def test_a_stage_with_a_modifier_may_read_every_column() -> None:
    source = node("source", "events", tree="events")
    plain = graph(source, define("A", "read.events", "px"))
    modified = graph(
        source, define("A", "read.events", "px", execution={"modifiers": [{"name": "own"}]})
    )
    assert plain.nodes["stage.A"].reads == {"px", "A_x"}
    assert modified.nodes["stage.A"].reads is None
