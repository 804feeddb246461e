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

class Chained(Later):
    def load(self):
        return open(self.path.partition("::")[2]).read()

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
        ("open('sf.json', 'a+').read()", ["sf.json"]),
        ("open('sf.json', 'w+').read()", []),
        ("open('new.txt', 'a+').write('made')", []),
        ("import os; os.truncate('sf.json', 2); open('sf.json').read()", []),
        ("import os; open('sf.json').read(); os.remove('sf.json')", []),
        ("import io; io.open_code('sf.json').read()", ["sf.json"]),
        ("import os; os.chdir('sub'); open('a' + '.json').read(); os.chdir('..')", ["sub/a.json"]),
        ("import fileinput; list(fileinput.input(['sf' + '.json']))", ["sf.json"]),
        ("import linecache; linecache.getline('sf' + '.json', 1)", ["sf.json"]),
        ("import mmap; s = open('sf.json', 'r+b'); mmap.mmap(s.fileno(), 0)[:]", ["sf.json"]),
        # --- by another name ---
        ("import os; os.symlink('sf.json', 'l'); open('l').read()", ["sf.json"]),
        ("import os; os.link('sf.json', 'l'); open('l').read()", ["sf.json"]),
        ("import os; os.symlink('sub', 'l'); open('l/a.json').read()", ["sub/a.json"]),
        ("import os; os.symlink('sub', 'l'); os.listdir('l')", ["sub"]),
        (
            "import os; os.symlink('sf.json', 'l'); os.symlink('l', 'm'); open('m').read()",
            ["sf.json"],
        ),
        (
            "import os; os.mkdir('m'); os.symlink('../sf' + '.json', 'm/l'); open('m/l').read()",
            ["sf.json"],
        ),
        ("import os, smk_library; os.symlink('sf.json', 'l'); smk_library.load('l')", ["sf.json"]),
        ("import os; open('x', 'w').write('1'); os.symlink('x', 'l'); open('l').read()", []),
        (
            "import os\ntry: os.symlink('sf' + '.json', 'token')\nexcept OSError: pass\n"
            "open('sub/a.json').read()",
            ["sub/a.json"],
        ),
        (
            "import os; os.rename('sf.json', 'b'); open('b').read(); os.rename('b', 'sf.json')",
            ["sf.json"],
        ),
        (
            "import os; os.replace('sub', 'b'); open('b/a' + '.json'); os.rename('b', 'sub')",
            ["sub/a.json"],
        ),
        ("import shutil; shutil.move('sf.json', 'b'); open('b').read()", []),
        ("import os; open('x', 'w').write('1'); os.replace('x', 'sf.json'); open('sf.json')", []),
        ("import os; open('x', 'w').write('1'); os.rename('x', 'y'); open('y').read()", []),
        ("import shutil; shutil.copy('sf.json', 'copy'); open('copy').read()", ["sf.json"]),
        (
            "import shutil; shutil.copytree('sub', 'copy'); open('copy/a.json').read()",
            ["sub", "sub/a.json", "sub/m.py"],
        ),
        (
            "import tempfile; tempfile.tempdir = '.'\nwith tempfile.NamedTemporaryFile() as s:\n"
            "    s.write(open('sf.json', 'rb').read())\ntempfile.tempdir = None",
            ["sf.json"],
        ),
        ("import tempfile; tempfile.TemporaryFile(dir='.').write(b'1')", []),
        (
            "import os, tempfile\nwith tempfile.TemporaryDirectory() as f:\n"
            "    os.symlink(os.path.abspath('sub'), f + '/l'); open(f + '/l/a' + '.json')",
            ["sub/a.json"],
        ),
        (
            "import os; os.symlink('sub', 'l'); os.remove('l/a' + '.json'); open('l/m' + '.py')",
            ["sub/m.py"],
        ),
        # --- by the descriptor of a folder ---
        (
            "import os; f = os.open('sub', os.O_RDONLY); os.open('a' + '.json', 0, dir_fd=f)",
            ["sub", "sub/a.json"],
        ),
        (
            "import os; f = os.open('sub', os.O_RDONLY); os.open('n', os.O_CREAT | os.O_WRONLY,"
            " dir_fd=f); open('sub/n').read()",
            [],
        ),
        ("import os; f = os.open('sub', os.O_RDONLY); os.listdir(f); os.scandir(f)", ["sub"]),
        (
            "import os; f = os.open('sub', os.O_PATH); open(f'/proc/self/fd/{f}/a' + '.json')",
            ["sub", "sub/a.json"],
        ),
        ("import os; list(os.fwalk('sub'))", ["sub"]),
        ("import os; r, w = os.pipe(); open(w, 'w').close(); open(r).read()", []),
        # --- databases ---
        ("import sqlite3; sqlite3.connect('file:sf.json?mode=ro', uri=True)", ["sf.json"]),
        ("import sqlite3; sqlite3.connect('file:s%66.json', uri=True)", ["sf.json"]),
        (
            "import os, sqlite3; sqlite3.connect('file://' + os.path.abspath('sf.json') +"
            " '?mode=rwc', uri=True)",
            ["sf.json"],
        ),
        ("import sqlite3; sqlite3.connect(':memory:').execute('select 1')", []),
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
        (
            "import smk_library\ntry: smk_library.Chained('zip://b::sf' + '.json').load()\n"
            "except OSError: pass",
            ["sf.json"],
        ),
        # --- other programs ---
        ("import subprocess; subprocess.run('cat sf' + '.json', shell=True)", ["sf.json"]),
        ("import subprocess; subprocess.run(['cat', 'a' + '.json'], cwd='sub')", ["sub/a.json"]),
        ("import subprocess; subprocess.run(['true', '--file=sf' + '.json'])", ["sf.json"]),
        ("import os; os.popen('cat sf' + '.json').read()", ["sf.json"]),
        ("import os; os.system('cat sub/*.js' + 'on')", ["sub", "sub/a.json"]),
        ("import os; os.system('cat sub/[a-c].{js' + 'on,txt}')", ["sub", "sub/a.json"]),
        ("import os; os.system('cat sub/none*')", ["sub"]),
        ("import os; os.system('cat s*.js' + 'on')", [".", "sf.json"]),
        ("import os; os.system('cd sub && cat a' + '.json')", ["sub", "sub/a.json", "sub/m.py"]),
        ("import os; os.system('cat sf$SMK_SUFFIX; cat sf.$(echo js' + 'on)')", []),
        (
            "import subprocess as s; s.run('cat sf$X', shell=True, env={'X': '.js' + 'on'})",
            ["sf.json"],
        ),
        ("import subprocess; subprocess.run(['sh', '-c', 'cat \"sf' + '.json\"'])", ["sf.json"]),
        ("import subprocess; subprocess.run(['true', '@sf' + '.json'])", ["sf.json"]),
        ("import subprocess; subprocess.run(['true', 'a=1,f=sf' + '.json:key'])", ["sf.json"]),
        (
            "import subprocess; subprocess.run(['true', '-r', 'sub'])",
            ["sub", "sub/a.json", "sub/m.py"],
        ),
        ("import subprocess; subprocess.run(['ls', '.'])", []),
        ("import subprocess; subprocess.run(['echo', 'select * from t', '{}', '5/[0-9]'])", []),
        ("import os; os.system('echo $((2 * 3)) | grep -E \"[0-9]+/[0-9]+|.*\"')", []),
        ("import os; os.system(\"awk '{print $1 * $2}' sf.js\" + 'on')", ["sf.json"]),
        ("import os; os.system('cat sub/[!z]*')", ["sub", "sub/a.json", "sub/m.py"]),
        ("import subprocess; subprocess.run(['echo', 'sub/*.js' + 'on'])", ["sub", "sub/a.json"]),
        (
            "import subprocess; subprocess.run('cat *', shell=True, cwd='sub')",
            ["sub", "sub/a.json", "sub/m.py"],
        ),
        ("import os; os.system('cat \"$PWD\"/sf' + '.json')", ["sf.json"]),
        ("import os; os.link('sf' + '.json', 'a b'); os.system('cat \"a b\"')", ["sf.json"]),
        ("import os, shutil; os.link('sf' + '.json', 'h'); shutil.copy('h', 'k')", ["sf.json"]),
        ("import subprocess; subprocess.run(['cat'], stdin=open('sf' + '.json'))", ["sf.json"]),
        ("import os; os.spawnvp(os.P_WAIT, 'cat', ['cat', 'sf' + '.json'])", ["sf.json"]),
        (
            "import os; os.waitpid(os.posix_spawn('/bin/true', ['true', 'sf' + '.json'], {}), 0)",
            ["sf.json"],
        ),
        (
            "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec("
            "'cat', 'sf' + '.json')\n    await p.wait()\nasyncio.run(f())",
            ["sf.json"],
        ),
        (
            "import subprocess; subprocess.run('cp sf.j* copy', shell=True); open('copy').read()",
            ["copy", "sf.json"],
        ),
    ],
)
def test_a_file_is_noted_if_own_code_asked_for_it(
    reads: Reads, source: str, noted: list[str]
) -> None:
    assert names(reads(source)) == noted


