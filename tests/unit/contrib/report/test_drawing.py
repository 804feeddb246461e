"""The pictures of histograms on the page, and its tables of them: all variations beside nominal."""

from __future__ import annotations

import json
import math
import pickle
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

from fasthep_smk.contrib.report import document, drawing, page, tables
from fasthep_smk.contrib.report.facts import gather
from fasthep_smk.storage import layout
from tests.support import tables as support

CANARY = "<script>document.title='canary'</script>"
SECRET = "https://me:hunter2@host/x"
VARIATIONS = ("nominal", "jes_up", "jes_down", "lumiUp", "generator")


def filled(datasets: dict[str, float], *axes: Any, bins: int = 20) -> hist.Hist[Any]:
    """A weighted histogram of these datasets, each of 100 entries of this weight."""
    names = hist.axis.StrCategory([*datasets], name="dataset")
    axes = axes or (hist.axis.Regular(bins, 0, 100, name="pt"),)
    made: hist.Hist[Any] = hist.Hist(*axes, names, storage=hist.storage.Weight())
    numbers = [np.arange(100)] * len(axes)
    for name, weight in datasets.items():
        made.fill(*numbers, [name] * 100, weight=weight)
    return made


def save(build: Path, stage: str, histogram: Any, variation: str = "") -> None:
    """Write a histogram as a run does, and list it."""
    folder = build / "artifacts" / variation / "histograms"
    folder.mkdir(parents=True, exist_ok=True)
    path, manifest = folder / f"{len([*folder.iterdir()])}.pkl", folder / "manifest.json"
    path.write_bytes(pickle.dumps(histogram, protocol=5))
    listed = json.loads(manifest.read_text()) if manifest.exists() else {"histograms": []}
    row = {"id": stage, "path": str(path.relative_to(build))}
    manifest.write_text(json.dumps({"histograms": [*listed["histograms"], row]}))


def weighted(
    datasets: dict[str, list[float]], axis: Any = None, variance: float = 0.0
) -> hist.Hist[Any]:
    """A histogram with these sums of weights in the bins of each dataset, all of one variance."""
    bins = len(next(iter(datasets.values())))
    axis = axis or hist.axis.Regular(bins, 0, bins, name="pt")
    names = hist.axis.StrCategory([*datasets], name="dataset")
    made: hist.Hist[Any] = hist.Hist(axis, names, storage=hist.storage.Weight())
    made.view().value = np.array([*datasets.values()]).T
    made.view().variance = variance
    return made


def save_weight_axis(build: Path, name: str) -> None:
    """Write in a plan that an axis of this name is one of weights, as FAST-HEP's compiler does."""
    params = {"axes": [{"name": "pt"}, {"name": name, "source": "__variation__"}]}
    (build / layout.PLANS).mkdir(parents=True)
    plan = json.dumps({"nodes": [{"params": {}}, {"params": params}]})
    (build / layout.plan("nominal")).write_text(plan)


def save_ends(build: Path, **done: bool) -> None:
    """Write the jobs that end these variations as translated, with the records of those done."""
    jobs = {name: support.entry(variation=name, folder=f"smk/work/finish/{name}") for name in done}
    table = support.table(rule="finish", scope="finish", jobs=jobs)
    (build / layout.table("finish")).write_text(table.to_text())
    shutil.rmtree(build / "smk/work", ignore_errors=True)
    for name in (name for name, is_done in done.items() if is_done):
        (build / jobs[name].folder).mkdir(parents=True)
        head = {"signature": jobs[name].signature, "started": 1.0, "ended": 2.0}
        told = {**head, "asked": {"pool": "default"}, "used": {}, "earlier": [], "results": {}}
        (build / jobs[name].folder / layout.RECORD).write_text(json.dumps(told, indent=1))


