"""What goes into an archive: the same content gives the same bytes, another one another key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.contrib.pack import installed
from fasthep_smk.contrib.pack.archive import Parts, write_archive
from fasthep_smk.contrib.pack.contents import VenvContents
from fasthep_smk.contrib.pack.entries import text_entry, walk
from fasthep_smk.contrib.pack.installed import Installed
from fasthep_smk.contrib.pack.snapshot import own_entries
from fasthep_smk.util.errors import Findings

HOSTILE = ["a b", "-rf", "$(touch canary)", "'\"", "new\nline", "é", "x" * 180, "*", "\\"]


def make_tree(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / "deep" / name).mkdir(parents=True)
        (folder / "deep" / name / name).write_text(name)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("run")
    (folder / "away").symlink_to(sys.executable)
    (folder / "broken").symlink_to("nowhere")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("")
    (folder / ".libs").mkdir()
    (folder / ".libs" / "lib.so").write_text("kept")
    return folder


def archive_of(tree: Path, path: Path) -> bytes:
    entries = tuple(walk(tree, "lib/tree"))
    write_archive(Parts("packed-venv", "k" * 20, "x86_64", entries, entries), path)
    return path.read_bytes()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    one = make_tree(tmp_path / "one", HOSTILE)
    other = make_tree(tmp_path / "else" / "other", HOSTILE[::-1])
    for path in other.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (1, 1))
            path.chmod(path.stat().st_mode & 0o700)
    packed = archive_of(one, tmp_path / "1.run")
    assert packed == archive_of(other, tmp_path / "2.run")
    (other / "run").chmod(0o644)
    assert packed != archive_of(other, tmp_path / "3.run")


def test_names_links_and_modes_survive(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", HOSTILE)
    packed = archive_of(tree, tmp_path / "a.run")
    start, size = (
        int(packed.split(f"\n{name}=".encode(), 1)[1].split(b"\n", 1)[0])
        for name in ("START", "FIRST")
    )
    subprocess.run(
        ["tar", "-xzf", "-", "-C", str(tmp_path)], input=packed[start : start + size], check=True
    )
    found = tmp_path / "lib" / "tree"
    for name in HOSTILE:
        assert (found / "deep" / name / name).read_text() == name
    assert (found / "link").readlink() == Path("run")
    assert os.access(found / "run", os.X_OK)
    assert (found / "away").is_file()
    assert not (found / "away").is_symlink()
    assert (found / ".libs" / "lib.so").read_text() == "kept"
    assert not (found / "__pycache__").exists()
    assert not (found / "broken").is_symlink()


def distribution(site: Path, name: str, record: str, **files: str) -> Path:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(record)
    for file, text in files.items():
        (info / file.replace("__", ".")).write_text(text)
    return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of packages: one package, with a script."""
    folder = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "one").mkdir()
    (folder / "one" / "__init__.py").write_text("x = 1\n")
    record = "one/__init__.py,sha256=abc,6\n../../../bin/one,sha256=def,9\n"
    record += "one-1.0.dist-info/INSTALLER,sha256=ghi,4\none-1.0.dist-info/RECORD,,\n"
    distribution(folder, "one", record, INSTALLER="pip\n")
    keep = [path for path in sys.path if "-packages" not in path]
    monkeypatch.setattr(sys, "path", [*keep, str(folder)])
    return folder


def facts(found: Installed) -> tuple[Any, ...]:
    return found.facts, found.loose(), [(item.target, item.read()) for item in found.entries("s")]


def test_a_package_is_known_by_its_record_and_not_by_its_history(site: Path) -> None:
    before = facts(installed.look())
    (site / "one-1.0.dist-info" / "INSTALLER").write_text("uv\n")
    record = site / "one-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "one/__pycache__/x.pyc,,\n../../../bin/one,sha256=z,1\n")
    assert facts(installed.look()) == before
    record.write_text(record.read_text().replace("abc", "abd"))
    assert facts(installed.look()) != before


def test_a_module_that_nobody_installed_counts_by_its_content(site: Path) -> None:
    before = facts(installed.look())
    (site / "loose.py").write_text("x = 1\n")
    with_it = facts(installed.look())
    assert with_it != before
    (site / "loose.py").write_text("x = 2\n")
    assert facts(installed.look()) not in (before, with_it)


