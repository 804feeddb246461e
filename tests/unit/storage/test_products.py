"""What a job hands on comes back exactly, or the file that is wrong is named."""

from __future__ import annotations

import dataclasses
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

from fasthep_smk.flow import upstream
from fasthep_smk.storage import pickles, products
from fasthep_smk.storage.products import ARCHIVE, RECORD, Product
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from tests.support.histograms import same_histogram

KEY = ("stage.S", "out")


def save(folder: Path, *made: Product, declared: tuple[str, ...] = ()) -> Path:
    """Save products as a job does and return the folder."""
    content = products.save(folder, made, declared=declared)
    products.write_record(folder, {"rule": "r", "key": "k", **content})
    return folder


def through_files(folder: Path, value: Any, kind: str = "thing") -> Any:
    """Return ``value`` saved as the product of a job and loaded by another."""
    save(folder, Product("stage.S", "out", kind, value))
    return products.load(folder)[KEY]


# --- histograms -----------------------------------------------------------------------------

REGULAR = hist.axis.Regular(7, 0.0, 6.0, name="x", label="mass [GeV]")
GROWING = hist.axis.StrCategory([], growth=True, name="dataset", label="Data set")


def filled() -> Any:
    histogram = hist.Hist(GROWING, REGULAR, storage=hist.storage.Weight())
    return histogram.fill(["dy", "é 🎉", ""], [0.1, 0.2, 9], weight=[0.3, -1, 2])


def test_a_histogram_is_kept_to_the_bit_and_grows_on(tmp_path: Path) -> None:
    """Those of other axes and storages: ``test_pickles.py``."""
    histogram = filled()
    back = through_files(tmp_path, histogram)
    assert same_histogram(back, histogram)
    assert same_histogram(back.fill(["tt"], 3), histogram.fill(["tt"], 3))


def test_name_label_and_notes_of_a_histogram_are_kept(tmp_path: Path) -> None:
    histogram = hist.Hist(REGULAR, name="mass", label="Dimuon mass", metadata={"a": 1})
    histogram.axes[0].metadata = {"unit": "GeV", "range": (0, 6)}
    back = through_files(tmp_path, histogram)
    assert same_histogram(back, histogram)
    assert (back.name, back.label) == ("mass", "Dimuon mass")
    assert back.axes[0].metadata == {"unit": "GeV", "range": (0, 6)}


def test_several_histograms_of_one_job_do_not_mix(tmp_path: Path) -> None:
    made = {f"h{n}": filled() * (n + 1) for n in range(3)}
    save(tmp_path, *(Product("stage.S", name, "histogram", h) for name, h in made.items()))
    back = products.load(tmp_path)
    for name, histogram in made.items():
        assert same_histogram(back["stage.S", name], histogram)


# --- everything else ------------------------------------------------------------------------


def fields_of(reference: Any) -> dict[str, Any]:
    return {item.name: getattr(reference, item.name) for item in dataclasses.fields(reference)}


def test_a_cutflow_is_kept_in_its_order(tmp_path: Path) -> None:
    cutflow = {
        "name": "Selection",
        "steps": [
            {"label": "all", "n": 10, "sumw": 9.5, "parents": ()},
            {"label": "pt > 20", "n": np.int64(4), "sumw": np.float64(0.1), "parents": ("all",)},
        ],
        "datasets": {"dy": {1: 0.3}, "tt": None},
    }
    back = through_files(tmp_path, cutflow, "cutflow")
    assert back == cutflow
    assert list(back) == list(cutflow)
    assert type(back["steps"][1]["n"]) is np.int64
    assert type(back["steps"][0]["parents"]) is tuple
    assert not (tmp_path / ARCHIVE).exists()


