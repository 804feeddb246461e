"""Two build folders: which of their results differ, and by which bins."""

from __future__ import annotations

import io
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fasthep_smk.cli import main
from fasthep_smk.contrib.report import compare
from fasthep_smk.storage import layout
from tests.support import tables


def histogram(datasets: dict[str, Sequence[float]], bins: int = 4, weight: float = 1.0) -> Any:
    made = hist.Hist(
        hist.axis.StrCategory([], growth=True, name="dataset"),
        hist.axis.Regular(bins, 0, 40, name="met"),
        storage="Weight",
    )
    for dataset, values in datasets.items():
        made.fill(dataset, values, weight=weight)
    return made


def cutflow(after: int, weights: float = 1.5) -> dict[str, Any]:
    stats = {
        "n_unweighted_in": 10, "n_unweighted_out": after, "sumw_out": weights, "sumw2_out": 4.0,
    }  # fmt: skip
    node = {"id": "c", "selection": "All", "label": "met > 5", "stats": {"dy": stats}}
    return {"datasets": ["dy"], "nodes": [node]}


def build(folder: Path, made: Any = None, cuts: Any = None) -> Path:
    """A build folder with a histogram, a cutflow, and a job that is done."""
    job = tables.entry(signature=tables.signed("s"))
    (folder / layout.TASKS).mkdir(parents=True)
    (folder / layout.table("r")).write_text(tables.table(jobs={"k": job}).to_text())
    (folder / job.folder).mkdir(parents=True)
    record = {
        "rule": "r", "key": "k", "signature": tables.signed("s"), "host": "h", "started": 100.0,
        "ended": 104.0, "attempt": 1, "threads": 1, "asked": {}, "earlier": [],
        "used": {"memory": 500, "cpu": 2.0}, "events": 100, "results": {},
    }  # fmt: skip
    (folder / job.record).write_text(json.dumps(record, indent=1))
    for kind, name, content in (
        ("histograms", "h.pkl", pickle.dumps(made or histogram({"dy": [5, 15]}), protocol=5)),
        ("cutflows", "c.json", json.dumps(cuts or cutflow(7)).encode()),
    ):
        place = folder / "artifacts" / kind
        place.mkdir(parents=True)
        (place / name).write_bytes(content)
        listed = [{"id": name[0], "path": f"artifacts/{kind}/{name}"}]
        (place / "manifest.json").write_text(json.dumps({kind: listed}))
    return folder


def printed(capsys: pytest.CaptureFixture[str], *builds: Path) -> tuple[str, int]:
    """What ``compare`` prints, and its exit status."""
    status = main.main(["compare", *map(str, builds)])
    return capsys.readouterr().out, status


def of_kind(found: compare.Comparison, kind: str) -> list[compare.Difference]:
    return [row for row in found.differences if row.kind == kind]


def test_the_same_results_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = build(tmp_path / "one", histogram({"dy": [5], "data": [15]}))
    other = build(tmp_path / "other", histogram({"data": [15], "dy": [5]}))
    text, status = printed(capsys, one, other)
    assert status == 0
    assert "the results are the same (compared: cutflows: 1, histograms: 1)" in text.splitlines()


def test_weights_that_were_added_in_another_order_are_the_same(tmp_path: Path) -> None:
    one = build(tmp_path / "one", histogram({"dy": [5]}, weight=0.1 + 0.2), cutflow(7, 0.1 + 0.2))
    other = build(tmp_path / "other", histogram({"dy": [5]}, weight=0.3), cutflow(7, 0.3))
    assert compare.comparison(one, other).is_same


def test_bins_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = build(tmp_path / "one", histogram({"dy": [5, 5, 15, 50], "data": [5]}))
    other = build(tmp_path / "other", histogram({"dy": [5, 25, 50, 50, 50], "data": [5]}))
    found = compare.comparison(one, other)
    (row,) = of_kind(found, "histograms")
    assert (row.name, row.dataset, row.how) == ("h", "dy", "4 of 6 bins differ")
    bins = of_kind(found, "bins")
    values = {row.where: row.values for row in bins if row.how == "sum of weights"}
    assert values == {
        "met 0 to 10": (2, 1), "met 10 to 20": (1, 0), "met 20 to 30": (0, 1),
        "met overflow": (1, 3),
    }  # fmt: skip
    assert bins[0].where == "met overflow"
    text, status = printed(capsys, one, other)
    assert status == 1
    assert "the results differ in histograms (compared: cutflows: 1, histograms: 1)" in text
    assert "4 of 6 bins differ" in text


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (histogram({"dy": [5, 15]}, bins=8), "the axes differ"),
        (histogram({"zz": [5, 15]}), "only in the second"),
        (hist.Hist.new.Reg(4, 0, 40, name="pt").Weight(), "only in the second"),
    ],
    ids=["bins", "dataset", "axes"],
)
def test_histograms_that_cannot_be_subtracted_differ(
    tmp_path: Path, made: Any, problem: str
) -> None:
    found = compare.comparison(build(tmp_path / "one"), build(tmp_path / "other", made))
    assert problem in [row.how for row in of_kind(found, "histograms")]


