"""Names are free text: each runs as a plain name would, or is refused; none reaches a shell."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
import yaml

from tests.support import warm
from tests.support.forms import chosen

pytestmark = pytest.mark.integration

Document = dict[str, Any]

HOSTILE = [
    "two words",
    "single'quote",
    'double"quote',
    "$HOME",
    "${HOME}",
    "$(touch CANARY)",
    "`touch CANARY`",
    "a; touch CANARY",
    "a && touch CANARY #",
    "a | touch CANARY",
    "%s %(x)s %d",
    "back\\slash\\n",
    "日本語",
    "🎉",
    "é",
    "e\u0301",
    "a\u00a0b\u2028c",
    "-rf",
    "--help",
    ".hidden",
    "...",
    "~",
    "*?[x]!",
    "x" * 200,
]
#: What Snakemake and FAST-HEP fill in.
BRACES = ["{}", "{dataset}", "{part}", "{wildcards.part}", "{{x}}", "{0}", "{node_id}"]
#: Snakemake's path variables, and names that look like one.
ANGLES = [
    "a<results>",
    "<word>",
    "<<logs>>",
    "{<benchmarks>}",
    "<resources",
    "a<b>c>d",
    "<A>",
    "~<temp>",
]
#: Different names that become equal where case or odd characters are dropped.
ALIKE = ["a", "A", "a_b", "a-b", "a.b", "a b", "a  b", "a/b"]
TAKEN = ["all", "finish", "merge", "rule", "None", "class", "lambda", "nominal", "read_events"]


def write_events(path: Path, number: int) -> None:
    """Write ``number`` events with ``energy`` 0, 1, 2 ..."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path) as file:
        content = {"energy": np.arange(float(number)), "one": np.ones(number)}
        file.mktree("events", {"energy": "float64", "one": "float64"}).extend(content)


def histogram(nbins: int = 1, **more: Any) -> Document:
    axis = {
        "name": "energy",
        "source": "energy",
        "type": "regular",
        "bins": {"low": 0, "high": 1000, "nbins": nbins},
    }
    return {"dataset_axis": True, "axes": [axis], **more}


def workflow(datasets: dict[str, list[str]], stages: list[Document]) -> Document:
    return {
        "version": "1.0",
        "use": {"profiles": ["hep"]},
        "data": {
            "defaults": {"eventtype": "mc", "tree_primary": "events"},
            "datasets": [{"name": name, "files": files} for name, files in datasets.items()],
        },
        "analysis": {"stages": stages},
    }


def counting_stages() -> list[Document]:
    """A selection that keeps all but one event, with a skim, and a histogram."""
    return [
        {
            "id": "Cut",
            "op": "hep.selection.cutflow",
            "params": {"selection": {"All": ["energy > 0"]}},
            "write": [{"kind": "root_tree", "path": "skim.root", "format": "ttree"}],
        },
        {"id": "Hist", "op": "hep.hist", "params": histogram()},
    ]


def smk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(*(arguments or ("workflow.yaml", "-j", "2")), cwd=folder)


def run(folder: Path, document: Document, *arguments: str) -> subprocess.CompletedProcess[str]:
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    (folder / "workflow.yaml").write_text(text, encoding="utf-8")
    return smk(folder, "workflow.yaml", "-j", "2", *arguments)


def assert_no_canary(folder: Path) -> None:
    """No shell ran a name: it would have made the file CANARY."""
    assert [path for path in folder.rglob("*") if path.name == "CANARY"] == []


def assert_refused(done: subprocess.CompletedProcess[str], *said: str) -> None:
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "Traceback" not in text
    assert "1 problem:" in text
    for part in said:
        assert part in text


def load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def entries_by_dataset(path: Path) -> dict[str, float]:
    found = load(path)
    assert found.axes[0].name == "dataset"
    sums = found.values(flow=True).sum(axis=1)
    return {name: float(sums[index]) for index, name in enumerate(found.axes[0])}


