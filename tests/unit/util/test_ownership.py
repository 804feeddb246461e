"""Whom folders belong to, and who may write to them: by mode, and by each kind of ACL."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.storage.outdir import make_folder
from fasthep_smk.util import ownership
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.ownership import check_build, is_open, make_own
from tests.support.programs import program


@pytest.fixture
def as_user_makes(tmp_path: Path) -> Iterator[Path]:
    """A folder in which files of one's own are open to a group of one: of the umask 002."""
    before = os.umask(0o002)
    yield tmp_path
    os.umask(before)


def setfacl(*words: str | Path) -> None:
    subprocess.run([program("setfacl", "acl"), *words], check=True)


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ("user:nobody:r-x", False),
        ("user:nobody:rwx", True),
        ("group:nogroup:rwx", True),
        ("group:nogroup:rwx,mask::r-x", False),
        ("group:nogroup:r-x,group::rwx,mask::rwx", False),  # its group is the user's own
        ("other::rwx", True),
        (f"user:{os.geteuid()}:rwx,user:0:rwx,group:{os.getegid()}:rwx", False),
    ],
)
def test_an_acl_may_let_others_write(as_user_makes: Path, entries: str, wanted: bool) -> None:
    folder = as_user_makes / "folder"
    folder.mkdir()
    assert not is_open(folder)
    setfacl("-m", entries, folder)
    assert is_open(folder) == wanted


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ("user:nobody:r-x", False),
        ("user:nobody:rwx", True),
        ("user:nobody:rwx,mask::r-x", False),
        ("other::rwx", True),
        (f"user:{os.geteuid()}:rwx,user:0:rwx,group:{os.getegid()}:rwx", False),
    ],
)
def test_a_default_acl_may_let_others_write(tmp_path: Path, entries: str, wanted: bool) -> None:
    (tmp_path / "build/smk").mkdir(parents=True)
    setfacl("-d", "-m", entries, tmp_path / "build/smk")
    if wanted:
        with pytest.raises(Findings, match="others may write to new files") as error:
            check_build(tmp_path / "build", option="BUILD")
        assert "default ACL" in str(error.value)
        assert "setfacl -R -k" in str(error.value)
    else:
        check_build(tmp_path / "build", option="BUILD")


def test_what_is_made_inherits_no_acl(as_user_makes: Path) -> None:
    setfacl("-d", "-m", "user:nobody:rwx,other::rwx", as_user_makes)
    make_own(as_user_makes / "one/two")
    for folder in (as_user_makes / "one", as_user_makes / "one/two"):
        assert not is_open(folder)
        assert "system.posix_acl_default" not in os.listxattr(folder)
    check_build(as_user_makes / "one", option="BUILD")


def test_the_group_of_a_folder_counts_by_its_own_entry(as_user_makes: Path) -> None:
    """Its mode is that of the mask."""
    setfacl("-m", f"user:{os.geteuid()}:rwx,group::r-x,mask::rwx", as_user_makes)
    if os.geteuid() == 0:
        shutil.chown(as_user_makes, group="nogroup")
    assert as_user_makes.stat().st_mode & 0o020
    assert not is_open(as_user_makes)


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE ANOTHER USER'S FILES")
def test_who_makes_a_folder_after_it_was_looked_at_is_refused(tmp_path: Path) -> None:
    for name in ("build", "link"):
        check_build(tmp_path / name, option="--outdir")
    (tmp_path / "build").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("build", "link"):
        os.chown(tmp_path / name, 54321, 54321, follow_symlinks=False)
        with pytest.raises(Findings, match="another user has just made it"):
            make_folder(tmp_path / name, Path(name))


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE ANOTHER USER'S FILES")
def test_a_link_that_leads_nowhere_hides_nothing(tmp_path: Path) -> None:
    """Whichever the file system lists first."""
    for number in range(50):
        (tmp_path / f"file{number}").touch()
        os.chown(tmp_path / f"file{number}", 54321, 54321)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Findings, match="and 49 more"):
        check_build(tmp_path, option="BUILD")


def test_nobody_reaches_what_is_in_a_closed_folder(tmp_path: Path) -> None:
    (tmp_path / "build/smk").mkdir(parents=True)
    (tmp_path / "build/smk").chmod(0o777)
    with pytest.raises(Findings, match="others may write"):
        check_build(tmp_path / "build", option="BUILD")
    (tmp_path / "build").chmod(0o700)
    check_build(tmp_path / "build", option="BUILD")


def test_a_project_in_the_build_folder_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``--outdir .``: data may be shared."""
    tmp_path.chmod(0o755)
    for name in ("data", "smk"):
        (tmp_path / name).mkdir()
    (tmp_path / "data").chmod(0o777)
    with pytest.raises(Findings, match="others may write"):
        check_build(tmp_path, option="--outdir")
    monkeypatch.chdir(tmp_path)
    check_build(Path(), option="--outdir")
    (tmp_path / "smk").chmod(0o777)
    with pytest.raises(Findings, match="others may write"):
        check_build(Path(), option="--outdir")


def nfs4_acl(*entries: tuple[int, int, str]) -> bytes:
    """Return an ACL as Linux shows that of NFSv4: in XDR (RFC 7530, 6.2.1)."""
    packed = struct.pack(">I", len(entries))
    for kind, rights, who in entries:
        packed += struct.pack(">4I", kind, 0, rights, len(who)) + who.encode()
        packed += bytes(-len(who) % 4)
    return packed


@pytest.mark.parametrize(
    ("entries", "writers"),
    [
        ([(0, 0x1601FF, "OWNER@"), (0, 0x1200A9, "GROUP@"), (0, 0x1200A9, "EVERYONE@")], []),
        ([(0, 0x1601FF, "OWNER@"), (0, 0x1600AF, "bob@cern.ch")], ["bob@cern.ch"]),
        ([(0, 0x1601FF, "OWNER@"), (0, 0x1200A9, "bob@cern.ch")], []),
        ([(1, 0x1600AF, "bob@cern.ch"), (0, 0x1600AF, "1000")], ["1000"]),
    ],
)
def test_an_acl_of_nfs_names_who_may_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: list[tuple[int, int, str]],
    writers: list[str],
) -> None:
    """There is no such server here: only what is read is real."""
    monkeypatch.setattr(os, "getxattr", lambda *_: nfs4_acl(*entries))
    assert ownership._nfs4_writers(tmp_path) == writers


def test_an_acl_of_nfs_that_is_cut_short_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = nfs4_acl((0, 0x1600AF, "bob@cern.ch"))
    monkeypatch.setattr(os, "getxattr", lambda *_: content[:10])
    assert ownership._nfs4_writers(tmp_path) == []
