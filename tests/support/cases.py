"""The workflows that the comparison tests run, and what of the language each one touches."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import uproot

from . import events, workshop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORKFLOWS = Path(__file__).parents[1] / "workflows"

# Every key that FAST-HEP's compiler reads, plus the components that the packages register.
LANGUAGE: tuple[str, ...] = (
    "version", "include", "use.profiles", "use.profiles:path",
    *(f"registry.{s}" for s in (
        "functions", "constants", "sources", "transforms", "observers", "sinks", "hooks",
        "execution_modifiers", "product_handlers", "backends", "compile_hooks", "render",
        "progress_sinks", "report_templates", "resource_kinds",
    )),
    "data.datasets", "data.datasets:mapping", "data.datasets:empty", "datasets", "data.defaults",
    *(f"dataset.{k}" for k in ("name", "files", "nevents", "eventtype", "group", "meta")),
    "sources", "sources:several", "sources.tree", "sources.branches", "sources.missing_branches",
    "sources.start", "sources.stop", "sources:other_kind", "sources.inspect",
    "joins.zip", "joins.on_mismatch", "primary_stream", "fields", "styles", "styles.use_with",
    "outputs", "observers", "analysis.globals", "execution_hooks", "reports",
    *(f"stage.{k}" for k in (
        "id", "op", "role", "from", "in", "from:list", "from:as", "needs", "needs:empty", "params",
        "applies_to", "applies_to:bypass", "inspect", "write", "render", "render:dataset",
        "render:final", "variations", "unknown_key",
    )),
    "write.when:partition", "write.when:dataset", "write.when:final", "write.use", "write.from",
    "write.templates", "write.format:ttree", "write.format:rntuple",
    "stage:render_op", "hist.variations", "hist.dataset_axis", "hist.weighted", "hist.int",
    "hist.category", "hist.bool", "hist.2d",
    *(f"systematics.{k}" for k in (
        "include_nominal", "profiles", "mode:plan", "mode:inline", "group", "direction",
        "metadata", "matrix", "weight.multiply", "replace", "datasets.replace", "applies_to",
        "requires", "anchor", "patch", "stop_before", "export",
    )),
    *(f"execution.{k}" for k in (
        "backend", "strategy", "profiles", "resources", "resources:kind", "pools", "environment",
        "staging", "config",
    )),
    *(f"stage.execution.{k}" for k in ("require", "prefer", "fallback", "timeout", "modifiers")),
    *(f"op.{k}" for k in (
        "hep.define", "hep.choose", "hep.selection.flag", "hep.selection.cutflow", "hep.clean",
        "hep.select_objects", "hep.build_pairs", "hep.build_lepton_met_candidate",
        "hep.build_recoil", "hep.align_schema", "hep.merge_fields", "hep.hist",
        "hep.di_object_mass", "hep.weights.lookup_csv", "hep.weights.pdf_envelope",
        "cms.match_l1t_jets", "curator.root_tree_schema", "curator.compare_schemas",
        "hep.schema_snapshot", "hep.branches", "hep.render.hist1d", "hep.render.data_mc",
        "hep.render.heatmap2d", "hep.render.project", "hep.render.comparison",
        "hep.render.cutflow_csv", "hep.render.schema_validation", "workshop.toy_source",
        "workshop.parquet", "workshop.tabular", "workshop.console_table", "vector_behaviour",
    )),
)  # fmt: skip

# Keys that no case can hold, and why.
NOT_COVERED: Mapping[str, str] = {
    "execution.environment": "only for workers of a Dask cluster; `fasthep run` would pack it",
    "registry.backends": "a backend of the workflow's own replaces the thing under test",
    "registry.compile_hooks": "a normal workflow uses those of the packages (align_schema does)",
    "registry.render": "renderers of graphs, used at compile time by fasthep-render only",
    "registry.progress_sinks": "chosen by the command line of `fasthep`, not by a workflow",
    "sinks (top level)": "rejected by the compiler",
    "write.when:final": "with event streams of several datasets upstream's sink fails",
}


@dataclass(frozen=True)
class Case:
    """One workflow with the data it needs."""

    name: str
    workflow: str
    prepare: Callable[[Path], Path]
    covers: tuple[str, ...]
    chunk_sizes: tuple[int | None, ...] = (None,)
    # "equal", or "wrong:<what>" where `fasthep run` gives a wrong result; the part after the
    # colon may end in @<chunk size> if only one chunk size (or None) is affected.
    upstream: str = "equal"
    # Files that the wrong result reaches; all others must still be equal.
    wrong_files: tuple[str, ...] = ()
    variations: tuple[str, ...] = ()
    pythonpath: bool = field(default=False)
    # What only fasthep-smk is told: a laptop is smaller than the pools of the workflow.
    options: tuple[str, ...] = ()

    def env(self, folder: Path) -> dict[str, str]:
        """Environment to run in: components beside the workflow must be importable."""
        env = dict(os.environ)
        if self.pythonpath:
            before = env.get("PYTHONPATH")
            env["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
        return env

    def ignore_at(self, chunk_size: int | None) -> tuple[str, ...]:
        """Files in which `fasthep run` is no reference at this chunk size."""
        return self.wrong_files if self.wrong_at(chunk_size) else ()

    def wrong_at(self, chunk_size: int | None) -> str | None:
        """What `fasthep run` gets wrong at this chunk size, or None."""
        if self.upstream == "equal":
            return None
        what, _, only = self.upstream.removeprefix("wrong:").partition("@")
        return what if not only or only == str(chunk_size) else None


def _copy(name: str, folder: Path) -> Path:
    shutil.copytree(
        WORKFLOWS / name,
        folder,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "data").mkdir(exist_ok=True)
    return folder / "workflow.yaml"


def _with_events(name: str, files: Mapping[str, int]) -> Callable[[Path], Path]:
    """Copy a workflow of ours and write one file per entry; names in ``data*`` are data."""

    def prepare(folder: Path) -> Path:
        workflow = _copy(name, folder)
        for seed, (file, n) in enumerate(files.items(), start=100):
            path = folder / "data" / f"{file}.root"
            events.analysis_file(path, n, seed, is_data=file.startswith("data"))
        return workflow

    return prepare


def _joins(folder: Path) -> Path:
    workflow = _copy("joins", folder)
    for i, n in enumerate((150, 110, 200)):
        events.l1_file(folder / f"data/l1_{i}.root", n, 60 + i)
    return workflow


def _nanoaod(folder: Path) -> Path:
    workflow = _copy("nanoaod", folder)
    real = events.shared_data("nanoaod_ttbar.root")
    if real is None:
        events.nanoaod_file(folder / "data/nano.root", 200, 70)
    else:
        (folder / "data/nano.root").unlink(missing_ok=True)
        (folder / "data/nano.root").symlink_to(real)
    return workflow


def _plugins(folder: Path) -> Path:
    workflow = _copy("plugins", folder)
    for seed, (name, n) in enumerate({"small": 40, "large": 90, "real": 30}.items(), start=80):
        for part in range(2):
            values = np.random.default_rng([seed, part]).uniform(0.0, 10.0, n - 7 * part)
            np.savetxt(folder / f"data/{name}_{part}.txt", values, fmt="%.6f")
    return workflow


def _schemas(folder: Path) -> Path:
    workflow = _copy("schemas", folder)
    events.zmumu_file(folder / "data/base.root", 120, 90)
    with uproot.recreate(folder / "data/other.root") as out:
        out.mktree("events", {"MET_px": np.zeros(3), "extra": np.arange(3, dtype=np.int32)})
    return workflow


def _workshop(name: str) -> Callable[[Path], Path]:
    return lambda folder: workshop.prepare(name, folder)


# One dataset with a single partition: its rows are called "default". Three or more datasets:
# only the last keeps its numbers, the others end as zeros under "default".
CUTFLOW = "wrong:datasets of cutflows"
CUTFLOW_FILES = (
    "artifacts/cutflows/*.json",
    "artifacts/*/cutflows/*.json",
    "artifacts/tables/*",
    "artifacts/*/tables/*",
)
JOIN = "wrong:every event counted once per source"
JOIN_FILES = (
    "artifacts/histograms/*.pkl",
    "artifacts/cutflows/*.json",
    "artifacts/plots/*",
    "artifacts/provenance/*",
    # One report per source and partition, all of the same events.
    "reports/schema/*",
)

COMMON = ("version", "use.profiles", "data.datasets", "data.defaults", "dataset.name",
          "dataset.files", "stage.id", "stage.op", "stage.params", "op.hep.hist")  # fmt: skip

CASES: tuple[Case, ...] = (
    Case(
        "data_mc",
        "workflow.yaml",
        _with_events("data_mc", {f"{d}_{i}": n - 40 * i for d, n in
                                 (("data", 400), ("dy", 300), ("ttbar", 200)) for i in range(2)}),
        (*COMMON, "include", "dataset.nevents", "dataset.eventtype", "dataset.group",
         "dataset.meta", "sources", "sources.tree", "styles", "styles.use_with", "observers",
         "analysis.globals", "execution_hooks", "stage.from", "stage.applies_to",
         "stage.applies_to:bypass", "stage.inspect", "stage.write", "stage.render",
         "stage.render:dataset", "stage.render:final", "write.when:partition", "write.templates",
         "write.format:rntuple", "hist.dataset_axis", "hist.weighted", "hist.int",
         "hist.category", "hist.bool", "hist.2d", "op.hep.define", "op.hep.choose",
         "op.hep.selection.flag", "op.hep.selection.cutflow", "op.hep.di_object_mass",
         "op.hep.schema_snapshot", "op.hep.render.hist1d", "op.hep.render.data_mc",
         "op.hep.render.heatmap2d", "op.hep.render.cutflow_csv"),
        (None, 210),
        upstream=CUTFLOW,
        wrong_files=CUTFLOW_FILES,
    ),
    Case(
        "cutflow_single",
        "workflow.yaml",
        _with_events("cutflow_single", {"one": 200, "two": 300, "three": 260}),
        (*COMMON, "dataset.nevents", "dataset.eventtype", "stage.render", "hist.weighted",
         "op.hep.selection.cutflow", "op.hep.render.cutflow_csv"),
        (None, 120),
        upstream=CUTFLOW,
        wrong_files=CUTFLOW_FILES,
    ),
    Case(
        "skims",
        "workflow.yaml",
        _with_events("skims", {"data_0": 150, "data_1": 90, "dy_0": 250}),
        (*COMMON, "data.datasets:mapping", "dataset.nevents", "sources.branches",
         "sources.missing_branches", "outputs", "registry.report_templates", "reports",
         "stage.needs", "stage.from",
         "stage.write", "write.when:partition", "write.when:dataset", "write.use", "write.from",
         "write.templates", "write.format:ttree", "write.format:rntuple"),
        (None, 60),
        upstream=f"{CUTFLOW}@None",
        wrong_files=CUTFLOW_FILES,
    ),
    Case(
        "joins",
        "workflow.yaml",
        _joins,
        (*COMMON, "dataset.nevents", "sources", "sources:several", "joins.zip",
         "joins.on_mismatch", "primary_stream", "fields", "observers", "stage.from",
         "op.cms.match_l1t_jets", "op.hep.schema_snapshot", "hist.2d"),
        (None, 80),
        upstream=JOIN,
        wrong_files=JOIN_FILES,
    ),
    Case(
        "inline",
        "workflow.yaml",
        _with_events("inline", {"data_0": 200, "data_1": 120, "dy_0": 260}),
        (*COMMON, "dataset.nevents", "dataset.eventtype", "systematics.include_nominal",
         "systematics.profiles", "systematics.mode:inline", "systematics.group",
         "systematics.direction", "systematics.metadata", "systematics.matrix",
         "systematics.applies_to", "systematics.anchor", "systematics.patch",
         "systematics.stop_before", "systematics.export", "hist.variations", "stage.variations",
         "stage:render_op", "stage.from:list", "stage.from:as", "stage.applies_to",
         "analysis.globals", "op.hep.render.comparison"),
        (None, 90),
    ),
    Case(
        "plan_systematics",
        "workflow.yaml",
        _with_events("plan_systematics", {f"{d}_{i}": n - 30 * i for d, n in
                     (("data", 150), ("dy", 200), ("dy_alt", 180)) for i in range(2)}),
        (*COMMON, "dataset.nevents", "systematics.include_nominal", "systematics.mode:plan",
         "systematics.group", "systematics.direction", "systematics.metadata",
         "systematics.matrix", "systematics.weight.multiply", "systematics.replace",
         "systematics.datasets.replace", "systematics.applies_to", "systematics.requires",
         "stage.write", "stage.render", "op.hep.selection.cutflow"),
        (None, 100),
        variations=("nominal", "lumi_up", "lumi_down", "met_shift", "generator"),
        upstream=CUTFLOW,
        wrong_files=CUTFLOW_FILES,
    ),
    Case(
        "nanoaod",
        "workflow.yaml",
        _nanoaod,
        (*COMMON, "dataset.nevents", "registry.functions", "registry.constants",
         "registry.transforms", "stage.from", "stage.from:list", "stage.from:as",
         "op.hep.select_objects", "op.hep.build_pairs", "op.hep.clean", "op.hep.build_recoil",
         "op.hep.weights.lookup_csv", "op.hep.weights.pdf_envelope", "op.hep.align_schema",
         "op.hep.merge_fields", "op.hep.build_lepton_met_candidate", "op.vector_behaviour",
         "hist.2d", "hist.int"),
        (None, 70),
        pythonpath=True,
    ),
    Case(
        "plugins",
        "workflow.yaml",
        _plugins,
        (*COMMON, "use.profiles:path", "dataset.nevents", "dataset.eventtype", "dataset.meta",
         "primary_stream", "sources:other_kind", "sources.inspect", "registry.functions",
         "registry.constants", "registry.sources", "registry.transforms", "registry.observers",
         "registry.sinks", "registry.hooks", "registry.execution_modifiers",
         "registry.product_handlers", "execution_hooks", "stage.role", "stage.inspect",
         "stage.write", "stage.execution.modifiers", "write.when:dataset", "hist.2d"),
        (None, 50),
        pythonpath=True,
    ),
    Case(
        "pools",
        "workflow.yaml",
        _with_events("pools", {"data_0": 150, "data_1": 90, "dy_0": 240, "dy_1": 100}),
        (*COMMON, "registry.execution_modifiers", "registry.resource_kinds",
         "execution.resources:kind", "execution.backend", "execution.strategy",
         "execution.profiles", "execution.resources", "execution.pools", "execution.staging",
         "execution.config", "stage.execution.require", "stage.execution.prefer",
         "stage.execution.fallback", "stage.execution.timeout", "stage.execution.modifiers",
         "stage:render_op", "stage.write", "op.hep.selection.cutflow", "op.hep.render.hist1d"),
        (None, 130),
        pythonpath=True,
        options=("--shrink-to-fit",),
    ),
    Case(
        "schemas",
        "workflow.yaml",
        _schemas,
        (*COMMON, "dataset.nevents", "stage.needs:empty", "stage.from:list", "stage.from:as",
         "stage:render_op", "sources.start", "sources.stop", "op.curator.root_tree_schema",
         "op.curator.compare_schemas",
         "op.hep.render.schema_validation"),
    ),
    Case(
        "toy",
        "workflow.yaml",
        lambda folder: _copy("toy", folder),
        (*COMMON, "data.datasets:empty", "sources:other_kind", "observers", "styles",
         "styles.use_with", "stage.needs", "stage.from:list", "stage.from:as", "stage:render_op",
         "op.workshop.toy_source", "op.hep.branches", "op.hep.render.comparison",
         "op.hep.render.project",
         "op.hep.render.heatmap2d", "op.hep.render.hist1d", "op.hep.selection.cutflow"),
    ),
    Case(
        "oddities",
        "workflow.yaml",
        _with_events("oddities", {"a": 80, "b": 1, "c": 60}),
        (*COMMON, "datasets", "dataset.eventtype", "dataset.group", "stage.in", "stage.needs",
         "stage.unknown_key", "stage.applies_to", "hist.int", "hist.dataset_axis"),
        (None, 30),
        upstream=CUTFLOW,
        wrong_files=CUTFLOW_FILES,
    ),
    Case(
        "workshop_l1trigger",
        "workflow.yaml",
        _workshop("l1trigger"),
        (*COMMON, "sources:several", "joins.zip", "joins.on_mismatch", "primary_stream", "fields",
         "styles", "observers", "op.cms.match_l1t_jets", "op.hep.render.heatmap2d"),
        upstream=JOIN,
        wrong_files=JOIN_FILES,
    ),
    # nevents is that of the real files: chunks far smaller would give thousands of empty ones.
    Case(
        "workshop_zmumu",
        "workflow.yaml",
        _workshop("zmumu"),
        (*COMMON, "dataset.nevents", "dataset.eventtype", "sources.branches", "styles.use_with",
         "op.hep.di_object_mass", "op.hep.render.data_mc", "hist.dataset_axis", "hist.weighted"),
        (None, 50_000),
    ),
    Case(
        "workshop_mssi",
        "workflow.yaml",
        _workshop("mssi"),
        (*COMMON, "primary_stream", "fields", "styles.use_with", "op.hep.selection.cutflow",
         "op.hep.render.heatmap2d", "hist.2d"),
    ),
    Case(
        "workshop_exoplanets",
        "workflow.yaml",
        _workshop("exoplanets"),
        ("sources:other_kind", "stage.write", "op.workshop.parquet", "op.workshop.tabular",
         "op.workshop.console_table"),
    ),
    Case(
        "workshop_runtime_smoke",
        "workflow.yaml",
        _workshop("runtime_smoke"),
        (*COMMON, "data.datasets:empty", "observers", "op.workshop.toy_source"),
    ),
    Case(
        "workshop_split_packages",
        "workflow.yaml",
        _workshop("split_packages"),
        (*COMMON, "dataset.nevents", "observers", "hist.dataset_axis"),
        (None, 5),
    ),
)  # fmt: skip


def case(name: str) -> Case:
    """The case of that name."""
    return next(c for c in CASES if c.name == name)


def coverage(cases: tuple[Case, ...] = CASES) -> tuple[dict[str, list[str]], list[str]]:
    """Which cases cover each key, and the keys that none covers and none explains."""
    by_key: dict[str, list[str]] = {key: [] for key in LANGUAGE}
    for one in cases:
        for key in one.covers:
            if key not in by_key:
                raise KeyError(f"case {one.name!r} covers {key!r}, which LANGUAGE does not list")
            by_key[key].append(one.name)
    missing = [key for key, names in by_key.items() if not names and key not in NOT_COVERED]
    return by_key, missing