# --- datasets and files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "names"),
    [
        ("auto", [*HOSTILE, *BRACES, *ANGLES, *ALIKE, *TAKEN]),
        ("stage", ["it's $(touch CANARY)", "{dataset}", "a b", "a_b", "all"]),
    ],
)
def test_datasets(tmp_path: Path, granularity: str, names: list[str]) -> None:
    numbers = {name: 3 + index for index, name in enumerate(names)}
    files = {name: [f"data/{number}.root"] for name, number in numbers.items()}
    for number in numbers.values():
        write_events(tmp_path / f"data/{number}.root", number)
    done = run(tmp_path, workflow(files, counting_stages()), "--granularity", granularity)
    assert done.returncode == 0, done.stderr
    expected = {name: number - 1.0 for name, number in numbers.items()}
    artifacts = tmp_path / "build/artifacts"
    assert entries_by_dataset(artifacts / "histograms/Hist.pkl") == expected
    skims = {
        str(path.relative_to(artifacts / "files/skim").parent): path
        for path in (artifacts / "files/skim").rglob("*.root")
    }
    assert set(skims) == set(names)
    for name, path in skims.items():
        with uproot.open(path) as file:
            assert file["events"].num_entries == expected[name]
    assert_no_canary(tmp_path)
    again = smk(tmp_path, "workflow.yaml", "-j", "2", "--granularity", granularity)
    assert "everything was up to date" in again.stdout


def test_files_and_folders(tmp_path: Path) -> None:
    names = [*(name for name in HOSTILE if "{" not in name), "a", "A", "all"]
    files = [f"data/{name}/{name}.root" for name in names]
    for number, file in enumerate(files):
        write_events(tmp_path / file, number + 3)
    done = run(tmp_path, workflow({"all files": files}, counting_stages()))
    assert done.returncode == 0, done.stderr
    expected = float(sum(number + 2 for number in range(len(files))))
    found = entries_by_dataset(tmp_path / "build/artifacts/histograms/Hist.pkl")
    assert found == {"all files": expected}
    assert_no_canary(tmp_path)


@pytest.mark.parametrize("name", ["new\nline", "tab\tbed", "${HOME}", *BRACES, *ANGLES])
def test_files_with_names_that_snakemake_fills_in(tmp_path: Path, name: str) -> None:
    """Snakemake fills in braces in what an input function returns, too."""
    file = f"data/{name}/{name}.root"
    write_events(tmp_path / file, 7)
    # What the name would become.
    write_events(tmp_path / "data/events/events.root", 99)
    done = run(tmp_path, workflow({"events": [file]}, counting_stages()[1:]))
    if done.returncode == 0:
        found = entries_by_dataset(tmp_path / "build/artifacts/histograms/Hist.pkl")
        assert found == {"events": 7.0}
    else:
        assert_refused(done, "dataset 'events'")


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "../up",
        "a/../../up",
        "/proc/absolute",
        "new\nline",
        "tab\tbed",
        "nul\0byte",
        "\x1b[31mred",
        "x" * 201,
        "é" * 101,
        "./a",
        "a/",
        "a//b",
        "a/./b",
    ],
    ids=lambda name: repr(name[:12]),
)
def test_datasets_that_cannot_be_folders(tmp_path: Path, name: str) -> None:
    write_events(tmp_path / "data/a.root", 5)
    write_events(tmp_path / "data/b.root", 5)
    document = workflow({name: ["data/b.root"], "a": ["data/a.root"]}, counting_stages())
    (tmp_path / "workflow.yaml").write_text(json.dumps(document))
    done = smk(tmp_path, "translate", "workflow.yaml")
    assert_refused(done, "workflow.yaml", "dataset")
    assert not (tmp_path.parent / "up").exists()


def test_a_dataset_named_like_the_manifest_of_a_writer(tmp_path: Path) -> None:
    write_events(tmp_path / "data/a.root", 5)
    done = run(tmp_path, workflow({"manifest.json": ["data/a.root"]}, counting_stages()))
    if done.returncode:
        assert_refused(done, "manifest.json")


