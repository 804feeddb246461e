"""Whatever is wrong with the input: one message that says where, what and how to fix it."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
import yaml

from fasthep_smk.cli.main import main
from tests.integration.conftest import WORKFLOW
from tests.support import events, warm

pytestmark = pytest.mark.integration

Document = dict[str, Any]
Refused = Callable[..., str]

#: The small analysis that most tests run, to be spoilt.
GOOD: Document = yaml.safe_load(WORKFLOW)

SPEC = """\
SPEC = {
    "name": "own.op", "kind": "transform", "version": "1.0", "params": {},
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"kind": "event_stream"},
}
"""


def write_workflow(folder: Path, document: Document) -> None:
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def folder(tmp_path: Path, small_files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a good workflow and its data; modules are forgotten afterwards."""
    shutil.copytree(small_files, tmp_path / "data")
    write_workflow(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    modules, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.fixture
def document(folder: Path) -> Document:
    """A copy of the good workflow, to be spoilt."""
    assert folder
    return copy.deepcopy(GOOD)


@pytest.fixture
def refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Run the command line in this process (no exception may leave it); return its one message."""

    def run(*arguments: str, status: int = 1, command: str = "translate") -> str:
        assert folder == Path.cwd()
        capfd.readouterr()
        try:
            found: Any = main([command, *(arguments or ("workflow.yaml",))])
        except SystemExit as end:  # the way of argparse
            found = end.code
        printed = capfd.readouterr()
        text = printed.out + printed.err
        assert found == status, text
        assert "Traceback" not in text
        if status == 1:
            assert text.count("fasthep-smk: ") == 1, text
            assert len(re.findall(r"^- ", text, re.M)) == 1, text
            assert "1 problem:" in text
        return text

    return run


@pytest.fixture
def refused_as(folder: Path, refused: Refused) -> Refused:
    """Refuse a spoilt workflow."""

    def run(document: Document, *arguments: str, status: int = 1) -> str:
        write_workflow(folder, document)
        return refused("workflow.yaml", *arguments, status=status)

    return run


def stage(document: Document, name: str) -> Document:
    return next(item for item in document["analysis"]["stages"] if item["id"] == name)


def dataset(document: Document, name: str) -> Document:
    return next(item for item in document["data"]["datasets"] if item["name"] == name)


def smk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``fasthep-smk`` in a process of its own."""
    return warm.run(*(arguments or ("workflow.yaml", "-j", "2")), cwd=folder)


def only_if_permissions_matter(path: Path, mode: int) -> None:
    if os.access(path, mode):
        pytest.skip("THIS USER MAY DO EVERYTHING (root): permissions cannot be tested")


# --- the workflow file ----------------------------------------------------------------------


def test_a_missing_workflow(refused: Refused) -> None:
    text = refused("workflw.yaml", status=2)
    assert "workflw.yaml: the workflow file does not exist" in text
    assert "did you mean workflow.yaml?" in text


def test_a_workflow_in_a_missing_folder(refused: Refused) -> None:
    assert "nowhere/workflow.yaml" in refused("nowhere/workflow.yaml", status=2)


def test_a_folder_as_workflow(refused: Refused) -> None:
    assert "data: is a folder, not a workflow file" in refused("data", status=2)


def test_an_unreadable_workflow(folder: Path, refused: Refused) -> None:
    (folder / "workflow.yaml").chmod(0)
    only_if_permissions_matter(folder / "workflow.yaml", os.R_OK)
    text = refused()
    assert "workflow.yaml" in text
    assert "Permission denied" in text


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing but a comment\n", "---\n", "{}\n"])
def test_an_empty_workflow(folder: Path, refused: Refused, content: str) -> None:
    (folder / "workflow.yaml").write_text(content)
    text = refused()
    assert "workflow.yaml" in text
    assert "empty" in text


@pytest.mark.parametrize("content", ["- a\n- b\n", "just text\n", "3\n"])
def test_a_workflow_that_is_not_a_mapping(folder: Path, refused: Refused, content: str) -> None:
    (folder / "workflow.yaml").write_text(content)
    text = refused()
    assert "workflow.yaml" in text
    assert "must be a mapping/dict: workflow.yaml" in text


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("version: 1\nuse: {profiles: [hep]\ndata: 3\n", 3),
        ("version: 1\nuse:\n\tprofiles: [hep]\n", 3),
        ("version: 1\nuse: 'open\n", 3),
        ("version: !!python/object:os.system 1\n", 1),
        ("version: 1\n---\nversion: 2\n", 2),
    ],
)
def test_a_syntax_error(folder: Path, refused: Refused, content: str, line: int) -> None:
    (folder / "workflow.yaml").write_text(content)
    text = refused()
    assert f"at: workflow.yaml, line {line}, column" in text
    assert "is not valid YAML" in text


