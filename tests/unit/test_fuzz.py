"""What others wrote is read without a traceback: commands' answers, credentials, what workers send.

Each parser gets real inputs that were changed at random, always in the same way for the same seed.
FASTHEP_SMK_FUZZ says how many; to add a parser is to add a line to ``PARSERS``.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import tarfile
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization

from fasthep_smk import sites
from fasthep_smk.cli import doctor, probes
from fasthep_smk.config.credentials import Requirement
from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.config.site import Site
from fasthep_smk.credentials import kerberos, proxies, tokens
from fasthep_smk.credentials.checks import lack, problems
from fasthep_smk.credentials.credential import Credential
from fasthep_smk.executors.job_events import (
    JobFailed,
    JobFinished,
    JobRetried,
    JobsPlanned,
    JobStarted,
    Submitted,
    to_line,
)
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.plan.rules import Rule
from fasthep_smk.run import lock, what_failed
from fasthep_smk.run.display import Lines
from fasthep_smk.run.snakemake_output import Reader
from fasthep_smk.sites import commands, htcondor, slurm, slurm_queue
from fasthep_smk.storage import batch_jobs, failures, layout, observed, pickles, products, run_lock
from fasthep_smk.storage.failures import Failure
from fasthep_smk.transfer.archive import DamagedParcel, open_parcel, read_about
from fasthep_smk.util import files
from tests.support.credentials import proxy, token, voms_extension
from tests.support.squeue import listed

#: How many changed inputs each parser gets.
COUNT = int(os.environ.get("FASTHEP_SMK_FUZZ", "500"))
SEED = 20_250_101

CONDOR_Q = [
    {"ClusterId": 3, "JobStatus": 5, "JobBatchName": "stage_A:dy/0_0", "HoldReason": "memory"},
    {"ClusterId": 4, "JobStatus": 1, "JobBatchName": "finish", "LastRejMatchReason": "no match"},
    {"ClusterId": 5, "JobStatus": 3, "RemoveReason": "by user", "LastHoldReason": "disk"},
    {"JobStatus": 4, "ExitSignal": 9, "ExitCode": 1},
]
SQUEUE = listed("41|PD|cpu|Resources|stage_A:dy/0_0|{folder}", "42|R|cpu|None|finish|/other")
SACCT = "41|CANCELLED by 1000|0:15|n1|{folder}\n42|COMPLETED|0:0|n1|/other\n"
SUBMITTED = """\
{"token": "a", "record": "r.json", "rule": "A", "key": "dy", "system": "slurm", "name": "A:dy"}
{"token": "a", "batch_id": "17", "captured": "out/17.log"}
{"token": "a", "ended": "yes"}
"""
LATE = [
    {"ClusterId": 12, "JobStatus": 5},
    {"ClusterId": 13, "JobStatus": 2, "NumShadowStarts": 1},
]
CONDOR_STATUS = [
    {"TotalSlotCpus": 8, "TotalSlotDisk": 3e7, "TotalSlotGPUs": 0, "TotalSlotMemory": 16000},
    {"TotalSlotCpus": 64, "TotalSlotGPUs": 4, "TotalSlotMemory": 256000, "GPUs_DeviceName": "A100"},
]
SINFO = """\
cpu|1-00:00:00|64|256000|(null)|mixed|cpu*
gpu|infinite|32|512000+|gpu:a100:4(S:0-1),shard:8|drained*|gpu
short|30:00|64|1000|gpu:2|idle~|short
"""
SCONTROL = (
    "JobId=42 JobName=x JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0 NodeList=n[1-2] "
    "StdErr={folder}/stderr StdIn=/dev/null Power=\n"
)
STDERR = "slurmstepd-n1: error: *** JOB 42 ON n1 CANCELLED DUE TO TIME LIMIT ***\n"
KLIST = """\
Ticket cache: FILE:/tmp/krb5cc_0
Default principal: alice@CERN.CH

