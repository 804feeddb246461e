"""``execution.environment``: what is understood, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.environment import Environment
from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.flow.compile import load_with_digests
from fasthep_smk.flow.overlay import compilable, overlay
from fasthep_smk.plan.rules import Rule
from fasthep_smk.translate.placement import place
from fasthep_smk.translate.profile import render


def read(environment: Any, **more: Any) -> tuple[Execution | None, str]:
    document = {"execution": {"environment": environment}}
    execution, findings = read_execution(
        document, {}, workflow="workflow.yaml", **{"profile": None, **more}
    )
    return execution, "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, None),
        ({}, None),
        ({"type": "packed-venv"}, Environment("packed-venv", file="workflow.yaml")),
        ({"type": "packed-conda"}, Environment("packed-conda", file="workflow.yaml")),
        ({"type": "packed-pixi"}, Environment("packed-pixi", file="workflow.yaml")),
        (
            {"type": "packed-pixi", "mode": "prefix", "source": "current"},
            Environment("packed-pixi", file="workflow.yaml"),
        ),
        (
            {"type": "shared-prefix", "prefix": "/software/hep"},
            Environment("shared-prefix", "/software/hep", "workflow.yaml"),
        ),
    ],
)
def test_what_is_understood(said: Any, expected: Environment | None) -> None:
    execution, findings = read(said)
    assert findings == ""
    assert execution is not None
    assert execution.environment == expected


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"type": "packed-vnv"},
            """\
workflow.yaml: execution.environment.type: is not a valid value
    found: 'packed-vnv'
    expected: shared-prefix, packed-venv, packed-conda, packed-pixi or container
    hint: did you mean 'packed-venv'?""",
        ),
        (
            {"mode": "prefix"},
            """\
workflow.yaml: execution.environment.type: is missing
    expected: shared-prefix, packed-venv, packed-conda, packed-pixi or container""",
        ),
        (
            {"type": "packed-venv", "prefix": "/x"},
            """\
workflow.yaml: execution.environment.prefix: unknown key with type packed-venv or packed-conda
    expected: type""",
        ),
        (
            {"type": "packed-pixi", "mode": "prefx"},
            """\
workflow.yaml: execution.environment.mode: is not a valid value
    found: 'prefx'
    expected: self-extracting or prefix
    hint: did you mean 'prefix'?""",
        ),
        (
            {"type": "shared-prefix", "prefix": "here"},
            """\
workflow.yaml: execution.environment.prefix: is not a valid value
    found: 'here'
    expected: current, or the absolute path of an environment that all workers see; \
no quotes, $, ` or \\ in it""",
        ),
        (
            {"type": "shared-prefix", "prefix": "/opt/$USER"},
            """\
workflow.yaml: execution.environment.prefix: is not a valid value
    found: '/opt/$USER'
    expected: current, or the absolute path of an environment that all workers see; \
no quotes, $, ` or \\ in it""",
        ),
        (
            {"type": "packed-pixi", "sourc": "current"},
            """\
workflow.yaml: execution.environment.sourc: unknown key with type packed-pixi
    expected: type, mode, source, environment, archive_path, worker_env_dir
    hint: did you mean 'source'?""",
        ),
        (
            "packed-venv",
            """\
workflow.yaml: execution.environment: is not a valid value
    found: 'packed-venv'
    expected: a mapping with the type of the workers' environment""",
        ),
        (
            {"type": 3},
            """\
workflow.yaml: execution.environment.type: is not a valid value
    found: 3
    expected: shared-prefix, packed-venv, packed-conda, packed-pixi or container""",
        ),
    ],
)
def test_what_is_said(said: Any, message: str) -> None:
    assert read(said)[1] == message


def site(folder: Path, environment: Any, executor: str = "slurm", **more: Any) -> str:
    (folder / "config.yaml").write_text(f"executor: {executor}\n")
    (folder / "pools.yaml").write_text(yaml.safe_dump({"environment": environment, **more}))
    return str(folder)


