"""Parcels arrive as they were sent or not at all; paths have other names where they are opened."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fasthep_smk.config.environment import Environment
from fasthep_smk.config.staging import Staging
from fasthep_smk.executors.batch_executor import BatchExecutor
from fasthep_smk.storage import layout
from fasthep_smk.transfer.archive import DamagedParcel, open_parcel, read_about, write_parcel
from fasthep_smk.transfer.credentials import lay_out, refuse_unsendable
from fasthep_smk.transfer.path_mapping import Places
from fasthep_smk.transfer.setup import Setup
from fasthep_smk.transfer.spool import NODE, Spool
from fasthep_smk.util.errors import Findings, SmkError

HOSTILE = ("with space", "it's", 'a"b', "$HOME", "{x}", "back\\slash", "new\nline", "ünïcode", "-n")


def test_what_is_sent_arrives(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("true\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("run.sh")
    (tmp_path / "private").write_text("mine")
    (tmp_path / "private").chmod(0o600)
    content = {
        "text": b"words",
        "a/b/run.sh": tmp_path / "run.sh",
        "a/link": tmp_path / "link",
        "private": tmp_path / "private",
        "empty": b"",
        **{f"odd/{name}": name.encode() for name in HOSTILE},
    }
    write_parcel(tmp_path / "p.tar", content, {"rule": "r"})
    assert read_about(tmp_path / "p.tar") == {"rule": "r"}
    goal = tmp_path / "goal"
    assert set(open_parcel(tmp_path / "p.tar", goal)) == set(content)
    assert (goal / "text").read_bytes() == b"words"
    assert (goal / "a/link").read_text() == "true\n"
    assert not (goal / "a/link").is_symlink()
    assert (goal / "a/b/run.sh").stat().st_mode & 0o777 == 0o755
    assert (goal / "private").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in (goal / "odd").iterdir()} == set(HOSTILE)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ".", "a//b", "parcel.json"])
def test_nothing_leaves_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name of a file to be sent"):
        write_parcel(tmp_path / "p.tar", {name: b""})
    assert not list(tmp_path.iterdir())


def test_every_changed_byte_of_a_file_is_noticed(tmp_path: Path) -> None:
    write_parcel(tmp_path / "p.tar", {"one": b"some content", "two": b"more of it"})
    content = (tmp_path / "p.tar").read_bytes()
    for what in (b"some content", b"more of it", b'"size"', b"sha256"):
        place = content.index(what)
        changed = content[:place] + b"?" + content[place + 1 :]
        (tmp_path / "bad.tar").write_bytes(changed)
        with pytest.raises(DamagedParcel, match=r"^bad\.tar"):
            open_parcel(tmp_path / "bad.tar", tmp_path / f"goal-{place}")


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    write_parcel(tmp_path / "p.tar", {"one": b"x" * 2000, "two": b"y" * 700})
    content = (tmp_path / "p.tar").read_bytes()
    end = content.rindex(b"y") + 1
    for size in [*range(0, end, 97), end - 1]:
        (tmp_path / "cut.tar").write_bytes(content[:size])
        with pytest.raises(DamagedParcel, match=r"^cut\.tar"):
            open_parcel(tmp_path / "cut.tar", tmp_path / f"goal-{size}")


def test_paths_are_replaced_as_wholes() -> None:
    places = Places({"/home/u": "/scratch/1/home", "/home/u/ana/build": "/scratch/1/build"})
    for text, expected in {
        "/home/u": "/scratch/1/home",
        "file:/home/u/x": "file:/scratch/1/home/x",
        "file:///home/u/x": "file:///scratch/1/home/x",
        "root://h//home/u/x": "root://h//home/u/x",
        "'/home/u/ana/build/smk'": "'/scratch/1/build/smk'",
        "/home/u/ana/builds": "/scratch/1/home/ana/builds",
        "/home/u2/x": "/home/u2/x",
        "/home/u.old": "/home/u.old",
        "/mnt/home/u": "/mnt/home/u",
        "In /home/u.": "In /scratch/1/home.",
        "a/home/u": "a/home/u",
    }.items():
        assert places.text(text) == expected
    there = {"/home/u/ana/build/x": ["/home/u", {"n": 1, "f": "/home/u/data.root"}]}
    assert places.back().value(places.value(there)) == there


def test_a_credential_is_for_its_job_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read what the batch system has made of it."""
    for name in ("proxy", "bearer", "tickets"):
        (tmp_path / name).write_text(f"the {name}")
        (tmp_path / name).chmod(0o644)
    monkeypatch.setenv("BEARER_TOKEN", "another one")
    given = [f"{kind}={tmp_path / name}" for kind, name in
             {"x509": "proxy", "token": "bearer", "kerberos": "tickets"}.items()]  # fmt: skip
    folder = tmp_path / "job" / "credentials"
    folder.parent.mkdir()
    assert lay_out(given, folder) == {
        "X509_USER_PROXY": f"{folder}/x509",
        "BEARER_TOKEN_FILE": f"{folder}/token",
        "KRB5CCNAME": f"FILE:{folder}/kerberos",
    }
    assert (folder / "token").read_text() == "the bearer"
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "BEARER_TOKEN" not in os.environ


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["/a/proxy", "/b/bt_u1"], None),
        (["/a/b c"], "cannot be sent from '/a/b c'"),
        (["/a,b/proxy"], "cannot be sent from"),
        (["/a/mine", "/b/mine"], "both files are named 'mine'"),
    ],
)
def test_a_credential_that_would_not_arrive_is_refused(
    paths: list[str], message: str | None
) -> None:
    """HTCondor puts all files into one folder: one would take the other's place."""
    found = dict(zip(("x509", "token"), map(Path, paths), strict=False))
    if message is None:
        refuse_unsendable(found)
        return
    with pytest.raises(SmkError, match=message):
        refuse_unsendable(found)


