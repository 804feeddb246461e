"""Whom folders belong to: what another user may have written is not trusted, and not run.

A build folder holds code (Snakefile, profile, worker), and says which files to move and remove. So
it and all below it must be the user's own, and no one else may write there, unless the user says
``--trust-build``.

It is looked at once, when a command begins. While that goes on, nobody else can add anything: all
folders are closed, and so is what the command makes (:func:`close_new_files`, :func:`make_own`).
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell

#: What is looked at in a build folder that a run is started in: it holds other things, too.
_OF_A_RUN = frozenset({
    "smk", ".snakemake", "artifacts", "compile", "debug", "execution", "graph", "render", "reports",
    "profiles", "report.html", "run_summary.yaml",
})  # fmt: skip
#: Lower numbers are accounts of the system's (login.defs(5)).
_FIRST_USER = 1000
#: Who an entry of an ACL is about (acl(5), <sys/acl.h>), but for the owner; the mask limits most.
_NAMED_USER, _NAMED_GROUP, _MASK = 0x02, 0x08, 0x10
_WHO = {_NAMED_USER: "user", 0x04: "group", _NAMED_GROUP: "group", 0x20: "other"}
_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
#: Folders that were not there when they were checked.
_missing = set[Path]()
#: Rights of an NFSv4 ACL by which a file or folder can be changed: to write, append, delete what is
#: below, and change the ACL or the owner (RFC 7530, 6.2.1.3).
_NFS4_WRITE = 0x2 | 0x4 | 0x40 | 0x40000 | 0x80000


def close_new_files() -> bool:
    """Let no other user write to what this process makes, and those that it starts.

    Returns whether that was so before.
    """
    before = os.umask(0o022)
    os.umask(before | 0o022)
    return before & 0o022 == 0o022


def make_own(folder: Path) -> None:
    """Make a folder, and those above it, that only its owner may write to.

    A default ACL, which wins over the umask, is not handed on to what will be made in it.

    Raises:
        OSError: it cannot be made, or was not there when it was checked, and is somebody else's.
    """
    if not folder.parent.exists():
        make_own(folder.parent)
    try:
        folder.mkdir(mode=0o755)
    except FileExistsError:
        if folder in _missing and os.lstat(folder).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "another user has just made it") from None
        folder.mkdir(exist_ok=True)  # a file in its place is an error
    else:
        with contextlib.suppress(OSError):  # there is none
            os.removexattr(folder, _DEFAULT)


def check_build(
    build: Path, *, option: str, noun: str = "build folder", trusted: bool = False
) -> None:
    """Refuse a folder where others have made anything, or may write; none is fine.

    Folders that links of the user's lead to count, too. ``option`` is how the user has named it.
    Whoever is ``trusted``, pipes are refused: a run would wait for ever.

    Raises:
        Findings: what is wrong with it, and the fix.
    """
    if not os.path.lexists(build):
        _missing.add(build.absolute())
    otherwise = "another folder"
    if noun == "build folder":
        otherwise = "--trust-build, if you trust its author; or another --outdir"
    findings: list[Finding] = []
    pending, seen = [build], set[Path]()
    while pending:
        named = pending.pop()
        top = named.resolve()
        if top in seen or not top.is_dir():
            continue  # what is in its place is looked at elsewhere
        seen.add(top)
        is_project = named == build and (Path.cwd() == top or top in Path.cwd().parents)
        by_kind, links = _look(top, _OF_A_RUN if is_project else frozenset())
        if named == build and os.lstat(build).st_uid not in (os.geteuid(), 0):
            by_kind[_FOREIGN] = [str(named)]  # a link
        pending += map(Path, links)
        for kind, paths in by_kind.items():
            if not paths or (trusted and kind != _SPECIAL):
                continue
            is_below = Path(paths[0]).is_relative_to(top)
            more = f", and {len(paths) - 1} more" if len(paths) > 1 else ""
            fixes = [_fix(kind, paths, top, named, is_link=named != build)]
            expected = "files, folders and links"
            if kind != _SPECIAL:
                fixes.append(otherwise)
                expected = (
                    "a folder of yours that only you can write to, because its files are trusted "
                    "and run in your name"
                )
            findings.append(
                Finding(
                    file=str(named / os.path.relpath(paths[0], top) if is_below else named),
                    key=option,
                    problem=kind.format(noun=noun, user=_user(os.lstat(paths[0]).st_uid)),
                    value=_rights(paths[0]) + more,
                    expected=expected,
                    hint="; or ".join(filter(None, fixes)),
                )
            )
    if findings:
        raise Findings(findings)


_FOREIGN = "this belongs to another user ({user})"
_OPEN = "others may write to this {noun}"
_HANDING_ON = "others may write to new files in this {noun}"
#: Whoever opens one would wait for ever. Where each job has its files, they are replaced.
_SPECIAL = "a pipe, a socket or a device cannot be in a {noun}"
_BY_JOB = ("smk/work", "smk/old", "smk/stage", "debug/distributed/logs")


def _look(top: Path, only: Collection[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return what is wrong in a folder, each kind with its paths, and links to other folders.

    In the folder itself ``only`` these names count, if there are any.
    """
    by_kind: dict[str, list[str]] = {_FOREIGN: [], _OPEN: [], _HANDING_ON: [], _SPECIAL: []}
    links: list[str] = []
    mine = (os.geteuid(), 0)
    # Snakemake lets a group write to its notes; nobody believes what is there.
    unused = tuple(f"{top}/.snakemake/{name}" for name in ("log", "metadata"))
    replaced = tuple(f"{top}/{name}" for name in _BY_JOB)
    pending = [(str(top), top.stat(), True)]
    while pending:
        folder, status, is_reached = pending.pop()
        if status.st_uid not in mine:
            by_kind[_FOREIGN].append(folder)
            continue
        if is_reached:
            # An NFSv4 ACL, which takes a question to its server, is that of the top one.
            if (status.st_mode & 0o022 or folder == str(top)) and is_open(folder, status):
                by_kind[_OPEN].append(folder)
            if _writers(folder, _DEFAULT):
                by_kind[_HANDING_ON].append(folder)
        is_reached = is_reached and bool(status.st_mode & 0o011)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if only and entry.name not in only and folder == str(top):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # it is gone: a run goes on
                if stat.S_ISDIR(status.st_mode):
                    pending.append((entry.path, status, is_reached))
                elif status.st_uid not in mine:
                    by_kind[_FOREIGN].append(entry.path)
                elif stat.S_ISLNK(status.st_mode):
                    # (A DirEntry would raise for a loop, and all that comes after it be left out.)
                    links += [entry.path] if os.path.isdir(entry.path) else []  # noqa: PTH112
                elif not stat.S_ISREG(status.st_mode):
                    by_kind[_SPECIAL] += [] if folder.startswith(replaced) else [entry.path]
                elif is_reached and status.st_mode & 0o022 and is_open(entry.path, status):
                    by_kind[_OPEN] += [entry.path] if not folder.startswith(unused) else []
    return by_kind, links


