"""Whatever an operation reads, an edit of it runs the operation again, and ``why`` names it.

Each row of the table is one kind of input that no signature can know beforehand. Its operation
scales a column by what it reads. After the edit the results are those of a fresh build folder, and
a second call runs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import events, warm
from tests.support.compare import compare_builds
from tests.support.forms import chosen
from tests.support.project import once, shared_base

pytestmark = pytest.mark.integration

WORKFLOW = """\
version: "1.0"
use: {{profiles: [hep]}}
registry:
  transforms:
    my.scale: {{spec: "{module}:SPEC", impl: "{module}:scale"}}
data:
  defaults: {{eventtype: mc, tree_primary: events}}
  datasets:
    - {{name: dy, files: [data/dy.root], sf: sf/meta.json}}
sources:
  events: {{kind: root_tree, tree: events, branches: [MET_px, EventWeight]}}
analysis:
  globals: {{table: sf/global.json}}
  stages:
    - {{id: Scaled, op: my.scale, params: {{output: Scaled, what: "{what}"}}}}
    - id: Hist
      op: hep.hist
      params:
        weight_expr: EventWeight
        axes:
          - {{name: x, source: Scaled, type: regular, bins: {{low: -200, high: 200, nbins: 40}}}}
smk: {{ignore_reads: ["ignored/**"]}}
"""
MODULE = """
import awkward as ak
SPEC = {
    "name": "my.scale", "kind": "transform", "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"output": {"required": True}, "what": {"required": False}},
    "result": {"kind": "event_stream"},
    "provides": {"symbols": [{"from": "params.output", "kind": "field_list"}]},
}
def scale(*, stream, output, what, ctx=None, **_):
    return ak.with_field(stream, stream.MET_px * float(factor(what, ctx)), output)
"""
RECORD = "smklib/__init__.py,,\nsmklib/other.py,,\nsmklib-{0}.dist-info/RECORD,,\n"


def library(version: str, factor: str) -> dict[str, str]:
    """An installed package of two modules, with its distribution's metadata."""
    info = f"lib/site-packages/smklib-{version}.dist-info"
    return {
        "lib/site-packages/smklib/__init__.py": "from smklib.other import FACTOR\n",
        "lib/site-packages/smklib/other.py": f"FACTOR = {factor}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: smklib\nVersion: {version}\n",
        f"{info}/RECORD": RECORD.format(version),
    }


def database(version: int) -> str:
    """Return an empty SQLite database with a version of its user's, as text."""
    header = bytearray(4096)
    header[:24] = b"SQLite format 3\0" + bytes((16, 0, 1, 1, 0, 64, 32, 32))
    header[27] = header[31] = header[47] = header[59] = 1
    header[63], header[100:108] = version, bytes((13, 0, 0, 0, 0, 16, 0, 0))
    return header.decode("latin-1")


@dataclass(frozen=True)
class Hidden:
    """A kind of input: the operation's ``factor``, files it reads, the edit, what ``why`` says."""

    factor: str
    files: Mapping[str, str]
    edit: Mapping[str, str | None]
    named: str
    what: str = ""
    module: str = "my_ops"
    variables: Mapping[str, str] = field(default_factory=dict)
    then: Mapping[str, str] = field(default_factory=dict)


def reads(expression: str, path: str, named: str = "", **more: str) -> Hidden:
    """An operation that evaluates ``expression``, which reads the file at ``path``."""
    source = (
        f"import json, os\nfrom pathlib import Path\ndef factor(what, ctx): return {expression}\n"
    )
    return Hidden(source, {path: "1.5"}, {path: "2.5"}, named or path, **more)


