"""What a workflow can use, as ``fasthep-smk ops`` tells it."""

from __future__ import annotations

import inspect
import json
import shutil
from importlib import resources
from pathlib import Path

import pytest
import yaml

from fasthep_smk.cli.main import main
from fasthep_smk.contrib.measure.ops import SECTIONS, Component, registered
from fasthep_smk.flow import upstream

ROOT = Path(__file__).parents[4]
PLUGINS = ROOT / "tests/workflows/plugins"


def published() -> dict[tuple[str, str], object]:
    """What FAST-HEP's packages register, by section and name."""
    found: dict[tuple[str, str], object] = {}
    for package in ("fasthep_carpenter", "fasthep_curator", "fasthep_render"):
        text = resources.files(package).joinpath("profiles/registry.yaml").read_text()
        for section, entries in yaml.safe_load(text)["registry"].items():
            found.update({(section, name): entry for name, entry in (entries or {}).items()})
    return found


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Component]:
    return {(one.kind, one.name): one for one in registered(None, Path())}


def test_all_of_fast_hep_is_there(found: dict[tuple[str, str], Component]) -> None:
    wanted = {name for section, name in published() if section in SECTIONS}
    assert {name for _, name in found} == wanted


def test_nothing_is_silent(found: dict[tuple[str, str], Component]) -> None:
    silent = [one.name for one in found.values() if not one.summary and one.kind != "renderer"]
    assert [one for one in found.values() if one.problem] == []
    assert silent == ["hep.dataset_context", "hep.error_report", "hep.warning_capture"]


@pytest.mark.parametrize(
    "key", [key for key in published() if key[0] in ("transforms", "sinks", "observers")]
)
def test_parameters_are_those_of_the_specification(
    found: dict[tuple[str, str], Component], key: tuple[str, str]
) -> None:
    section, name = key
    entry = published()[key]
    assert isinstance(entry, dict)
    spec, made = (upstream.load_object(entry[part]) for part in ("spec", "impl"))
    kind = "renderer" if name.startswith("hep.render.") else SECTIONS[section][0]
    told = {one.name: one for one in found[kind, name].parameters}
    declared = spec["params"]
    assert set(declared) <= set(told)
    for parameter, said in declared.items():
        assert told[parameter].required == bool(said.get("required"))
        assert told[parameter].kind == said.get("type", told[parameter].kind)
    signature = inspect.signature(made).parameters
    for parameter, argument in signature.items():
        if parameter in declared and "default" not in declared[parameter]:
            has_default = argument.default is not argument.empty
            assert (told[parameter].default is not None) == has_default


def test_the_schema_says_what_parameters_mean(found: dict[tuple[str, str], Component]) -> None:
    hist = {one.name: one for one in found["operation", "hep.hist"].parameters}
    assert hist["axes"].meaning == "a list of axes"
    style = {one.name for one in found["renderer", "hep.render.hist1d"].parameters}
    assert "hist1d" in style
    assert "axes" in style
    assert "heatmap2d" not in style, "that is of another renderer"


def test_columns_that_no_parameter_names_are_told(
    found: dict[tuple[str, str], Component],
) -> None:
    prefixes = "{collection}_Px, {collection}_Py, {collection}_Pz, {collection}_E"
    assert found["operation", "hep.di_object_mass"].reads == (prefixes,)


def test_own_components_of_a_workflow_and_its_profiles(tmp_path: Path) -> None:
    shutil.copytree(PLUGINS, tmp_path / "own")
    found = {one.name: one for one in registered(tmp_path / "own/workflow.yaml", tmp_path / "own")}
    shift = found["own.shift"]
    assert shift.summary == "Add ``<field>_shifted``."
    assert [(one.name, one.required) for one in shift.parameters] == [("field", True), ("by", True)]
    assert found["double"].own
    assert [one.name for one in found["double"].parameters] == ["values"]
    assert found["own.negate"].kind == "modifier"
    assert [one.name for one in found["own.negate"].parameters] == ["field"]
    assert "hep.define" in found


@pytest.mark.parametrize("text", ["import nonsense_xyz", "raise SystemExit(3)", "1 +", "print(1)"])
def test_a_broken_module_is_told_in_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"broken_{abs(hash(text))}"
    Path(f"{name}.py").write_text(text)
    entry = {"spec": f"{name}:SPEC", "impl": f"{name}:run"}
    Path("w.yaml").write_text(yaml.safe_dump({"registry": {"transforms": {"my.op": entry}}}))
    assert main(["ops", "--workflow", "w.yaml"]) == 0
    said = capsys.readouterr()
    assert "my.op (own)  cannot be imported: " in said.out
    assert said.err == ""


def test_a_name_that_nothing_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "hep.hits"]) == 2
    said = capsys.readouterr().err
    assert "there is no operation or component 'hep.hits'" in said
    assert "did you mean 'hep.hist'?" in said


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "root_tree", "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in both] == ["source", "writer"]
    assert main(["ops", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 40


def test_the_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    lines = {line.split()[0] for line in text.splitlines() if line.startswith("    ")}
    assert {name for section, name in published() if section in SECTIONS} <= lines
    assert "    hep.define   " in text
    assert "Event stream with newly defined fields." in text


def test_a_workflow_that_is_not_there_is_one_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops", "--workflow", "nowhere.yaml"]) != 0
    assert "the workflow file does not exist" in capsys.readouterr().err