# --- stages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "names"),
    [
        (
            "auto",
            [*HOSTILE[2:-1], *BRACES[1:4], *ANGLES, *TAKEN, "A", "a", "a.b", "a-b", "new\nline"],
        ),
        ("stage", ["it's $(touch CANARY)", "{dataset}", "all", "A", "a", "class", "tab\tbed"]),
    ],
)
def test_stages(tmp_path: Path, granularity: str, names: list[str]) -> None:
    # FAST-HEP names the file of a product after its stage and drops odd characters.
    by_product = {re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._"): name for name in names}
    by_product.pop("", None)
    names = list(by_product.values())
    write_events(tmp_path / "data/a.root", 9)
    stages = [
        {"id": name, "op": "hep.hist", "params": histogram(index + 1), "from": "Vars '`$(x)"}
        for index, name in enumerate(names)
    ]
    variables = {"variables": [{"name": "energy2", "expr": "energy * 2"}]}
    first = {"id": "Vars '`$(x)", "op": "hep.define", "params": variables}
    first["write"] = [{"kind": "root_tree", "path": "skim.root", "format": "ttree"}]
    document = workflow({"a": ["data/a.root"]}, [first, *stages])
    done = run(tmp_path, document, "--granularity", granularity)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "build/artifacts/histograms"
    listed = json.loads((folder / "manifest.json").read_text())["histograms"]
    assert {item["producer"] for item in listed} == {f"stage.{name}" for name in names}
    for item in listed:
        found = load(tmp_path / "build" / item["path"])
        assert len(found.axes["energy"]) == names.index(item["producer"][6:]) + 1
        assert found.values().sum() == 9
    assert_no_canary(tmp_path)


@pytest.mark.parametrize(
    "names", [("a b", "a_b"), ("日本", "🎉"), ("x!", "x?")], ids=lambda names: " and ".join(names)
)
def test_stages_whose_products_would_share_a_file(tmp_path: Path, names: tuple[str, str]) -> None:
    write_events(tmp_path / "data/a.root", 9)
    stages = [{"id": name, "op": "hep.hist", "params": histogram()} for name in names]
    done = run(tmp_path, workflow({"a": ["data/a.root"]}, stages))
    if done.returncode == 0:
        assert len(list((tmp_path / "build/artifacts/histograms").glob("*.pkl"))) == 2
    else:
        assert_refused(done, *names)


def test_a_stage_without_a_name(tmp_path: Path) -> None:
    write_events(tmp_path / "data/a.root", 9)
    stages = [{"id": "", "op": "hep.hist", "params": histogram()}]
    assert_refused(run(tmp_path, workflow({"a": ["data/a.root"]}, stages)), "id")


# --- variations -----------------------------------------------------------------------------


def varied(names: list[str]) -> Document:
    """A workflow with one variation of the weight for each name: 1, 2, 3 ..."""
    stages = counting_stages()
    stages[1]["params"].update(storage="weighted", weight_expr="one")
    document = workflow({"a": ["data/a.root"]}, stages)
    document["systematics"] = {
        "include_nominal": True,
        "variations": [
            {"name": name, "mode": "plan", "weight": {"multiply": f"one * {number}"}}
            for number, name in enumerate(names, start=1)
        ],
    }
    return document


def test_variations(tmp_path: Path) -> None:
    names = ['it\'s "$(touch CANARY)"', "`touch CANARY`; touch CANARY", "{dataset}", "日本語 🎉"]
    names += ["-rf", ".hidden", "all", "A", "a b", "a_b", *ANGLES]
    write_events(tmp_path / "data/a.root", 11)
    done = run(tmp_path, varied(names))
    assert done.returncode == 0, done.stderr
    for number, name in enumerate(["nominal", *names]):
        path = tmp_path / "build/artifacts" / name / "histograms/Hist.pkl"
        assert load(path).values().sum() == 10.0 * max(number, 1)
    assert_no_canary(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["..", "../up", "{tmp_path}/absolute", "new\nline", "x" * 201, "a/../b", "./a", "a/"],
    ids=lambda name: repr(name[:12]),
)
def test_variations_that_cannot_be_folders(tmp_path: Path, name: str) -> None:
    """FAST-HEP's compiler writes into folders of that name: nothing may leave the build folder."""
    name = name.replace("{tmp_path}", str(tmp_path))
    write_events(tmp_path / "data/a.root", 5)
    (tmp_path / "workflow.yaml").write_text(json.dumps(varied([name])))
    done = smk(tmp_path, "translate", "workflow.yaml", "--outdir", "builds/build")
    assert_refused(done, "workflow.yaml", "variation")
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "workflow.yaml", "builds"}
    assert {path.name for path in (tmp_path / "builds").glob("*")} <= {"build"}
    assert not (tmp_path / "builds/build/up").exists()
    assert not (tmp_path / "builds/build/plan.yaml").exists()