def test_a_workflow_wins_over_a_site(tmp_path: Path) -> None:
    profile = site(tmp_path, {"type": "packed-conda"})
    for said, expected in ((None, "packed-conda"), ({"type": "shared-prefix"}, "shared-prefix")):
        execution, findings = read(said, profile=profile)
        assert findings == ""
        assert execution is not None
        assert execution.environment is not None
        assert execution.environment.type == expected


def test_of_a_site_the_file_is_named(tmp_path: Path) -> None:
    profile = site(tmp_path, {"type": "packd-conda"})
    assert read(None, profile=profile)[1].startswith(f"{tmp_path}/pools.yaml: environment.type: ")


def test_on_a_cluster_it_is_said_when_jobs_do_not_travel_with_it() -> None:
    execution, _ = read({"type": "packed-venv"}, profile="slurm")
    assert execution is not None
    assert "is sent with jobs only if staging.mode is 'transfer'" in "".join(execution.notices)
    execution, _ = read({"type": "packed-venv"})
    assert execution is not None
    assert "travel" not in "".join(execution.notices)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"type": "packed-venv"}, {}),
        ({"type": "packed-conda"}, {}),
        (None, {}),
        ({"type": "packed-pixi", "mode": "prefix"}, {"type": "packed-pixi", "mode": "prefix"}),
    ],
)
def test_the_compiler_gets_what_it_knows(tmp_path: Path, said: Any, kept: Any) -> None:
    workflow = tmp_path / "workflow.yaml"
    workflow.write_text(yaml.safe_dump({"execution": {"environment": said, "pools": {"a": {}}}}))
    target = overlay(load_with_digests(workflow)[0], workflow, tmp_path / "overlay.yaml", ["a"])
    document = load_with_digests(target)[0]
    assert document["execution"].get("environment") == kept
    assert compilable(document)


def test_a_container_of_htcondor_is_its_own(tmp_path: Path) -> None:
    environment = {"type": "container", "image": "docker://hep/analysis:1.2"}
    execution, findings = read(environment, profile=site(tmp_path, {}, "htcondor"))
    assert "HTCondor's jobs in a container do not see the files" in findings
    profile = site(tmp_path, {}, "htcondor", staging={"mode": "transfer"})
    execution, findings = read(environment, profile=profile)
    assert findings == ""
    assert execution is not None
    pool = execution.router.route([])
    rule = Rule("stage_A", "partition", (), pool, ())
    placement, _, _ = place([rule], execution)
    settings = yaml.safe_load(render([rule], placement))
    asked = settings["set-resources"]["stage_A"]
    assert (asked["universe"], asked["container_image"]) == (
        '"container"',
        '"docker://hep/analysis:1.2"',
    )
    assert "software-deployment-method" not in settings


def test_elsewhere_snakemake_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/singularity").write_text("#!/bin/sh\n")
    (tmp_path / "bin/singularity").chmod(0o755)
    environment = {"type": "container", "image": "/cvmfs/unpacked.cern.ch/hep:1"}
    monkeypatch.setenv("PATH", "")
    assert "this machine has no program that runs containers" in read(environment)[1]
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    execution, findings = read(environment)
    assert findings == ""
    assert execution is not None
    placement, _, _ = place([], execution)
    seen = [Path("/a b"), Path("/c"), Path("/c")]
    settings = yaml.safe_load(render([], placement, seen=seen))
    assert settings["software-deployment-method"] == ["apptainer"]
    assert settings["apptainer-args"] == "--bind '/a b' --bind /c"
    assert settings["config"] == {"container": "/cvmfs/unpacked.cern.ch/hep:1"}


@pytest.mark.parametrize("image", [None, "", "hep", "docker://a b", "hep.sif", "docker://$x", 3])
def test_an_image_is_one_that_snakemake_understands(image: Any) -> None:
    said = {"type": "container"} if image is None else {"type": "container", "image": image}
    assert "execution.environment.image" in read(said)[1]