def save_cutflow(build: Path, variation: str, after: dict[str, list[float]]) -> None:
    """Write a cutflow of 100 events in each dataset, with the sums of weights after its cuts."""
    folder = build / "artifacts" / variation / "cutflows"
    folder.mkdir(parents=True, exist_ok=True)
    nodes, before = [], dict.fromkeys(after, 100.0)
    for number, cut in enumerate(("trigger", "two muons")):
        stats = {}
        for name, sums in after.items():
            kept = round(sums[number])
            stats[name] = {
                "n_unweighted_in": before[name], "n_unweighted_out": kept,
                "sumw_out": sums[number], "sumw2_out": 4.0,
            }  # fmt: skip
            before[name] = kept
        nodes.append({"id": cut, "selection": "All", "label": cut, "stats": stats})
    (folder / "Cuts.json").write_text(json.dumps({"datasets": [*after], "nodes": nodes}))
    path = str((folder / "Cuts.json").relative_to(build))
    (folder / "manifest.json").write_text(json.dumps({"cutflows": [{"id": "Cuts", "path": path}]}))


Bins = list[tuple[float, float, float]]


def bins_of(path: str) -> Bins:
    """The bins that the outline of a line draws: from where to where, and at what height."""
    found, x, y = [], 0.0, 0.0
    for kind, numbers in re.findall(r"([MvhV])([-\d. ]+)", path):
        first, *more = map(float, numbers.split())
        if kind == "M":
            x, y = first, more[0]
        elif kind == "h":
            found.append((x, x + first, y))
            x += first
        else:
            y = first if kind == "V" else y + first
    return found


def drawn_lines(figure: str) -> tuple[list[Bins], list[Bins], list[Bins]]:
    """The lines of a picture, the upper and lower edge of the error, and the lines of the ratio."""
    above, *bands = re.split('<path class="band"', figure)
    last = bands[-1] if bands else ""
    edges = [bins_of(re.findall('d="([^"]*)"', band)[0]) for band in bands]
    lines, ratios = (
        [bins_of(path) for path in re.findall('<path stroke="[^"]*" d="([^"]*)"', part)]
        for part in (above, last)
    )
    return lines, edges, ratios


def heights(bins: Bins) -> list[float]:
    return [height for _, _, height in bins]


@pytest.fixture
def build(tmp_path: Path) -> Path:
    build = tmp_path / "build"
    (build / layout.TASKS).mkdir(parents=True)
    return build


def pictures(build: Path) -> list[tuple[str, dict[str, str], int]]:
    """The title of each picture, its legend with the colours, and how many lines it has."""
    found = []
    for figure in re.findall("<figure>(.*?)</figure>", "".join(drawing.drawn(build)[0])):
        title = re.findall("<figcaption>([^<]*)", figure)[0]
        legend = re.findall(r'<i style="background:([^"]*)"></i>([^<]*)', figure)
        lines = re.findall('<path stroke="([^"]*)"', figure)
        assert set(lines) <= {colour for colour, _ in legend} | {"currentColor"}
        found.append((title, {name: colour for colour, name in legend}, len(lines)))
    return found


def test_nominal_up_and_down_are_one_picture_with_the_ratio_below(build: Path) -> None:
    for name, factor in zip(VARIATIONS, (1, 1.1, 0.95, 1.02, 2), strict=True):
        save(build, "Pt", filled({"data": 1, "dy": factor}), name)
    plain, generator, jes, lumi = pictures(build)
    assert (plain[0], [*plain[1]], plain[2]) == ("Pt", ["data", "dy"], 2)
    # Data change with no variation; each line but nominal is there twice: also divided by it.
    assert (jes[0], [*jes[1]], jes[2]) == (
        "Pt, jes: dy", ["nominal", "jes_up +10 %", "jes_down -5.00 %"], 5,
    )  # fmt: skip
    assert (lumi[0], [*lumi[1]]) == ("Pt, lumi: dy", ["nominal", "lumiUp +2.00 %"])
    assert (generator[0], [*generator[1]]) == (
        "Pt, generator: dy", ["nominal", "generator +100 %"],
    )  # fmt: skip


