"""An archive on a node: it is unpacked once, whoever is killed, and others give way to it."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fasthep_smk.contrib.pack.archive import write_archive
from fasthep_smk.contrib.pack.entries import text_entry
from tests.support.packed import Node, small_archive, small_parts

OTHER = "fedcba9876543210fedc"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return small_archive(tmp_path, size=3_000_000)


def left_over(node: Node) -> list[str]:
    return [path.name for path in node.cache.iterdir() if path.name.startswith(".")]


def slow_tar(node: Node) -> Node:
    """A node whose tar never ends with the second part, which it gets from Python."""
    tools = node.folder / "slow"
    tools.mkdir()
    (tools / "tar").write_text(
        '#!/bin/sh\ncase "$*" in *-C*) sleep 60 ;; *) exec /usr/bin/env -i /bin/tar "$@" ;; esac\n'
    )
    (tools / "tar").chmod(0o755)
    return Node(node.folder, f"{tools}:{node.path}", node.options)


def wait_for(path: Path, pattern: str) -> None:
    for _ in range(400):
        if any(path.glob(pattern)):
            return
        time.sleep(0.02)
    raise AssertionError(f"no {pattern} in {path}")


def age(node: Node, key: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(node.cache / f"{key}.use", (then, then))


def test_the_second_start_unpacks_nothing(node: Node, archive: Path) -> None:
    for _ in range(3):
        done = node.run(archive)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    assert node.log() == ["extracted", "found", "found"]
    assert left_over(node) == []
    assert node.cache.stat().st_mode & 0o777 == 0o700


def test_arguments_and_the_exit_status_are_those_of_python(node: Node, archive: Path) -> None:
    words = ["a b", "$(touch canary)", "'\"", "--", "*", "é\n"]
    code = "import sys; print(sys.argv[1:]); sys.exit(int(len(sys.argv)))"
    done = node.run(archive, "-c", code, *words)
    assert (done.returncode, done.stdout) == (7, f"{words}\n")


@pytest.mark.parametrize("missing", ["", "bash"])
def test_variables_are_set_as_conda_activate_does(node: Node, tmp_path: Path, missing: str) -> None:
    key = "0123456789abcdef0123"
    spare = 'export DATA="$CONDA_PREFIX/a b"; unset SPARE; echo said; false'
    conda = {
        "conda-meta/state": '{"version": 1, "env_vars": {"OWN": "set"}}',
        "etc/conda/env_vars.d/a.json": '{"OWN": "of a package", "SPARE": "1", "PACKAGE": "é"}',
        "etc/conda/activate.d/a.sh": spare,
        "etc/conda/activate.d/b.sh": "export LOST=1\nexit 0",
        "etc/conda/activate.d/c.sh": 'export LINES="$DATA\n$OWN"',
    }
    small = small_parts(key)
    entries = [text_entry(target, text) for target, text in conda.items()]
    archive = tmp_path / f"packed-venv-{key}.run"
    write_archive(replace(small, first=(*small.first, *entries)), archive)
    code = 'import os; print([os.environ.get(n) for n in ("PACKAGE", "SPARE", "LOST", "LINES")])'
    done = node.without(missing).run(archive, "-c", code)
    root = node.cache / key
    assert (done.returncode, done.stdout) == (
        0, f"{['é', None, None, f'{root}/a b' + chr(10) + 'set']}\n",
    ), done.stderr  # fmt: skip
    assert done.stderr == (
        f"said\npacked environment {key}: {root}/etc/conda/activate.d/b.sh has failed\n"
    )


@pytest.mark.parametrize("name", ["a b'c\"$(id)`id`{x}\\ é", "-n", "*"])
def test_any_name_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    archive = small_archive(tmp_path / name)
    place = Node(tmp_path / name)
    assert [place.run(archive).stdout for _ in range(2)] == ["hello\n", "hello\n"]
    assert place.log() == ["extracted", "found"]


def test_the_folder_is_that_of_the_user_in_tmpdir(tmp_path: Path, archive: Path) -> None:
    work = tmp_path / "work"
    work.mkdir(mode=0o555)
    for variables, cache in (
        ({"TMPDIR": str(tmp_path)}, f"fasthep-smk-{os.getuid()}"),
        ({"TMPDIR": str(tmp_path), "FASTHEP_SMK_CACHE": str(tmp_path / "own")}, "own"),
    ):
        done = subprocess.run(
            ["sh", str(archive), "--", "-c", "import os; print(os.environ['PATH'])"],
            env=variables,
            cwd=work,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / cache / "0123456789abcdef0123" / "complete").exists()
        assert done.stdout.startswith(str(tmp_path / cache / "0123456789abcdef0123" / "bin"))


def test_a_job_without_a_name_or_a_home_gets_them(node: Node, archive: Path) -> None:
    code = "import os; print(os.environ.get('LOGNAME'), os.path.expanduser('~'))"

    def said(**variables: str) -> str:
        command = node.command(archive, "-c", code)
        return subprocess.run(command, env=variables, capture_output=True, text=True).stdout

    home = node.cache / "home"
    name = pwd.getpwuid(os.getuid()).pw_name
    assert said() == f"{name} {home}\n"
    assert home.is_dir()
    assert said(USER="me", HOME="/h") == "None /h\n"
    assert said(LOGNAME="me", HOME="/h") == "me /h\n"


def test_a_folder_of_somebody_else_is_not_trusted(node: Node, archive: Path) -> None:
    node.cache.mkdir(mode=0o777)
    node.cache.chmod(0o777)
    done = node.run(archive)
    assert done.returncode == 77
    assert "others may write to it" in done.stderr
    node.cache.rename(node.folder / "goal")
    (node.folder / "goal").chmod(0o700)
    node.cache.symlink_to(node.folder / "goal")
    assert node.run(archive).returncode == 77


def test_a_folder_that_others_may_rename_is_not_trusted(node: Node, archive: Path) -> None:
    node.folder.chmod(0o777)
    done = node.run(archive)
    assert done.returncode == 77
    assert "others may rename a folder above" in done.stderr
    node.folder.chmod(0o1777)
    assert node.run(archive).returncode == 0


def test_whoever_takes_the_usual_name_keeps_nobody_from_working(node: Node, archive: Path) -> None:
    usual = node.folder / f"fasthep-smk-{os.getuid()}"
    usual.symlink_to("/etc")
    command = ["sh", str(archive), "--", "-c", "print('hello')"]
    variables = {**node.variables, "TMPDIR": str(node.folder)}
    for _ in range(2):
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    (other,) = node.folder.glob(f"{usual.name}.*")
    assert other.stat().st_mode & 0o777 == 0o700
    assert usual.is_symlink()


@pytest.mark.parametrize("without", [(), ("flock",)])
def test_many_at_once_unpack_once(node: Node, archive: Path, without: tuple[str, ...]) -> None:
    place = node.without(*without) if without else node
    running = [place.start(archive, "-c", "print('hello')") for _ in range(5)]
    said = [process.communicate(timeout=60) for process in running]
    assert said == [("hello\n", "")] * 5
    assert sorted(node.log()) == ["extracted", *["found"] * 4]
    assert left_over(node) == []


@pytest.mark.parametrize("without", [(), ("flock",)])
def test_after_a_killed_one_the_next_unpacks_all(
    node: Node, archive: Path, without: tuple[str, ...]
) -> None:
    slow = slow_tar(node.without(*without) if without else node)
    process = slow.start(archive, "-c", "pass")
    wait_for(node.cache, ".boot-*/lib/zzz-last")
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (node.cache / "0123456789abcdef0123").exists()
    assert len(left_over(node)) == 1
    done = node.run(archive)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert node.log() == ["extracted"]
    assert left_over(node) == []


def test_killed_before_the_mark_is_not_complete(node: Node, archive: Path) -> None:
    node.run(archive)
    root = node.cache / "0123456789abcdef0123"
    (root / "complete").unlink()
    (root / "share" / "hello").write_text("half")
    assert node.run(archive).stdout == "hello\n"
    assert node.log() == ["extracted", "extracted"]


def test_after_a_crash_of_the_machine_it_is_unpacked_again(node: Node, archive: Path) -> None:
    node.run(archive)
    mark = node.cache / "0123456789abcdef0123" / "complete"
    host, _ = mark.read_text().split()
    mark.write_text(f"{host} another-start\n")
    assert node.run(archive).stdout == "hello\n"
    mark.write_text("another-host another-start\n")  # a folder that several machines see
    assert node.run(archive).stdout == "hello\n"
    assert node.log() == ["extracted", "extracted", "found"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:20_000],
        lambda content: content[:-1000],
        lambda content: content[:-500_000] + b"x" * 500_000,
        lambda content: content[:16_400] + b"x" + content[16_401:],
    ],
    ids=["cut in the first part", "cut in the second", "changed at the end", "one byte"],
)
def test_a_damaged_archive_says_so(
    node: Node, archive: Path, damage: Callable[[bytes], bytes]
) -> None:
    archive.write_bytes(damage(archive.read_bytes()))
    done = node.run(archive)
    assert done.returncode == 76, done
    assert "is damaged" in done.stderr
    assert left_over(node) == []


def test_what_nobody_has_used_of_late_gives_way(node: Node, tmp_path: Path) -> None:
    keys = ["1" * 20, "2" * 20, "3" * 20]
    for key, seconds in zip(keys, (3000, 4000, 0), strict=True):
        assert node.run(small_archive(tmp_path, key)).stdout == "hello\n"
        age(node, key, seconds)
    assert [(node.cache / key).exists() for key in keys] == [True, False, True]


def test_what_is_in_use_is_never_removed(node: Node, tmp_path: Path) -> None:
    busy, wanted = small_archive(tmp_path, OTHER), small_archive(tmp_path)
    running = node.start(busy, "-c", "import time; time.sleep(60)")
    try:
        wait_for(node.cache, f"{OTHER}/complete")
        time.sleep(0.5)
        age(node, OTHER, 4000)
        assert node.run(wanted).stdout == "hello\n"
        assert (node.cache / OTHER / "share" / "hello").exists()
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    age(node, OTHER, 4000)
    assert node.run(small_archive(tmp_path, "1" * 20)).stdout == "hello\n"
    assert not (node.cache / OTHER).exists()


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--limit", "1GB"], 64, "unknown: --limit"),
        (["--cache", "/dev/null/x"], 77, "cannot make the folder /dev/null/x"),
        (["--cache", "/tmp/a:b"], 77, "no colon"),
    ],
)
def test_what_cannot_be_done_is_said(
    node: Node, archive: Path, options: list[str], status: int, words: str
) -> None:
    node.options = options
    done = node.run(archive)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("size", ["1M", "80M", "400M,nr_inodes=40"])
def test_a_full_scratch_is_said(node: Node, tmp_path: Path, size: str) -> None:
    archive = small_archive(tmp_path, size=60_000_000)
    node.cache.mkdir(mode=0o700)
    mount = f'mount -t tmpfs -o mode=700,size={size} tmpfs "$1" && shift && "$@"; '
    mount += 's=$?; ls -A "$CACHE"; exit $s'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", str(node.cache), *node.command(archive)],
        env={**node.variables, "PATH": os.environ["PATH"], "CACHE": str(node.cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 75, done
    assert f"no room in {node.cache}" in done.stderr
    assert ".boot" not in done.stdout


@pytest.mark.parametrize("how", ["another user's", "that others may write to", "a link"])
def test_what_was_unpacked_by_somebody_else_is_not_started(
    node: Node, archive: Path, tmp_path: Path, how: str
) -> None:
    """The cache is closed now, and was not before."""
    if how == "another user's" and os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN MAKE ANOTHER USER'S FOLDER: not tested here")
    assert node.run(archive).stdout == "hello\n"
    root = node.cache / archive.stem.removeprefix("packed-venv-")
    python = root / "bin/python"
    python.unlink()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    python.chmod(0o755)
    if how == "another user's":
        os.chown(root, 54321, 54321)
    elif how == "a link":
        root.rename(tmp_path / "elsewhere")
        root.symlink_to(tmp_path / "elsewhere")
    else:
        root.chmod(0o777)
    done = node.run(archive)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["KEY.use", "KEY.making", "log"])
def test_no_link_in_a_cache_is_followed(
    node: Node, archive: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    os.utime(tmp_path / "mine.txt", (1, 1))
    node.cache.mkdir(mode=0o700)
    key = archive.stem.removeprefix("packed-venv-")
    (node.cache / name.replace("KEY", key)).symlink_to(tmp_path / "mine.txt")
    done = node.run(archive)
    if name != "log":
        assert done.returncode == 77
        assert "is a link: remove it" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "kept"
    assert (tmp_path / "mine.txt").stat().st_mtime == 1