def test_cuts_that_differ_are_named(tmp_path: Path) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other", cuts=cutflow(8, 2.5))
    found = compare.comparison(one, other)
    assert [(row.where, row.how, row.values) for row in of_kind(found, "cutflows")] == [
        ("met > 5", "events after", (7, 8)), ("met > 5", "sum of weights", (1.5, 2.5)),
    ]  # fmt: skip
    assert of_kind(found, "histograms") == []


def test_partitions_that_one_of_them_lacks_are_named(tmp_path: Path) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other")
    lost = {
        "dataset": "dy", "file": "dy.root", "start": 0, "stop": 50, "id": "dy:0",
        "reason": "it was damaged",
    }  # fmt: skip
    job = tables.entry(signature=tables.signed("s"), missing=(lost,))
    (other / layout.table("r")).write_text(tables.table(jobs={"k": job}).to_text())
    (row,) = of_kind(compare.comparison(one, other), "partitions")
    assert (row.dataset, row.name, row.how) == ("dy", "dy.root", "missing in the second")


def test_it_ends_as_diff_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other", cuts=cutflow(8))
    assert main.main(["compare", str(one), str(one)]) == 0
    assert main.main(["compare", str(one), str(other), "--json"]) == 1
    capsys.readouterr()
    assert main.main(["compare", str(one), str(tmp_path / "otter")]) == 2
    said = capsys.readouterr().err
    assert "BUILD: there is no such folder" in said
    (other / layout.table("r")).write_text("nonsense")
    assert main.main(["compare", str(one), str(other)]) == 2
    assert "this task table cannot be read" in capsys.readouterr().err


def test_a_histogram_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other")
    (other / "artifacts/histograms/h.pkl").write_text("nonsense")
    text, status = printed(capsys, one, other)
    assert status == 2
    assert f"cannot be read: {other}/artifacts/histograms/h.pkl" in text.splitlines()