def test_a_pair_may_also_be_one_by_what_the_workflow_says(build: Path) -> None:
    rows = "".join(
        f"- {{name: {name}, group: scale, direction: {way}}}\n"
        for name, way in (("high", "up"), ("low", "down"))
    )
    (build / "compile").mkdir()
    told = f"variations:\n- {{name: nominal}}\n{rows}"
    (build / "compile/systematics.yaml").write_text(told)
    for name, factor in (("nominal", 1), ("low", 0.9), ("high", 1.1)):
        save(build, "Pt", filled({"dy": factor}), name)
    assert [title for title, _, _ in pictures(build)] == ["Pt", "Pt, scale: dy"]
    bomb = "".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    for damaged in ("variations: 5", f"a:\n- &a0 x\n{bomb}variations: [{{name: *a39}}]"):
        (build / "compile/systematics.yaml").write_text(damaged)
        assert len(pictures(build)) == 3


def test_each_dataset_has_its_variations_too(build: Path) -> None:
    for name, factor in (("nominal", 1), ("jes_up", 1.1), ("jes_down", 0.9)):
        save(build, "Pt", filled({"data": 1, "dy": factor, "tt": 3 * factor}), name)
    titles = [title for title, _, _ in pictures(build)]
    assert titles == ["Pt", "Pt, jes: dy + tt", "Pt, jes: dy", "Pt, jes: tt"]
    assert "<summary>Pt by dataset</summary>" in drawing.drawn(build)[0][2]


def test_weights_along_an_axis_are_variations(build: Path) -> None:
    """As `hep.hist` makes them; data are in none but nominal."""
    axes = (
        hist.axis.Regular(10, 0, 100, name="pt"),
        hist.axis.StrCategory(["nominal", "up", "down"], name="variation"),
        hist.axis.StrCategory(["data", "dy"], name="dataset"),
    )
    made: hist.Hist[Any] = hist.Hist(*axes, storage=hist.storage.Weight())
    made.fill(50, "nominal", "data")
    for name, weight in (("nominal", 1), ("up", 1.2), ("down", 0.8)):
        made.fill(50, name, "dy", weight=weight)
    save(build, "Pt", made)
    save_weight_axis(build, "variation")
    plain, varied = pictures(build)
    assert [*plain[1]] == ["data", "dy"]
    assert (varied[0], [*varied[1]]) == (
        "Pt, up and down: dy", ["nominal", "up +20 %", "down -20 %"],
    )  # fmt: skip


def test_a_category_called_nominal_makes_no_axis_of_weights(build: Path) -> None:
    """Only those axes are of weights that the plan says to be: here none is."""
    region = hist.axis.StrCategory(["nominal", "tight"], name="region")
    save(build, "Pt", weighted({"dy": [4.0, 2.0]}, region))
    (line,), _, _ = drawn_lines(drawing.drawn(build)[0][0])
    assert [title for title, _, _ in pictures(build)] == ["Pt"]
    assert len(line) == 2


def test_without_nominal_no_variation_takes_its_place(build: Path) -> None:
    for name, factor in (("w_down", 0.5), ("w_up", 2)):
        save(build, "Pt", filled({"dy": factor}), name)
        save_cutflow(build, name, {"dy": [50 * factor, 10 * factor + 0.5]})
    shown = pictures(build)
    assert [(title, [*legend]) for title, legend, _ in shown] == [
        ("Pt (w_down)", ["dy"]), ("Pt (w_up)", ["dy"]),
    ]  # fmt: skip
    found = tables.sections(document.report_on(gather(build)))
    assert [one.title for one in found if "Cutflow" in one.title] == [
        "Cutflow Cuts (w_down)", "Cutflow Cuts (w_down): sums of weights",
        "Cutflow Cuts (w_up)", "Cutflow Cuts (w_up): sums of weights",
    ]  # fmt: skip
    rows = section(build, "histograms")
    assert [(row["histogram"], row["sum of weights"]) for row in rows] == [
        ("Pt (w_down)", "50.00"), ("Pt (w_up)", "200.00"),
    ]  # fmt: skip
    assert not any({"w_up", "w_down"} & {*row} for one in found for row in one.rows)
    assert "relative to nominal" not in page.write(build).read_text()


