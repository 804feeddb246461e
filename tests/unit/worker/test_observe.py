"""Which reads of a user's own code are noted, and which of its libraries are not."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fasthep_smk.flow import op_identity
from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.storage.observed import Observation, Surroundings
from fasthep_smk.worker import observe
from fasthep_smk.worker.observe import Observer, observing

#: A library: it reads what it is told, and a configuration of its own.
LIBRARY = """
from pathlib import Path

def load(path):
    configured()
    return Path(path).read_text()

def configured():
    return (Path(__file__).parents[2] / "library.conf").read_text()

class Later:
    def __init__(self, path):
        self.path = path

    def load(self):
        return open(self.path).read()

def all_below(folder):
    return [path.read_text() for path in sorted(Path(folder).iterdir())]
"""
Reads = Callable[[str], list[Observation]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with files, and a library in its ``site-packages``."""
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    for name in (
        "token", "bt_u1000", "sf.json", "sub/a.json", "sub/b.json", "sub/m.py", "library.conf",
        "lib/site-packages/x", "smk_package/d.txt", "smk_package/sub/e.txt",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in ("sub/m.py", "smk_package/__init__.py", "smk_package/sub/__init__.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "lib/site-packages/smk_library.py").write_text(LIBRARY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lib/site-packages"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("smk_library", "smk_own", "smk_helper", "smk_package", "smk_package.sub"):
        sys.modules.pop(name, None)
    op_identity.forget()


@pytest.fixture
def reads(folder: Path) -> Reads:
    """Run a text as the user's own module; return what was observed."""

    def reads(source: str) -> list[Observation]:
        (folder / "smk_own.py").write_text(source)
        op_identity.forget()
        observer = Observer(
            folder / "build",
            Surroundings(folder, {"SMK_TEST": "digest"}),
            files=NamedFiles([folder], ["sub/b.json"]),
            operation=lambda: "my.op",
            named=[(text, str(path)) for text, path in op_identity.named_texts("smk_own")],
        )
        with observing(observer):
            importlib.import_module("smk_own")
        found, changed = observer.observations()
        assert changed == []
        return found

    return reads


def names(found: list[Observation], kind: str = "file") -> list[str]:
    return sorted(one.name for one in found if one.kind == kind)


@pytest.mark.parametrize(
    ("source", "noted"),
    [
        ("open('sf.json').read()", ["sf.json"]),
        ("from pathlib import Path; Path('sf.json').read_text()", ["sf.json"]),
        ("import smk_library; smk_library.load('sf.json')", ["sf.json"]),
        ("import smk_library, pathlib; smk_library.load(pathlib.Path('sf.json'))", ["sf.json"]),
        ("import smk_library; smk_library.Later('sf.json').load()", ["sf.json"]),
        ("import smk_library; smk_library.configured()", []),
        ("import smk_library; smk_library.all_below('sub')", ["sub", "sub/a.json", "sub/m.py"]),
        ("import os; os.listdir('sub')", ["sub"]),
        ("import glob; glob.glob('sub/*.json')", ["sub"]),
        ("import json, pathlib; pathlib.Path('x.txt').write_text('1'); open('x.txt').read()", []),
        ("import os\ntry: open('none.json')\nexcept OSError: pass", ["none.json"]),
        ("open('/proc/self/status').read()", []),
        ("open('sub/b.json').read()", []),  # it is ignored
        ("open('token').read(); open('bt_u1000').read()", []),  # they are renewed all the time
        ("exec(compile('open(\"sf.json\").read()', '<made>', 'exec'))", ["sf.json"]),
        ("exec('open(\"sf.json\").read()', {})", ["sf.json"]),
        ("import os; os.makedirs('sub', exist_ok=True); os.listdir('sub')", ["sub"]),
        ("open('sf.json', 'r+').read()", ["sf.json"]),
        ("open('sf.json', 'r+').write('other')", []),
        ("open('sf.json').read(); open('sf.json', 'w').write('other')", []),
        ("try: open('c.txt')\nexcept OSError: open('c.txt', 'w').write('made')", []),
        ("import os\nos.mkdir('m')\nos.system('echo 1 > m/x')\nopen('m/x').read()", []),
        ("import os; os.path.getsize('sf.json'); NAME = '~/none.json'", ["sf.json", "~/none.json"]),
        # --- Python's own ways to read what lies beside modules ---
        ("import pkgutil; pkgutil.get_data('smk_package', 'd' + '.txt')", ["smk_package/d.txt"]),
        (
            "import importlib.resources as r\n"
            "r.open_binary('smk_package' + '.sub', 'e' + '.txt').read()",
            ["smk_package/sub/e.txt"],
        ),
        (
            "import importlib.util as u\ns = u.spec_from_file_location('x', 'sub/' + 'm' + '.py')\n"
            "s.loader.exec_module(u.module_from_spec(s))",
            ["sub/m.py"],
        ),
        # --- other programs ---
        ("import subprocess; subprocess.run('cat sf' + '.json', shell=True)", ["sf.json"]),
        ("import subprocess; subprocess.run(['cat', 'a' + '.json'], cwd='sub')", ["sub/a.json"]),
        ("import subprocess; subprocess.run(['true', '--file=sf' + '.json'])", ["sf.json"]),
        ("import os; os.popen('cat sf' + '.json').read()", ["sf.json"]),
    ],
)
def test_a_file_is_noted_if_own_code_asked_for_it(
    reads: Reads, source: str, noted: list[str]
) -> None:
    assert names(reads(source)) == noted


def test_a_folder_is_looked_at_once(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    known = observe.file_identity

    def look(path: str) -> str | None:
        looked_at.append(path)
        return known(path)

    monkeypatch.setattr(observe, "file_identity", look)
    assert names(reads("import os; os.listdir('sub')")) == ["sub"]
    assert len(looked_at) == 3, "when it is listed, and twice at the end: changed, and to what"


def test_a_file_says_who_read_it_and_what_it_was(reads: Reads, folder: Path) -> None:
    found = [one for one in reads("open('sf.json').read()") if one.kind == "file"]
    assert [(one.by, one.name) for one in found] == [("my.op", "sf.json")]
    assert found[0].identity == Surroundings(folder, {}).identity(found[0])
    (folder / "sf.json").write_text("other")
    assert found[0].identity != Surroundings(folder, {}).identity(found[0])


@pytest.mark.parametrize(
    ("source", "noted"),
    [
        ("import os; os.environ['SMK_TEST']", ["SMK_TEST"]),
        ("import os; os.environ.get('SMK_TEST')", ["SMK_TEST"]),
        ("import os; 'SMK_TEST' in os.environ", ["SMK_TEST"]),
        ("import os; os.getenv('SMK_NONE')", ["SMK_NONE"]),
        ("import os; os.path.expandvars('$SMK_TEST/x')", ["SMK_TEST"]),
        ("import os; os.environ['HOME'], os.environ.get('TERM')", []),
        ("import os; os.path.expanduser('~/x')", []),
        ("import os; dict(os.environ); {**os.environ}; os.environ.copy()", []),
        ("import os; [v for v in os.environ.values()]; list(os.environ.items())", []),
    ],
)
def test_a_variable_is_noted_if_own_code_asked_for_it(
    reads: Reads, monkeypatch: pytest.MonkeyPatch, source: str, noted: list[str]
) -> None:
    monkeypatch.setenv("SMK_TEST", "secret")
    found = reads(source)
    assert names(found, "variable") == noted
    assert "secret" not in repr(found)


def test_modules_and_libraries_are_noted(reads: Reads, folder: Path) -> None:
    (folder / "smk_helper.py").write_text("import smk_library\n")
    found = reads("import json, smk_helper\n")
    assert names(found, "module") == ["smk_helper", "smk_own"]
    assert names(found, "package") == ["smk_library"]
    by = {one.name: one.by for one in found}
    assert by["smk_helper"] == "smk_own"


def test_a_module_that_a_library_has_under_another_name_is_of_the_library(
    reads: Reads, folder: Path
) -> None:
    package = folder / "lib/site-packages/smk_aliased"
    package.mkdir()
    (package / "part.py").write_text("")
    (package / "__init__.py").write_text(
        "import importlib.util as u, pathlib, sys\n"
        "s = u.spec_from_file_location('_smk_part', pathlib.Path(__file__).parent / 'part.py')\n"
        "sys.modules['_smk_part'] = u.module_from_spec(s)\n"
    )
    found = reads("import smk_aliased")
    for name in ("smk_aliased", "_smk_part"):
        sys.modules.pop(name)
    op_identity.forget()
    packages = [one for one in found if one.kind == "package"]
    assert [one.name for one in packages] == ["smk_aliased"]
    assert Surroundings(folder, {}).identity(packages[0]) == packages[0].identity


def test_a_stale_compiled_file_is_not_trusted(reads: Reads, folder: Path) -> None:
    helper = folder / "smk_helper.py"
    helper.write_text("open('sf.json').read()    \n")
    os.utime(helper, (2_000_000_000, 2_000_000_000))
    import py_compile

    py_compile.compile(str(helper), doraise=True)
    helper.write_text("open('sub/a.json').read() \n")  # as long, within the same second
    os.utime(helper, (2_000_000_000, 2_000_000_000))
    assert names(reads("import smk_helper")) == ["sub/a.json"]


def test_a_compiled_file_is_not_trusted_if_the_source_got_its_old_time_back(
    reads: Reads, folder: Path
) -> None:
    import py_compile

    helper = folder / "smk_helper.py"
    helper.write_text("open('sf.json').read()    \n")
    os.utime(helper, (1_600_000_000, 1_600_000_000))
    py_compile.compile(str(helper), doraise=True)
    helper.write_text("open('sub/a.json').read() \n")
    os.utime(helper, (1_600_000_000, 1_600_000_000))
    assert names(reads("import smk_helper")) == ["sub/a.json"]


def test_a_constant_may_name_a_file_below_the_home_folder(
    reads: Reads, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "home").mkdir()
    (folder / "home/m.onnx").write_text("1")
    monkeypatch.setenv("HOME", str(folder / "home"))
    found = [one for one in reads("NAME = '~/m.onnx'") if one.kind == "file"]
    assert [Surroundings(folder, {}).identity(one) == one.identity for one in found] == [True]


def test_a_folder_named_as_the_home_folder_is_another_one(folder: Path) -> None:
    surroundings = Surroundings(folder, {})
    assert Path(surroundings.path_of(surroundings.name_of(f"{folder}/~/x"))) == folder / "~/x"


def test_a_module_in_a_zip_file_is_noted(reads: Reads, folder: Path) -> None:
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.writestr("smk_zipped.py", "F = 1\n")
    found = reads("import sys; sys.path.insert(0, 'z.zip')\nimport smk_zipped")
    sys.path.remove("z.zip")
    sys.modules.pop("smk_zipped")
    one = next(one for one in found if one.name == "smk_zipped")
    assert one.identity == Surroundings(folder, {}).identity(one)
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.writestr("smk_zipped.py", "F = 2\n")
    assert one.identity != Surroundings(folder, {}).identity(one)


def test_threads_and_forked_processes_are_seen(reads: Reads) -> None:
    in_a_thread = (
        "from concurrent.futures import ThreadPoolExecutor\nimport smk_library\n"
        "ThreadPoolExecutor(1).submit(smk_library.load, 'sf.json').result()\n"
    )
    assert names(reads(in_a_thread)) == ["sf.json"]
    sys.modules.pop("smk_own")
    forked = (
        "import os\nif os.fork() == 0:\n    open('sf.json').read()\n    os._exit(0)\nos.wait()\n"
    )
    assert names(reads(forked)) == ["sf.json"]


def test_a_file_that_changes_while_it_is_read_is_told(folder: Path) -> None:
    observer = Observer(
        folder / "build", Surroundings(folder, {}), files=NamedFiles([folder]),
        operation=lambda: "my.op",
    )  # fmt: skip
    (folder / "smk_own.py").write_text("open('sf.json').read()")
    with observing(observer):
        importlib.import_module("smk_own")
    (folder / "sf.json").write_text("edited meanwhile")
    found, changed = observer.observations()
    assert names(found) == []
    assert changed == [str(folder / "sf.json")]