def _fix(kind: str, paths: list[str], top: Path, named: Path, *, is_link: bool) -> str:
    """Return the command that repairs one kind of problem in all of a folder."""
    close = shell(["chmod", "-R", "go-w", top if is_link else named])
    if kind == _OPEN:
        return close
    if kind == _HANDING_ON:
        return f"{shell(['setfacl', '-R', '-k', top if is_link else named])} && {close}"
    if kind == _SPECIAL:
        return shell(["rm", *paths])
    if paths in ([str(top)], [str(named)]):
        return shell(["rm", named]) if is_link else ""
    theirs = f"! -uid {os.geteuid()} ! -uid 0"
    return f"find {shell([top])} {theirs} -prune -exec rm -rf {{}} +"


def _rights(path: str) -> str:
    """Return in words whose something is, and who else may write to it."""
    status = os.lstat(path)
    words = [
        _user(status.st_uid),
        f"mode {stat.S_IMODE(status.st_mode):04o}",
        f"group {_group(status.st_gid)}",
    ]
    if not stat.S_ISLNK(status.st_mode):
        words += [f"ACL {writer}" for writer in _writers(path, _ACCESS)]
        words += [f"default ACL {writer}" for writer in _writers(path, _DEFAULT)]
        words += [f"NFSv4 ACL {writer}" for writer in _nfs4_writers(path)]
    return ", ".join(words)


def _writers(path: str | Path, kind: str, *, without: Collection[str] = ()) -> list[str]:
    """Return the entries of an ACL by which others than the owner and root may write (acl(5)).

    ``without`` an ACL, it is what is given.
    """
    try:
        acl = os.getxattr(path, kind)
    except OSError:  # there is none
        return list(without)
    owner = os.stat(path).st_uid  # noqa: PTH116 (of many paths, which are texts)
    entries = list(struct.iter_unpack("<HHI", acl[4:]))
    most = next((rights for who, rights, _ in entries if who == _MASK), 7)
    return [
        f"{_WHO[who]}:{_named(who, number)}"
        for who, rights, number in entries
        if who in _WHO and rights & 2 and (most & 2 or _WHO[who] == "other")
        if not (who == _NAMED_USER and number in (owner, 0))
        if not (who == _NAMED_GROUP and _is_of_one(number, owner))
    ]