def test_without_credentials_there_is_nothing(tmp_path: Path) -> None:
    assert lay_out([], tmp_path / "credentials") == {}
    assert not list(tmp_path.iterdir())


class Base:
    """Stands for a plugin's executor: notes what Snakemake would hear."""

    def __init__(self) -> None:
        self.wait = True
        self.heard: list[tuple[str, str | None]] = []
        self.workflow = SimpleNamespace(scheduler=SimpleNamespace(error_callback=self.again))
        self.__post_init__()

    def again(self, job: Any) -> None:
        job.attempt += 1
        self.heard.append(("again", job.name))

    def __post_init__(self) -> None:
        """Do what a plugin does."""

    def shutdown(self) -> None:
        self.heard.append(("ended", None))

    def run_job(self, job: Any) -> None:
        self.heard.append(("submitted", job.name))

    def report_job_success(self, job_info: Any) -> None:
        self.heard.append(("done", job_info.job.name))

    def report_job_error(self, job_info: Any, msg: str | None = None) -> None:
        assert job_info.job.attempt == 1
        self.heard.append(("failed", msg))


class Executor(BatchExecutor, Base):  # type: ignore[misc]
    """An executor whose jobs travel."""

    _system = "slurm"


PROBE = SimpleNamespace(
    rule=SimpleNamespace(name="r"),
    wildcards=None,
    name="r",
    jobid=1,
    attempt=1,
    log=[],
    output=[],
    shellcmd=None,
    is_group=lambda: False,
)


def executor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Executor:
    """Return the executor of a build folder whose only job is a probe."""
    said = {"python": "python3", "brings_python": False, "shared": [], "spool": None}
    (folder / layout.TRANSFER).parent.mkdir(parents=True)
    (folder / layout.TRANSFER).write_text(
        json.dumps({**said, "wildcards": {"r": []}, "probes": True})
    )
    monkeypatch.chdir(folder)
    return Executor()


def test_a_job_that_is_refused_by_the_batch_system_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the command that it quotes has a path with that word in it."""
    found = executor(tmp_path, monkeypatch)
    parcel = found._tracker.leave(PROBE).parcel
    msg = "sbatch failed: Invalid account; sbatch call: sbatch --wrap=sh /data/transfer/node.sh"
    found.report_job_error(SimpleNamespace(job=PROBE, external_jobid=None), msg)
    assert found.heard == [("failed", msg)]
    assert not (tmp_path / parcel).exists()


def test_a_job_that_is_packed_anew_leaves_no_earlier_parcel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch system that does not answer for half an hour is asked every few seconds."""
    tracker = executor(tmp_path, monkeypatch)._tracker
    left = [tmp_path / tracker.leave(PROBE).parcel for _ in range(3)]
    assert [path.exists() for path in left] == [False, False, True]


def test_where_nothing_can_be_put_a_job_fails_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = executor(tmp_path, monkeypatch)
    sending = found._tracker.leave(PROBE)
    about = {"rule": "r", "place": [], "status": 0, "host": "far", "gone": []}
    write_parcel(tmp_path / sending.outcome, {"a": b"x"}, about)
    (tmp_path / layout.STAGE).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / layout.STAGE).write_text("not a folder")  # as where the disk is full
    found.report_job_success(SimpleNamespace(job=PROBE, external_jobid="1"))
    ((what, msg),) = found.heard
    assert what == "failed"
    assert str(msg).startswith("the files that it sent back could not be put in place: ")


@pytest.mark.parametrize(("status", "problem"), [(75, "no space"), (76, "damaged")])
def test_an_environment_that_cannot_be_unpacked_is_no_attempt(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    problem: str,
) -> None:
    """Slurm says only that the job has failed; the node has left the reason."""
    found = executor(tmp_path, monkeypatch)
    sending = found._tracker.leave(PROBE)
    archive = tmp_path / "environment.run"
    archive.write_text(f"exit {status}\n")
    node = ["sh", str(NODE), sending.parcel, sending.outcome, str(archive)]
    assert subprocess.run(node, check=False).returncode == status
    ended = SimpleNamespace(job=PROBE, external_jobid="1")
    found.report_job_error(ended, "SLURM status is: 'FAILED'")
    assert found.heard == [("again", "r")]
    assert PROBE.attempt == 1
    said = capsys.readouterr().out
    assert said.startswith("r: sent again: ")
    assert problem in said
    assert os.uname().nodename in said