def test_what_an_earlier_run_made_is_not_compared(build: Path) -> None:
    for name, factor in (("nominal", 1), ("w_down", 0.5), ("w_up", 2)):
        save(build, "Pt", filled({"dy": factor}), name)
        save_cutflow(build, name, {"dy": [50 * factor, 10 * factor]})

    def shown() -> list[str]:
        text = page.write(build).read_text()
        return [one for one in re.findall("<figcaption>([^<]*)", text) if "Pt" in one]

    save_ends(build, w_up=True)  # the run was only of this one
    assert shown() == ["Pt (nominal)", "Pt (w_down)", "Pt (w_up)"]
    assert [row["histogram"] for row in section(build, "histograms")] == shown()
    text = page.write(build).read_text()
    assert "and are not compared with the others: nominal, w_down." in text
    assert "relative to nominal" not in text and 'class="band"' not in text
    save_ends(build, nominal=True, w_up=True, w_down=False)  # a job of the last one has failed
    assert shown() == ["Pt", "Pt, w: dy", "Pt (w_down)"]
    assert [row["w_up"] for row in section(build, "histograms")] == ["+100 %", "–"]
    save_ends(build, nominal=True, w_up=True, w_down=True)
    assert shown() == ["Pt", "Pt, w: dy"]


def test_a_dataset_that_loses_all_its_events_is_drawn(build: Path) -> None:
    save(build, "Pt", weighted({"dy": [4.0, 8.0], "tt": [2.0, 2.0]}), "nominal")
    save(build, "Pt", weighted({"dy": [0.0, 0.0], "tt": [2.0, 2.0]}), "veto")
    _, (title, legend, _) = pictures(build)
    assert (title, [*legend]) == ("Pt, veto: dy", ["nominal", "veto -100 %"])
    _, _, (veto,) = drawn_lines(drawing.drawn(build)[0][1])
    assert heights(veto) == [450, 450]  # the ratio is 0 in both bins, the lower end of the scale


def test_there_is_no_ratio_where_nominal_is_not_positive(build: Path) -> None:
    save(build, "Pt", weighted({"dy": [4.0, 0.0, -1.0, 8.0]}, variance=1), "nominal")
    save(build, "Pt", weighted({"dy": [5.0, 1.0, -2.0, 6.0]}), "generator")
    lines, edges, (ratio,) = drawn_lines(drawing.drawn(build)[0][1])
    whole = [(start, end) for start, end, _ in lines[0]]
    assert len(whole) == 4
    for drawn in (ratio, *edges):
        assert [(start, end) for start, end, _ in drawn] == [whole[0], whole[3]]


def test_what_is_not_a_number_is_a_gap(build: Path) -> None:
    save(build, "Pt", weighted({"dy": [4.0, 2.0, 4.0]}), "nominal")
    save(build, "Pt", weighted({"dy": [math.nan, 2.0, math.inf]}), "generator")
    (_, varied), _, (ratio,) = drawn_lines(drawing.drawn(build)[0][1])
    assert len(varied) == len(ratio) == 1
    assert [*pictures(build)[1][1]] == ["nominal", "generator –"]


def test_a_variation_of_other_bins_is_told(build: Path) -> None:
    save(build, "Pt", weighted({"dy": [4.0, 2.0]}), "nominal")
    save(build, "Pt", weighted({"dy": [4.0, 2.0, 1.0]}), "coarse")
    assert drawing.drawn(build)[1] == ["artifacts/coarse/histograms/0.pkl"]
    assert "1 others: not drawn" in page.write(build).read_text()


def test_long_categories_are_numbers_with_a_legend(build: Path) -> None:
    names = [f"two muons and {number} jets" for number in range(3)]
    short = hist.axis.StrCategory(["2017", "2018"], name="year")
    save(build, "Region", weighted({"dy": [1.0, 2, 3]}, hist.axis.StrCategory(names, name="r")))
    save(build, "Year", weighted({"dy": [1.0, 2]}, short))
    regions, years = drawing.drawn(build)[0]
    assert all(f"<li>{n}: {name}</li>" in regions for n, name in enumerate(names, 1))
    assert re.findall(r'<text x="\d+" y="484">([^<]*)', regions) == ["1", "2", "3"]
    assert re.findall(r'<text x="\d+" y="484">([^<]*)', years) == ["2017", "2018"]


