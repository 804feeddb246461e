"""Where jobs start cold it is said why; what a killed run leaves in temporary files goes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.storage.layout import FORK_SERVER
from tests.support.own_op import add_own_op

pytestmark = pytest.mark.integration

FORKED, COLD = {True}, {False}


@pytest.fixture(scope="session")
def activate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script that activates a virtual environment in which fasthep-smk is installed."""
    folder = tmp_path_factory.mktemp("venv") / "of mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "all.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    source = Path(__file__).parents[2]
    (site / "source.pth").write_text(f"{source}\n")
    return folder / "bin" / "activate"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for temporary files, not too long for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def starts(folder: Path) -> set[bool]:
    """How jobs of the last run started: forked or not."""
    paths = folder.glob("build/smk/work/**/record.json")
    return {json.loads(path.read_text())["used"]["warm"] for path in paths}


def smk(*arguments: str, cwd: Path, **variables: str) -> str:
    """Run ``fasthep-smk``; return what it prints."""
    command = [sys.executable, "-m", "fasthep_smk", *arguments]
    both: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **variables}, **both)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_jobs_are_forked_in_an_activated_environment(analysis: Path, activate: Path) -> None:
    """``activate`` exports PS1, which bash drops, and a cluster's shells export functions."""
    script = (
        f"PS1='$ '; . '{activate}'; module() {{ echo module; }}; export -f module; export PS1;"
        "python -m fasthep_smk explain workflow.yaml && python -m fasthep_smk workflow.yaml -v"
    )
    command = ["bash", "--norc", "--noprofile", "-i", "-c", script]
    done = subprocess.run(
        command, cwd=analysis, capture_output=True, text=True, start_new_session=True
    )
    assert done.returncode == 0, done.stderr
    assert "Jobs are forked from a fork server" in done.stdout
    assert "Python of" not in done.stdout + done.stderr
    assert starts(analysis) == FORKED


def test_jobs_are_forked_where_temporary_files_have_a_long_path(analysis: Path) -> None:
    folder = analysis / ("long" * 25) / ("folder" * 10)
    folder.mkdir(parents=True)
    said = smk("workflow.yaml", "-v", cwd=analysis, TMPDIR=str(folder))
    assert "Python of" not in said
    assert starts(analysis) == FORKED
    assert not list(folder.iterdir())


@pytest.mark.long
def test_no_fork_server_may_be_wanted(analysis: Path) -> None:
    why = f"{FORK_SERVER} is empty"
    assert why in smk("explain", "workflow.yaml", cwd=analysis, **{FORK_SERVER: ""})
    assert why in smk("workflow.yaml", "-v", cwd=analysis, **{FORK_SERVER: ""})
    assert starts(analysis) == COLD


def test_rules_with_several_cpus_are_named(analysis: Path) -> None:
    workflow = analysis / "workflow.yaml"
    pools = "execution: {pools: {default: {resources: {cpus: 2}}}}\n"
    workflow.write_text(pools + workflow.read_text())
    said = smk("explain", "workflow.yaml", "--json", cwd=analysis)
    assert set(json.loads(said)["cold"].values()) == {"each uses 2 cpus"}


def test_a_fork_server_that_fails_is_named(analysis: Path) -> None:
    """Python itself does not start with such a variable; the others have what they need by then."""
    hook = analysis / "sitecustomize.py"
    hook.write_text(
        "import sys\nif 'fasthep_smk.worker.fork_server' in sys.orig_argv: raise SystemExit(3)\n"
    )
    said = smk("workflow.yaml", "-v", cwd=analysis, PYTHONPATH=str(analysis))
    assert "the fork server has ended" in said
    assert starts(analysis) == COLD


def test_the_next_run_removes_what_a_killed_one_has_left(analysis: Path, temporary: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "fasthep_smk", "workflow.yaml"], cwd=analysis, start_new_session=True
    )
    end = time.monotonic() + 60
    while not list(temporary.glob("fasthep-smk-*/snakemake*")):
        assert time.monotonic() < end
        time.sleep(0.02)
    folders = list(temporary.glob("fasthep-smk-*"))
    lock = json.loads((analysis / "build/smk/lock").read_text())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mine = f"TMPDIR={temporary}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mine and int(process.name) != os.getpid():
            os.kill(int(process.name), signal.SIGKILL)
    run.wait()
    assert lock["snakemake"]
    assert all(folder.exists() for folder in folders)
    smk("workflow.yaml", cwd=analysis)
    assert not list(temporary.iterdir())


def test_jobs_keep_the_folder_for_temporary_files(analysis: Path, temporary: Path) -> None:
    (analysis / "own_ops.py").write_text(
        "import os, tempfile\n"
        "SPEC = {'name': 'own.op', 'kind': 'transform', 'params': {}, 'input': {'name': 'stream', "
        "'kind': 'event_stream', 'required': True}, 'result': {'kind': 'event_stream'}}\n"
        "def run(*, stream, ctx=None):\n"
        "    seen = sorted(name for name in os.environ if name.startswith('FASTHEP_SMK_SCR'))\n"
        "    open('seen.txt', 'w').write(f'{tempfile.gettempdir()} {seen}')\n"
        "    return stream\n"
    )
    add_own_op(analysis)
    smk("workflow.yaml", cwd=analysis)
    assert (analysis / "seen.txt").read_text() == f"{temporary} []"