#: As the table of ``docs/reruns.md`` says: Python tells nobody, or it would be told too often.
UNNOTICED = [
    "import os; os.path.exists('sf' + '.json'), os.path.getsize('sf' + '.json')",
    "import os, pathlib; pathlib.Path('sf' + '.json').stat(), os.access('sf' + '.json', os.R_OK)",
    "import os; os.readlink('link' + '.json')",
    "import sqlite3\ntry: sqlite3.connect(':memory:').execute('attach \"sf' + '.json\" as other')\n"
    "except sqlite3.DatabaseError: pass",
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'open(\"s\" \"f.json\")'])",
    "import os, subprocess\nos.environ['PATH'] += f':{os.getcwd()}/sub'\n"
    "subprocess.run(['sf' + '.sh'])",
    "import linecache, multiprocessing\nwith multiprocessing.get_context('spawn').Pool(1) as p:\n"
    "    p.map(linecache.getlines, ['sf' + '.json'])",
    "s = open('sf' + '.json', 'r+'); s.read(); s.write('more'); s.close()",
    "import os; os.rename('sf' + '.json', 'b'); open('b').read()",
    "import os; dict(os.environ)['SMK_TEST'], os.environ.copy()['SMK_TEST']",
    "import os; [name for name in {**os.environ} if name.startswith('SMK_')]",
    "import os; os.environ['HOME'], os.environ['X509_USER_PROXY'], os.environ['SLURM_JOB_ID']",
]