def test_ratio_and_error_are_those_of_the_summed_datasets(build: Path) -> None:
    """By hand: nominal is 20, 30, 50 with the variance 8 in each bin, up 25, 33, 50, down half."""
    nominal = {"dy": [10.0, 10.0, 20.0], "tt": [10.0, 20.0, 30.0]}
    up = {"dy": [11.0, 11.0, 25.0], "tt": [14.0, 22.0, 25.0]}
    down = {name: [value / 2 for value in values] for name, values in nominal.items()}
    # A dataset that one of the pair lacks cannot be compared in the picture of both.
    save(build, "Pt", weighted({**nominal, "ww": [9.0, 9.0, 9.0]}, variance=4), "nominal")
    save(build, "Pt", weighted({**up, "ww": [1.0, 1.0, 1.0]}), "jes_up")
    save(build, "Pt", weighted(down), "jes_down")
    assert pictures(build)[1][0] == "Pt, jes: dy + tt"
    lines, (upper, lower), ratios = drawn_lines(drawing.drawn(build)[0][1])
    # The largest of all, 50, is drawn at 1 / 1.08 of the height between 16 and 320.
    for line, sums in zip(lines, ([20, 30, 50], [25, 33, 50], [10, 15, 25]), strict=True):
        expected = [320 - 304 * value / 50 / 1.08 for value in sums]
        assert heights(line) == pytest.approx(expected, abs=1)
    # Down is half of nominal, and 1.3 times as much is shown of the ratio: 1 ± 0.65 at 400 ± 50.
    for ratio, values in zip(ratios, ([1.25, 1.1, 1], [0.5] * 3), strict=True):
        expected = [400 - 50 * (value - 1) / 0.65 for value in values]
        assert heights(ratio) == pytest.approx(expected, abs=1)
    for edge, sign in ((upper, 1), (lower, -1)):
        expected = [400 - sign * 50 * 8**0.5 / value / 0.65 for value in (20, 30, 50)]
        assert heights(edge) == pytest.approx(expected, abs=1)