@pytest.mark.parametrize("content", [b"version: 1\nx: \x01\n", b"version: 1\0\n"])
def test_a_control_character(folder: Path, refused: Refused, content: bytes) -> None:
    (folder / "workflow.yaml").write_bytes(content)
    text = refused()
    assert "workflow.yaml" in text
    assert "character" in text


@pytest.mark.parametrize(
    "content", ["# été\n".encode("latin-1"), "version: 1\n".encode("utf-16-be")]
)
def test_a_workflow_that_is_not_utf_8(folder: Path, refused: Refused, content: bytes) -> None:
    (folder / "workflow.yaml").write_bytes(content)
    assert "workflow.yaml" in refused()


def test_an_included_file_that_is_missing(
    folder: Path, document: Document, refused_as: Refused
) -> None:
    (folder / "datasets.yaml").write_text("datasets: []\n")
    text = refused_as({**document, "include": "datsets.yaml"})
    assert "datsets.yaml: cannot be read: No such file" in text
    assert "workflow.yaml names it" in text
    assert re.search(r"did you mean \S*datasets\.yaml", text)


def test_an_included_file_that_is_broken(
    folder: Path, document: Document, refused_as: Refused
) -> None:
    (folder / "part.yaml").write_text("datasets:\n  - {name: x\n")
    assert "part.yaml, line 3, column 1" in refused_as({**document, "include": "part.yaml"})


@pytest.mark.parametrize("content", [b"- a\n", "# été\n".encode("latin-1")])
def test_an_included_file_of_another_kind(
    folder: Path, document: Document, refused_as: Refused, content: bytes
) -> None:
    (folder / "part.yaml").write_bytes(content)
    assert "part.yaml" in refused_as({**document, "include": "part.yaml"})


def test_files_that_include_each_other(document: Document, refused_as: Refused) -> None:
    text = refused_as({**document, "include": "workflow.yaml"})
    assert "include cycle detected: [workflow.yaml, workflow.yaml]" in text


# --- names ----------------------------------------------------------------------------------


def test_an_unknown_operation(document: Document, refused_as: Refused) -> None:
    stage(document, "Met")["op"] = "hep.hst"
    text = refused_as(document)
    assert "workflow.yaml: analysis.stages['Met'].op" in text
    assert "'hep.hst'" in text
    assert "'hep.hist'" in text