Valid starting     Expires            Service principal
11/22/26 04:00:00  11/23/26 05:06:07  krbtgt/CERN.CH@CERN.CH
"""
HEIMDAL = """\
Credentials cache: FILE:/tmp/krb5cc_0
        Principal: alice@CERN.CH

  Issued                Expires               Principal
Nov 22 04:00:00 2026  Nov 23 05:06:07 2026  krbtgt/CERN.CH@CERN.CH
"""
REPORT = "".join(
    map(
        to_line,
        [
            JobsPlanned({"stage_A": 2, "all": 1}),
            JobStarted("4", "stage_A", ["smk/work/stage_A/dy/0_0/record.json"]),
            Submitted("77"),
            JobFailed("4", "stage_A", ["logs/4.log"], "SLURM sbatch failed."),
            JobRetried("4"),
            JobFinished("4"),
        ],
    )
)
NOTE = asdict(
    Failure(
        rule="stage_A",
        key="dy/0_0",
        record="smk/work/stage_A/dy/0_0/record.json",
        problem="ValueError: no",
        stages=["a", "b"],
        file="root://x//f.root",
        start=0,
        stop=10,
        pool="default",
        memory=2_000_000_000,
        used=1_000_000,
        batch_job="7",
        earlier=[
            {
                "problem": "killed",
                "attempt": 1,
                "used": 5,
                "pool": "default",
                "host": "n1",
                "kind": "killed",
            }
        ],
    )
)
OBSERVATIONS = {
    "observations": [
        ["file", "data/weights.json", "A", "12ab", ""],
        ["module", "mine", "A", None, "mine.py"],
        ["package", "numpy", "B", "numpy 2.0", "/usr"],
        ["variable", "LEVEL", "B", "99", ""],
    ]
}
RECORD = {
    "format": products.FORMAT,
    "products": [],
    "observed": ["0" * 32],
    "files": {"A.arrow": {"size": 3, "sha256": "0" * 64}},
    "results": {"results/a.json": {"size": 1, "sha256": "1" * 64}},
}
LOCK = {"state": "running", "host": "here", "pid": 1, "born": 5, "since": "now", "snakemake": 2}
PROBE = {
    "host": "n1",
    "python": "3.12.1",
    "cpus": 4,
    "gpus": 0,
    "where": "partition cpu",
    "models": ["A100"],
    "clock": 1_800_000_000.0,
    "packages": {"numpy": "2.0"},
}
CLAIMS = {"sub": "alice", "exp": 1_800_000_000, "nbf": 1_700_000_000, "iss": "https://x", "a": [1]}
VOMS = voms_extension("/cms/Role=NULL")
DER = proxy(5, voms=VOMS)[1][0].public_bytes(serialization.Encoding.DER)


class Own:
    """Stands for an object of a user's class."""

    def __init__(self) -> None:
        self.value = {"a": [1, 2.5, None]}


HISTS = (
    hist.Hist.new.Reg(3, 0, 1, name="x").StrCat(["a"], growth=True).Weight(),
    hist.Hist.new.Var([0, 1, 4]).Int(0, 3).Mean(),
)
PICKLES = [
    pickle.dumps(one, protocol)
    for one in (Own(), np.arange(4), OrderedDict(a=(1, "x")), [Path("a"), {1, 2}, 2**70], *HISTS)
    for protocol in (2, 5)
]

#: What parsers stumble over.
ODD_BYTES = (
    b"", b"\0", b"\n", b"\r", b" ", b"|", b"||||", b"=", b"-", b":", b"/", b"../", b"(", b"\x1b[2J",
    b"9" * 5000, b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"[" * 3000, b'{"a":' * 3000, b'"',
    b"\xff\xfe", "²".encode(), "٣".encode(), b"{}", b"[]", b"\\ud800", b"%s%n", b"N/A", b"unknown",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 10**400, 1.5, float("nan"), float("inf"), -1e308, "", "\0", "..", "/",
    "../../x", "a\nb", "\x1b[2J", "\ud800", "x" * 5000, [], {}, [[]], [None], {"": None}, {"a": []},
)  # fmt: skip