def test_many_bins_are_drawn_as_means(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bins of 1, 3 and 4 in two steps: 2, the mean of the first two, and 4."""
    monkeypatch.setattr(drawing, "_BINS", 2)
    save(build, "Pt", weighted({"dy": [1.0, 3.0, 4.0]}, variance=0.09), "nominal")
    save(build, "Pt", weighted({"dy": [2.0, 2.0, 2.0]}), "flat")
    lines, (upper, _), (ratio,) = drawn_lines(drawing.drawn(build)[0][1])
    (start, middle, first), (_, end, second) = lines[0]
    assert (middle - start) / (end - start) == pytest.approx(2 / 3, abs=0.01)
    assert [320 - first, 320 - second] == pytest.approx([152 / 1.08, 304 / 1.08], abs=1)
    assert heights(ratio) == pytest.approx([400, 400 + 50 * 0.5 / 0.65], abs=1)
    expected = [400 - 50 * 0.18**0.5 / 2 / 2 / 0.65, 400 - 50 * 0.3 / 4 / 0.65]
    assert heights(upper) == pytest.approx(expected, abs=1)


def test_of_two_axes_each_is_drawn(build: Path) -> None:
    axes = (
        hist.axis.Variable([0, 1, 5, 100], name="x"),
        hist.axis.IntCategory([], growth=True, name="n"),
    )
    save(build, "Plane", filled({"dy": 1}, *axes))
    assert [title for title, _, _ in pictures(build)] == ["Plane: x", "Plane: n"]


def test_the_line_is_that_of_the_bins(build: Path) -> None:
    """Bins of 0, 1, 2 and 4: half as high, a quarter as high."""
    axis = hist.axis.Regular(4, 0, 4, name="x")
    made: hist.Hist[Any] = hist.Hist(axis).fill([1, 2, 2, 3, 3, 3, 3])
    save(build, "X", made)
    (line,) = re.findall('<path stroke="[^"]*" d="([^"]*)"', drawing.drawn(build)[0][0])
    start, *steps = re.findall(r"[MvhV][-\d ]+", line)
    assert start == f"M{drawing._LEFT} {drawing._BOTTOM}"
    wide = [int(step[1:]) for step in steps if step[0] == "h"]
    assert sum(wide) == drawing._RIGHT - drawing._LEFT and max(wide) - min(wide) <= 1
    first, second, third = [int(step[1:]) for step in steps if step[0] == "v"]
    assert first == pytest.approx(second, abs=1) and second == pytest.approx(third / 2, abs=1)
    whole = drawing._BOTTOM - drawing._TOP
    assert -(first + second + third) == pytest.approx(whole / 1.08, abs=1)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [np.nan, 1, np.inf],
        [-1, -2, 0],
        [0, 0, 0],
        [1e300] * 3,
        range(10_000),
    ],
    ids=["no bins", "no numbers", "negative", "empty", "large", "many"],
)
def test_any_histogram_has_a_picture(build: Path, values: Any) -> None:
    if values:
        made: hist.Hist[Any] = hist.Hist(hist.axis.Integer(0, len(values)))
        made.view()[...] = values
    else:
        made = hist.Hist(hist.axis.IntCategory([], growth=True))
    save(build, "X", made)
    save(build, "Y", filled({"dy": 1}))
    figures, left_out = drawing.drawn(build)
    assert len(figures) == (2 if values else 1)
    assert left_out == ([] if values else ["artifacts/histograms/0.pkl"])
    assert "nan" not in "".join(figures) and max(map(len, figures)) < 4000


def test_names_are_text_and_hold_no_secret(build: Path) -> None:
    axis = hist.axis.StrCategory([CANARY, SECRET], name=SECRET, label=CANARY)
    for name in ("nominal", "a<b>"):
        made: hist.Hist[Any] = hist.Hist(
            axis, hist.axis.StrCategory([CANARY, SECRET], name="dataset")
        ).fill([CANARY] * 2 if name == "nominal" else [CANARY] * 3, CANARY)
        save(build, f"{CANARY}{SECRET}", made, name)
    text = page.write(build).read_text()
    assert "hunter2" not in text and CANARY not in text and "<b>" not in text
    assert text.count("<figure>") == 2


def test_what_cannot_be_read_is_told(build: Path) -> None:
    save(build, "Good", filled({"dy": 1}))
    save(build, "Bad", {"no": "histogram"})
    assert [title for title, _, _ in pictures(build)] == ["Good"]
    text = page.write(build).read_text()
    assert "1 others: not drawn" in text and 'href="./artifacts/histograms/2.pkl"' in text


def test_a_link_to_a_name_that_is_no_text_is_that_of_its_bytes(build: Path) -> None:
    save(build, "Bad", {"no": "histogram"})
    save(build, "Good", filled({"dy": 1}))
    manifest = build / "artifacts/histograms/manifest.json"
    manifest.write_text(manifest.read_text().replace("0.pkl", r"\udcff.pkl"))
    (build / "artifacts/histograms/0.pkl").rename(build / "artifacts/histograms/\udcff.pkl")
    assert 'href="./artifacts/histograms/%FF.pkl"' in page.write(build).read_text()


def test_a_page_of_27_histograms_with_5_variations_is_small(build: Path) -> None:
    for number in range(27):
        for name, factor in zip(VARIATIONS, (1, 1.1, 0.95, 1.02, 2), strict=True):
            datasets = {"data": 1, "dy": factor, "tt": factor, "ww": factor / 99, "qcd": factor}
            save(build, f"H{number}", filled(datasets, bins=60), name)
    figures, left_out = drawing.drawn(build)
    assert left_out == []
    assert sum(figure.startswith("<figure>") for figure in figures) == 27 * 4
    assert page.write(build).stat().st_size < 2_000_000


def test_what_a_page_has_no_room_for_is_told(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_ROOM", 18_000)
    for number in range(9):
        for name, factor in (("nominal", 1), ("jes_up", 1.1)):
            save(build, f"H{number}", filled({"dy": factor}, bins=60), name)
    figures, left_out = drawing.drawn(build)
    assert sum(map(len, figures)) < 18_000
    titles = [title for title, _, _ in pictures(build)]
    assert titles[:3] == ["H0", "H0, jes: dy", "H1"] and titles[-1] != "H8"
    assert len(left_out) == 9 - len(titles) // 2 > 0
    text = page.write(build).read_text()
    assert f"{len(left_out)} others: not drawn" in text
    assert all(f'href="./{path}"' in text for path in left_out)


# --- tables ---------------------------------------------------------------------------------------


def section(build: Path, name: str) -> list[dict[str, str]]:
    found = tables.sections(document.report_on(gather(build)))
    return [dict(row) for one in found if one.name == name for row in one.rows]


def test_a_cut_is_one_row_with_datasets_side_by_side(build: Path) -> None:
    save_cutflow(build, "", {"data": [60, 30], "dy": [50, 1]})
    rows = section(build, "cutflow-0")
    assert [{name: cell.replace("\xa0", " ") for name, cell in row.items()} for row in rows] == [
        {"cut": "all", "data": "100", "dy": "100"},
        {"cut": "trigger", "data": "60 · 60 % · 60 %", "dy": "50 · 50 % · 50 %"},
        {"cut": "two muons", "data": "30 · 50 % · 30 %", "dy": "1 · 2 % · 1 %"},
    ]  # fmt: skip
    assert section(build, "weights-0") == []  # they are the numbers of events


def test_variations_are_columns_of_one_table(build: Path) -> None:
    save_cutflow(build, "nominal", {"data": [60, 30], "dy": [50, 10]})
    save_cutflow(build, "jes_down", {"data": [60, 30]})
    save_cutflow(build, "jes_up", {"data": [60, 30], "dy": [51, 11]})
    names = [one.name for one in tables.sections(document.report_on(gather(build)))]
    assert [name for name in names if re.match("cutflow|weights", name)] == [
        "cutflow-0", "weights-0",
    ]  # fmt: skip
    rows = section(build, "weights-0")
    assert [(row["dataset"], row["cut"]) for row in rows] == [
        ("data", "trigger"), ("data", "two muons"), ("dy", "trigger"), ("dy", "two muons"),
    ]  # fmt: skip
    assert rows[3]["sum of weights"] == "10.00"
    assert [row["jes_up"] for row in rows] == ["0 %", "0 %", "+2.00 %", "+10 %"]
    assert [row["jes_down"] for row in rows] == ["0 %", "0 %", "–", "–"]


def test_the_sums_of_a_histogram_are_one_row_too(build: Path) -> None:
    for name, factor in (("nominal", 1), ("jes_up", 1.5)):
        save(build, "Pt", filled({"data": 1, "dy": factor}), name)
    rows = section(build, "histograms")
    assert [(row["dataset"], row["sum of weights"], row["jes_up"]) for row in rows] == [
        ("data", "100.00", "0 %"), ("dy", "100.00", "+50 %"),
    ]  # fmt: skip


# --- files that are pictures ----------------------------------------------------------------------


class Sources(HTMLParser):
    """The pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [str(value) for name, value in attrs if (tag, name) == ("img", "src")]


def test_plots_of_variations_are_shown_without_nominal_ones(build: Path) -> None:
    (build / "compile").mkdir()
    (build / "compile/systematics.yaml").write_text("variations: [{name: w_up}, {name: w_down}]")
    for name in ("w_up", "w_down"):
        (build / "artifacts" / name / "plots").mkdir(parents=True)
        (build / "artifacts" / name / "plots/a.gif").write_bytes(b"GIF89a")
    text = page.write(build).read_text()
    assert len(Sources(text).found) == 2 and "of variations" not in text


def test_plots_of_variations_are_links(build: Path) -> None:
    (build / "compile").mkdir()
    (build / "compile/systematics.yaml").write_text("variations: [{name: nominal}, {name: jes_up}]")
    for name in ("nominal", "jes_up"):
        (build / "artifacts" / name / "plots").mkdir(parents=True)
        (build / "artifacts" / name / "plots/a.gif").write_bytes(b"GIF89a")
    text = page.write(build).read_text()
    assert len(Sources(text).found) == 1 and 'alt="nominal/plots/a.gif"' in text
    assert "1 others: plots of variations" in text
    assert 'href="./artifacts/jes_up/plots/a.gif"' in text
