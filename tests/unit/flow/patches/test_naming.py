"""What is compiled in one folder names another one; all other texts are those of PyYAML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fasthep_smk.flow.patches.naming import naming, told_of_graph

ASIDE, BUILD = Path("/tmp/aside"), Path("/home/me/build")


@pytest.mark.parametrize(
    "data",
    [
        {"a": [1, 2.5, None, True], "b": {"path": "/tmp/aside-b", "text": "in /tmp/aside"}},
        ["/home/me/build", "é", ("a", "b")[0]],
        {},
    ],
)
def test_other_data_is_written_as_it_would_be(data: object) -> None:
    with naming(ASIDE, BUILD):
        written = yaml.safe_dump(data, sort_keys=False)
    assert written == yaml.safe_dump(data, sort_keys=False)


def test_paths_in_the_folder_are_those_of_the_other() -> None:
    data = {"outdir": "/tmp/aside", "files": ["/tmp/aside/compile/plan.yaml"]}
    with naming(ASIDE, BUILD):
        written = yaml.safe_load(yaml.safe_dump(data))
    assert written == {"outdir": "/home/me/build", "files": ["/home/me/build/compile/plan.yaml"]}
    assert data["outdir"] == "/tmp/aside"


def test_the_graph_and_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "compile").mkdir()
    graph = tmp_path / "compile" / "graph_render.json"
    graph.write_text(json.dumps({"dot": f"{tmp_path}/graph.dot"}))
    from fasthep_smk.util.files import sha256_file

    manifest = tmp_path / "compile" / "inputs.manifest.yaml"
    manifest.write_text(f"sha256: {sha256_file(graph)}\n")
    told_of_graph(tmp_path, BUILD)
    assert json.loads(graph.read_text()) == {"dot": "/home/me/build/graph.dot"}
    assert manifest.read_text() == f"sha256: {sha256_file(graph)}\n"
