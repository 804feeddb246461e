"""Which account and QOS Slurm lets a user name, by what scontrol and sacctmgr print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.config.site import Site
from fasthep_smk.sites.slurm import Slurm
from fasthep_smk.sites.slurm_partitions import partitions

CONFIG = """\
AccountingStorageEnforce = associations,limits,qos
ClusterName             = here
JobSubmitPlugins        = (null)
"""
ALLOWED = "here|physics|few,normal\nhere|chem|normal\nthere|astro|normal\n"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    say(tmp_path, "scontrol", CONFIG)
    say(tmp_path, "sacctmgr", ALLOWED)
    return tmp_path


def say(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    (folder / name).chmod(0o755)


def refused(**options: object) -> list[tuple[str | None, object, str | None]]:
    attempt = Attempt("p", ResourceRequest(), {"slurm": options})
    found = [finding for _, finding in Slurm().refused([attempt], Site("slurm"))]
    return [(one.value, one.expected, one.hint) for one in found]


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    "options",
    [
        {}, {"account": "physics"}, {"account": "PHYSICS"}, {"account": "physics,chem"},
        {"qos": "few"}, {"account": "physics", "qos": "FEW"}, {"account": None, "qos": None},
    ],
)  # fmt: skip
def test_what_a_user_may_name(options: dict[str, object]) -> None:
    assert refused(**options) == []


@pytest.mark.usefixtures("commands")
def test_what_slurm_would_refuse() -> None:
    expected = "chem or physics"
    assert refused(account="phisics") == [("'phisics'", expected, "did you mean 'physics'?")]
    assert refused(account="astro")[0][1] == expected, "that is an account of another cluster"
    assert refused(account="chem", qos="few")[0][1] == "normal"
    assert refused(qos="far")[0][1] == "few or normal"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("scontrol", CONFIG.replace("associations,", "")),
        ("scontrol", CONFIG.replace("(null)", "lua")),
        ("scontrol", ""),
        ("sacctmgr", ""),
        ("sacctmgr", "a word of the site's to people\n"),
    ],
)
def test_what_is_not_known_is_not_refused(commands: Path, command: str, text: str) -> None:
    """A plugin of the site's may change what a job asks for."""
    say(commands, command, text)
    assert refused(account="phisics", qos="far") == []


def test_a_gpu_may_be_called_by_a_number(commands: Path) -> None:
    gres = "gpu:3090:2,gpu:A100_1g.5gb:1(S:0),shard:8"
    say(commands, "sinfo", f"gpu|30:00|8|32768|{gres}|idle|gpu\ncpu|30:00|8|32768|gpu:4|idle|cpu\n")
    found = partitions()
    assert found is not None
    assert [[*found[name].models] for name in ("gpu", "cpu")] == [["3090", "A100_1g.5gb"], []]