@pytest.mark.parametrize(
    "head",
    [
        "#!{0}/python3\n",
        "#!{0}/python3.11 -sE\n",
        "#!/bin/sh\n'''exec' \"{0}/python\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_scripts_start_the_python_beside_them(site: Path, head: str) -> None:
    prefix = site.parents[2]
    (prefix / "bin").mkdir()
    text = "import sys\nprint(sys.argv[1:])\n"
    (prefix / "bin" / "one").write_text(head.format(prefix / "bin") + text)
    (entry,) = installed.look().others(prefix)
    assert str(prefix).encode() not in entry.read()
    moved = prefix / "moved to"
    moved.mkdir()
    (moved / "one").write_bytes(entry.read())
    (moved / "one").chmod(0o755)
    (moved / "python").symlink_to(sys.executable)
    done = subprocess.run([moved / "one", "a b"], capture_output=True, text=True)
    assert done.stdout == "['a b']\n"


def test_files_that_packages_put_elsewhere_come_along(site: Path) -> None:
    prefix = site.parents[2]
    record = site / "one-1.0.dist-info" / "RECORD"
    for name in ("share/one/a b.txt", "lib/libone.so", "include/one.h", "share/not_ours"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(name)
        if name != "share/not_ours":
            record.write_text(record.read_text() + f"../../../{name},sha256=x,1\n")
    found = [entry.target for entry in installed.look().others(prefix)]
    assert found == ["lib/libone.so", "share/one/a b.txt"]


def test_folders_of_this_machine_are_taken_out_of_pth_files(site: Path) -> None:
    (site / "some.pth").write_text(f"{site.parent}\nimport sys\nrelative\n")
    (site / "only.pth").write_text(f"{site.parent}\n")
    found = {entry.target: entry for entry in installed.look().entries("s")}
    assert found["s/some.pth"].read() == b"import sys\nrelative\n"
    assert "s/only.pth" not in found
    assert "s/one/__init__.py" in found


def project(folder: Path, name: str) -> Path:
    for path, text in {
        f"{name}/__init__.py": "",
        f"{name}/data.csv": "1",
        f"{name}/.git/config": "",
        "tests/__init__.py": "",
        "pyproject.toml": "",
        "setup.py": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def editable(site: Path, name: str, how: str, text: str) -> None:
    (site / how).write_text(text)
    origin = '{"url": "file:///x", "dir_info": {"editable": true}}'
    distribution(site, name, f"{how},,\n", direct_url__json=origin)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("_editable_impl_my_tool.pth", "{0}\n"),
        (
            "__editable___my_tool_1_0_finder.py",
            "MAPPING: dict[str, str] = {{'my_tool': '{0}/my_tool'}}\n",
        ),
    ],
)
def test_an_editable_install_is_packed_as_it_is_now(
    site: Path, tmp_path: Path, how: str, text: str
) -> None:
    source = project(tmp_path / "source", "my_tool")
    editable(site, "my-tool", how, text.format(source))
    found = installed.look()
    own = own_entries([], found.editable, "s")
    assert {entry.target for entry in own["my_tool"]} == {
        "s/my_tool/__init__.py",
        "s/my_tool/data.csv",
    }
    packed = {entry.target for entry in found.entries("s", own)}
    assert not [target for target in packed if how in target or target.endswith("direct_url.json")]
    assert "s/my_tool-1.0.dist-info/METADATA".replace("_tool-", "-tool-") in packed


def test_an_editable_install_of_another_kind_is_refused(site: Path) -> None:
    editable(site, "odd", "odd.txt", "")
    with pytest.raises(Findings, match="cannot be packed"):
        installed.look()


def test_modules_of_an_analysis_are_packed_with_what_they_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in {
        "zz_ops.py": "import zz_help, os, numpy\nfrom zz_package.part import x\n",
        "zz_help.py": "",
        "zz_other.py": "",
        "zz_package/__init__.py": "",
        "zz_package/part.py": "x = 1\n",
        "zz_package/table.csv": "1",
        "zz_package/build/smk/tasks/a.json": "",
        "zz_spread/mod.py": "",
        "zz_spread/data.root": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = own_entries(["zz_ops", "zz_spread.mod", "numpy.linalg", "json"], {}, "s")
    assert {entry.target for group in own.values() for entry in group} == {
        "s/zz_ops.py",
        "s/zz_help.py",
        "s/zz_package/__init__.py",
        "s/zz_package/part.py",
        "s/zz_package/table.csv",
        "s/zz_spread/mod.py",
    }


def test_a_package_with_results_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zz_large").mkdir()
    (tmp_path / "zz_large" / "__init__.py").write_text("")
    with (tmp_path / "zz_large" / "events.root").open("wb") as file:
        file.truncate(600_000_000)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Findings, match=r"zz_large(.|\n)*events.root"):
        own_entries(["zz_large"], {}, "s")


def test_the_key_is_that_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "zz_key.py").write_text("x = 1\n")

    def key() -> str:
        return VenvContents("packed-venv", ("zz_key",)).key

    first = key()
    assert len(first) == 20
    assert first == key()
    (tmp_path / "zz_key.py").write_text("x = 2\n")
    assert key() != first
    (tmp_path / "zz_key.py").write_text("x = 1\n")
    assert key() == first
    assert VenvContents("packed-venv", ()).key != first


def test_the_last_of_two_entries_with_one_name_does_not_count(tmp_path: Path) -> None:
    entries = (text_entry("a", "first"), text_entry("a", "second"))
    write_archive(Parts("t", "k", "m", (), entries), tmp_path / "one")
    write_archive(Parts("t", "k", "m", (), entries[:1]), tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
