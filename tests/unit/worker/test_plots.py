"""What comes at the end of a run: which plot follows from what, and how they are drawn apart."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest

from fasthep_smk.flow.graph import Graph
from fasthep_smk.flow.plot_styles import styles_before
from fasthep_smk.flow.summary import Run
from fasthep_smk.plan.plot_signatures import end_values
from fasthep_smk.plan.signatures import node_signatures
from fasthep_smk.worker import plots as ending
from fasthep_smk.worker.job import Sent
from fasthep_smk.worker.limits import TimeLimit, time_limit
from tests.support import tables
from tests.unit.plans import define, graph, histogram, node

SOURCE = node("source", "events", tree="events", branches=["px", "py"])


def plot(name: str, source: str, **details: Any) -> dict[str, Any]:
    """Return a writer at the end of the run, of a histogram."""
    found = node("writer", name, source, when="run_end", path=f"{name}.root", **details)
    found["inputs"][0]["output_name"] = "hist"
    return found


def values(made: Graph, *, around: Any = None, **results: str) -> dict[str, str]:
    known = node_signatures(made, "nominal")
    found = end_values(made, known, lambda name: results.get(name.split(".")[1]), around)
    return {name.split(".")[1]: value for name, value in found.items()}


class TestWhatAPlotFollowsFrom:
    plots = graph(
        SOURCE,
        define("A", "read.events", "px + 1"),
        histogram("H", "stage.A", "A_x"),
        histogram("G", "stage.A", "py"),
        plot("PlotH", "stage.H"),
        plot("PlotG", "stage.G"),
    )

    def test_from_its_own_histogram_of_all_partitions(self) -> None:
        before = values(self.plots, H="1", G="1")
        after = values(self.plots, H="2", G="1")
        assert before["PlotG"] == after["PlotG"]
        assert before["PlotH"] != after["PlotH"]

    def test_from_its_style(self) -> None:
        nodes = [SOURCE, define("A", "read.events", "px + 1"), histogram("H", "stage.A", "A_x")]
        one, other = (
            values(graph(*nodes, plot("P", "stage.H", style=style))) for style in ("a", "b")
        )
        assert one["P"] != other["P"]

    def test_from_what_all_of_them_see_of_the_run(self) -> None:
        before, after = (values(self.plots, around=around) for around in ("a", "b"))
        assert all(before[name] != after[name] for name in ("PlotH", "PlotG"))

    @pytest.mark.parametrize("why", ["a user's own", "reads another's", "a user's hook"])
    def test_from_anything_if_one_may_look_at_all(self, why: str) -> None:
        made = graph(
            SOURCE,
            histogram("H", "read.events", "px"),
            plot("P", "stage.H"),
            plot("Q", "write.P" if why == "reads another's" else "stage.H"),
        )
        if why == "a user's own":
            made.nodes["write.Q"] = replace(made.nodes["write.Q"], published=False)
        made.hooked = why == "a user's hook"
        assert values(made) == {}


def plain(name: str) -> SimpleNamespace:
    """Return a node that draws nothing."""
    return SimpleNamespace(id=name, impl="root_tree", params={})


class Pages:
    """Stands for a session: each node at the end writes a file, or does what it is told to."""

    def __init__(self, outdir: Path, **nodes: Callable[[Pages], None]) -> None:
        self.nodes = nodes
        self.outdir = outdir
        self.operations: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []
        self.hooks: list[dict[str, Any]] = []
        self.plan = SimpleNamespace(get_node=plain)

    def end_nodes(self) -> list[str]:
        return list(self.nodes)

    def import_ops(self, nodes: Iterable[str]) -> None:
        pass

    def write_to(self, outdir: Path) -> None:
        self.outdir = outdir

    def record(self, *, replayed: int = 0) -> Run:
        return Run(
            operations=self.operations[replayed:], warnings=list(self.warnings), hooks=self.hooks
        )

    def run_end_nodes(self, store: dict[Any, Any], nodes: Iterable[str]) -> None:
        for name in nodes:
            self.nodes[name](self)
            path = self.outdir / "plots" / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} of {store['h', 'hist']}")
            store[name, "artifact"] = str(path)
            self.operations.append({"node_id": name, "path": str(path), "pid": os.getpid()})


def styled(name: str, experiment: str | None, op: str = "hist1d") -> SimpleNamespace:
    spec = {"style": {} if experiment is None else {"experiment": experiment}}
    return SimpleNamespace(id=name, impl=f"hep.render.{op}", params={"spec": spec})


class TestStylesBeforeAPlot:
    def test_are_those_of_the_plots_before_it_and_its_own(self) -> None:
        nodes = [
            styled("plane", "CMS", "heatmap2d"),
            styled("a", "CMS"),
            styled("b", "ATLAS", "data_mc"),
            styled("none", ""),
            styled("c", None),
        ]
        assert styles_before(nodes) == {
            "plane": (),
            "a": ("CMS",),
            "b": ("CMS", "ATLAS"),
            "none": ("CMS", "ATLAS"),
            "c": ("ATLAS", "CMS"),
        }

    def test_a_projection_draws_with_another_operation(self) -> None:
        spec = {
            "style": {"experiment": "LHCb"},
            "project": {"then": {"op": "hep.render.hist1d"}},
        }
        node = SimpleNamespace(id="p", impl="hep.render.project", params={"spec": spec})
        assert styles_before([node]) == {"p": ("LHCb",)}


def nothing(_: Pages) -> None:
    pass


def write(name: str) -> Callable[[Pages], None]:
    def run(pages: Pages) -> None:
        pages.outdir.mkdir(parents=True, exist_ok=True)
        (pages.outdir / name).write_text("written")

    return run


def in_a_process_of_its_own(does: Callable[[Pages], None]) -> Callable[[Pages], None]:
    me = os.getpid()
    return lambda pages: does(pages) if os.getpid() != me else None


def killed(_: Pages) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fails(_: Pages) -> None:
    raise ValueError("no such colour")


def paints(_: Pages) -> None:
    matplotlib.rcParams["axes.facecolor"] = "red"


def hangs(_: Pages) -> None:
    time.sleep(60)


def threads() -> int:
    """How many threads this process has, also those that Python does not know."""
    time.sleep(0.05)  # one that has just ended is listed for a moment longer
    return len(list(Path("/proc/self/task").iterdir()))


def warns(pages: Pages) -> None:
    pages.warnings.append({"text": "an empty histogram"})


@pytest.fixture
def run_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    # The process that runs the tests may have threads, which do nothing here.
    monkeypatch.setattr(ending, "has_one_thread", lambda: True)

    def run(pages: Pages, threads: int = 2, **entry: Any) -> tuple[ending.Ending, dict[Any, Any]]:
        known = dict.fromkeys(pages.nodes, "value")
        sent = Sent(1, threads)
        job = tables.job(tmp_path, "finish", "finish", "", sent, **{"values": known, **entry})
        store = {("h", "hist"): "events"}
        return ending.run_end(job, pages, pages.outdir, store), store  # type: ignore[arg-type]

    return run


def of_processes(found: ending.Ending) -> set[int]:
    return {item["pid"] for item in found.operations}


class TestNodesAtTheEnd:
    names = ("a", "b", "c", "d", "e")

    def assert_complete(self, found: ending.Ending, store: dict[Any, Any], folder: Path) -> None:
        """All is as one process would leave it."""
        paths = {name: str(folder / "plots" / f"{name}.png") for name in self.names}
        assert {name: Path(path).read_text() for name, path in paths.items()} == {
            name: f"{name} of events" for name in self.names
        }
        assert [(item["node_id"], item["path"]) for item in found.operations] == [*paths.items()]
        assert list(store) == [("h", "hist"), *((name, "artifact") for name in self.names)]
        assert [store[name, "artifact"] for name in self.names] == list(paths.values())
        assert not list(folder.parent.glob("*.apart"))

    def test_run_in_several_processes(self, run_end: Any, tmp_path: Path) -> None:
        folder = tmp_path / "stage"
        found, store = run_end(Pages(folder, **dict.fromkeys(self.names, nothing)))
        self.assert_complete(found, store, folder)
        assert os.getpid() not in of_processes(found)
        assert found.written == {name: [f"plots/{name}.png"] for name in self.names}

    @pytest.mark.parametrize(
        ("does", "says"),
        [
            (killed, "terminated abruptly"),
            (fails, "ValueError: no such colour"),
            (write("index.html"), "two of them have written one file"),
            (paints, "b changes how plots look"),
            (warns, "records a warning or resource of the whole job"),
        ],
    )
    def test_run_in_one_if_that_goes_wrong(
        self, run_end: Any, tmp_path: Path, capfd: Any, does: Any, says: str
    ) -> None:
        folder = tmp_path / "stage"
        nodes = dict.fromkeys(self.names, nothing)
        nodes |= dict.fromkeys(("b", "d"), in_a_process_of_its_own(does))
        found, store = run_end(Pages(folder, **nodes))
        self.assert_complete(found, store, folder)
        assert of_processes(found) == {os.getpid()}
        assert says in capfd.readouterr().err

    def test_that_leave_a_style_behind_run_as_fasthep_runs_them(
        self, run_end: Any, tmp_path: Path, capfd: Any
    ) -> None:
        nodes = {**dict.fromkeys(self.names, nothing), "b": paints}
        seen: list[str] = []
        nodes["c"] = lambda _: seen.append(matplotlib.rcParams["axes.facecolor"])
        with matplotlib.rc_context():
            found, store = run_end(Pages(tmp_path / "stage", **nodes))
        self.assert_complete(found, store, tmp_path / "stage")
        assert seen == ["red"]
        assert found.written == {}
        assert "all plots are made again, one after another" in capfd.readouterr().err

    def test_fail_as_they_would_in_one(self, run_end: Any, tmp_path: Path) -> None:
        nodes = {**dict.fromkeys(self.names, nothing), "d": fails}
        with pytest.raises(ValueError, match="no such colour"):
            run_end(Pages(tmp_path / "stage", **nodes))

    def test_that_say_something_are_not_taken_over_later(
        self, run_end: Any, tmp_path: Path
    ) -> None:
        nodes = {**dict.fromkeys(self.names, nothing), "d": warns}
        found, _ = run_end(Pages(tmp_path / "stage", **nodes))
        assert found.written == {}
        assert of_processes(found) == {os.getpid()}

    def test_that_a_hook_counts_run_in_one(self, run_end: Any, tmp_path: Path) -> None:
        pages = Pages(tmp_path / "stage", **dict.fromkeys(self.names, nothing))
        pages.hooks = [{"kind": "timing", "events": ["after_node"]}]
        found, _ = run_end(pages)
        assert found.written == {}
        assert of_processes(found) == {os.getpid()}

    def test_without_values_run_in_one(self, run_end: Any, tmp_path: Path) -> None:
        pages = Pages(tmp_path / "stage", **dict.fromkeys(self.names, nothing))
        found, store = run_end(pages, values={})
        self.assert_complete(found, store, tmp_path / "stage")
        assert of_processes(found) == {os.getpid()}

    def test_run_in_several_processes_within_a_time_limit(
        self, run_end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No thread of this process keeps the time, so that it can fork."""
        # Libraries may start threads when they are used for the first time.
        run_end(Pages(tmp_path / "first", **dict.fromkeys(self.names, nothing)))
        before = threads()
        seen = []
        monkeypatch.setattr(ending, "has_one_thread", lambda: not seen.append(threads() - before))
        with time_limit(100):
            assert threads() == before
            found, _ = run_end(Pages(tmp_path / "stage", **dict.fromkeys(self.names, nothing)))
        assert seen == [0]
        assert os.getpid() not in of_processes(found)

    def test_that_hang_end_with_the_time_limit(self, run_end: Any, tmp_path: Path) -> None:
        nodes = {**dict.fromkeys(self.names, nothing), "b": hangs}
        with pytest.raises(TimeLimit), time_limit(1):
            run_end(Pages(tmp_path / "stage", **nodes))
        assert not multiprocessing.active_children()
        assert not list(tmp_path.glob("*.apart"))

    def test_run_in_one_where_processes_cannot_talk(
        self, run_end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine without /dev/shm, or one that only others may write to."""

        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refuse)
        pages = Pages(tmp_path / "stage", **dict.fromkeys(self.names, nothing))
        found, store = run_end(pages)
        self.assert_complete(found, store, tmp_path / "stage")
        assert of_processes(found) == {os.getpid()}


def test_only_files_that_belong_to_one_node_are_offered_to_later_runs(tmp_path: Path) -> None:
    files = {"a": ["a.png"], "b": ["c/x.png", "b.png"], "c": ["c/x.png"], "elsewhere": []}
    job = tables.job(tmp_path, "finish", "finish", "", values=dict.fromkeys(files, "value"))
    offered = ending.told(job, ending.Ending(written=files))["values"]
    assert offered == {"a": {"value": "value", "files": ["a.png"]}}
