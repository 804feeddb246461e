"""What is read as text is what the programs that are installed print."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.executors import read_as_text
from fasthep_smk.sites.htcondor import HTCondor
from fasthep_smk.sites.slurm import Slurm

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.filterwarnings("ignore:The environment variable CONDOR_CONFIG")


def snakemake(module: str) -> Any:
    importlib.import_module("snakemake.cli")  # the modules below it import each other
    return importlib.import_module(f"snakemake.{module}")


def texts_of(module: Any, part: str) -> list[str]:
    """The texts in the source of a module that have a part, as they stand there."""
    return [
        ast.unparse(node)[2:-1]
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.JoinedStr) and part in ast.unparse(node)
    ]


def test_a_job_is_tried_again() -> None:
    (text,) = texts_of(snakemake("scheduling.job_scheduler"), "Trying to restart job")
    found = read_as_text.IS_RETRIED.match(re.sub(r"\{.*\}", "17", text))
    assert found is not None
    assert found[1] == "17"


def test_a_folder_is_locked() -> None:
    assert read_as_text.IS_LOCKED.search(str(snakemake("exceptions").LockException()))


def test_a_file_is_missing() -> None:
    with pytest.raises(OSError, match="missing") as error:
        asyncio.run(snakemake("io").wait_for_files(["/no/such/file"], latency_wait=0))
    lines = [line.strip() for line in str(error.value).splitlines()]
    found = [match[1] for match in map(read_as_text.IS_MISSING.match, lines) if match]
    assert found == ["/no/such/file"]


def test_a_file_is_refused_by_the_system(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").touch()
    (tmp_path / ".snakemake").touch()
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    found = read_as_text.IS_REFUSED_BY_SYSTEM.match(lines[-1])
    assert found is not None
    assert found[2].startswith(str(tmp_path / ".snakemake"))


def test_the_command_line_is_refused() -> None:
    command = [sys.executable, "-m", "snakemake", "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert any(map(read_as_text.IS_UNUSABLE.match, done.stderr.splitlines()))


def test_a_crash_is_told_with_its_frames() -> None:
    code = "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)"
    crashed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    _, _, stack = crashed.stderr.rpartition(read_as_text.CRASHED_IN)
    assert read_as_text.IS_FRAME.match(stack.splitlines()[1])


def test_the_plugin_for_slurm_says_what_sbatch_said() -> None:
    plugin = importlib.import_module("snakemake_executor_plugin_slurm")
    texts = texts_of(plugin, "SLURM sbatch failed")
    assert texts, "the plugin words it otherwise now: adapt IS_REFUSED"
    for text in texts:
        said = text.replace("\\n", "\n").replace("\\'", "'")
        said = said.replace("{e.output.strip()}", "sbatch: error: Invalid account")
        assert read_as_text.said_by_sbatch(said) == "Invalid account"
    refusal = "The --memory option is not allowed in the 'slurm_extra' parameter."
    said = f"Job submission failed with exception: {refusal}"
    assert read_as_text.said_by_sbatch(said) == refusal


@pytest.mark.parametrize(
    ("said", "unclear"),
    [
        ("sbatch: error: Invalid account\nsbatch: error: Batch job submission failed", False),
        ("*** news ***\nsbatch: error: user's size and/or time limits", False),
        ("sbatch: fatal: no script", False),
        ("the wrapper has failed: it isn't one of Slurm's", True),
        ("", True),
    ],
)
def test_a_job_may_be_in_the_queue_of_which_sbatch_says_no_error(said: str, unclear: bool) -> None:
    """As where something around it fails, which had submitted the job before."""
    plugin = importlib.import_module("snakemake_executor_plugin_slurm")
    for text in texts_of(plugin, "The error message was"):
        told = text.replace("\\n", "\n").replace("\\'", "'").replace("{e.output.strip()}", said)
        told = f"{told}\n    sbatch call:\n        sbatch --wrap='sbatch: error'"
        if "sbatch failed" in text and "array" not in text:
            assert bool(read_as_text.IS_UNCLEAR.search(told)) == unclear
        elif "submission failed" in text:
            assert read_as_text.IS_UNCLEAR.search(f"Job submission failed with exception: {told}")
    assert read_as_text.IS_UNCLEAR.search(f"{read_as_text.NO_NUMBER}: hello")


@pytest.fixture
def silent_slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a Slurm whose controller is not there."""
    if shutil.which("sbatch") is None:
        pytest.skip("Slurm is not installed")
    words = "ClusterName=c\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nMessageTimeout=2\n"
    (tmp_path / "slurm.conf").write_text(f"{words}AuthType=auth/none\nCredType=cred/none\n")
    return {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        (["sbatch"], Slurm.NO_ANSWER),
        (["srun", "--jobid=1", "--immediate=1", "true"], Slurm.SRUN_IS_SILENT),
    ],
)
def test_slurm_does_not_answer(
    command: list[str], pattern: re.Pattern[str], silent_slurm: dict[str, str]
) -> None:
    done = subprocess.run(
        command, input="#!/bin/sh\n", env=silent_slurm, capture_output=True, text=True, timeout=60
    )
    assert pattern.search(done.stderr)
    assert not Slurm.NO_WORD.search(done.stderr)


