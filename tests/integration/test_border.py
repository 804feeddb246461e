"""What a worker sends back: only what its job may make comes into the build folder.

A real job's parcel is changed as somebody would who wants more than that.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hist
import pytest

from fasthep_smk.storage import layout, products
from fasthep_smk.transfer.archive import DamagedParcel
from fasthep_smk.transfer.receive import accept
from fasthep_smk.util import files
from tests.integration.conftest import WORKFLOW, Run
from tests.integration.test_transfer import send, translate
from tests.support.forged import forged, is_real

pytestmark = pytest.mark.integration

RULE, PLACE = "stages_Vars_to_Met", ("data", "1_0")
FOLDER = layout.job_folder(RULE, PLACE)
RECORD = f"{FOLDER}/{layout.RECORD}"
OTHER = f"{layout.job_folder(RULE, ('data', '0_0'))}/{layout.RECORD}"


@dataclass
class Sent:
    """A parcel in its parts; :meth:`write` makes one of them, right or wrong."""

    about: dict[str, Any]
    content: dict[str, bytes]
    #: What the list says of a file in place of what is right.
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Members that are no plain files, after all others.
    odd: list[tarfile.TarInfo] = field(default_factory=list)
    #: In place of the list.
    manifest: bytes | None = None

    def write(self, path: Path) -> None:
        known = {
            name: {
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "mode": 0o644,
                **self.listed.get(name, {}),
            }
            for name, content in self.content.items()
        }
        for member in self.odd:
            known[member.name] = {"size": member.size, "sha256": "0" * 64, "mode": 0o644}
        manifest = {"format": 1, "about": self.about, "files": known}
        text = self.manifest or files.seal(manifest, indent=None).encode()
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            for name, content in {"parcel.json": text, **self.content}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            for member in self.odd:
                tar.addfile(member)


@pytest.fixture(scope="module")
def translated_once(
    tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run
) -> tuple[Path, Path]:
    """A project that is translated, and the parcel that one of its jobs has sent back."""
    folder = tmp_path_factory.mktemp("border")
    project = folder / "project"
    project.mkdir()
    (project / "data").symlink_to(small_files)
    translate(project, smk, WORKFLOW)
    node = tmp_path_factory.mktemp("node")
    return project / "build", send(project, RULE, PLACE, node)


@pytest.fixture
def build(translated_once: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(translated_once[0], tmp_path / "build", symlinks=True))


@pytest.fixture
def sent(translated_once: tuple[Path, Path]) -> Sent:
    with tarfile.open(translated_once[1]) as tar:
        found = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    return Sent(files.unseal(found.pop("parcel.json"))["about"], found)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of all files below a folder, and beside it."""
    return {
        str(path.relative_to(folder.parent)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(folder.parent.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name != "outcome.tar"
    }


def resealed(content: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    record = files.unseal(content)
    change(record)
    return files.seal(record).encode()


def test_what_nobody_has_changed_arrives(build: Path, sent: Sent, tmp_path: Path) -> None:
    sent.write(tmp_path / "outcome.tar")
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0
    assert products.read_record(build / FOLDER)["key"] == "data/1_0"


FOREIGN = [
    "smk/worker",
    "smk/profile/config.v9+.yaml",
    "smk/tasks/finish.json",
    "smk/run.json",
    "smk/environment.json",
    f"{FOLDER}/deeper/record.json",
    OTHER,
    OTHER.replace("record.json", "products.zip"),
    "smk/work/finish/record.json",
    "smk/bundles/stages_Vars_to_Met/bundle_0.json",
    "smk/failures/stages_Vars_to_Met/data_0_0.json",
    "debug/distributed/logs/stages_Vars_to_Met/data/0_0.log",
    "debug/distributed/logs/stages_Vars_to_Met/data/1_0.attempt1.log.sh",
    "smk/observed/not-a-digest.json",
    ".snakemake/config",
    "compile/nominal/plan.yaml",
    "execution/run_summary.yaml",
    "profiles/default/config.yaml",
    "default/config.yaml",
    "../outside.txt",
    "artifacts/../../outside.txt",
    "/tmp/smk-outside.txt",
    "artifacts//x",
    "artifacts/./x",
    "",
    ".",
    "artifacts/nul\0byte",
    "parcel.json",
    f"artifacts/{'x' * 300}",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_the_job_may_not_make_is_refused(
    build: Path, sent: Sent, tmp_path: Path, name: str
) -> None:
    sent.content[name] = b"#!/bin/sh\ntouch canary\n"
    refused(build, sent, tmp_path)


@pytest.mark.parametrize("name", ["workflow.yaml", "my_ops.py", ".git/hooks/post-checkout"])
def test_a_project_in_the_build_folder_is_not_changed(
    build: Path, sent: Sent, tmp_path: Path, name: str
) -> None:
    """As with ``--outdir .``; in a folder for results, it is one."""
    sent.content[name] = b"sent"
    run = json.loads((build / layout.RUN).read_text())
    (build / layout.RUN).write_text(json.dumps({**run, "launch_folder": str(build)}))
    refused(build, sent, tmp_path)
    (build / layout.RUN).write_text(json.dumps(run))
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0


def refused(build: Path, sent: Sent, folder: Path) -> str:
    """Let a parcel arrive that is not trusted; return what is said."""
    outcome = folder / "outcome.tar"
    sent.write(outcome)
    before = snapshot(build)
    with pytest.raises(DamagedParcel) as caught:
        accept(build, outcome, RULE, PLACE)
    assert snapshot(build) == before
    assert not list((build / layout.STAGE).glob(".arrival-*"))
    return str(caught.value)


def member(name: str, kind: bytes, **more: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type = kind
    for key, value in more.items():
        setattr(found, key, value)
    return found


ODD = {
    "a link": member("artifacts/x", tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": member("artifacts/x", tarfile.LNKTYPE, linkname="parcel.json"),
    "a FIFO": member("artifacts/x", tarfile.FIFOTYPE),
    "a device": member("artifacts/x", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a folder": member("artifacts/x", tarfile.DIRTYPE),
    "holes": member(
        "artifacts/x",
        tarfile.REGTYPE,
        pax_headers={
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.map": "0,0",
            "GNU.sparse.size": "3000000000",
        },
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_plain_file_is_refused(
    build: Path, sent: Sent, tmp_path: Path, what: str
) -> None:
    sent.odd.append(ODD[what])
    refused(build, sent, tmp_path)


@pytest.mark.parametrize(
    "listed",
    [
        {"mode": 0o4755},
        {"mode": 0o666},
        {"mode": -1},
        {"mode": "644"},
        {"size": 10**12},
        {"size": -1},
        {"size": True},
        {"sha256": None},
        {"sha256": "0" * 64},
        {"more": 1},
    ],
    ids=str,
)
def test_a_list_that_says_what_cannot_be_is_refused(
    build: Path, sent: Sent, tmp_path: Path, listed: dict[str, Any]
) -> None:
    sent.listed[RECORD] = listed
    refused(build, sent, tmp_path)


@pytest.mark.parametrize(
    "manifest",
    [
        {"format": 1},
        {"format": 1, "about": [], "files": {}},
        {"format": 1, "about": {}, "files": []},
        {"format": 1, "about": {"status": 0}, "files": {}},
        {"format": 1, "about": {"status": "0"}, "files": {}},
        {"format": 1, "about": {"status": 0, "host": {}}, "files": {}},
        {"format": 2},
        {"format": 1, "about": {"status": 0, "rule": RULE, "place": "data"}, "files": {}},
        {"format": 1, "about": {"rule": RULE, "place": [*PLACE], "status": 0, "gone": 5},
         "files": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_list_is_refused(
    build: Path, sent: Sent, tmp_path: Path, manifest: dict[str, Any]
) -> None:
    sent.manifest = files.seal(manifest).encode()
    sent.content = {}
    refused(build, sent, tmp_path)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a": 1}', b"[" * 100_000, b"\xff\xfe" * 500])
def test_a_list_that_is_none_is_refused(
    build: Path, sent: Sent, tmp_path: Path, text: bytes
) -> None:
    digest = hashlib.sha256(b"{" + text).hexdigest()
    sent.manifest = b'{\n "checksum": "' + digest.encode() + b'",' + text
    refused(build, sent, tmp_path)


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another job's": lambda record: record.update(key="data/0_0"),
    "another version's": lambda record: record.update(signature="0" * 32),
    "without a list of files": lambda record: record.pop("files"),
    "of no numbers": lambda record: record.update(started="now"),
    "with results of ours": lambda record: record["results"].update(
        {"smk/worker": {"size": 0, "sha256": "0" * 64}}
    ),
    "with results outside": lambda record: record["results"].update(
        {"../x": {"size": 0, "sha256": "0" * 64}}
    ),
    "with a result that did not come": lambda record: record["results"].update(
        {"artifacts/x": {"size": 0, "sha256": "0" * 64}}
    ),
    "with files elsewhere": lambda record: record["files"].update(
        {"../../x": {"size": 0, "sha256": "0" * 64}}
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_record_that_says_what_is_not_so_is_refused(
    build: Path, sent: Sent, tmp_path: Path, how: str
) -> None:
    sent.content[RECORD] = resealed(sent.content[RECORD], CHANGES[how])
    refused(build, sent, tmp_path)


NOTE = f"smk/failures/{RULE}/"


@pytest.mark.parametrize(
    "note",
    [
        {"rule": RULE, "key": "data/0_0", "record": OTHER, "problem": "x"},
        {"rule": RULE, "key": "data/1_0", "record": "$(touch canary)", "problem": "x"},
        {"rule": RULE, "key": "data/1_0", "record": RECORD, "problem": 5},
        {"rule": RULE, "key": "data/1_0", "record": RECORD, "problem": "x", "used": "much"},
        {"rule": RULE, "key": "data/1_0", "record": RECORD, "problem": "x", "earlier": [1]},
        {"rule": RULE, "key": "data/1_0", "record": RECORD, "problem": "x", "new": 1},
        [],
    ],
    ids=str,
)
def test_a_note_of_another_job_is_refused(
    build: Path, sent: Sent, tmp_path: Path, note: Any
) -> None:
    from fasthep_smk.storage import failures

    name = str(failures.path_of(build, RULE, "data/1_0").relative_to(build))
    sent.content[name] = json.dumps(note).encode()
    refused(build, sent, tmp_path)


def test_observations_of_others_are_not_replaced(build: Path, sent: Sent, tmp_path: Path) -> None:
    empty = files.seal({"observations": []}).encode()
    sent.content[layout.observed("0" * 32)] = empty
    refused(build, sent, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["smk/worker", OTHER, "smk/bundles/../../../x", "../x", "/etc/passwd", "smk/work/../worker"],
)
def test_only_what_the_job_reads_can_be_found_damaged(
    build: Path, sent: Sent, tmp_path: Path, name: str
) -> None:
    (build / OTHER).parent.mkdir(parents=True)
    for path in (build / OTHER, build / "smk/worker", build.parent / "x"):
        path.write_text("kept")
    sent.about["gone"] = [name]
    sent.write(tmp_path / "outcome.tar")
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0
    for path in (build / OTHER, build / "smk/worker", build.parent / "x"):
        assert path.read_text() == "kept"


@pytest.fixture
def no_files(tmp_path: Path) -> Iterator[dict[str, Path]]:
    found = {name: tmp_path / name for name in ("a FIFO", "a folder", "a link", "nothing")}
    os.mkfifo(found["a FIFO"])
    found["a folder"].mkdir()
    found["a link"].symlink_to("/dev/zero")
    return found


@pytest.mark.parametrize("what", ["a FIFO", "a folder", "a link"])
def test_what_is_no_file_is_refused(build: Path, no_files: dict[str, Path], what: str) -> None:
    with pytest.raises(DamagedParcel, match="is not a file"):
        accept(build, no_files[what], RULE, PLACE)


def test_what_a_worker_says_is_for_a_terminal(build: Path, tmp_path: Path) -> None:
    about = {"status": None, "problem": "\x1b]0;title\x07 lost", "host": "a\nb"}
    Sent(about, {}).write(tmp_path / "outcome.tar")
    arrival = accept(build, tmp_path / "outcome.tar", RULE, PLACE)
    assert (arrival.problem, arrival.host) == ("?]0;title? lost", "a?b")


# --- pickles --------------------------------------------------------------------------------------

ARCHIVE = f"{FOLDER}/{layout.ARCHIVE}"
HISTOGRAM = "artifacts/histograms/Met.pkl"
FORGED = ["system", "scipy", "pandas", "numpy", "label", "axis", "before", "old"]


def with_product(sent: Sent, content: bytes, member: str = "p1.pickle") -> None:
    """Let the job hand on a pickle, with a record that says so."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, content)
    sent.content[ARCHIVE] = buffer.getvalue()
    facts = {
        "size": len(buffer.getvalue()),
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
    }

    def change(record: dict[str, Any]) -> None:
        record["files"][layout.ARCHIVE] = facts
        record["products"].append(
            {"node": "n", "port": "p", "kind": "other", "type": "x", "live": None,
             "value": {"$": "pickle", "member": member}}
        )  # fmt: skip

    sent.content[RECORD] = resealed(sent.content[RECORD], change)


def list_classes(build: Path, classes: list[str]) -> None:
    path = build / layout.RUN
    path.write_text(json.dumps({**json.loads(path.read_text()), "pickles_of": classes}))


@pytest.mark.parametrize("where", ["product", "histogram"])
@pytest.mark.parametrize("what", FORGED)
def test_a_pickle_that_runs_code_is_refused(
    build: Path, sent: Sent, tmp_path: Path, what: str, where: str
) -> None:
    canary = tmp_path / "canary"
    content = forged(canary)[what]
    assert is_real(content, canary, tmp_path)
    if where == "product":
        with_product(sent, content)
    else:
        sent.content[HISTOGRAM] = content
    for classes in ([], ["my_ops:Fit"]):
        list_classes(build, classes)
        assert "holds a pickle that must not be sent" in refused(build, sent, tmp_path)
    assert not canary.exists()


def test_an_archive_without_its_record_is_looked_at(
    build: Path, sent: Sent, tmp_path: Path
) -> None:
    """The record may have come before."""
    with_product(sent, forged(tmp_path / "canary")["system"])
    del sent.content[RECORD]
    assert "holds a pickle that must not be sent" in refused(build, sent, tmp_path)


def test_what_is_called_otherwise_is_not_read(build: Path, sent: Sent, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with_product(sent, forged(canary)["system"], member="p1.json")
    sent.write(tmp_path / "outcome.tar")
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0
    with pytest.raises(products.Damaged, match=r"p1\.json is not a pickle"):
        products.load(build / FOLDER, [("n", "p")])
    assert not canary.exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 1000, b"PK\x05\x06" + b"\xff" * 18])
def test_an_archive_that_is_none_is_refused(
    build: Path, sent: Sent, tmp_path: Path, content: bytes
) -> None:
    sent.content[ARCHIVE] = content
    refused(build, sent, tmp_path)


def test_a_listed_class_and_histograms_arrive(build: Path, sent: Sent, tmp_path: Path) -> None:
    made = hist.Hist.new.Reg(3, 1, 10, transform=hist.axis.transform.log).Weight()
    with_product(sent, pickle.dumps(made, protocol=5))
    sent.content[HISTOGRAM] = pickle.dumps(made, protocol=5)
    sent.write(tmp_path / "outcome.tar")
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0
    with_product(sent, pickle.dumps([Facts(1), made], protocol=5))
    assert f"{Facts.__module__}:Facts" in refused(build, sent, tmp_path)
    list_classes(build, [f"{Facts.__module__}:Facts"])
    sent.write(tmp_path / "outcome.tar")
    assert accept(build, tmp_path / "outcome.tar", RULE, PLACE).status == 0


@dataclass
class Facts:
    """Stands for an object of a user's class."""

    number: int
