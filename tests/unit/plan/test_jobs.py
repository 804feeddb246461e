"""How a plan is cut into tasks and multiplied into jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fasthep_smk.config.execution import read_execution
from fasthep_smk.config.routing import Router
from fasthep_smk.plan.columns import live_columns
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.plan.tasks import Granularity, Task, cut
from fasthep_smk.plan.variations import unite_sources
from fasthep_smk.storage.inputs import Inputs
from tests.unit.plans import define, graph, histogram, node, router_for

DATA = {"name": "data", "eventtype": "data", "files": ["d.root"]}
SIM = {"name": "sim", "eventtype": "mc", "files": ["s.root"]}
SOURCE = node("source", "events", tree="events", branches=["px", "py"])


def partition(dataset: str, part: str = "0_0") -> Partition:
    return Partition(f"events__{dataset}__{part}", dataset, f"{dataset}.root", "events", part)


def rules_of(
    *variations: Variation, granularity: Granularity = "auto", root: Path = Path()
) -> dict[str, Rule]:
    router = router_for(*(item.graph for item in variations))
    made = make_rules(
        list(variations), granularity, identity=Inputs(root, root / "none").identity, router=router
    )
    return {rule.name: rule for rule in made}


def stages(graphs: dict[str, Any], granularity: Granularity = "auto") -> list[tuple[str, ...]]:
    return [task.nodes for task in tasks(graphs, granularity)]


def tasks(graphs: dict[str, Any], granularity: Granularity = "auto") -> list[Task]:
    return cut(graphs, granularity, [SIM], router_for(*graphs.values()))


def united(graphs: dict[str, Any]) -> frozenset[str]:
    return unite_sources(graphs, {name: live_columns(one) for name, one in graphs.items()})


class TestTasks:
    chain = graph(
        SOURCE,
        define("A", "read.events", "px + 1"),
        define("B", "stage.A", "A_x + py"),
        histogram("H", "stage.B", "B_x"),
    )

    def test_auto_joins_a_chain_into_one_task(self) -> None:
        assert stages({"nominal": self.chain}) == [("read.events", "stage.A", "stage.B", "stage.H")]

    def test_stage_makes_a_task_of_each_stage(self) -> None:
        found = stages({"nominal": self.chain}, "stage")
        assert found == [("read.events",), ("stage.A",), ("stage.B",), ("stage.H",)]

    def test_a_stage_that_asks_for_another_pool_is_cut_out(self) -> None:
        plan = graph(
            SOURCE,
            define("A", "read.events", "px + 1"),
            define("B", "stage.A", "A_x", execution={"require": "gpu"}),
            histogram("H", "stage.B", "B_x"),
        )
        found = tasks({"nominal": plan})
        assert [(task.nodes, *task.route.pools) for task in found] == [
            (("read.events", "stage.A"), "default"),
            (("stage.B",), "gpu"),
            (("stage.H",), "default"),
        ]

    def test_a_source_goes_where_its_only_consumer_runs(self) -> None:
        plan = graph(SOURCE, define("A", "read.events", "px", execution={"require": "big"}))
        assert [task.route.pools for task in tasks({"nominal": plan})] == [("big",)]

    def test_a_diamond_over_two_pools_has_no_cycle(self) -> None:
        plan = graph(
            SOURCE,
            define("A", "read.events", "px"),
            define("G", "stage.A", "A_x", execution={"require": "gpu"}),
            define("B", "stage.G", "G_x"),
            histogram("H", "stage.A", "A_x"),
        )
        order = stages({"nominal": plan})
        assert order == [("read.events", "stage.A", "stage.H"), ("stage.G",), ("stage.B",)]

    def test_a_writer_rides_with_its_stage(self) -> None:
        writer = node("writer", "A.0", "stage.A", path="skim.root", keep=["px"])
        plan = graph(SOURCE, define("A", "read.events", "px"), writer)
        assert stages({"nominal": plan}, "stage") == [("read.events",), ("stage.A", "write.A.0")]

    def test_an_observer_never_shares_a_task_with_nothing_but_its_source(self) -> None:
        # FAST-HEP would read the schema instead of the events.
        plan = graph(SOURCE, node("observer", "s", "read.events"), define("A", "read.events", "px"))
        found = stages({"nominal": plan}, "stage")
        assert found == [("read.events",), ("observe.s",), ("stage.A",)]

    def test_a_source_that_is_only_observed_stays_with_its_observers(self) -> None:
        plan = graph(SOURCE, node("observer", "s", "read.events"))
        assert stages({"nominal": plan}, "stage") == [("read.events", "observe.s")]


class TestVariations:
    def varied(self, weight: str) -> Any:
        return graph(
            node("source", "events", tree="events", branches=["px", *([weight] if weight else [])]),
            define("A", "read.events", "px"),
            histogram("H", "stage.A", "A_x", weight_expr=weight or "1.0"),
            datasets={"sim": SIM},
        )

    def test_what_variations_share_is_computed_once(self) -> None:
        graphs = {"nominal": self.varied(""), "up": self.varied("w_up")}
        items = [Variation(name, item, (partition("sim"),)) for name, item in graphs.items()]
        rules = rules_of(*items)
        assert list(rules["stage_A"].jobs) == ["nominal/sim/0_0"]
        assert list(rules["stage_H"].jobs) == ["nominal/sim/0_0", "up/sim/0_0"]
        assert {job.reads[0].folder for job in rules["stage_H"].jobs.values()} == {
            "smk/work/stage_A/nominal/sim/0_0"
        }

    def test_sources_get_the_branches_of_all_variations(self) -> None:
        graphs = {"nominal": self.varied(""), "up": self.varied("w_up")}
        assert united(graphs) == {"read.events"}
        assert graphs["nominal"].nodes["read.events"].params["branches"] == ["px", "w_up"]

    def test_sources_stay_apart_where_something_looks_at_all_columns(self) -> None:
        def observed(weight: str) -> Any:
            source = node("source", "events", tree="events", branches=["px", weight])
            return graph(source, node("observer", "s", "read.events"))

        graphs = {"nominal": observed("w"), "up": observed("w_up")}
        assert united(graphs) == set()
        assert graphs["nominal"].nodes["read.events"].params["branches"] == ["px", "w"]


class TestLiveColumns:
    def test_only_what_is_read_further_down_lives(self) -> None:
        plan = graph(
            SOURCE,
            define("A", "read.events", "px + 1"),
            histogram("H", "stage.A", "A_x", weight_expr="w"),
        )
        live = live_columns(plan)
        assert live[("stage.A", "stream")] == {"A_x", "w"}
        assert live[("read.events", "stream")] == {"A_x", "px", "w"}

    def test_an_observer_makes_all_columns_live(self) -> None:
        plan = graph(SOURCE, define("A", "read.events", "px"), node("observer", "s", "stage.A"))
        assert live_columns(plan)[("read.events", "stream")] is None

    @pytest.mark.parametrize(("keep", "live"), [(["px"], {"px"}), (None, None)])
    def test_a_writer_needs_what_it_keeps(self, keep: Any, live: Any) -> None:
        plan = graph(SOURCE, node("writer", "W", "read.events", path="x.root", keep=keep))
        assert live_columns(plan)[("read.events", "stream")] == live


class TestJobs:
    def applied(self, expr: str = "A_x") -> Any:
        return graph(
            SOURCE,
            define("A", "read.events", "px"),
            define("Sim", "stage.A", expr, applies_to={"eventtype": "mc"}),
            histogram("H", "stage.Sim", "A_x"),
            datasets={"data": DATA, "sim": SIM},
        )

    def test_what_ends_a_run_goes_elsewhere_with_systematics(self) -> None:
        def end(name: str | None) -> set[str]:
            jobs = rules_of(Variation(name, self.applied(), (partition("sim"),)))["finish"].jobs
            return {job.signature for job in jobs.values()}

        assert end(None).isdisjoint(end("nominal"))

    def test_an_inactive_stage_is_by_passed(self) -> None:
        item = Variation(None, self.applied(), (partition("data"), partition("sim")))
        rules = rules_of(item, granularity="stage")
        assert list(rules["stage_Sim"].jobs) == ["sim/0_0"]
        sources = {key: job.reads[0].folder for key, job in rules["stage_H"].jobs.items()}
        assert sources == {
            "data/0_0": "smk/work/stage_A/data/0_0",
            "sim/0_0": "smk/work/stage_Sim/sim/0_0",
        }

    def test_an_inactive_stage_is_in_no_signature(self) -> None:
        parts = (partition("data"), partition("sim"))
        before, after = (
            rules_of(Variation(None, self.applied(expr), parts))["stages_A_to_H"].jobs
            for expr in ("A_x", "A_x * 2")
        )
        assert before["data/0_0"].signature == after["data/0_0"].signature
        assert before["sim/0_0"].signature != after["sim/0_0"].signature

    def test_the_end_reads_partitions_in_plan_order(self) -> None:
        item = Variation(
            None, self.applied(), (partition("data"), partition("sim"), partition("data", "1_0"))
        )
        (finish,) = rules_of(item)["finish"].jobs.values()
        assert [read.folder.split("/", 3)[3] for read in finish.reads] == [
            "data/0_0", "data/1_0", "sim/0_0",
        ]  # fmt: skip

    def test_many_partitions_are_reduced_per_dataset(self) -> None:
        parts = tuple(partition("sim", f"0_{number}") for number in range(33))
        rules = rules_of(Variation(None, self.applied(), parts))
        assert list(rules["merge"].jobs) == ["sim"]
        (finish,) = rules["finish"].jobs.values()
        assert [read.folder for read in finish.reads] == ["smk/work/merge/sim"]

    def test_a_signature_follows_parameters_and_files(self, tmp_path: Path) -> None:
        def signature(expr: str) -> str:
            plan = graph(SOURCE, define("A", "read.events", expr), histogram("H", "stage.A", "A_x"))
            item = Variation(None, plan, (partition("sim"),))
            (job,) = rules_of(item, root=tmp_path)["stages_A_to_H"].jobs.values()
            return job.signature

        (tmp_path / "sim.root").write_bytes(b"one")
        first = signature("px")
        assert signature("px") == first
        assert signature("px + 1") != first
        (tmp_path / "sim.root").write_bytes(b"another")
        assert signature("px") != first


class TestRoutes:
    def gpu_default(self, *stages: dict[str, Any]) -> Router:
        document = {
            "execution": {
                "pools": {"cuda": {"resources": {"gpus": 1}}, "plain": {}},
                "default_pools": {"gpu": "cuda", "cpu": "plain"},
            },
            "analysis": {"stages": list(stages)},
        }
        found, problems = read_execution(document, {}, profile="local", workflow="w.yaml")
        assert found is not None, problems
        return found.router

    def test_a_stage_with_a_gpu_modifier_goes_to_the_gpu_default_and_no_other_does(self) -> None:
        execution = {"modifiers": [{"name": "gpu.preload"}]}
        plan = graph(
            SOURCE,
            define("A", "read.events", "px"),
            define("G", "stage.A", "A_x", execution=execution),
            histogram("H", "stage.G", "G_x"),
        )
        router = self.gpu_default({"id": "G", "execution": execution})
        found = cut({"nominal": plan}, "auto", [SIM], router)
        assert [(task.stages, task.route.pools, task.route.why) for task in found] == [
            (("read.events", "A"), ("plain",), "the stage names no pool (see default_pools.cpu)"),
            (("G",), ("cuda",), "the stage needs a GPU (see default_pools.gpu)"),
            (("H",), ("plain",), "the stage names no pool (see default_pools.cpu)"),
        ]

    def test_what_a_stage_asks_for_itself_gives_it_a_job_of_its_own(self) -> None:
        execution = {"timeout": 60}
        plan = graph(
            SOURCE,
            define("A", "read.events", "px"),
            define("T", "stage.A", "A_x", execution=execution),
        )
        router = self.gpu_default({"id": "T", "execution": execution})
        found = cut({"nominal": plan}, "auto", [SIM], router)
        limits = [task.route.attempts[0].request.walltime for task in found]
        assert [task.stages for task in found] == [("read.events", "A"), ("T",)]
        assert limits == [None, 60]

    def test_timeouts_of_stages_that_share_a_job_add_up(self) -> None:
        execution = {"timeout": 60}
        plan = graph(
            SOURCE,
            define("S", "read.events", "px", execution=execution),
            define("T", "stage.S", "S_x", execution=execution),
        )
        stages = [{"id": name, "execution": execution} for name in "ST"]
        (task,) = cut({"nominal": plan}, "auto", [SIM], self.gpu_default(*stages))
        assert task.route.attempts[0].request.walltime == 120