def test_sbatch_has_heard_no_answer() -> None:
    libraries = [*Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")]
    if not libraries:
        pytest.skip("Slurm is not installed as Debian does it")
    ask = "import ctypes, sys; slurm = ctypes.CDLL(sys.argv[1]); text = slurm.slurm_strerror"
    ask += "; text.restype = ctypes.c_char_p; print(text(5004).decode())"
    command = [sys.executable, "-c", ask, str(libraries[0])]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert Slurm.NO_WORD.search(said)


def test_htcondor_does_not_answer() -> None:
    bindings = importlib.import_module("htcondor2")
    with pytest.raises(Exception, match="local daemon") as here:
        bindings.Schedd()
    assert HTCondor.NO_ANSWER.search(str(here.value))
    words = {"MyAddress": "<127.0.0.1:1>", "Name": "a", "MyType": "Scheduler"}
    words["CondorVersion"] = "$CondorVersion: 24.0.0 2024-01-01 $"
    schedd = bindings.Schedd(importlib.import_module("classad2").ClassAd(words))
    with pytest.raises(Exception, match="schedd") as there:
        schedd.submit(bindings.Submit({"executable": "/bin/true"}))
    assert HTCondor.NO_ANSWER.search(str(there.value))


def test_of_a_failed_job_all_executors_add_the_same_advice() -> None:
    interface = importlib.import_module("snakemake_interface_executor_plugins.executors.remote")
    assert read_as_text.ADVICE in inspect.getsource(interface)
    said = f"held by\n HTCondor. {read_as_text.ADVICE} the log files"
    assert read_as_text.said_of_failed_job(said) == "held by HTCondor."
    assert read_as_text.said_of_failed_job("None") == ""


def test_the_plugin_for_htcondor_says_what_htcondor_said() -> None:
    plugin = importlib.import_module("snakemake_executor_plugin_htcondor")
    (text,) = texts_of(plugin, "Failed to submit HTCondor job")
    said = re.sub(r"\{.*\}", "Parse error in expression", text)
    assert read_as_text.BEFORE_HTCONDOR.sub("", said) == "Parse error in expression"


def test_slurm_has_refusals_that_pass() -> None:
    """What sbatch may say stands in a library of Slurm's, each sentence ended by a zero byte."""
    libraries = [*Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")]
    if not libraries:
        pytest.skip("Slurm is not installed")
    said = libraries[0].read_bytes().replace(b"\0", b"\n").decode(errors="replace")
    assert "job submit limit" in said
    assert read_as_text.MAY_PASS.search("job submit limit")
    assert not read_as_text.MAY_PASS.search("Invalid account or account/partition combination")
    words = re.findall(r"^(?:QOS|Assoc)\w*Submit\w*$", said, re.MULTILINE)
    assert {"QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit"} <= set(words)
    assert all(map(read_as_text.NO_ROOM.fullmatch, words)), words
    assert not read_as_text.NO_ROOM.search("QOSMaxWallDurationPerJobLimit")


@pytest.mark.parametrize(
    "said",
    [
        "[Errno 116] Stale file handle",
        "sshare: error: Connection refused",
        "Slurm backup controller in standby mode",
        "Zero Bytes were transmitted or received",
        "Failed to create new cluster.",
    ],
)
def test_some_refusals_pass(said: str) -> None:
    assert read_as_text.MAY_PASS.search(said)


def test_htcondor_may_have_a_job_whose_submission_failed() -> None:
    """What its bindings say when the schedd does not answer to the last message."""
    assert HTCondor.NO_WORD.search("Failed to commit transaction.")
    assert not HTCondor.NO_WORD.search("Parse error in expression")


def test_each_text_is_tried_here() -> None:
    source = Path(__file__).read_text()
    assert [name for name in read_as_text.__all__ if source.count(name) < 1] == []


def test_nothing_else_is_read_as_text() -> None:
    """Patterns elsewhere in these rooms are for texts of our own."""
    ours = {"run/snakemake_output.py": 1}  # the folder of a job, in an event
    found = {}
    for room in ("executors", "run"):
        for path in sorted((ROOT / "fasthep_smk" / room).glob("*.py")):
            if count := path.read_text().count("re.compile("):
                found[f"{room}/{path.name}"] = count
    del found["executors/read_as_text.py"]
    assert found == ours