def changed_bytes(content: bytes, dice: random.Random) -> bytes:
    """Return bytes with one to four changes: others, fewer, odd ones, some of them twice."""
    new = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        start = dice.randint(0, len(new))
        end = min(start + dice.choice((0, 1, 1, 4, 20)), len(new))
        kind = dice.randrange(5)
        if kind == 0:
            new[start:end] = dice.randbytes(end - start)
        elif kind == 1:
            new[start:end] = dice.choice(ODD_BYTES)
        elif kind == 2:
            del new[start : end if dice.random() < 0.8 else len(new)]
        elif kind == 3:
            place = dice.randint(0, len(new))
            new[place:place] = new[start:end]
        elif new:
            new[min(start, len(new) - 1)] ^= 1 << dice.randrange(8)
    return bytes(new)


def changed_value(value: Any, dice: random.Random) -> Any:
    """Return plain data in which one to three values, or names, are others or gone."""
    new = json.loads(json.dumps(value))
    for _ in range(dice.randint(1, 3)):
        places: list[tuple[Any, Any]] = []
        pending = [new]
        while pending:
            one = pending.pop()
            inner = list(one.items() if isinstance(one, dict) else enumerate(one))
            places += [(one, name) for name, _ in inner]
            pending += [part for _, part in inner if isinstance(part, dict | list)]
        if not places:
            break
        holder, name = dice.choice(places)
        kind = dice.random()
        if kind < 0.15:
            del holder[name]
        elif kind < 0.3 and isinstance(holder, dict):
            holder[str(dice.choice(ODD_VALUES))] = holder.pop(name)
        else:
            odd = dice.choice(ODD_VALUES)
            holder[name] = json.loads(json.dumps(odd)) if isinstance(odd, dict | list) else odd
    return new


def of_bytes(*examples: bytes | str) -> Callable[[random.Random], bytes]:
    """Return what makes changed texts of these."""
    contents = [one.encode() if isinstance(one, str) else one for one in examples]
    return lambda dice: changed_bytes(dice.choice(contents), dice)


def of_json(*examples: Any, seal: bool = False) -> Callable[[random.Random], bytes]:
    """Return what makes changed JSON; with ``seal``, its checksum is right more often than not."""

    def text(value: Any) -> bytes:
        return (files.seal(value) if seal and value else json.dumps(value)).encode()

    def make(dice: random.Random) -> bytes:
        value = dice.choice(examples)
        if dice.random() < 0.7:
            return text(changed_value(value, dice))
        content = changed_bytes(json.dumps(value).encode(), dice)
        if seal and dice.random() < 0.7:
            digest = files.sha256_bytes(b"{" + content[1:])
            return b'{\n "checksum": "' + digest.encode() + b'",' + content[1:]
        return content

    return make


def parcel_of(dice: random.Random) -> bytes:
    """Return a changed parcel: its bytes, or, with right checksums, its list and its members."""
    buffer = io.BytesIO()
    content = {"a": b"one", "sub/b": b"two" * 300}
    listed: Any = {
        name: {"size": len(one), "sha256": files.sha256_bytes(one), "mode": 0o644}
        for name, one in content.items()
    }
    whole = dice.random() < 0.3
    manifest = {"format": 1, "about": {"rule": "r"}, "files": listed}
    names = {name: name for name in content}
    if not whole:
        manifest = changed_value(manifest, dice)
        if dice.random() < 0.5:
            bad = dice.choice(("../x", "/tmp/x", "a/../../x", ".", "", "a\0b", "sub", "x" * 300))
            manifest = {"format": 1, "about": {}, "files": {**listed, bad: listed["a"]}}
            names[bad] = "a"
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, one in [
            ("parcel.json", files.seal(manifest).encode()),
            *((name, content[of]) for name, of in names.items()),
        ]:
            member = tarfile.TarInfo(name)
            member.size = len(one)
            if not whole and name != "parcel.json" and dice.random() < 0.2:
                member.type = dice.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE,
                                           tarfile.FIFOTYPE, tarfile.CHRTYPE))  # fmt: skip
                member.linkname = dice.choice(("../canary", "/etc/passwd", "a"))
                member.size = 0
            with contextlib.suppress(ValueError):  # not every name can be one of a tar archive
                tar.addfile(member, io.BytesIO(one))
    return changed_bytes(buffer.getvalue(), dice) if whole else buffer.getvalue()