def test_what_a_slow_file_system_shows_late_has_arrived(tmp_path: Path) -> None:
    with setup(tmp_path, probes=True).ready([]):
        spool = Spool(tmp_path / "build")
        sending = spool.sending("r", [])
        outcome = Path(sending.outcome)
        outcome.parent.mkdir(parents=True)
        outcome.touch()  # as by the node, before the job
        about = {"rule": "r", "place": [], "status": 0, "host": "far"}
        later = threading.Timer(0.5, write_parcel, (outcome, {"r.json": b"x"}, about))
        later.start()
        assert spool.receive(sending, late=20).status == 0
    assert (tmp_path / "build/r.json").read_bytes() == b"x"


def setup(folder: Path, **options: bool) -> Setup:
    """What a build folder's jobs travel with on a Slurm with a spool."""
    (folder / "build").mkdir(exist_ok=True)
    staging = Staging("transfer", (), str(folder / "scratch"), "pools.yaml")
    prefix = Environment("shared-prefix", "/somewhere", "pools.yaml")
    return Setup(folder / "build", "slurm", prefix, staging, {"r": []}, **options)


def test_a_spool_is_open_to_nobody_else(tmp_path: Path) -> None:
    mine = tmp_path / "scratch" / f"fasthep-smk-{os.getuid()}"
    mine.mkdir(parents=True)
    mine.chmod(0o777)
    with setup(tmp_path).ready([]):
        (spool,) = mine.iterdir()
        assert [path.stat().st_mode & 0o777 for path in (mine, spool)] == [0o700, 0o700]


def test_what_somebody_else_has_left_in_a_spool_is_refused(tmp_path: Path) -> None:
    """As an environment of the right name and size."""
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN MAKE ANOTHER USER'S FILES: not tested here")
    with setup(tmp_path).ready([]):
        (spool,) = (tmp_path / "scratch").glob("*/*")
    (spool / "packed-venv-0.run").touch()
    os.chown(spool / "packed-venv-0.run", 54321, 54321)
    with pytest.raises(Findings, match="another user") as error, setup(tmp_path).ready([]):
        pass
    assert "--trust-build" not in str(error.value)
    assert f"find {spool} " in str(error.value)


def test_a_spool_where_others_may_rename_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o777)
    with pytest.raises(Findings, match="others may rename"), setup(tmp_path).ready([]):
        pass
    (tmp_path / "scratch").chmod(0o1777)
    with setup(tmp_path).ready([]):
        assert list((tmp_path / "scratch").rglob("node.sh"))


def test_a_spool_below_a_folder_that_others_may_rename_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open/scratch").mkdir()
    (tmp_path / "scratch").symlink_to("open/scratch")
    with pytest.raises(Findings, match="others may rename"), setup(tmp_path).ready([]):
        pass


@pytest.mark.parametrize("how", ["a link", "a file", "another user's"])
def test_whoever_takes_the_name_of_a_spool_keeps_nobody_from_working(
    tmp_path: Path, how: str
) -> None:
    """Whoever has made it could turn it to a folder of theirs, from which jobs would then run."""
    (tmp_path / "scratch").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    usual = tmp_path / "scratch" / f"fasthep-smk-{os.getuid()}"
    if how == "a link":
        usual.symlink_to(elsewhere)
    elif how == "a file":
        usual.touch()
    elif os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN MAKE ANOTHER USER'S FOLDER: not tested here")
    else:
        usual.mkdir()
        os.chown(usual, 54321, 54321)
    found = []
    for _ in range(2):
        with setup(tmp_path).ready([]):
            found += [path.parent for path in (tmp_path / "scratch").glob("*/*") if path.is_dir()]
    assert len(set(found)) == 1
    assert found[0] != usual
    assert found[0].stat().st_mode & 0o777 == 0o700
    assert not list(elsewhere.iterdir())


def test_probes_leave_nothing_in_a_spool(tmp_path: Path) -> None:
    """They are of a build folder that no later run has."""
    with setup(tmp_path, probes=True).ready([]):
        assert list((tmp_path / "scratch").rglob("node.sh"))
    assert not list((tmp_path / "scratch").rglob("*/*"))


def test_credentials_do_not_outlast_a_run_whose_first_process_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake ends by itself then; the next run clears away what one has left that was killed."""
    with setup(tmp_path).ready([]):
        (spool,) = (tmp_path / "scratch").glob("*/*")
        monkeypatch.chdir(tmp_path / "build")
        found = Executor()
        (spool / "credentials").mkdir()
        (spool / "credentials" / "token").write_text("secret")
        found.shutdown()
        assert found.heard == [("ended", None)]
        assert not (spool / "credentials").exists()
        (spool / "credentials").mkdir()
        with setup(tmp_path).ready([]):
            assert not (spool / "credentials").exists()
