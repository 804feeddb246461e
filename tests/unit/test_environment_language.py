"""``execution.environment``: what is understood, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.describe.environment import Environment
from fasthep_smk.describe.execution import Execution, read_execution
from fasthep_smk.flow.compile import load_document
from fasthep_smk.flow.execution import compilable, overlay


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
workflow.yaml: execution.environment.type: no such environment
    found: 'packed-vnv'
    expected: shared-prefix, packed-venv, packed-conda, packed-pixi
    hint: did you mean 'packed-venv'?""",
        ),
        (
            {"mode": "prefix"},
            """\
workflow.yaml: execution.environment.type: is missing
    expected: shared-prefix, packed-venv, packed-conda, packed-pixi""",
        ),
        (
            {"type": "packed-venv", "prefix": "/x"},
            """\
workflow.yaml: execution.environment.prefix: means nothing for packed-venv
    expected: type""",
        ),
        (
            {"type": "packed-pixi", "mode": "prefx"},
            """\
workflow.yaml: execution.environment.mode: no such mode
    found: 'prefx'
    expected: self-extracting or prefix
    hint: did you mean 'prefix'?""",
        ),
        (
            {"type": "shared-prefix", "prefix": "here"},
            """\
workflow.yaml: execution.environment.prefix: is not what belongs here
    found: 'here'
    expected: current, or the absolute path of an environment that all workers see""",
        ),
        (
            {"type": "packed-pixi", "sourc": "current"},
            """\
workflow.yaml: execution.environment.sourc: unknown key
    expected: type, prefix, mode, source, environment, archive_path, worker_env_dir
    hint: did you mean 'source'?""",
        ),
        (
            "packed-venv",
            """\
workflow.yaml: execution.environment: is not what belongs here
    found: 'packed-venv'
    expected: a mapping with a type""",
        ),
        (
            {"type": 3},
            """\
workflow.yaml: execution.environment.type: is not what belongs here
    found: 3
    expected: shared-prefix, packed-venv, packed-conda or packed-pixi""",
        ),
    ],
)
def test_what_is_said(said: Any, message: str) -> None:
    assert read(said)[1] == message


def site(folder: Path, environment: Any) -> str:
    (folder / "config.yaml").write_text("executor: slurm\n")
    (folder / "pools.yaml").write_text(yaml.safe_dump({"environment": environment}))
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
    assert "travels with jobs only if staging.mode is 'transfer'" in "".join(execution.notices)
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
    target = overlay(load_document(workflow), workflow, tmp_path / "overlay.yaml", ["a"])
    document = load_document(target)
    assert document["execution"].get("environment") == kept
    assert compilable(document)
