"""Addresses in a workflow that hold a secret are refused, and the message does not repeat it."""

from __future__ import annotations

from typing import Any

import pytest

from fasthep_smk.config.secret_urls import secret_findings
from fasthep_smk.flow.workflow_checks import document_findings
from tests.support.credentials import token


def workflow(*files: str) -> dict[str, Any]:
    return {"data": {"datasets": [{"name": "DY", "files": ["data/a.root", *files]}]}}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("root://me:S3cr3t@host//a.root", "root://me:<password>@host//a.root"),
        ("https://me:S3cr3t@host:80/a.root", "https://me:<password>@host:80/a.root"),
        ("https://h/a.root?authz=Bearer%20S3cr3t", "https://h/a.root?authz=Bearer%20<token>"),
        ("root://h//a.root?b=1&authz=S3cr3t", "root://h//a.root?b=1&authz=<token>"),
        ("https://h/a.root?access_token=S3cr3t&b=1", "https://h/a.root?access_token=<token>&b=1"),
        ("https://h/a.root?token=S3cr3t", "https://h/a.root?token=<token>"),
        ("https://h/a?X-Amz-Signature=S3cr3t", "https://h/a?X-Amz-Signature=<secret>"),
        ("https://h/a?X-Amz-Credential=S3cr3t%2Fs3", "https://h/a?X-Amz-Credential=<secret>"),
        ("https://h/a?Expires=1&Signature=S3cr3t", "https://h/a?Expires=1&Signature=<secret>"),
        ("https://h/a?sv=1&sig=S3cr3t%3D", "https://h/a?sv=1&sig=<secret>"),
        ("https://h/a?api_key=S3cr3t", "https://h/a?api_key=<secret>"),
        ("https://h/a?%61uthz=S3cr3t", "https://h/a?authz=<token>"),
        (f"https://h/{token(60)}/a.root", "https://h/<token>/a.root"),
    ],
)
def test_an_address_with_a_secret(address: str, shown: str) -> None:
    (found,) = document_findings(workflow(address), workflow="hep.yaml")[:1]
    assert (found.file, found.key) == ("hep.yaml", "data.datasets.DY.files[1]")
    assert found.value == repr(shown)
    assert "S3cr3t" not in str(found)
    assert "BEARER_TOKEN_FILE" in str(found)
    assert "docs/credentials.md" in str(found)


@pytest.mark.parametrize(
    "address",
    [
        "root://host//store/a.root",
        "root://me@host//store/a.root",
        "root://host:1094//store/user/eyJets/a@b.root",
        "root://host//store/a.root?xrd.wantprot=gsi&svcClass=default",
        "https://[::1]:8443/a.root?download=1&key=events",
        "data/token=5/a.root",
        "/data/me:you@here/a.root",
        "s3://bucket/monkeyJungle.files/a.root",
    ],
)
def test_an_address_without_a_secret(address: str) -> None:
    assert not secret_findings(workflow(address), file="hep.yaml")


def test_every_place_counts() -> None:
    address = "https://me:S3cr3t@host/a"
    document = {
        "data": {"datasets": {"DY ee": {"files": [address]}}},
        "sources": {"events": {"url": address}},
        "analysis": {"stages": [{"id": "Cut", "params": {"map": {"x": [0, address]}}}]},
    }
    found = secret_findings(document, file="hep.yaml")
    assert [one.key for one in found] == [
        "data.datasets['DY ee'].files[0]",
        "sources.events.url",
        "analysis.stages[0].params.map.x[1]",
    ]


def test_a_long_address_is_cut_where_it_is_shown() -> None:
    address = f"https://host/{'long/' * 1000}a.root?token=S3cr3t"
    (found,) = secret_findings(workflow(address), file="hep.yaml")
    assert len(str(found.value)) < 210


def test_an_alias_is_told_once() -> None:
    files = ["https://me:S3cr3t@host/a"]
    document = {
        "data": {"datasets": [{"name": "a", "files": files}, {"name": "b", "files": files}]}
    }
    assert len(secret_findings(document, file="hep.yaml")) == 1