def test_a_histogram_with_odd_axes_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else may have made it."""
    odd = hist.Hist.new.Reg(2, 0, 1, name="dataset").Double()
    one, other = build(tmp_path / "one", odd), build(tmp_path / "other", odd)
    text, status = printed(capsys, one, other)
    assert status == 2
    assert "cannot be read: histogram h" in text.splitlines()


def test_folders_without_results_are_not_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(tmp_path / name) for name in ("one", "other")]
    for name in folders:
        (Path(name) / layout.TASKS).mkdir(parents=True)
    assert main.main(["compare", *folders]) == 2
    assert "nothing can be compared: there are no results" in capsys.readouterr().out


def test_a_folder_that_is_not_trusted_is_no_difference(tmp_path: Path) -> None:
    one, other = build(tmp_path / "one"), build(tmp_path / "other")
    other.chmod(0o777)
    assert main.main(["compare", str(one), str(other)]) == 2
    assert main.main(["compare", str(one), str(other), "--trust-build"]) == 0


# --- plots, skims and other files -----------------------------------------------------------------


def put(build: Path, name: str, content: bytes) -> None:
    path = build / "artifacts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def drawn(colour: int, size: tuple[int, int] = (10, 10), text: str = "") -> bytes:
    """A picture with a dot of a colour, and a word that nobody sees."""
    said = PngInfo()
    said.add_text("Software", text)
    picture, stream = Image.new("RGB", size, "white"), io.BytesIO()
    picture.putpixel((3, 4), (colour, 255, 255))
    picture.save(stream, "png", pnginfo=said)
    return stream.getvalue()


SVG = b'<svg><dc:date>2026-01-0%d</dc:date><path id="m0123456%03d" d="M 1 %d"/></svg>'


@pytest.mark.parametrize(
    ("name", "one", "other", "problem"),
    [
        ("plots/a.png", drawn(0, text="a"), drawn(0, text="b"), None),
        ("plots/a.png", drawn(250), drawn(255), None),  # rounding
        ("plots/a.png", drawn(0), drawn(99), "1 % of the pixels differ"),
        ("plots/a.png", drawn(0), drawn(0, (9, 10)), "their sizes differ: 10 × 10 and 9 × 10 "),
        ("plots/a.svg", SVG % (1, 456, 1), SVG % (2, 890, 1), None),
        ("plots/a.svg", SVG % (1, 456, 1), SVG % (1, 456, 2), "the drawings differ"),
        ("tables/a.csv", b"a,b\n1,0.3\n", b"a,b\n1,0.30000000000000004\n", None),
        ("tables/a.csv", b"a,b\n1,0.3\n", b"a,b\n1,0.31\n", "line 2 differs"),
        ("tables/a.csv", b"a,b\n", b"a,b\n1,0.31\n", "1 and 2 lines"),
        ("files/a.npy", b"a", b"b", "their bytes differ"),
    ],
)  # fmt: skip
def test_plots_differ_by_their_pixels_and_tables_by_their_numbers(
    tmp_path: Path, name: str, one: bytes, other: bytes, problem: str | None
) -> None:
    folders = [build(tmp_path / "one"), build(tmp_path / "other")]
    for folder, content in zip(folders, (one, other), strict=True):
        put(folder, name, content)
    found = compare.comparison(*folders)
    assert found.is_same == (problem is None)
    kind = "plots" if "plots" in name else "files"
    assert [(row.kind, row.name) for row in found.differences] == (
        [(kind, f"artifacts/{name}")] if problem else []
    )
    assert all(row.how.startswith(problem) for row in found.differences)
    assert found.compared[kind] == 1


def test_a_file_of_one_of_them_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [build(tmp_path / "one"), build(tmp_path / "other")]
    put(folders[1], "plots/new.png", drawn(0))
    text, status = printed(capsys, *folders)
    assert status == 1
    assert re.search(r"^artifacts/plots/new.png +only in the second$", text, re.MULTILINE)
    assert "the results differ in plots (compared: cutflows: 1, histograms: 1, plots: 1)" in text


def skim(build: Path, parts: dict[str, dict[str, list[float]]]) -> None:
    """A skim of one dataset: its files with their columns."""
    files = [{"path": f"artifacts/files/skim/dy/{name}", "size_bytes": 1} for name in parts]
    told = {"name": "skim", "datasets": {"dy": {"total_entries": 1, "files": files}}}
    put(build, "files/skim/manifest.json", json.dumps(told).encode())
    (build / "artifacts/files/skim/dy").mkdir()
    for name, columns in parts.items():
        with uproot.recreate(build / "artifacts/files/skim/dy" / name) as file:
            arrays = {column: np.array(values) for column, values in columns.items()}
            file.mktree("events", {column: one.dtype for column, one in arrays.items()})
            file["events"].extend(arrays)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        # Cut elsewhere; the manifest lists first parts of files first.
        ({"0_0.root": {"x": [1.0]}, "1_0.root": {"x": [3.0]}, "0_1.root": {"x": [2.0]}}, None),
        ({"0_0.root": {"x": [1.0, 2.0, 4.0]}}, "the values differ in x"),
        ({"0_0.root": {"x": [1.0, 2.0]}}, "3 and 2 events"),
        ({"0_0.root": {"y": [1.0, 2.0, 3.0]}}, "only one of the skims has the columns x, y"),
    ],
    ids=["the same", "values", "events", "columns"],
)
def test_skims_differ_by_their_events(
    tmp_path: Path, parts: dict[str, dict[str, list[float]]], problem: str | None
) -> None:
    folders = [build(tmp_path / "one"), build(tmp_path / "other")]
    skim(folders[0], {"0_0.root": {"x": [1.0, 2.0]}, "1_0.root": {"x": [3.0]}})
    skim(folders[1], parts)
    found = compare.comparison(*folders)
    rows = [(row.kind, row.dataset, row.how) for row in found.differences]
    assert rows == ([("skims", "dy", problem)] if problem else [])
    assert found.compared["skims"] == 1


def test_a_skim_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [build(tmp_path / "one"), build(tmp_path / "other")]
    for folder in folders:
        skim(folder, {"0_0.root": {"x": [1.0]}})
    (folders[1] / "artifacts/files/skim/dy/0_0.root").write_bytes(b"nonsense")
    text, status = printed(capsys, *folders)
    assert status == 2
    assert "cannot be read: skim skim of dy" in text


def test_no_code_is_made_of_what_a_skim_says(tmp_path: Path) -> None:
    """As for trees of a version that uproot does not know, and that the file describes."""
    folders = [build(tmp_path / "one"), build(tmp_path / "other")]
    for folder in folders:
        skim(folder, {"0_0.root": {"x": [1.0]}})
    path = folders[1] / "artifacts/files/skim/dy/0_0.root"
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", {"x": "f8"})
        file["events"].extend({"x": np.array([1.0])})
    with uproot.open(path) as file:
        key = file.key("events")
    content = bytearray(path.read_bytes())
    described = content.index(b"\x05TTree\x00\x72\x64") + 14
    for at in (key.fSeekKey + key.fKeylen + 5, described):
        assert content[at] == 20, "the version of trees"
        content[at] = 21
    path.write_bytes(content)
    assert "<dynamic>" in compiled(f"import uproot; uproot.open({str(path)!r})['events']")
    names = [str(folder) for folder in folders]
    compares = f"from fasthep_smk.cli import main; main.main(['compare', *{names!r}])"
    text = compiled(compares)
    assert "cannot be read: skim skim of dy" in text
    assert "<dynamic>" not in text


def compiled(script: str) -> str:
    """Run a script; return what it says, and where from Python has compiled text meanwhile."""
    hook = (
        "import sys\n"
        "sys.addaudithook(lambda event, found: print(found[1]) if event == 'compile' else None)\n"
    )
    done = subprocess.run([sys.executable, "-c", hook + script], capture_output=True, text=True)
    return done.stdout
