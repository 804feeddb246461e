"""Which file a name means: FAST-HEP's own reader decides."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import uproot
from fasthep_carpenter.sources.root_tree import run_root_tree_source

from fasthep_smk.storage.inputs import identity_of
from fasthep_smk.util.remote import ask, is_remote, local_path, same_file, within

#: Names of files in the current folder, HERE; FAST-HEP opens those of the first only.
READ = [
    *("a.root", "./a.root", "HERE/a.root", "HERE/../HERE_NAME/a.root", "two words é.root"),
    *("file:a.root", "file://a.root", "file:///HERE/a.root", "file:HERE/a.root", "local:a.root"),
    *("file://HERE/a.root ", " file://HERE/a.root", "file://HERE/two words é.root"),
    *("run:1.root", "file:run:1.root", "simplecache::file://HERE/a.root", "simplecache::a.root"),
    *("d.root:one", "file://HERE/d.root:/one/", "d.root:two"),
]
NOT_READ = [
    *("a.root ", " a.root", "FILE:a.root", "FILE://HERE/a.root", "file://localhostHERE/a.root"),
    *("file://HERE/two%20words%20é.root", "a.root:", "HERE/d.root:one", "file://HERE/*.root"),
    *("file://HERE/a.root?x=1", "a.root:Events", "~/a.root"),
]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("a.root", "two words é.root", "run:1.root"), start=1):
        with uproot.recreate(tmp_path / name) as file:
            file.mktree("Events", {"x": "f8"}).extend({"x": np.arange(float(number))})
    with uproot.recreate("d.root") as file:
        for number, name in enumerate(("one/Events", "two/Events"), start=5):
            file.mktree(name, {"x": "f8"}).extend({"x": np.arange(float(number))})
    return tmp_path


def spelt(name: str, folder: Path) -> str:
    return name.replace("HERE_NAME", folder.name).replace("HERE", str(folder))


def read(name: str) -> int:
    """Return how many events FAST-HEP reads from a file."""
    found = run_root_tree_source(datasets=[{"name": "d", "files": [name]}], tree="Events")
    return len(found["d"])  # type: ignore[arg-type,index]


@pytest.mark.parametrize("name", READ)
def test_the_file_that_fasthep_opens(name: str, in_folder: Path) -> None:
    name = spelt(name, in_folder)
    path = local_path(name)
    assert path is not None
    with uproot.open(Path(path)) as file:
        held = file[within(name)] if within(name) else file
        assert held["Events"].num_entries == read(name)


@pytest.mark.parametrize("name", NOT_READ)
def test_a_name_that_fasthep_does_not_read_means_no_file(name: str, in_folder: Path) -> None:
    name = spelt(name, in_folder)
    with pytest.raises((OSError, KeyError, ValueError)):
        read(name)
    path = local_path(name)
    assert path is None or not Path(path).exists() or within(name)


def test_names_are_of_one_file_if_they_are_read_as_one(in_folder: Path) -> None:
    """The files differ by their numbers of events."""
    for first, second in itertools.combinations([spelt(one, in_folder) for one in READ], 2):
        assert (same_file(first) == same_file(second)) == (read(first) == read(second))


@pytest.mark.parametrize(
    "names",
    [
        [
            *("root://host.org//eos/a.root", "root://host.org/eos/a.root", "root://HOST.org:1094//eos/a.root"),
            *("root://me@host.org//eos//a.root", "root://host.org.//eos/b/../a.root"),
            *("root://host.org//eos/a.root?svcClass=x", "simplecache::root://host.org//eos/a.root"),
            *("xroot://host.org//eos/a.root", "roots://host.org//eos/./a.root"),
        ],
        [
            *("https://host.org/a b.root", "https://Host.org:443/a%20b.root", "http://host.org:80/a%20b.root"),
            *("https://me@host.org//a%20b.root", "https://host.org/a%20b.root#x"),
        ],
        ["https://host.org/get?id=5"],
        ["https://host.org/get?id=6"],
        ["https://host.org:1094/eos/a.root"],
        ["root://host.org:1095//eos/a.root"],
        ["root://other.org//eos/a.root"],
        ["root://host.org//eos/A.root"],
        ["root://host.org//eos/a.root:folder", "root://host.org/eos/a.root:/folder/"],
        ["root://[::1//eos/a.root"],
        ["s3://bucket/a.root"],
    ],
    ids=lambda names: names[0],
)  # fmt: skip
def test_spellings_of_one_url(names: list[str]) -> None:
    assert all(map(is_remote, names))
    assert len(set(map(same_file, names))) == 1
    others = ["root://host.org//eos/b.root", "https://host.org/b.root"]
    assert same_file(names[0]) not in map(same_file, others)


@pytest.mark.parametrize("name", ["a.root", "file://HERE/a.root", "d.root:one", "file:d.root:one"])
def test_a_file_that_was_replaced_is_another_one(name: str, in_folder: Path) -> None:
    name = spelt(name, in_folder)
    before = identity_of(name, in_folder)
    path = in_folder / str(local_path(name))
    path.write_bytes(path.read_bytes() + b" ")
    assert identity_of(name, in_folder) != before


def test_of_files_of_this_machine_no_server_is_asked(in_folder: Path) -> None:
    assert ask([(in_folder / "a.root").as_uri(), "own://somewhere"]) == {}