def test_what_plain_snakemake_is_told_of_results(tmp_path: Path) -> None:
    """Rules of a user's own wait for those that it can name."""
    names = ["a<results>", "{dataset}", "plain"]
    write_events(tmp_path / "data/a.root", 11)
    document = varied(names)
    style = {"op": "hep.render.hist1d", "style": {"experiment": ""}, "figure": {"dpi": 40}}
    document["styles"] = {"met": style}
    document["analysis"]["stages"][-1]["render"] = {"style": "met", "when": "final"}
    done = run(tmp_path, document)
    assert done.returncode == 0, done.stderr
    build = tmp_path / "build"
    assert len(sorted(build.rglob("artifacts/**/*.png"))) == len(names) + 1
    (tmp_path / "Snakefile").write_text(
        'module fasthep:\n    snakefile: "build/smk/results.smk"\n    prefix: "build"\n'
        "use rule * from fasthep as fasthep_*\n"
        'rule mine:\n    default_target: True\n    output: "mine.txt"\n'
        '    input: "build/artifacts/plain/histograms/Hist.pkl"\n    shell: "touch {output}"\n'
    )
    told = warm.run("-c", "1", cwd=tmp_path, program=warm.SNAKEMAKE)
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "mine.txt").exists()
    assert "no rule can wait for artifacts/a<results>/histograms/Hist.pkl" in told.stderr


# --- folders and the workflow file ----------------------------------------------------------

PLACES = [
    'it\'s "so" $(touch CANARY) `touch CANARY`; touch CANARY && touch CANARY | x > CANARY #',
    "${HOME} $HOME ~",
    "{dataset} <results> {} {x} <x>",
    "[ab] *?",
    "-rf",
    "new\nline tab\t %s \\n",
    "日本語 🎉 é",
    ".hidden: yes",
]


@pytest.mark.parametrize("place", chosen(PLACES, lambda place: place not in PLACES[:4]))
def test_folders_and_the_workflow_file(tmp_path: Path, place: str) -> None:
    name = place.replace("/", "")
    folder = tmp_path / name
    write_events(folder / "data/a.root", 6)
    document = workflow({"a": ["data/a.root"]}, counting_stages())
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
    done = smk(folder, "run", "-j", "2", f"--outdir={name} build", f"./{name}.yaml")
    assert done.returncode == 0, done.stderr
    artifacts = folder / f"{name} build" / "artifacts"
    assert entries_by_dataset(artifacts / "histograms/Hist.pkl") == {"a": 5.0}
    assert (artifacts / "files/skim/a/0_0.root").is_file()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["data", f"{name}.yaml", f"{name} build"]
    )
    assert_no_canary(tmp_path)


@pytest.mark.parametrize("place", chosen(PLACES[:4], lambda place: place in PLACES[0:3:2]))
def test_the_command_to_run_a_failed_job_alone(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    write_events(folder / "data/a.root", 6)
    (folder / "own_fragile.py").write_text(
        "import os\n"
        "SPEC = {'name': 'own.op', 'kind': 'transform', 'version': '1.0', 'params': {},\n"
        "    'input': {'name': 'stream', 'kind': 'event_stream', 'required': True},\n"
        "    'result': {'kind': 'event_stream'}}\n"
        "def run(*, stream, **_):\n"
        "    if not os.path.exists('fixed'):\n"
        "        raise ValueError('$(touch CANARY) {x} `touch CANARY`')\n"
        "    return stream\n"
    )
    own = {"id": "$(touch CANARY) 'q", "op": "own.op", "params": {}}
    name = "a'b $(touch CANARY)"
    document = workflow({name: ["data/a.root"]}, [own, *counting_stages()])
    entry = {"spec": "own_fragile:SPEC", "impl": "own_fragile:run"}
    document["registry"] = {"transforms": {"own.op": entry}}
    failed = run(folder, document)
    assert failed.returncode == 1
    assert "ValueError: $(touch CANARY) {x} `touch CANARY`" in failed.stderr
    assert f"dataset:   {name}" in failed.stderr
    (folder / "fixed").touch()
    alone = failed.stderr[failed.stderr.index("rerun:") + len("rerun:") :].strip()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", alone],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((folder / "build/smk/work").rglob("record.json"))) == 1
    assert_no_canary(tmp_path)