def claims_of(dice: random.Random) -> bytes:
    """Return a token that says something odd."""
    body = base64.urlsafe_b64encode(of_json(CLAIMS)(dice)).rstrip(b"=")
    whole = b".".join([token(60).partition(".")[0].encode(), body, b"c2ln"])
    return whole if dice.random() < 0.7 else changed_bytes(whole, dice)


def pem_of(dice: random.Random) -> bytes:
    """Return a proxy whose certificate says something odd."""
    body = base64.encodebytes(changed_bytes(DER, dice))
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"


class Bench:
    """Where parsers read: commands answer with the changed input, files hold it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.text: str | None = ""
        for module in (commands, slurm, slurm_queue, htcondor):
            monkeypatch.setattr(module, "order", self._order)

    def _order(self, *_: object, **_more: object) -> commands.Answer:
        return commands.Answer(self.text is not None, self.text or "", "")

    def answer(self, content: bytes) -> None:
        self.text = content.decode(errors="replace").replace("{folder}", str(self.folder))

    def file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


ATTEMPT = Attempt(
    "default",
    ResourceRequest(cpus=2, memory=10**9, gpus=1, walltime=60),
    {"slurm": {"partition": "cpu"}},
)


SLURM, HTCONDOR = sites.system("slurm"), sites.system("htcondor")


def squeue(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    for one in SLURM.queued(bench.folder) or ():
        assert one.batch_id.isdigit()
        assert isinstance(one.reason, str)


def status(bench: Bench, content: bytes) -> None:
    """The same is the answer of squeue and of sacct."""
    bench.answer(content)
    for system in (slurm, htcondor):
        for job, one in system.status(["41", "42"], bench.folder).items():
            assert job in ("41", "42")
            assert one.kind in ("alive", "held", "done", "failed", "gone")


def held_in_squeue(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    for found in (SLURM.hold(["41", "42"]), SLURM.withdraw(["41", "42"])):
        assert set(found) == {"41", "42"}
        assert set(found.values()) <= {True, False, None}


def held_in_condor_q(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    for found in (HTCONDOR.hold(["12", "13"]), HTCONDOR.withdraw(["12", "13"])):
        assert set(found) == {"12", "13"}
        assert set(found.values()) <= {True, False, None}


def scontrol(bench: Bench, content: bytes) -> None:
    bench.file("stderr", STDERR.encode())
    bench.answer(content)
    assert str(SLURM.fate("42")).startswith("Slurm: ")


def stderr_of_slurm(bench: Bench, content: bytes) -> None:
    bench.file("stderr", content)
    bench.answer(SCONTROL.encode())
    assert str(SLURM.fate("42")).startswith("Slurm: ")


def configuration(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    assert SLURM.settings(None)["executor"] == "slurm"  # type: ignore[arg-type]


def sinfo(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    SLURM.draft()
    for one in SLURM.problems([ATTEMPT], Site("slurm")):
        assert str(one)


def condor_status(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    HTCONDOR.draft()
    for one in HTCONDOR.problems([ATTEMPT], None):  # type: ignore[arg-type]
        assert str(one)


def condor_q(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    for one in HTCONDOR.queued(bench.folder) or ():
        assert one.batch_id.isdigit()
        assert isinstance(one.reason, str)
    HTCONDOR.fate("7")


def submitted(bench: Bench, content: bytes) -> None:
    bench.file(layout.BATCH_JOBS, content)
    for one in batch_jobs.read(bench.folder):
        assert one.system == "slurm"
        assert one.batch_id.isdecimal() or not one.batch_id


def job_ad(bench: Bench, content: bytes) -> None:
    os.environ["_CONDOR_JOB_AD"] = str(bench.file("ad", content))
    HTCONDOR.batch_job()


def judged(found: Credential | None) -> None:
    """Have all be said of a credential that a person could be told."""
    assert found is not None
    for until in (None, 1.9e9):
        problems(Requirement(found.kind, ("cms",)), found, now=1.75e9, until=until)
    lack(Requirement(found.kind), found, now=1e12)
    assert doctor._described(found)


def klist(bench: Bench, content: bytes) -> None:
    bench.answer(content)
    judged(kerberos.find_ticket())


def a_token(_bench: Bench, content: bytes) -> None:
    judged(tokens._described("there", None, content, None))


def a_proxy(_bench: Bench, content: bytes) -> None:
    judged(proxies._described(Path("there"), content, 0o600))


def output_of_snakemake(_bench: Bench, content: bytes) -> None:
    for reader in (Reader(None), Reader(Lines(io.StringIO()))):
        for line in content.decode(errors="replace").splitlines():
            reader.line(line)
            reader.event_line(line)
        reader.tally.seconds_left()


def a_probe(bench: Bench, content: bytes) -> None:
    rule = Rule("probe", "partition", (), Route((ATTEMPT,)), ())
    found = probes.answer_of(bench.file("probe.json", content))
    told = found or probes.Silence("it says nothing", "")
    assert doctor._outcome(rule, told, PROBE).state in ("ok", "FAILED")


def a_note(bench: Bench, content: bytes) -> None:
    path = bench.file("smk/failures/r/n.json", content)
    found = failures.read(path)
    if found is not None:
        build = bench.folder
        told = what_failed.message(found, build, profile=build / "p", fate=str)
        assert "\x1b" not in told + failures.in_short(found, str)
        failures.lives(found)
        failures.logs_of(found)
        failures.earlier(build, "r", "n")


def a_record(bench: Bench, content: bytes) -> None:
    bench.file("job/record.json", content)
    with contextlib.suppress(products.Damaged):
        for name in products.read_record(bench.folder / "job")["files"]:
            assert "/" not in name
    with contextlib.suppress(products.Damaged):  # what the job has read is not known
        observed.inherited(bench.folder, ["job"])


def observations(bench: Bench, content: bytes) -> None:
    bench.file(layout.observed("0" * 32), content)
    observed.load(bench.folder, "0" * 32)
    observed.written(bench.folder, bench.folder)
    surroundings = observed.Surroundings(bench.folder, {})
    observed.Checks(bench.folder, surroundings, NamedFiles(())).change({"observed": ["0" * 32]})


def variables(bench: Bench, content: bytes) -> None:
    bench.file(layout.ENVIRONMENT, content)
    assert isinstance(observed.environment_of(bench.folder), dict)


def a_lock(bench: Bench, content: bytes) -> None:
    path = bench.file(layout.LOCK, content)
    with path.open("rb") as stream:
        who = run_lock.read_lock(stream.fileno())
    assert str(lock.Held.by(who, bench.folder))
    run_lock.holder(bench.folder)


def a_parcel(bench: Bench, content: bytes) -> None:
    goal = bench.folder / "in" / "goal"
    goal.mkdir(parents=True)
    canary = bench.file("in/canary", b"untouched")
    path = bench.file("sent/p.tar", content)
    for read in (lambda: read_about(path), lambda: open_parcel(path, goal)):
        with contextlib.suppress(DamagedParcel):
            read()
    assert not any(one.is_symlink() for one in goal.rglob("*"))
    assert canary.read_bytes() == b"untouched"
    assert {one.name for one in (bench.folder / "in").iterdir()} == {"goal", "canary"}
    shutil.rmtree(bench.folder / "in")


def a_pickle(bench: Bench, content: bytes) -> None:
    canary = bench.file("canary", b"untouched")
    for read in (pickles.load_histogram, lambda content: pickles.check(content, ["tests:Own"])):
        with contextlib.suppress(pickles.RefusedPickle):
            read(content)
    assert canary.read_bytes() == b"untouched"
    assert [one.name for one in bench.folder.iterdir()] == ["canary"]


Make = Callable[[random.Random], bytes]
Read = Callable[[Bench, bytes], None]
#: What makes a changed input, and what reads it.
PARSERS: dict[str, tuple[Make, Read]] = {
    "squeue": (of_bytes(SQUEUE), squeue),
    "states of squeue": (of_bytes(SQUEUE), status),
    "states of sacct": (of_bytes(SACCT), status),
    "states of condor_q": (of_bytes(json.dumps(CONDOR_Q)), status),
    "scontrol show job": (of_bytes(SCONTROL), scontrol),
    "a job's stderr on Slurm": (of_bytes(STDERR), stderr_of_slurm),
    "scontrol show config": (
        of_bytes("AccountingStorageType   = accounting_storage/none\n"),
        configuration,
    ),
    "sinfo": (
        of_bytes(SINFO, "n1|gpu|4|16000|900|gpu:a100:4(S:0-1)\n"),
        sinfo,
    ),
    "condor_status": (of_json(CONDOR_STATUS), condor_status),
    "squeue of late jobs": (
        of_bytes("41|PENDING|JobHeldUser|0||\n42|RUNNING|None|0|std1|\n"),
        held_in_squeue,
    ),
    "condor_q of late jobs": (of_json(LATE), held_in_condor_q),
    "condor_q": (of_json(CONDOR_Q), condor_q),
    "what a run has submitted": (of_bytes(SUBMITTED), submitted),
    "a job's ClassAd": (of_bytes('ClusterId = 12\nOwner = "alice"\n'), job_ad),
    "klist": (of_bytes(KLIST, HEIMDAL), klist),
    "a token": (claims_of, a_token),
    "a proxy": (pem_of, a_proxy),
    "Snakemake's output": (of_bytes(REPORT), output_of_snakemake),
    "a probe of doctor": (of_json(PROBE), a_probe),
    "a note of a failed job": (of_json(NOTE), a_note),
    "a record": (of_json(RECORD, seal=True), a_record),
    "observations": (of_json(OBSERVATIONS, seal=True), observations),
    "a run's variables": (of_json({"salt": "00", "variables": {"A": "1"}}), variables),
    "a lock": (of_json(LOCK), a_lock),
    "a parcel": (parcel_of, a_parcel),
    "a pickle": (of_bytes(*PICKLES), a_pickle),
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("_CONDOR_JOB_AD", "none")  # so that it is put back
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as name:
        monkeypatch.chdir(name)
        yield Bench(Path(name), monkeypatch)
        monkeypatch.chdir("/")


@pytest.fixture
def little_memory() -> Any:
    """What asks for gigabytes gets a MemoryError: a pickle may name any size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.usefixtures("little_memory")
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_nothing_that_can_be_read_raises(name: str, bench: Bench) -> None:
    make, read = PARSERS[name]
    dice = random.Random(f"{SEED} {name}")
    for number in range(COUNT):
        content = make(dice)
        began = time.monotonic()
        try:
            read(bench, content)
        except Exception as error:
            pytest.fail(f"input {number} of {name!r}: {content[:2000]!r}\n{error!r}", pytrace=True)
        assert time.monotonic() - began < 20, (number, content[:2000])