def _named(who: int, number: int) -> str:
    if who == _NAMED_GROUP:
        return _group(number)
    return _user(number) if who == _NAMED_USER else ""


def _nfs4_writers(path: str | Path) -> list[str]:
    """Return who is named by an NFSv4 ACL and may write; mode tells of all but these."""
    with contextlib.suppress(OSError, struct.error):
        content, writers, at = os.getxattr(path, "system.nfs4_acl"), [], 4
        for _ in range(int.from_bytes(content[:4])):
            kind, _, rights, length = struct.unpack_from(">4I", content, at)
            who = content[at + 16 : at + 16 + length].decode("utf-8", "replace")
            if kind == 0 and rights & _NFS4_WRITE and not who.endswith("@"):
                writers.append(who)
            at += 16 + -(-length // 4) * 4
        return writers
    return []


def is_open(path: str | Path, status: os.stat_result | None = None) -> bool:
    """Whether others than its owner may write; a group of only the owner is no other.

    With an ACL, the mode of the group is the most that any of its entries has.
    """
    status = status or os.stat(path)  # noqa: PTH116 (of many paths, which are texts)
    if status.st_mode & stat.S_IWOTH:
        return True
    own = {"group:"} if _is_of_one(status.st_gid, status.st_uid) else set[str]()
    if status.st_mode & stat.S_IWGRP and {*_writers(path, _ACCESS, without=["group:"])} - own:
        return True
    return bool(_nfs4_writers(path))


def problem_of(path: Path, workflow: Path) -> str | None:
    """Return in words why another user may write to a file or folder, a sticky one too.

    Whoever has written the workflow is trusted, as in a container, where that is somebody else.
    """
    trusted = {os.geteuid(), 0}
    with contextlib.suppress(OSError):
        trusted.add(workflow.stat().st_uid)
    try:
        status = path.stat()
    except OSError:
        return None  # it cannot be read either
    noun = "folder" if stat.S_ISDIR(status.st_mode) else "file"
    if status.st_uid not in trusted:
        return f"the {noun} belongs to another user"
    return f"others may write to the {noun}" if is_open(path, status) else None


def is_own(entry: os.DirEntry[str] | Path) -> bool:
    """Whether a link to a folder was made by the user, and so was the folder."""
    statuses = (entry.stat(follow_symlinks=False), entry.stat())
    return all(status.st_uid == os.geteuid() for status in statuses) and not is_open(
        os.fspath(entry), statuses[1]
    )


def problem_above(path: Path, *, workflow: Path | None = None) -> str | None:
    """Return what is wrong with the folders above a path: who could put another one in its place.

    None may be writable by others, unless it is sticky, as ``/tmp`` is; and each must be the user's
    or of an account of the system's, such as a batch system's. Where a ``workflow`` is run, owners
    do not count, nor folders above it: who may write there can change it as well.
    """
    owners = (os.geteuid(), _unknown_user())
    allowed = set[Path]() if workflow is None else set(_above(workflow))
    for folder in _above(path):
        status = folder.stat()
        if workflow is None and status.st_uid not in owners and status.st_uid >= _FIRST_USER:
            return f"{folder} belongs to another user ({_user(status.st_uid)})"
        is_sticky = status.st_mode & stat.S_ISVTX
        if folder not in allowed and not is_sticky and is_open(folder, status):
            return f"others may rename the files in {folder} ('chmod +t' prevents it)"
    return None


def _above(path: Path) -> Iterator[Path]:
    """Yield the folders above a path that exist, links followed: those of links, too."""
    seen: set[Path] = set()
    pending = [Path(os.path.abspath(path)).parent]  # noqa: PTH100 (links are followed below)
    while pending:
        folder = pending.pop()
        if folder in seen:
            continue
        seen.add(folder)
        if folder.is_symlink():
            pending.append(folder.parent / folder.readlink())
        elif folder.exists():
            yield folder
        if folder.parent != folder:
            pending.append(folder.parent)


@cache
def _unknown_user() -> int:
    """Return the number of users that a container does not know: root may be one there."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 65534


@cache
def _is_of_one(group: int, user: int) -> bool:
    """Whether a group is a user's own, without other members."""
    try:
        entry, name = grp.getgrgid(group), pwd.getpwuid(user).pw_name
    except KeyError:  # in a container, users of the host have numbers only
        return group == user
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
