"""Which nodes of a job have to run, which streams are worth keeping, and how records are joined."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

from fasthep_smk.plan.rules import Variation
from fasthep_smk.plan.wiring import Wiring, wiring
from fasthep_smk.reuse.partial import nodes_to_run
from fasthep_smk.storage import hard_links, products, run_records
from fasthep_smk.storage.damage import difference
from fasthep_smk.storage.products import Product
from fasthep_smk.storage.task_table import Kept
from fasthep_smk.worker import cached_streams
from fasthep_smk.worker import partition as partition_job
from fasthep_smk.worker.job import Sent, WorkerJob
from tests.support import tables
from tests.unit.plan.test_jobs import SIM, partition, rules_of
from tests.unit.plans import define, graph, histogram, node

SOURCE = node("source", "events", tree="events", branches=["px", "py"])
READ, A, B, HA, HB, HR = (
    "read.events", "stage.A", "stage.B", "stage.HA", "stage.HB", "stage.HR"
)  # fmt: skip
NODES = (READ, HR, A, HA, B, HB)
PLAN = graph(
    SOURCE,
    histogram("HR", READ, "py"),
    define("A", READ, "px + 1"),
    histogram("HA", A, "A_x"),
    define("B", A, "A_x + py"),
    histogram("HB", B, "B_x"),
    datasets={"sim": SIM},
)
WIRED = wiring(PLAN, NODES, SIM, {})
STREAM_A, STREAM_B, EVENTS = (A, "stream"), (B, "stream"), (READ, "stream")


def to_run(
    changed: set[str], kept: dict[tuple[str, str], set[str]], wired: Wiring = WIRED
) -> set[str] | None:
    """Return what runs if these nodes have changed and these columns were kept."""

    def exists(key: tuple[str, str], columns: tuple[str, ...] | None) -> bool:
        return key in kept and columns is not None and kept[key].issuperset(columns)

    nodes = list(wired.wires)[::-1]
    return nodes_to_run(nodes, wired, {name: name not in changed for name in nodes}, exists)


class TestWiring:
    def test_streams_that_histograms_hang_on_are_worth_keeping(self) -> None:
        """With what the histograms read, not with all that goes on to other stages."""
        assert WIRED.cached == {STREAM_A: ("A_x",), STREAM_B: ("B_x",), EVENTS: ("py",)}

    def test_a_stage_takes_in_what_it_passes_on(self) -> None:
        (wire,) = WIRED.wires[B]
        assert wire.key == STREAM_A
        assert set(wire.columns or ()) == {"A_x", "py", "B_x"}

    def test_a_stream_that_is_handed_on_is_no_spare(self) -> None:
        wired = wiring(PLAN, NODES, SIM, {STREAM_A: ("A_x", "other")})
        assert set(wired.cached) == {STREAM_B, EVENTS}
        assert set(wired.wires[A][0].columns or ()) >= {"other", "px"}

    def test_inactive_stages_are_passed_by(self) -> None:
        plan = graph(
            SOURCE,
            define("A", READ, "px", applies_to={"eventtype": "data"}),
            histogram("HA", A, "py"),
            datasets={"sim": SIM},
        )
        found = wiring(plan, (READ, HA), SIM, {})
        assert found.wires[HA][0].key == EVENTS
        assert found.cached == {EVENTS: ("py",)}

    def test_what_may_write_for_the_user(self) -> None:
        plan = graph(SOURCE, node("writer", "w", READ), node("observer", "o", READ))
        assert wiring(plan, plan.nodes, None, {}).writers == {"write.w", "observe.o"}

    def test_a_job_that_reads_its_stream_from_another_keeps_none(self) -> None:
        plan = Variation(None, PLAN, (partition("sim"),))
        rules = rules_of(plan, granularity="stage")
        assert all(not one.cached for rule in rules.values() for one in rule.wirings.values())
        (joined,) = (rule for rule in rules_of(plan).values() if rule.scope == "partition")
        assert [one.cached for one in joined.wirings.values()] == [WIRED.cached]


class TestChoice:
    def test_a_changed_histogram_runs_alone(self) -> None:
        assert to_run({HB}, {STREAM_B: {"B_x"}}) == {HB}

    def test_two_histograms_of_two_streams(self) -> None:
        assert to_run({HB, HR}, {STREAM_B: {"B_x"}, EVENTS: {"py"}}) == {HB, HR}

    def test_what_makes_a_lacking_stream_runs_too(self) -> None:
        assert to_run({HB}, {STREAM_A: {"A_x", "py", "B_x"}}) == {B, HB}

    def test_a_column_that_was_not_kept_counts_as_lacking(self) -> None:
        assert to_run({HA}, {STREAM_A: {"other"}}) == {READ, A, HA}

    def test_two_readers_need_the_columns_of_both(self) -> None:
        kept = {STREAM_A: {"A_x"}, EVENTS: {"px", "A_x", "B_x", "py"}}
        assert to_run({HA}, kept) == {HA}
        assert to_run({HA, B, HB}, kept) == {A, HA, B, HB}

    @pytest.mark.parametrize("changed", [{HB}, {A, HA, B, HB}])
    def test_from_the_source_on_only_if_that_saves_half(self, changed: set[str]) -> None:
        """HB needs the source, A and B; that is more than half of six nodes."""
        assert to_run(changed, {}) is None

    def test_nothing_or_everything_is_no_part(self) -> None:
        assert to_run(set(), {}) is None
        assert to_run(set(NODES), {}) is None

    def test_no_part_if_a_writer_has_to_run(self) -> None:
        wired = Wiring(WIRED.wires, WIRED.cached, WIRED.sources, frozenset({HB}))
        assert to_run({HB}, {STREAM_B: {"B_x"}}, wired) is None
        assert to_run({HA}, {STREAM_A: {"A_x"}}, wired) == {HA}

    def test_no_part_of_a_source_whose_events_no_stage_reads(self) -> None:
        assert to_run({READ}, {}) is None


def job(folder: Path, *cached: Kept, memory: int | None = None) -> WorkerJob:
    asked = {} if memory is None else {"memory": memory}
    (folder / "job").mkdir(exist_ok=True)
    entry = tables.entry(folder="job", signed_as="nominal")
    table = tables.table(jobs={"k": entry}, cached={"nominal": cached})
    return WorkerJob(folder, table, "k", Sent(asked=asked))


def wanted(name: str, live: list[str] | None) -> Kept:
    columns = None if live is None else tuple(live)
    return Kept(name, "stream", f"{name}.spare.arrow", columns)


EVENTS_MADE = ak.Array({"x": np.arange(1000.0), "y": np.arange(1000), "z": np.ones(1000)})


MADE = {("A", "stream"): EVENTS_MADE, ("B", "stream"): EVENTS_MADE[EVENTS_MADE.x < 10]}


class TestSpares:
    def keep(self, kept: WorkerJob, cpu: float) -> list[str]:
        return [name for _, files in cached_streams.keep(kept, MADE, cpu) for name in files]

    def test_the_live_columns_are_kept_and_can_be_read(self, tmp_path: Path) -> None:
        mine = job(tmp_path, wanted("A", ["x"]))
        ((entry, described),) = cached_streams.keep(mine, MADE, 1.0)
        assert entry["spare"] is True
        record = {"format": products.FORMAT, "products": [entry], "files": described}
        products.write_record(mine.folder, record)
        (value,) = products.load(mine.folder).values()
        assert ak.array_equal(value, EVENTS_MADE[["x"]], dtype_exact=True)

    def test_only_if_it_is_small_against_what_it_cost(self, tmp_path: Path) -> None:
        enough = 8 * 1000 / cached_streams.BYTES_PER_SECOND
        mine = job(tmp_path, wanted("A", ["x"]))
        assert self.keep(mine, 0.9 * enough) == []
        assert self.keep(mine, 1.1 * enough) == ["A.spare.arrow"]

    def test_it_is_compressed_if_there_is_time_for_that(self, tmp_path: Path) -> None:
        made = {("A", "stream"): ak.Array({"x": np.zeros(1000)})}
        mine = job(tmp_path, wanted("A", ["x"]))
        sizes = {}
        for name, rate in (("plain", 49e6), ("zstd", 11e6)):
            ((_, described),) = cached_streams.keep(mine, made, 8 * 1000 / rate)
            sizes[name] = described["A.spare.arrow"]["size"]
            (mine.folder / "A.spare.arrow").unlink()
        assert sizes["zstd"] < 8000 < sizes["plain"]

    def test_of_several_the_smallest(self, tmp_path: Path) -> None:
        """A selection counts with what is left, not with all events that it points into."""
        mine = job(tmp_path, wanted("A", None), wanted("B", None))
        assert self.keep(mine, 9000 / cached_streams.BYTES_PER_SECOND) == ["B.spare.arrow"]

    def test_never_beyond_the_memory_of_the_job(self, tmp_path: Path) -> None:
        assert self.keep(job(tmp_path, wanted("A", ["x"]), memory=1000), 1.0) == []

    def test_never_if_the_disk_is_short(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def disk(free: int) -> None:
            status = SimpleNamespace(f_bavail=free, f_blocks=10**6, f_frsize=1)
            monkeypatch.setattr(os, "statvfs", lambda _: status)

        disk(90_000)  # less than a tenth
        assert cached_streams.room_on(tmp_path, 1) == 0
        assert self.keep(job(tmp_path, wanted("A", ["x"])), 1.0) == []
        disk(104_000)
        assert cached_streams.room_on(tmp_path, 1) == 4000
        disk(900_000)
        assert cached_streams.room_on(tmp_path, 1) == 90_000
        assert cached_streams.room_on(tmp_path, 100) == 900
        assert self.keep(job(tmp_path, wanted("A", ["x"])), 1.0) == ["A.spare.arrow"]

    def test_what_cannot_be_written_is_no_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cached_streams, "write_stream", full)
        assert self.keep(job(tmp_path, wanted("A", ["x"])), 1.0) == []
        assert "A.spare.arrow is not kept" in capsys.readouterr().err
        assert list((tmp_path / "job").iterdir()) == []


class Opaque:
    """Something that only a pickle can hold."""


class TestSharing:
    def test_a_shared_stream_is_the_same_file(self, tmp_path: Path) -> None:
        source, goal = tmp_path / "a", tmp_path / "b"
        goal.mkdir()
        stream = Product("A", "stream", "event_stream", EVENTS_MADE, "A.arrow", ("x",))
        record = products.save(source, [stream], declared=[])
        entry, described = hard_links.share(source, record, stream.key, goal, name="other.arrow")
        assert entry["value"]["file"] == "other.arrow"
        assert described == {"other.arrow": record["files"]["A.arrow"]}
        assert (goal / "other.arrow").samefile(source / "A.arrow")
        with pytest.raises(FileExistsError):  # it must never be written into
            hard_links.share(source, record, stream.key, goal, name="other.arrow")

    def test_what_lies_in_an_archive_is_not_shared(self, tmp_path: Path) -> None:
        values = [Product("H", "h", "histogram", Opaque(), None)]
        record = products.save(tmp_path / "a", values, declared=[])
        with pytest.raises(ValueError, match="other products"):
            hard_links.share(tmp_path / "a", record, ("H", "h"), tmp_path)

    def test_what_lies_in_an_archive_is_copied_as_it_is(self, tmp_path: Path) -> None:
        """Under its own names, which new products then do not use."""
        one, other = (hist.Hist.new.Reg(3, 0, 1, name=name).Weight() for name in ("x", "y"))
        one.fill([0.1, 0.9], weight=[2, 3])
        first = [Product(name, "h", "histogram", one) for name in ("A", "B")]
        first.append(Product("C", "h", "other", Opaque()))
        record = products.save(tmp_path / "a", first, declared=[])
        known = hard_links.entries(record)
        taken = [known["B", "h"], known["C", "h"]]
        again = products.save(
            tmp_path / "b",
            [Product("A", "h", "histogram", other)],
            declared=[],
            adopted=(tmp_path / "a", taken),
        )
        assert [entry["node"] for entry in again["products"]] == ["B", "C", "A"]
        products.write_record(tmp_path / "b", again)
        found = products.load(tmp_path / "b")
        assert found["B", "h"] == one
        assert found["A", "h"] == other
        assert isinstance(found["C", "h"], Opaque)
        with zipfile.ZipFile(tmp_path / "b" / "products.zip") as archive:
            assert len(archive.namelist()) == 3

    def test_a_stream_of_another_length_is_refused(self, tmp_path: Path) -> None:
        stream = Product("A", "stream", "event_stream", EVENTS_MADE, "A.arrow")
        record = products.save(tmp_path / "a", [stream], declared=[])
        path, known = tmp_path / "a" / "A.arrow", record["files"]["A.arrow"]
        assert difference(path, known) is None
        os.truncate(path, 10)
        assert difference(path, known)
        with pytest.raises(ValueError, match="damaged"):
            hard_links.share(tmp_path / "a", record, stream.key, tmp_path)

    def test_a_damaged_spare_stream_does_not_condemn_its_job(self, tmp_path: Path) -> None:
        mine = job(tmp_path, wanted("A", ["x"]))
        ((entry, described),) = cached_streams.keep(mine, {("A", "stream"): EVENTS_MADE}, 1.0)
        record = {"format": products.FORMAT, "products": [entry], "files": described}
        products.write_record(mine.folder, record)
        (mine.folder / "A.spare.arrow").unlink()
        products.verify(mine.folder)
        with pytest.raises(products.Damaged):
            products.load(mine.folder)


def run(*nodes: str, **more: Any) -> dict[str, Any]:
    return {
        "partition": {"id": "p"},
        "boundary": [{"node": name, "port": "h"} for name in nodes],
        "operations": [{"node_id": name, "id": f"{name}::p"} for name in nodes],
        "resources": {},
        "hooks": [],
        "warnings": [],
        **more,
    }


class TestRecords:
    def test_parts_are_told_in_the_order_of_the_plan(self) -> None:
        earlier, now = run(READ, A, HB), run(HA, warnings=[{"text": "new"}])
        assert partition_job._merged(PLAN.plan, [earlier, now]) == run(
            READ, A, HA, HB, warnings=[{"text": "new"}]
        )

    def test_what_belongs_to_no_node_cannot_be_told_in_parts(self) -> None:
        once = {"kind": "hep.dataset_context", "events": ["partition_start"], "calls": 1}
        each = {"kind": "own.timing", "events": ["before_node"], "calls": 5}
        assert run_records.is_quiet([run(A), run(B, hooks=[once])])
        for more in (
            {"hooks": [each]},
            {"hooks": [{"kind": "own.any"}]},
            {"warnings": [{"text": "x"}]},
            {"resources": {"table": {}}},
        ):
            assert not run_records.is_quiet([run(A), run(B, **more)])