@pytest.mark.parametrize("value", [None, 0, "", [], {}, (), 1.5, "text"], ids=repr)
def test_small_values_are_kept(tmp_path: Path, value: Any) -> None:
    back = through_files(tmp_path, value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("index", [None, 0, 1])
def test_a_reference_keeps_its_partition_index(tmp_path: Path, index: int | None) -> None:
    reference = upstream.ArtifactReference(
        uri="/build/artifacts/files/skim/a b/0_0.root",
        product_kind="artifact",
        format="ttree",
        metadata={"entries": np.int64(3), "nested": (1, 2)},
        provenance={"record": "x"},
        producer_node="write.S.0",
        output_name="artifact",
        dataset_name="a b",
        partition_id="events__a b__0",
        partition_index=index,
    )
    back = through_files(tmp_path, reference, "artifact")
    assert type(back) is upstream.ArtifactReference
    assert fields_of(back) == fields_of(reference)
    assert back.partition_index == index


def test_a_manifest_keeps_its_parts(tmp_path: Path) -> None:
    parts = tuple(
        upstream.ArtifactReference(
            uri=f"{n}.root", product_kind="artifact", dataset_name="dy", partition_index=n
        )
        for n in range(3)
    )
    manifest = upstream.ArtifactManifest(
        product_kind="artifact",
        format="ttree",
        producer_node="write.S.0",
        output_name="artifact",
        dataset_name="dy",
        parts=parts,
        metadata={"n": 3},
    )
    back = through_files(tmp_path, manifest, "artifact")
    assert type(back) is upstream.ArtifactManifest
    assert [fields_of(part) for part in back.parts] == [fields_of(part) for part in parts]
    assert back.metadata == {"n": 3}


def test_a_stream_in_an_envelope_keeps_it(tmp_path: Path) -> None:
    value = {"events": ak.Array({"x": [[1.0], []]}), "other": [ak.Array([1, 2])]}
    back = through_files(tmp_path, value, "event_stream")
    assert list(back) == ["events", "other"]
    assert ak.array_equal(back["events"], value["events"])
    assert ak.array_equal(back["other"][0], value["other"][0])


def test_a_stream_goes_to_its_own_file_with_its_live_columns(tmp_path: Path) -> None:
    value = ak.Array({"x": [1.0, 2.0], "dead": [3, 4]})
    save(tmp_path, Product("stage.S", "stream", "event_stream", value, "S.arrow", ("x",)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["S.arrow", RECORD]
    assert products.load(tmp_path)[("stage.S", "stream")].fields == ["x"]


class Own:
    """A class of a user's own."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


def test_an_object_of_a_users_class_is_kept(tmp_path: Path) -> None:
    value = {"a": [Own(1), (Own(2),)]}
    assert through_files(tmp_path, value) == value


def test_an_object_that_would_not_be_taken_from_a_worker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickles, "_listed", frozenset())
    own = "tests.unit.storage.test_products:Own"
    with pytest.raises(Findings, match=rf"smk: \{{pickles_of: \[{own}\]\}}"):
        through_files(tmp_path / "a", {"a": Own(1)})
    monkeypatch.setattr(pickles, "_listed", frozenset({own}))
    assert through_files(tmp_path / "b", {"a": Own(1)}) == {"a": Own(1)}


def test_what_is_adopted_would_be_sent_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a", Product("stage.S", "hist", "other", Own(1)))
    adopted = (tmp_path / "a", products.read_record(tmp_path / "a")["products"])
    monkeypatch.setattr(pickles, "_listed", frozenset())
    with pytest.raises(Findings, match="workers must not send this"):
        products.save(tmp_path / "b", [], declared=[], adopted=adopted)


def test_only_what_was_looked_at_is_unpickled(tmp_path: Path) -> None:
    """A record from a worker may call any member of the archive a pickle."""
    save(tmp_path, Product("stage.S", "hist", "other", Own(1)))
    record = products.read_record(tmp_path)
    with zipfile.ZipFile(tmp_path / ARCHIVE, "a") as archive:
        archive.writestr("p2.json", archive.read(archive.namelist()[0]))
    record["files"][ARCHIVE] = files.described(tmp_path / ARCHIVE)
    record["products"][0]["value"] = {"$": "pickle", "member": "p2.json"}
    products.write_record(tmp_path, record)
    with pytest.raises(products.Damaged, match=r"p2\.json is not a pickle"):
        products.load(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        {"$": "numpy", "dtype": "O", "shape": [1], "v": "AAAAAAAAAAA="},
        {"$": "pickle", "member": "p9.pickle"},
        {"$": "stream"},
        {"$": "set", "v": [[1]]},
        {"$": ["text"]},
    ],
    ids=repr,
)
def test_what_is_not_as_we_write_it_is_damaged(tmp_path: Path, value: Any) -> None:
    """A worker may have made it up: its job runs again."""
    stream = Product("stage.A", "stream", "event_stream", ak.Array({"x": [1]}), "A.arrow")
    save(tmp_path, stream, Product("stage.B", "hist", "other", Own(1)))
    record = products.read_record(tmp_path)
    record["products"][0]["value"] = value
    products.write_record(tmp_path, record)
    with pytest.raises(products.Damaged, match="cannot be read"):
        products.load(tmp_path)


# --- folders and records --------------------------------------------------------------------


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    save(
        tmp_path,
        Product("stage.A", "stream", "event_stream", ak.Array({"x": [1]}), "A.arrow"),
        Product("stage.B", "cutflow", "cutflow", {"n": 1}),
    )
    (tmp_path / "A.arrow").unlink()
    assert products.load(tmp_path, [("stage.B", "cutflow")]) == {("stage.B", "cutflow"): {"n": 1}}


def test_what_was_not_made_is_named(tmp_path: Path) -> None:
    save(tmp_path, Product("stage.A", "hist", "histogram", 1))
    with pytest.raises(Findings, match=r"does not hold stage\.B\.hist"):
        products.load(tmp_path, [("stage.B", "hist")])


def test_declared_files_exist_even_if_nothing_is_in_them(tmp_path: Path) -> None:
    save(tmp_path, declared=("S.arrow", ARCHIVE))
    assert (tmp_path / "S.arrow").exists()
    assert (tmp_path / ARCHIVE).exists()
    assert products.load(tmp_path) == {}


def test_the_record_has_size_and_checksum_of_every_file(tmp_path: Path) -> None:
    save(
        tmp_path,
        Product("stage.A", "stream", "event_stream", ak.Array({"x": [1]}), "A.arrow"),
        Product("stage.A", "hist", "histogram", filled()),
    )
    record = json.loads((tmp_path / RECORD).read_text())
    assert set(record["files"]) == {"A.arrow", ARCHIVE}
    for name, described in record["files"].items():
        assert described["size"] == (tmp_path / name).stat().st_size
        assert described["sha256"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished job with a stream and a histogram."""
    return save(
        tmp_path_factory.mktemp("finished"),
        Product("stage.A", "stream", "event_stream", ak.Array({"x": [1.0, 2.0]}), "A.arrow"),
        Product("stage.A", "hist", "histogram", filled()),
    )


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = {"truncated": truncate, "emptied": empty, "deleted": Path.unlink}


@pytest.mark.parametrize("name", ["A.arrow", ARCHIVE])
@pytest.mark.parametrize("damage", [*DAMAGE, "one bit flipped"])
def test_a_damaged_file_is_named_and_what_to_do(
    finished: Path, tmp_path: Path, name: str, damage: str
) -> None:
    folder = tmp_path / "job"
    shutil.copytree(finished, folder)
    DAMAGE.get(damage, flip)(folder / name)
    with pytest.raises(products.Damaged) as caught:
        products.load(folder)
    assert str(folder / name) in str(caught.value)
    assert caught.value.record == folder / RECORD  # which goes, so that its job runs again


@pytest.mark.parametrize("damage", [*DAMAGE, "one bit flipped"])
def test_a_damaged_record_is_named(finished: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "job"
    shutil.copytree(finished, folder)
    DAMAGE.get(damage, flip)(folder / RECORD)
    with pytest.raises(products.Damaged, match=r"was altered|cannot be read") as caught:
        products.load(folder)
    assert str(folder / RECORD) in str(caught.value)
    assert caught.value.record == folder / RECORD


def test_no_bit_of_a_record_can_flip_unseen(finished: Path, tmp_path: Path) -> None:
    content = (finished / RECORD).read_bytes()
    for position in range(len(content)):
        flipped = bytes([content[position] ^ 1 << position % 8])
        (tmp_path / RECORD).write_bytes(content[:position] + flipped + content[position + 1 :])
        with pytest.raises(products.Damaged):
            products.read_record(tmp_path)


@pytest.mark.parametrize("content", ["[]", '"text"', "{}", "null", '{"format": 1}'])
def test_json_of_another_shape_is_no_record(tmp_path: Path, content: str) -> None:
    (tmp_path / RECORD).write_text(content)
    with pytest.raises(products.Damaged, match="does not begin with a checksum"):
        products.load(tmp_path)


@pytest.mark.parametrize("content", [{"a": 1}, {"format": 0}, {"format": 999}])
def test_a_record_of_another_version_is_refused(tmp_path: Path, content: dict[str, int]) -> None:
    (tmp_path / RECORD).write_text(files.seal(content))
    with pytest.raises(products.Damaged, match="another version"):
        products.load(tmp_path)


def test_verifying_looks_at_every_file(finished: Path, tmp_path: Path) -> None:
    products.verify(finished)
    for name in ("A.arrow", ARCHIVE, RECORD):
        folder = tmp_path / name
        shutil.copytree(finished, folder)
        flip(folder / name)
        with pytest.raises(products.Damaged, match=name):
            products.verify(folder)