@pytest.mark.parametrize("source", UNNOTICED)
def test_what_is_not_noticed(
    reads: Reads, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Of each, a row of the table says what to do instead."""
    for name in ("SMK_TEST", "X509_USER_PROXY", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    (folder / "link.json").symlink_to("sf.json")
    (folder / "sub/sf.sh").write_text("#!/bin/sh\n")
    (folder / "sub/sf.sh").chmod(0o755)
    found = reads(source)
    assert not {"sf.json", "link.json", "sub/sf.sh"} & set(names(found))
    assert names(found, "variable") == []


def test_a_folder_is_looked_at_once(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    known = observe.file_identity

    def look(path: str) -> str | None:
        looked_at.append(path)
        return known(path)

    monkeypatch.setattr(observe, "file_identity", look)
    assert names(reads("import os; os.listdir('sub')")) == ["sub"]
    assert len(looked_at) == 3, "when it is listed, and twice at the end: changed, and to what"


@pytest.mark.parametrize(
    ("source", "noted"),
    [
        ("open('sub/a' + '.json').read()", ["smk_own:sub/a.json"]),
        (
            "open('sub/a' + '.json').read()  # ctx['workflow_path']",
            [":sub/a.json", "smk_own:sub/a.json"],
        ),
        ("open('/etc/host' + 's').read()", []),
    ],
)
def test_a_file_is_noted_by_the_way_to_it_too(reads: Reads, source: str, noted: list[str]) -> None:
    assert names(reads(source), "near") == noted


@pytest.mark.parametrize("text", ["'sub/b.json'", "'sub/b' + '.json'"])
def test_a_pattern_that_a_file_is_ignored_by_is_noted(reads: Reads, text: str) -> None:
    found = reads(f"NAME = {text}\nopen(NAME).read()")
    assert (names(found), names(found, "ignored")) == ([], ["sub/b.json"])


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
        ("import os; dict(os.environ.items()); x = {}; x.update(os.environ)", []),
        ("import os, subprocess; subprocess.run('true', env=dict(os.environ, X='1'))", []),
        ("import os; [v for v in os.environ.values()]", ["*"]),
        ("import os; list(os.environ.items())", ["*"]),
        ("import os; {k: v for k, v in os.environ.items() if k.startswith('SMK_')}", ["*"]),
        (
            "import os\nfor k in os.environ:\n    if k == 'SMK_TEST': os.environ[k]",
            ["*", "SMK_TEST"],
        ),
        ("import os\nfor k in sorted(os.environ.keys()): pass", ["*"]),
        ("import os; any(k.startswith(b'SMK_') for k in os.environb)", ["*"]),
        ("import subprocess; subprocess.run('echo $SMK_TEST', shell=True)", ["SMK_TEST"]),
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
    for handed in (
        "from concurrent.futures import ThreadPoolExecutor as P; P(1).submit(open, {}).result()",
        "import asyncio; asyncio.run(asyncio.to_thread(open, {}))",
        "from multiprocessing import Pool\nwith Pool(1) as p: p.map(smk_library.load, [{}])",
        "from multiprocessing import Pool\nwith Pool(1) as p: p.apply(smk_library.load, [{}])",
        "from multiprocessing import Pool\nwith Pool(1) as p: list(p.imap(len_of, [{}]))",
        "from concurrent.futures import ProcessPoolExecutor as P\n"
        "with P(1) as p: list(p.map(smk_library.load, [{}]))",
        "from concurrent.futures import ProcessPoolExecutor as P\n"
        "with P(1) as p: p.submit(smk_library.load, {}).result()",
        "from multiprocessing import Process\np = Process(target=smk_library.load, args=({},))\n"
        "p.start(); p.join()",
    ):
        sys.modules.pop("smk_own")
        named = handed.format("'sf' + '.json'").replace("len_of", "smk_library.load")
        assert names(reads(f"import smk_library\n{named}\n")) == ["sf.json"], handed
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