BESIDE = (
    "from pathlib import Path\n"
    "def factor(what, ctx): return Path(__file__).with_name('sf' + '.json').read_text()\n"
)
KINDS = {
    # --- code ---
    "a package above an imported module": Hidden(
        "import pkg.sub\ndef factor(what, ctx): return pkg.FACTOR\n",
        {"pkg/__init__.py": "FACTOR = 1.5\n", "pkg/sub.py": ""},
        {"pkg/__init__.py": "FACTOR = 2.5\n"}, "pkg: source",
    ),
    "the package of the operation": Hidden(
        "import sys\ndef factor(what, ctx): return sys.modules['ops'].FACTOR\n",
        {"ops/__init__.py": "FACTOR = 1.5\n"}, {"ops/__init__.py": "FACTOR = 2.5\n"},
        "ops: source", module="ops.my",
    ),
    "another module of an installed library": Hidden(
        "import smklib\ndef factor(what, ctx): return smklib.FACTOR\n",
        library("1.0", "1.5"), {"lib/site-packages/smklib/other.py": "FACTOR = 2.5\n"}, "smklib",
    ),
    "a new version of an installed library": Hidden(
        "import smklib\ndef factor(what, ctx): return smklib.FACTOR\n", library("1.0", "1.5"),
        {**library("2.0", "2.5"), "lib/site-packages/smklib-1.0.dist-info": None},
        "smklib 1.0 → 2.0",
    ),
    "a library that is imported by a name made up": Hidden(
        "import importlib\ndef factor(what, ctx):\n"
        "    return importlib.import_module('smk' + 'lib').FACTOR\n",
        library("1.0", "1.5"),
        {**library("2.0", "2.5"), "lib/site-packages/smklib-1.0.dist-info": None},
        "smklib, imported",
    ),
    "importlib.import_module": Hidden(
        "import importlib\ndef factor(what, ctx): return importlib.import_module('hel'+'per').F\n",
        {"helper.py": "F = 1.5\n"}, {"helper.py": "F = 2.5\n"}, "helper, imported by my_ops",
    ),
    "__import__": Hidden(
        "def factor(what, ctx): return __import__('helper').F\n",
        {"helper.py": "F = 1.5\n"}, {"helper.py": "F = 2.5\n"}, "helper: source",
    ),
    "exec": Hidden(
        "def factor(what, ctx):\n    names = {}\n    exec(open('helper.inc').read(), names)\n"
        "    return names['F']\n",
        {"helper.inc": "F = 1.5\n"}, {"helper.inc": "F = 2.5\n"}, "helper.inc, read by my.scale",
    ),
    "sys.path.insert": Hidden(
        "import sys\nsys.path.insert(0, 'tools')\n"
        "def factor(what, ctx):\n    import tool\n    return tool.F\n",
        {"tools/tool.py": "F = 1.5\n"}, {"tools/tool.py": "F = 2.5\n"}, "tool: source",
    ),
    "ctypes.CDLL": Hidden(
        "import ctypes, os\ndef factor(what, ctx):\n    try:\n        ctypes.CDLL('./sf.so')\n"
        "    except OSError:\n        pass\n    return os.path.getsize('sf' + '.so')\n",
        {"sf.so": "1"}, {"sf.so": "22"}, "sf.so, read by my.scale",
    ),
    # --- data ---
    "a file beside the module": reads(
        "json.load(open(Path(__file__).parent / ('sf' + '.json')))", "sf.json"
    ),
    "a file name in the operation": reads("float(open('sf/b.json').read())", "sf/b.json"),
    "a constant of the module": Hidden(
        "import json\nNAME = 'sf/b.json'\ndef factor(what, ctx):\n    with open(NAME) as s:\n"
        "        return json.load(s)\n",
        {"sf/b.json": "1.5"}, {"sf/b.json": "2.5"}, "sf/b.json, read by my.scale",
    ),
    "a file that analysis.globals names": reads(
        "float(Path(ctx['table']).read_text())", "sf/global.json"
    ),
    "a file that a dataset names": reads(
        "float(Path(ctx['dataset']['meta']['sf']).read_text())", "sf/meta.json"
    ),
    "a folder parameter": Hidden(
        "import os\ndef factor(what, ctx):\n"
        "    return sum(float(open(f'{what}/{n}').read()) for n in sorted(os.listdir(what)))\n",
        {"sf/dir/a": "1.5"}, {"sf/dir/b": "1"}, "sf/dir", what="sf/dir",
    ),
    "a template": reads(
        "float(open(what.format(dataset='dy')).read())", "sf/dy.json", what="sf/{dataset}.json"
    ),
    "a file with a key": reads(
        "float(open(what.partition(':')[0]).read())", "sf/k.json", what="sf/k.json:key"
    ),
    "a path with a variable": reads(
        "float(open(os.path.expandvars(what)).read())", "sf/env.json", "the file $SFROOT/env.json",
        what="$SFROOT/env.json", variables={"SFROOT": "sf"},
    ),
    "an environment variable": Hidden(
        "import os\ndef factor(what, ctx): return os.environ['SF']\n", {}, {},
        "the variable SF, read by my.scale", variables={"SF": "1.5"}, then={"SF": "2.5"},
    ),
    "a variable that was not set": Hidden(
        "import os\ndef factor(what, ctx): return os.getenv('SF', '1.5')\n", {}, {},
        "the variable SF, read by my.scale, was not there", then={"SF": "2.5"},
    ),
    # --- by other ways ---
    "a library that is called with the name": reads(
        "__import__('numpy').loadtxt(os.path.join('sf', 'b' + '.txt'))", "sf/b.txt"
    ),
    "a file that compiled code reads": Hidden(
        "import os\nimport onnxruntime\nMODEL = 'sf/model.onnx'\n"
        "def factor(what, ctx):\n    try:\n        onnxruntime.InferenceSession(MODEL)\n"
        "    except Exception:\n        return os.path.getsize(MODEL)\n",
        {"sf/model.onnx": "1"}, {"sf/model.onnx": "22"}, "sf/model.onnx, read by my_ops",
    ),
    "correctionlib": Hidden(
        "import correctionlib\ndef factor(what, ctx):\n"
        "    found = correctionlib.CorrectionSet.from_file('sf/' + 'c.json')\n"
        "    return found['sf'].evaluate()\n",
        {"sf/c.json": '{"schema_version": 2, "corrections": [{"name": "sf", "version": 1, "inputs":'
         ' [], "output": {"name": "o", "type": "real"}, "data": 1.5}]}'},
        {"sf/c.json": '{"schema_version": 2, "corrections": [{"name": "sf", "version": 1, "inputs":'
         ' [], "output": {"name": "o", "type": "real"}, "data": 2.5}]}'},
        "sf/c.json, read by my.scale",
    ),
    "a pattern": Hidden(
        "import glob\ndef factor(what, ctx):\n"
        "    return sum(float(open(n).read()) for n in sorted(glob.glob('sf/p*' + '.txt')))\n",
        {"sf/p1.txt": "1.5"}, {"sf/p2.txt": "1.0"}, "sf, read by my.scale",
    ),
    "a thread": Hidden(
        "from concurrent.futures import ThreadPoolExecutor\nfrom pathlib import Path\n"
        "import numpy as np\n"
        "def factor(what, ctx):\n    with ThreadPoolExecutor(1) as pool:\n"
        "        return pool.submit(np.loadtxt, 'sf/' + 't.txt').result()\n",
        {"sf/t.txt": "1.5"}, {"sf/t.txt": "2.5"}, "sf/t.txt, read by my.scale",
    ),
    "a process that is forked": Hidden(
        "import multiprocessing\nfrom pathlib import Path\n"
        "def look(name): return float(Path(name).read_text())\n"
        "def factor(what, ctx):\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return pool.map(look, ['sf/' + 'f.txt'])[0]\n",
        {"sf/f.txt": "1.5"}, {"sf/f.txt": "2.5"}, "sf/f.txt, read by my.scale",
    ),
    "another program": Hidden(
        "import subprocess\ndef factor(what, ctx):\n"
        "    return subprocess.run(['cat', 'sf/' + 's.txt'], capture_output=True).stdout\n",
        {"sf/s.txt": "1.5"}, {"sf/s.txt": "2.5"}, "sf/s.txt, read by my.scale",
    ),
    "a library function in a forked pool": Hidden(
        "import multiprocessing\nimport numpy as np\ndef factor(what, ctx):\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return pool.map(np.loadtxt, ['sf/' + 'f.txt'])[0]\n",
        {"sf/f.txt": "1.5"}, {"sf/f.txt": "2.5"}, "sf/f.txt, read by my.scale",
    ),
    "a link that the job makes": Hidden(
        "import os, tempfile\ndef factor(what, ctx):\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        os.symlink(os.path.abspath('sf'), f'{folder}/l')\n"
        "        return open(f'{folder}/l/' + 'b.txt').read()\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a hard link that the job makes": Hidden(
        "import os\ndef factor(what, ctx):\n    name = f'l{os.getpid()}'\n"
        "    os.link('sf/' + 'b.txt', name)\n    text = open(name).read()\n    os.remove(name)\n"
        "    return text\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a file that is renamed and gets its name back": Hidden(
        "import os\ndef factor(what, ctx):\n    name = 'sf/' + 'b.txt'\n"
        "    os.rename(name, 'away')\n    text = open('away').read()\n"
        "    os.rename('away', name)\n    return text\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a file that the job copies first": Hidden(
        "import os, shutil\ndef factor(what, ctx):\n    shutil.copy('sf/' + 'b.txt', 'copy')\n"
        "    return open('copy').read()\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a file below the descriptor of a folder": Hidden(
        "import os\ndef factor(what, ctx):\n    folder = os.open('sf', os.O_RDONLY)\n"
        "    return os.fdopen(os.open('b' + '.txt', os.O_RDONLY, dir_fd=folder)).read()\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a folder that is listed by its descriptor": Hidden(
        "import os\ndef factor(what, ctx):\n"
        "    return len(os.listdir(os.open('sf', os.O_RDONLY)))\n",
        {"sf/b.txt": "1.5"}, {"sf/c.txt": "2.5"}, "sf, read by my.scale",
    ),
    "a file that could be appended to": Hidden(
        "def factor(what, ctx):\n    with open('sf/' + 'b.txt', 'a+') as stream:\n"
        "        stream.seek(0)\n        return stream.read()\n",
        {"sf/b.txt": "1.5"}, {"sf/b.txt": "2.5"}, "sf/b.txt, read by my.scale",
    ),
    "a database by its URI": Hidden(
        "import contextlib, sqlite3\ndef factor(what, ctx):\n"
        "    with contextlib.closing(sqlite3.connect('file:sf.%64b?mode=rwc', uri=True)) as db:\n"
        "        return db.execute('pragma user_version').fetchone()[0]\n",
        {"sf.db": database(1)}, {"sf.db": database(2)}, "sf.db, read by my.scale",
    ),
    "a pattern of a shell": Hidden(
        "import subprocess\ndef factor(what, ctx):\n"
        "    text = subprocess.run('cat sf/p*' + '.txt', shell=True, capture_output=True).stdout\n"
        "    return sum(map(float, text.split()))\n",
        {"sf/p1.txt": "1.5\n"}, {"sf/p2.txt": "1.0"}, "sf, read by my.scale",
    ),
    "a folder that another program gets": Hidden(
        "import subprocess\ndef factor(what, ctx):\n"
        "    return subprocess.run(['grep', '-rh', '.', 'sf'], capture_output=True).stdout\n",
        {"sf/a": "1.5"}, {"sf/a": "2.5"}, "sf/a, read by my.scale",
    ),
    "a program with its files in a file": Hidden(
        "import subprocess\ndef factor(what, ctx):\n"
        "    return subprocess.run(['sh', '-c', 'cat \"${1#@}\"', '-', '@sf/' + 's.txt'],"
        " capture_output=True).stdout\n",
        {"sf/s.txt": "1.5"}, {"sf/s.txt": "2.5"}, "sf/s.txt, read by my.scale",
    ),
    "variables that are looked for": Hidden(
        "import os\ndef factor(what, ctx):\n"
        "    found = {k: v for k, v in os.environ.items() if k.startswith('SF_')}\n"
        "    return sum(map(float, found.values()))\n", {}, {},
        "the environment, read by my.scale, has changed",
        variables={"SF_A": "1.5"}, then={"SF_B": "1.0"},
    ),
    "a file that comes into being": Hidden(
        "from pathlib import Path\nOVERRIDE = 'override.txt'\ndef factor(what, ctx):\n"
        "    return float(Path(OVERRIDE).read_text()) if Path(OVERRIDE).exists() else 1.5\n",
        {}, {"override.txt": "2.5"}, "override.txt, read by my_ops, was not there before",
    ),
    "a file that is tried": Hidden(
        "def factor(what, ctx):\n    try:\n        return float(open('over' + 'ride.txt').read())\n"
        "    except FileNotFoundError:\n        return 1.5\n",
        {}, {"override.txt": "2.5"}, "override.txt, read by my.scale, was not there before",
    ),
    # --- the same file is another one now ---
    "a module that becomes a package with a table of its own": Hidden(
        BESIDE, {"sf.json": "1.5"},
        {"my_ops/__init__.py": BESIDE + MODULE, "my_ops/sf.json": "2.5"},
        "sf.json from the folder of my_ops, read by my.scale",
    ),
    "a file that is no longer ignored": Hidden(
        "def factor(what, ctx): return open('ignored/' + 'sf').read()\n", {"ignored/sf": "1.5"},
        {"ignored/sf": "2.5", "workflow.yaml": WORKFLOW.format(module="my_ops", what="")
            .replace("ignored/**", "other/**")},
        "my.scale has read files like ignored/**, no longer in ignore_reads",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Analysis:
    """A folder with an analysis, and the environment that it is run in."""

    folder: Path
    variables: Mapping[str, str]

    def call(self, *arguments: str, outdir: str = "build") -> str:
        environment = {**os.environ, **self.variables}
        environment["PYTHONPATH"] = str(self.folder / "lib/site-packages")
        done = warm.run(*arguments, "--outdir", outdir, cwd=self.folder, env=environment)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return done.stdout + done.stderr

    def reasons(self) -> list[str]:
        """Return why jobs would run, according to ``why``."""
        found = json.loads(self.call("why", "workflow.yaml", "--json").partition("\nfasthep")[0])
        return [job["reason"] for job in found["to_run"]]

    def write(self, content: Mapping[str, str | None]) -> None:
        for name, text in content.items():
            path = self.folder / name
            if text is None:
                shutil.rmtree(path)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def installed_long_ago(folder: Path) -> None:
    """Let what lies in ``site-packages`` be older than any edit."""
    for path in folder.rglob("site-packages/**/*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.fixture
def make(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Hidden], Analysis]:
    def make(kind: Hidden) -> Analysis:
        shared = once(
            shared_base(tmp_path_factory) / "hidden-events",
            lambda folder: events.zmumu_file(folder / "dy.root", 200, 1),
        )
        folder = tmp_path / "project"
        shutil.copytree(shared, folder / "data")
        found = Analysis(folder, kind.variables)
        module = kind.module.replace(".", "/") + ".py"
        text = WORKFLOW.format(module=kind.module, what=kind.what)
        source = kind.factor + textwrap.dedent(MODULE)
        found.write({"workflow.yaml": text, module: source, **kind.files})
        installed_long_ago(folder)
        return found

    return make


#: Code, data that code names or is given, what is in no file, and what other code reads.
SHORT = (
    "another module of an installed library",
    "importlib.import_module",
    "a file beside the module",
    "an environment variable",
    "another program",
)


@pytest.mark.parametrize("name", chosen(KINDS, lambda name: name in SHORT))
def test_an_edit_is_noticed_named_and_equal_to_a_fresh_run(
    name: str, make: Callable[[Hidden], Analysis]
) -> None:
    kind = KINDS[name]
    analysis = make(kind)
    analysis.call("workflow.yaml")
    assert analysis.reasons() == [], "a second call runs nothing"
    before = analysis.folder / "build/artifacts/histograms/Hist.pkl"
    old = before.read_bytes()
    analysis.write(kind.edit)
    edited = Analysis(analysis.folder, {**analysis.variables, **kind.then})
    reasons = edited.reasons()
    assert reasons, "the edit is not noticed"
    assert any(kind.named in reason for reason in reasons), reasons
    edited.call("workflow.yaml")
    assert before.read_bytes() != old
    edited.call("workflow.yaml", outdir="fresh")
    assert compare_builds(analysis.folder / "fresh", analysis.folder / "build") == []
    assert edited.reasons() == []