def test_an_unknown_sink(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["write"] = [{"kind": "root_tre", "path": "x.root"}]
    text = refused_as(document)
    assert "workflow.yaml: analysis.stages['Cuts'].write[0].kind" in text
    assert "'root_tre'" in text
    assert "'root_tree'" in text


def test_an_unknown_observer(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["inspect"] = [{"kind": "hep.schema_snapsho"}]
    text = refused_as(document)
    assert "workflow.yaml: analysis.stages['Cuts'].inspect.kind" in text
    assert "'hep.schema_snapshot'" in text


def test_an_observer_of_an_unknown_node(document: Document, refused_as: Refused) -> None:
    document["observers"] = [{"kind": "hep.schema_snapshot", "at": "stage.Cutts"}]
    assert "'stage.Cutts'" in refused_as(document)


def test_an_unknown_modifier(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["execution"] = {"modifiers": ["gpu.preloa"]}
    text = refused_as(document)
    assert "workflow.yaml: analysis.stages['Cuts'].execution.modifiers" in text
    assert "'gpu.preload'" in text


def test_an_unknown_kind_of_source(document: Document, refused_as: Refused) -> None:
    document["sources"] = {"events": {"kind": "root_tre", "tree": "events"}}
    text = refused_as(document)
    assert "'root_tre'" in text
    assert "'root_tree'" in text


def test_an_unknown_profile(document: Document, refused_as: Refused) -> None:
    document["use"] = {"profiles": ["hepp"]}
    text = refused_as(document)
    assert "workflow.yaml" in text
    assert "'hepp'" in text


def test_an_unknown_upstream_stage(document: Document, refused_as: Refused) -> None:
    stage(document, "Met")["from"] = "Cutts"
    text = refused_as(document)
    assert "analysis.stages['Met'].from: " in text
    assert "Unknown stage input reference 'Cutts'" in text


@pytest.mark.parametrize("key", ["id", "op"])
def test_a_stage_without_what_it_needs(document: Document, refused_as: Refused, key: str) -> None:
    del stage(document, "Met")[key]
    text = refused_as(document)
    assert "analysis.stages[3]" in text or "Met" in text
    assert re.search(rf"\b{key}\b", text)
    assert "missing" in text or "required" in text or "no " in text


@pytest.mark.parametrize("key", ["write", "render"])
def test_an_unknown_value_of_a_key(document: Document, refused_as: Refused, key: str) -> None:
    attached = {
        "write": [{"kind": "root_tree", "path": "x.root", "when": "sometimes"}],
        "render": {"style": {"op": "hep.render.cutflow_csv"}, "when": "sometimes", "out": "x.csv"},
    }
    stage(document, "Cuts")[key] = attached[key]
    text = refused_as(document)
    assert "'sometimes'" in text
    assert "Cut" in text
    assert re.search(r"\bwhen\b", text)
    assert "expected: partition, dataset, final" in text


def test_an_unknown_kind_of_events(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["applies_to"] = {"eventtype": "dat"}
    text = refused_as(document)
    assert "analysis.stages[2].applies_to.eventtype" in text
    assert "['data', 'mc']" in text


def test_a_list_instead_of_a_mapping(document: Document, refused_as: Refused) -> None:
    text = refused_as({**document, "data": ["a"]})
    assert "workflow.yaml: data: " in text
    assert "is a list" in text


# --- modules of the user's ------------------------------------------------------------------


def with_own_op(document: Document, module: str) -> Document:
    entry = {"spec": f"{module}:SPEC", "impl": f"{module}:run"}
    document["registry"] = {"transforms": {"own.op": entry}}
    document["analysis"]["stages"].insert(1, {"id": "Own", "op": "own.op", "params": {}})
    return document


def test_a_module_that_is_missing(document: Document, refused_as: Refused) -> None:
    text = refused_as(with_own_op(document, "own_missing"))
    assert "'own_missing' cannot be imported" in text
    assert "PYTHONPATH" in text


@pytest.mark.parametrize(
    ("module", "content", "said"),
    [
        ("own_error", "raise RuntimeError('no licence')", "no licence"),
        ("own_exception", "raise Exception('no luck')", "no luck"),
        ("own_zero", "1 / 0", "division by zero"),
        ("own_syntax", "def run(:", "invalid syntax"),
        ("own_needs", "import no_such_package_here", "no_such_package_here"),
        ("own_exit", "import sys\nsys.exit(3)", "own_exit"),
        ("own_reads", "open('absent.txt')", "absent.txt"),
    ],
)
def test_a_module_that_cannot_be_imported(
    folder: Path, document: Document, refused_as: Refused, module: str, content: str, said: str
) -> None:
    (folder / f"{module}.py").write_text(f"{content}\n")
    text = refused_as(with_own_op(document, module))
    assert module in text
    assert said in text


def test_a_module_without_the_function(
    folder: Path, document: Document, refused_as: Refused
) -> None:
    (folder / "own_other.py").write_text(SPEC + "def rum(**_):\n    pass\n")
    text = refused_as(with_own_op(document, "own_other"))
    assert "registry.transforms['own.op'].impl" in text
    assert "'own_other:run'" in text


# --- input files ----------------------------------------------------------------------------


def test_a_missing_file(document: Document, refused_as: Refused) -> None:
    dataset(document, "data")["files"] = ["data/data_00.root"]
    text = refused_as(document)
    assert "data/data_00.root: dataset 'data'" in text
    assert "does not exist" in text
    assert "did you mean data/data_0.root?" in text


def test_a_missing_file_of_a_dataset_that_says_its_events(
    document: Document, refused_as: Refused
) -> None:
    dataset(document, "data").update(files=["data/data_00.root"], nevents=20)
    assert "did you mean data/data_0.root?" in refused_as(document)


@pytest.mark.parametrize("command", ["check", "translate", "run"])
def test_a_password_in_an_address(
    document: Document, folder: Path, refused: Refused, command: str
) -> None:
    dataset(document, "data")["files"].append("root://me:S3cr3t@host//b.root")
    write_workflow(folder, document)
    text = refused(command=command)
    assert "workflow.yaml: data.datasets.data.files[2]: the address contains a secret" in text
    assert "found: 'root://me:<password>@host//b.root'" in text
    assert "S3cr3t" not in text
    kept = [path for path in (folder / "build").rglob("*") if path.is_file()]
    assert not [path for path in kept if b"S3cr3t" in path.read_bytes()]


def test_a_missing_folder(document: Document, refused_as: Refused) -> None:
    dataset(document, "data")["files"] = ["dta/data_0.root"]
    text = refused_as(document)
    assert "dta/data_0.root: dataset 'data'" in text
    assert "folder" in text


def test_a_folder_as_file(document: Document, refused_as: Refused) -> None:
    dataset(document, "data")["files"] = ["data"]
    text = refused_as(document)
    assert "data: dataset 'data'" in text
    assert "folder" in text


def test_a_missing_tree(document: Document, refused_as: Refused) -> None:
    del document["sources"], document["data"]["datasets"][0]
    document["data"]["defaults"]["tree_primary"] = "event"
    text = refused_as(document)
    assert "data.defaults.tree_primary: data/dy_0.root holds no tree of this name" in text
    assert "did you mean 'events'?" in text


def test_a_missing_branch(document: Document, refused_as: Refused) -> None:
    document["sources"] = {
        "events": {"kind": "root_tree", "tree": "events", "branches": ["MET_px", "Jt_Px"]}
    }
    text = refused_as(document)
    assert "data/data_0.root" in text
    assert "no branch 'Jt_Px'" in text
    assert "'Jet_Px'" in text


def test_a_missing_branch_of_one_file(folder: Path, document: Document, refused: Refused) -> None:
    assert document
    names = ("MET_pxx", "MET_py", "EventWeight")
    with uproot.recreate(folder / "data/dy_0.root") as file:
        file.mktree("events", dict.fromkeys(names, "float64")).extend(
            dict.fromkeys(names, np.zeros(3))
        )
    text = refused()
    assert "data/dy_0.root" in text
    assert "data/data_0.root" not in text
    assert "'MET_pxx'" in text


@pytest.mark.parametrize(("field", "nearest"), [("EventWeigt", "EventWeight"), ("mett", "met")])
def test_an_expression_with_an_unknown_field(
    document: Document, refused_as: Refused, field: str, nearest: str
) -> None:
    stage(document, "Cuts")["params"]["selection"]["All"] = [f"{field} > 0"]
    text = refused_as(document)
    assert f"'{field}'" in text
    assert "Cut" in text
    assert f"'{nearest}'" in text


def test_an_expression_with_an_unknown_function(document: Document, refused_as: Refused) -> None:
    stage(document, "Vars")["params"]["variables"][0]["expr"] = "sqr(MET_px)"
    text = refused_as(document)
    assert "Vars" in text
    assert "'sqrt'" in text


def test_an_expression_that_is_not_one(document: Document, refused_as: Refused) -> None:
    stage(document, "Vars")["params"]["variables"][0]["expr"] = "MET_px * * 2"
    text = refused_as(document)
    assert "Vars" in text
    assert "invalid syntax" in text


def test_a_truncated_file(folder: Path, refused: Refused) -> None:
    content = (folder / "data/data_0.root").read_bytes()
    for size in (40, len(content) // 2, len(content) - 1):
        (folder / "data/data_0.root").write_bytes(content[:size])
        assert "data/data_0.root: dataset 'data'" in refused()


def test_a_file_that_is_not_of_root(folder: Path, refused: Refused) -> None:
    (folder / "data/data_0.root").write_text("<html>404</html>\n" * 100)
    text = refused()
    assert "data/data_0.root: dataset 'data'" in text
    assert "not a" in text


def test_an_empty_file(folder: Path, refused: Refused) -> None:
    (folder / "data/data_0.root").write_bytes(b"")
    text = refused()
    assert "data/data_0.root: dataset 'data'" in text
    assert "empty" in text


def test_an_unreadable_file(folder: Path, refused: Refused) -> None:
    (folder / "data/data_0.root").chmod(0)
    only_if_permissions_matter(folder / "data/data_0.root", os.R_OK)
    text = refused()
    assert "data/data_0.root: dataset 'data'" in text
    assert "Permission denied" in text


# --- datasets and stages --------------------------------------------------------------------


@pytest.mark.parametrize("files", [[], None, "data/data_0.root"])
def test_a_dataset_without_a_list_of_files(
    document: Document, refused_as: Refused, files: Any
) -> None:
    dataset(document, "data")["files"] = files
    text = refused_as(document)
    assert "files" in text
    assert re.search(r"dataset\[data\]|datasets\['data'\]", text)
    assert "list" in text


@pytest.mark.parametrize("nevents", ["many", 1.5, -4])
def test_a_number_of_events_that_is_not_one(
    document: Document, refused_as: Refused, nevents: Any
) -> None:
    dataset(document, "dy")["nevents"] = nevents
    text = refused_as(document)
    assert "nevents" in text
    assert str(nevents) in text
    assert "dy" in text


def test_a_workflow_that_reads_root_files_but_names_none(
    document: Document, refused_as: Refused
) -> None:
    del document["data"]["datasets"]
    text = refused_as(document)
    assert "workflow.yaml" in text
    assert "datasets" in text


@pytest.mark.parametrize("name", ["data", " data "])
def test_two_datasets_of_one_name(document: Document, refused_as: Refused, name: str) -> None:
    """FAST-HEP drops spaces around a name."""
    dataset(document, "dy")["name"] = name
    text = refused_as(document)
    assert "workflow.yaml: data.datasets" in text
    assert "'data'" in text


def test_two_stages_of_one_id(document: Document, refused_as: Refused) -> None:
    stage(document, "Met")["id"] = "Cuts"
    text = refused_as(document)
    assert "Duplicate" in text or "same" in text
    assert "Cut" in text


def test_a_second_port_that_would_be_dropped(document: Document, refused_as: Refused) -> None:
    ports = [{"node": "Cuts", "port": "stream"}, {"node": "Cuts", "port": "cutflow", "as": "c"}]
    stage(document, "Met")["from"] = ports
    text = refused_as(document)
    assert "analysis.stages['Met'].from" in text
    assert "stream, cutflow" in text


def test_two_datasets_that_would_write_one_file(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["write"] = [{"kind": "root_tree", "path": "x.root", "when": "dataset"}]
    text = refused_as(document)
    assert "workflow.yaml: Cuts: path" in text
    assert "2 datasets (data, dy)" in text
    assert "x.root" in text
    assert "{dataset}" in text


def test_partitions_that_would_write_one_file(document: Document, refused_as: Refused) -> None:
    stage(document, "Cuts")["write"] = [{"kind": "root_tree", "path": "{dataset}/x.root"}]
    text = refused_as(document, "--chunk-size", "10")
    assert "workflow.yaml: Cuts: path" in text
    assert "18 partitions" in text
    assert "{part}" in text


@pytest.mark.parametrize("path", ["../../../../../{dataset}_{part}.root", "a/../../../../x.root"])
def test_a_writer_that_would_leave_the_build_folder(
    document: Document, refused_as: Refused, path: str
) -> None:
    document["data"]["datasets"].pop()
    stage(document, "Cuts")["write"] = [{"kind": "root_tree", "path": path}]
    text = refused_as(document)
    assert "workflow.yaml: Cuts: path" in text
    assert path in text


def test_an_unknown_resource_class(document: Document, refused_as: Refused) -> None:
    document["execution"] = {"resources": {"gpu": {"gpus": 1}}}
    stage(document, "Cuts")["execution"] = {"require": "gpuu"}
    text = refused_as(document)
    assert "Cut" in text
    assert "'gpuu'" in text


def test_an_unknown_report(document: Document, refused_as: Refused) -> None:
    report = {
        "id": "r",
        "op": "hep.report.template",
        "source": "provenace",
        "outputs": [{"path": "r.md", "format": "markdown"}],
    }
    text = refused_as({**document, "reports": [report]})
    assert "reports['r'].source" in text
    assert "'provenace'" in text
    assert "provenance" in text


# --- the command line -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["workflow.yaml", "--chunk-size", "0"], "--chunk-size: '0'"),
        (["workflow.yaml", "--chunk-size", "abc"], "--chunk-size: 'abc'"),
        (["workflow.yaml", "--chunk-size", "-5"], "--chunk-size"),
        (["workflow.yaml", "-j", "0"], "--jobs: '0'"),
        (["workflow.yaml", "-j", "two"], "--jobs: 'two'"),
        (["workflow.yaml", "--granularity", "stages"], "'stages'"),
        (["workflow.yaml", "--outdr", "x"], "--outdr"),
        (["workflow.yaml", "other.yaml"], "other.yaml"),
        ([], "workflow"),
        (["workflow.yaml", "--", "--outdir", "x"], "--outdir belongs before --"),
        (["workflow.yaml", "--", "--outdir=x"], "--outdir belongs before --"),
        (["workflow.yaml", "--", "--cores", "1", "--chunk-size", "5"], "--chunk-size belongs"),
        (["workflow.yaml", "--", "-o", "x"], "-o belongs before --"),
        (["workflow.yaml", "--", "--profile", "x"], "--profile belongs before --"),
        (["workflow.yaml", "--", "--executor=slurm"], "remove --executor: the profile chooses it"),
        (["workflow.yaml", "--", "--set-resources", "mem_mb=1"], "not of the form RULE:NAME=VALUE"),
        (["workflow.yaml", "--outdir", ""], "--outdir"),
        (["workflow.yaml", "--accept-missing", "-1"], "--accept-missing: '-1' is neither"),
        (["workflow.yaml", "--accept-missing", "150%"], "'150%' is more than all partitions"),
        (["workflow.yaml", "--accept-missing", "abc"], "--accept-missing: 'abc' is neither"),
        (
            ["workflow.yaml", "--accept-missing", "0"],
            "'0' accepts no missing partition: use",
        ),
        (
            ["workflow.yaml", "--accept-missing", "0%"],
            "'0%' accepts no missing partition: use",
        ),
        (["workflow.yaml", "--accept-missing"], "--accept-missing: expected one argument"),
        (["workflow.yaml", "--", "--accept-missing", "1"], "--accept-missing belongs before --"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "said",
)
def test_wrong_usage(refused: Refused, arguments: list[str], said: str) -> None:
    text = refused(*(arguments or ("--jobs=1",)), status=2, command="run")
    assert said in text
    assert len(text.splitlines()) < 12
    assert not Path("build").exists()


def test_options_for_snakemake_without_a_run(refused: Refused) -> None:
    text = refused("workflow.yaml", "--", "--cores", "1", status=2)
    assert "--" in text


def test_an_option_that_snakemake_does_not_know(folder: Path) -> None:
    done = smk(folder, "workflow.yaml", "--", "--no-such-option")
    assert done.returncode != 0
    assert "--no-such-option" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) < 12, done.stderr


def test_an_unknown_variation(document: Document, refused_as: Refused) -> None:
    varied = {"name": "up", "mode": "plan", "weight": {"multiply": "EventWeight"}}
    document["systematics"] = {"include_nominal": True, "variations": [varied]}
    text = refused_as(document, "--variation", "upp", status=2)
    assert "'upp'" in text
    assert "did you mean 'up'?" in text
    assert "nominal, up" in text


def test_a_variation_of_a_workflow_without_any(refused: Refused) -> None:
    text = refused("workflow.yaml", "--variation", "up", status=2)
    assert "'up'" in text
    assert "no systematics" in text


def test_a_build_folder_that_is_a_file(folder: Path, refused: Refused) -> None:
    before = (folder / "data/data_0.root").read_bytes()
    text = refused("workflow.yaml", "--outdir", "data/data_0.root")
    assert "--outdir: is a file" in text
    assert "data/data_0.root" in text
    assert (folder / "data/data_0.root").read_bytes() == before


@pytest.mark.parametrize("outdir", ["data/data_0.root/build", "/proc/no/build", "/dev/null/build"])
def test_a_build_folder_that_cannot_be_made(refused: Refused, outdir: str) -> None:
    text = refused("workflow.yaml", "--outdir", outdir)
    assert outdir in text
    assert "--outdir" in text


def test_a_build_folder_that_cannot_be_written(folder: Path, refused: Refused) -> None:
    (folder / "build").mkdir(mode=0o555)
    only_if_permissions_matter(folder / "build", os.W_OK)
    text = refused()
    assert "build" in text
    assert "Permission denied" in text


@pytest.mark.parametrize("outdir", ["compile", "x/graph", "reports/"])
def test_a_build_folder_whose_name_has_a_meaning(refused: Refused, outdir: str) -> None:
    text = refused("workflow.yaml", "--outdir", outdir)
    assert "--outdir" in text
    assert outdir.strip("/") in text
    assert not Path(outdir).exists()


# --- runs -----------------------------------------------------------------------------------


def test_a_dataset_without_events_runs_with_a_warning(folder: Path) -> None:
    events.zmumu_file(folder / "data/dy_0.root", 0, seed=0)
    done = smk(folder)
    assert done.returncode == 0, done.stderr
    assert "warning: dataset 'dy' has no events" in done.stderr
    assert (folder / "build/artifacts/histograms/Met.pkl").is_file()


def test_a_bad_input_does_not_damage_an_earlier_run(folder: Path, document: Document) -> None:
    assert smk(folder).returncode == 0
    kept = ("artifacts", "smk/work", "run_summary.yaml")
    before = {
        path: path.read_bytes()
        for name in kept
        for path in [folder / "build" / name, *(folder / "build" / name).rglob("*")]
        if path.is_file()
    }
    assert len(before) > 5
    stage(document, "Met")["op"] = "hep.hst"
    write_workflow(folder, document)
    assert smk(folder).returncode == 1
    dataset(document, "data")["files"] = ["data/absent.root"]
    write_workflow(folder, document)
    assert smk(folder).returncode == 1
    assert {path: path.read_bytes() for path in before} == before

    write_workflow(folder, GOOD)
    again = smk(folder)
    assert again.returncode == 0
    assert "everything was up to date" in again.stdout


FRAGILE = (
    SPEC
    + """
import os

def run(*, stream, ctx=None, **_):
    part = ctx["partition"]
    if (part["dataset"], part["part"]) == ("dy", "0_1") and not os.path.exists("fixed"):
        raise ValueError("too much energy")
    return stream
"""
)


def records(folder: Path) -> dict[str, int]:
    """Return when the record of each partition's job was written."""
    work = folder / "build/smk/work"
    return {
        str(path.relative_to(work)): path.stat().st_mtime_ns for path in work.rglob("*/record.json")
    }


def test_an_operation_that_raises_in_one_partition(folder: Path, document: Document) -> None:
    (folder / "own_fragile.py").write_text(FRAGILE)
    write_workflow(folder, with_own_op(document, "own_fragile"))
    arguments = ("workflow.yaml", "-j", "2", "--chunk-size", "40", "--", "--keep-going")
    failed = smk(folder, *arguments)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stdout + failed.stderr
    message = failed.stderr[failed.stderr.index("fasthep-smk: ") :]
    assert "1 job failed" in message
    assert "stage 'Own' (own.op) failed: ValueError: too much energy" in message
    assert re.search(r"dataset: +dy\n", message)
    assert re.search(r"file: +data/dy_0.root \(entries 40 to 80\)\n", message)
    log = Path(re.search(r"log: +(.+)\n", message)[1])  # type: ignore[index]
    assert "too much energy" in log.read_text()
    before = records(folder)
    assert len(before) == 4

    (folder / "fixed").touch()
    alone = re.search(r"rerun: +(.+)", message)[1]  # type: ignore[index]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", alone],
        cwd="/",
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = records(folder)
    assert len(after) == 5
    assert {name: after[name] for name in before} == before

    rest = smk(folder, *arguments)
    assert rest.returncode == 0, rest.stderr
    assert "1 job done" in rest.stdout
    finished = records(folder)
    assert {name: finished[name] for name in after} == after


def test_a_mended_operation_is_used_when_the_failed_job_runs_alone(
    folder: Path, document: Document
) -> None:
    """Once it is translated: what the edited operation makes must not count for the earlier one."""
    (folder / "own_broken.py").write_text(SPEC + "def run(*, stream, **_):\n    return strem\n")
    del document["data"]["datasets"][0]
    write_workflow(folder, with_own_op(document, "own_broken"))
    failed = smk(folder, "workflow.yaml", "--no-preflight")
    assert failed.returncode == 1
    assert "NameError: name 'strem' is not defined" in failed.stderr
    (folder / "own_broken.py").write_text(SPEC + "def run(*, stream, **_):\n    return stream\n")
    alone = re.search(r"rerun: +(.+)", failed.stderr)[1]  # type: ignore[index]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    call = ["sh", "-c", alone]
    done = subprocess.run(call, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (log,) = (folder / "build/debug/distributed/logs").rglob("0_0.log")
    assert "own_broken.py changed during the run" in log.read_text()
    assert not records(folder)
    assert smk(folder, "translate", "workflow.yaml").returncode == 0
    done = subprocess.run(call, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(records(folder)) == 1
    assert smk(folder).returncode == 0


def test_a_failure_that_was_mended_is_not_told_again(folder: Path, document: Document) -> None:
    (folder / "own_once.py").write_text(FRAGILE)
    write_workflow(folder, with_own_op(document, "own_once"))
    chunks = ("workflow.yaml", "--chunk-size", "40")
    assert "too much energy" in smk(folder, *chunks).stderr
    stage(document, "Own")["applies_to"] = {"eventtype": "data"}
    stage(document, "Met")["params"]["axs"] = 3
    write_workflow(folder, document)
    again = smk(folder, *chunks)
    assert again.returncode == 1
    assert "axs" in again.stderr
    assert "too much energy" not in again.stderr
