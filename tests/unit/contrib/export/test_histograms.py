"""Histograms in other formats: what is read back is what was filled."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import hist
import numpy as np
import pytest
import uhi.io.json
import uproot
from boost_histogram.serialization import from_uhi

from fasthep_smk.contrib.export.histograms import export_histograms
from fasthep_smk.util.errors import SmkError
from tests.support.histograms import same_histogram

X = hist.axis.Regular(4, 0, 2, name="x", label="met [GeV]")
Y = hist.axis.Variable([0, 1, 5, 20], name="y")
Z = hist.axis.Regular(3, -1, 1, name="z", underflow=False, overflow=False)
DATASET = hist.axis.StrCategory(["data", "dy m50"], name="dataset")
VARIATION = hist.axis.StrCategory([], name="variation", growth=True)
COUNTS = hist.axis.IntCategory([], name="n", growth=True)


def filled(*axes: object, weighted: bool = True, number: int = 500) -> hist.Hist:
    """Return a histogram with random events in all its bins."""
    rng = np.random.default_rng(1)
    made = hist.Hist(*axes, storage="weight" if weighted else "double")
    values = []
    for axis in made.axes:
        if isinstance(axis, hist.axis.StrCategory):
            names = list(axis) or ["nominal", "up"]
            values.append(rng.choice(names, number))
        elif isinstance(axis, hist.axis.IntCategory):
            values.append(rng.choice([1, 2, 5], number))
        elif isinstance(axis, hist.axis.Boolean):
            values.append(rng.random(number) < 0.3)
        else:
            values.append(rng.normal(0.8, 3, number))
    made.fill(*values, **({"weight": rng.random(number)} if weighted else {}))
    return made


@pytest.fixture
def written(tmp_path: Path):
    """Write a histogram as a run does; return the folder of the histograms."""

    def write(made: hist.Hist, name: str = "Mass", formats: tuple[str, ...] = ("root", "uhi")):
        folder = tmp_path / "artifacts" / "up" / "histograms"
        folder.mkdir(parents=True)
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(made))
        export_histograms(tmp_path, formats)
        return folder

    return write


def same_in_root(found: uproot.Model, wanted: hist.Hist) -> None:
    """Compare values, variances and edges, with under- and overflow where there are any."""
    flow = [
        slice(0 if a.traits.underflow else 1, None if a.traits.overflow else -1)
        for a in wanted.axes
    ]
    values, variances = found.values(flow=True), found.variances(flow=True)
    assert np.array_equal(values[tuple(flow)], wanted.values(flow=True))
    assert np.allclose(variances[tuple(flow)], wanted.variances(flow=True), rtol=1e-15)
    for number, axis in enumerate(wanted.axes):
        assert np.allclose(found.axis(number).edges(), axis.edges, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("axes", [[X], [Y], [Z], [X, Y], [X, Z], [Z, X, Y]])
def test_axes_of_numbers_are_the_same_in_root(written, axes: list, weighted: bool) -> None:
    made = filled(*axes, weighted=weighted)
    with uproot.open(written(made) / "Mass.root") as file:
        assert [key.partition(";")[0] for key in file] == ["Mass"]
        assert file["Mass"].classname == f"TH{len(axes)}D"
        same_in_root(file["Mass"], made)


def test_each_category_is_a_histogram_in_a_folder_of_its_name(written) -> None:
    made = filled(DATASET, VARIATION, X, Y)
    with uproot.open(written(made) / "Mass.root") as file:
        names = [key.partition(";")[0] for key in file.keys(filter_classname="TH*")]
        folders = {name.split("/")[0] for name in names}
        assert len(names) == 4
        assert "data" in folders
        encoded = next(iter(folders - {"data"}))
        assert encoded.startswith("dy_m50_x")
        for folder, dataset in (("data", "data"), (encoded, "dy m50")):
            for variation in ("nominal", "up"):
                one = file[f"{folder}/{variation}/Mass"]
                same_in_root(one, made[{"dataset": dataset, "variation": variation}])


def test_what_is_of_no_category_is_not_lost(written) -> None:
    made = hist.Hist(DATASET, X, storage="weight")
    made.fill("data", [0.1], weight=2.0)
    made.fill("unheard of", [0.1], weight=3.0)
    with uproot.open(written(made) / "Mass.root") as file:
        assert file["data/Mass"].values().sum() == 2
        assert file["_other/Mass"].values().sum() == 3


def test_integers_that_occur_are_bins_of_a_range(written) -> None:
    made = filled(COUNTS)
    with uproot.open(written(made) / "Mass.root") as file:
        found = file["Mass"]
        assert found.axis().edges().tolist() == [1, 2, 3, 4, 5, 6]
        wanted = [made[{"n": hist.loc(n)}].value if n in (1, 2, 5) else 0 for n in range(1, 6)]
        assert found.values().tolist() == wanted


def test_a_histogram_of_categories_alone(written) -> None:
    made = filled(DATASET)
    with uproot.open(written(made) / "Mass.root") as file:
        assert file["Mass"].values().tolist() == made.values().tolist()


@pytest.mark.parametrize(
    "axes", [[X], [DATASET, VARIATION, X, Y], [COUNTS, Z], [X, Y, Z, hist.axis.Boolean(name="b")]]
)
@pytest.mark.parametrize("weighted", [True, False])
def test_uhi_takes_every_histogram(written, axes: list, weighted: bool) -> None:
    made = filled(*axes, weighted=weighted)
    text = (written(made, formats=("uhi",)) / "Mass.uhi.json").read_text()
    found = hist.Hist(from_uhi(json.loads(text, object_hook=uhi.io.json.object_hook)))
    assert same_histogram(found, made)


def test_four_axes_of_numbers_are_refused_for_root(written) -> None:
    with pytest.raises(SmkError, match=r"smk.export: histogram 'Mass' cannot .* has 4 axes .*uhi"):
        written(filled(X, Y, Z, hist.axis.Regular(2, 0, 1, name="w")))


def test_means_are_refused_for_root(written) -> None:
    made = hist.Hist(X, storage="mean")
    with pytest.raises(SmkError, match="holds means, not counts"):
        written(made, formats=("root",))


def test_an_awkward_name_is_a_name_in_root_too(written) -> None:
    folder = written(filled(X), name="A.b-c")
    with uproot.open(folder / "A.b-c.root") as file:
        assert len(file.keys()) == 1
