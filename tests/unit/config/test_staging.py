"""``execution.staging``: what is understood, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.staging import Staging
from fasthep_smk.translate.placement import place
from fasthep_smk.translate.profile import render

PACKED = {"type": "packed-venv"}


def site(folder: Path, executor: str = "htcondor", **pools: Any) -> str:
    (folder / "config.yaml").write_text(yaml.safe_dump({"executor": executor}))
    (folder / "pools.yaml").write_text(yaml.safe_dump(pools))
    return str(folder)


def read(profile: str | None, **execution: Any) -> tuple[Execution | None, str]:
    found, findings = read_execution(
        {"execution": execution}, {}, workflow="workflow.yaml", profile=profile
    )
    return found, "\n".join(map(str, findings))


def test_a_workflow_or_a_site_may_say_it(tmp_path: Path) -> None:
    profile = site(tmp_path, staging={"mode": "transfer", "shared": ["/cvmfs"]}, environment=PACKED)
    found, findings = read(profile)
    assert findings == ""
    assert found is not None
    assert found.staging == Staging("transfer", ("/cvmfs",), None, f"{tmp_path}/pools.yaml")
    found, _ = read(profile, staging={"mode": "shared"})
    assert found is not None
    assert found.staging == Staging("shared", ("/cvmfs",), None, "workflow.yaml")


def test_a_translation_for_jobs_that_travel(tmp_path: Path) -> None:
    """Snakemake must not look for files on workers, nor send out what needs all results."""
    profile = site(tmp_path, staging={"mode": "transfer"}, environment=PACKED)
    found, _ = read(profile)
    assert found is not None
    placement, _, _ = place([], found)
    assert placement.transfers
    settings = yaml.safe_load(render([], placement))
    assert settings["shared-fs-usage"] == "none"
    assert settings["config"] == {"staging": "transfer"}


@pytest.mark.parametrize(
    ("pools", "execution", "message"),
    [
        (
            {"staging": {"mode": "transfr"}},
            {},
            """\
pools.yaml: staging.mode: is not a valid value
    found: 'transfr'
    expected: shared or transfer
    hint: did you mean 'transfer'?""",
        ),
        (
            {"staging": {"mode": "transfer"}},
            {},
            """\
pools.yaml: staging.mode: jobs that do not see this machine's files need an environment of their own
    found: 'transfer'
    expected: environment: {type: packed-venv}, or a shared-prefix that exists on workers""",
        ),
        (
            {"staging": {"mode": "transfer"}, "environment": {"type": "shared-prefix"}},
            {},
            "need an environment of their own",
        ),
        (
            {"staging": {"shared": ["data"]}},
            {},
            "pools.yaml: staging.shared[0]: is not a valid value",
        ),
        ({"staging": {"mod": "transfer"}}, {}, "did you mean 'mode'?"),
        ({}, {"staging": {"mode": 3}}, "workflow.yaml: execution.staging.mode"),
        ({}, {"staging": "transfer"}, "workflow.yaml: execution.staging"),
    ],
)
def test_a_mistake_is_named(
    tmp_path: Path, pools: dict[str, Any], execution: dict[str, Any], message: str
) -> None:
    found, findings = read(site(tmp_path, **pools), **execution)
    assert found is None or findings
    assert message in findings.replace(f"{tmp_path}/", "")


def test_slurm_needs_a_folder_for_what_it_does_not_send(tmp_path: Path) -> None:
    staging = {"mode": "transfer"}
    profile = site(tmp_path, "slurm", staging=staging, environment=PACKED)
    assert (
        "pools.yaml: staging.folder: is missing: Slurm itself does not send files to jobs"
        in read(profile)[1]
    )
    profile = site(tmp_path, "slurm", staging={**staging, "folder": "/s"}, environment=PACKED)
    found, findings = read(profile)
    assert findings == ""
    assert found is not None
    assert found.staging.folder == "/s"


def test_one_mistake_is_said_once(tmp_path: Path) -> None:
    """An environment that is wrong is not said to be missing as well."""
    wrong = {"type": "packed-venv", "image": "docker://a"}
    staging = {"mode": "transfer", "folder": "/s"}
    findings = read(site(tmp_path, "slurm", staging=staging, environment=wrong))[1]
    assert "environment.image: unknown key with type packed-venv" in findings
    assert "staging" not in findings.replace(str(tmp_path), "")


@pytest.mark.parametrize("folder", ["scratch", "/with space", "/$HOME", "/a;b", "/it's"])
def test_that_folder_has_a_plain_name(tmp_path: Path, folder: str) -> None:
    staging = {"mode": "transfer", "folder": folder}
    profile = site(tmp_path, "slurm", staging=staging, environment=PACKED)
    assert "pools.yaml: staging.folder: is not a valid value" in read(profile)[1]


def test_on_one_machine_it_means_nothing() -> None:
    found, findings = read(None, staging={"mode": "transfer"})
    assert findings == ""
    assert found is not None
    assert found.notices == (
        "workflow.yaml: staging.mode: 'transfer' has no effect, because jobs run on this machine",
    )
    assert not place([], found)[0].transfers


def test_a_line_break_is_no_end_of_a_name(tmp_path: Path) -> None:
    staging = {"mode": "transfer", "folder": "/scratch\n"}
    profile = site(tmp_path, "slurm", staging=staging, environment=PACKED)
    assert "pools.yaml: staging.folder: is not a valid value" in read(profile)[1]
