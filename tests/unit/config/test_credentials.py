"""What a workflow and a site may say of credentials, and what a user is told, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.credentials import Requirement
from tests.unit.config.test_execution import examples, folder, read, shown

__all__ = ["folder"]  # a fixture

SITE_KEYS = (
    "default, pool_profiles, limits, machine, environment, staging, credentials, keep_logs, waiting"
)
ALL_KEYS = (
    "backend, strategy, profiles, resources, pools, pool_profiles, default_pools, environment, "
    "staging, credentials, sizes, config"
)


@pytest.mark.parametrize(("text", "message"), examples("credentials"))
def test_what_is_wrong(text: str, message: str, folder: Path) -> None:
    _, findings = read(yaml.safe_load(text), folder)
    assert shown(findings, folder) == message.replace("ALL KEYS", ALL_KEYS).replace(
        "SITE KEYS", SITE_KEYS
    )


def required(folder: Path, **said: Any) -> tuple[Requirement, ...]:
    execution, findings = read({name.replace("_", "."): one for name, one in said.items()}, folder)
    assert execution is not None, findings
    return execution.credentials


def test_nothing_is_required(folder: Path) -> None:
    for said in (None, {}, {"credentials": None}, {"credentials": []}, {"credentials": {}}):
        assert required(folder, execution=said) == ()


def test_a_list_is_short_for_a_mapping(folder: Path) -> None:
    by_list = required(folder, execution={"credentials": ["token", "x509"]})
    assert by_list == required(folder, execution={"credentials": {"x509": {}, "token": {}}})
    assert [(one.kind, one.file, one.key) for one in by_list] == [
        ("x509", "workflow.yaml", "execution.credentials.x509"),
        ("token", "workflow.yaml", "execution.credentials.token"),
    ]


def test_all_that_may_be_said(folder: Path) -> None:
    said = {
        "x509": {"voms": ["cms", "dteam"]},
        "token": {"issuer": "https://cms-auth.cern.ch/"},
        "kerberos": {},
    }
    found = required(folder, execution={"credentials": said})
    assert [(one.kind, one.voms, one.issuer) for one in found] == [
        ("x509", ("cms", "dteam"), None),
        ("token", (), "https://cms-auth.cern.ch/"),
        ("kerberos", (), None),
    ]
    assert [Requirement.from_data(one.as_data()).as_data() for one in found] == [
        one.as_data() for one in found
    ]


def test_site_profile_and_workflow_together(folder: Path) -> None:
    found = required(
        folder,
        pools_yaml="credentials: {x509: {voms: cms}, kerberos: {}}",
        hep_yaml={"credentials": {"token": {"issuer": "https://a/"}}},
        execution={"credentials": {"token": {"issuer": "https://b/"}, "kerberos": None}},
    )
    assert [(one.kind, one.voms, one.issuer) for one in found] == [
        ("x509", ("cms",), None),
        ("token", (), "https://b/"),
    ]
    assert found[0].file.endswith("pools.yaml")
    assert found[0].key == "credentials.x509"
    assert found[1].key == "execution.credentials.token"


def test_everything_is_taken_back(folder: Path) -> None:
    found = required(folder, pools_yaml="credentials: [x509]", execution={"credentials": None})
    assert found == ()
