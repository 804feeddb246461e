"""The jobs after the partitions: reduce a dataset, finish the run, publish shared manifests."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec.structs import replace

from fasthep_smk.flow import plan_files, summary
from fasthep_smk.flow.runtime import Session
from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.summary import Run, listed, relocate
from fasthep_smk.storage import hard_links, missing_report, products
from fasthep_smk.storage.record import Content, PoolCount, content_of
from fasthep_smk.storage.run_records import facts_of
from fasthep_smk.storage.streams import register_behaviours
from fasthep_smk.storage.task_table import JobEntry, Read, TaskTable
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.worker.job import WorkerJob, staging
from fasthep_smk.worker.made import save
from fasthep_smk.worker.plots import run_end, told

if TYPE_CHECKING:
    from fasthep_smk.flow.records import MissingPartition, PartitionData, SampleFacts
    from fasthep_smk.flow.shapes import Plan, Store

_Value = TypeVar("_Value")
#: The rule of what is made once, before all partitions.
_SIDE = "side_products"


class _Source:
    """A job whose products are read; what these refer to lies in the build folder as it is now."""

    def __init__(self, job: WorkerJob, read: Read) -> None:
        self._folder, self._keys = job.build / read.folder, read.keys
        record = products.read_record(self._folder)
        self._here, self._there = str(job.build), str(record.get("build") or job.build)
        self.record = self._moved(record)
        self.rule = self.record["rule"]
        self.runs = self.record["runs"]

    def _moved(self, value: _Value) -> _Value:
        here, there = self._here, self._there
        return value if here == there else relocate(value, there, here)

    def all(self) -> Store:
        return self._moved(products.load(self._folder))

    def wanted(self) -> Store:
        """Return what is wanted of it; a node may not apply to a dataset."""
        made = hard_links.entries(self.record)
        wanted = [key for key in self._keys if key in made]
        return self._moved(products.load(self._folder, wanted)) if wanted else {}


def run_merge(job: WorkerJob) -> Content:
    """Reduce the partitions of one dataset and run what comes at its end."""
    plan = plan_files.read_slim(job.plan_file)
    register_behaviours()
    _mark_plots(job.entry)
    dataset = str(job.entry.dataset)
    sources = [_Source(job, read) for read in job.entry.reads]
    parts = [source for source in sources if source.rule != _SIDE]
    with staging(job) as folder:
        session = Session(plan, folder)
        store = session.reduce([part.wanted() for part in parts], dataset)
        for source in sources:
            if source.rule == _SIDE:
                store.update(source.all())
        session.dataset_end(dataset, store)
        own = relocate(facts_of(session.record()), str(folder), str(job.build))
        later = {key: value for key, value in store.items() if _is_kept(plan, key)}
        content = save(job, plan, later, folder)
    # Side products come before all datasets: the end of the run counts them.
    new_record = content_of(content, [*(run for part in parts for run in part.runs), own])
    new_record["ran_on"] = _places(parts, job.place)
    return new_record


def run_finish(job: WorkerJob) -> Content:
    """Reduce the datasets, write the products and plots, and close the run."""
    sources = [_Source(job, read) for read in job.entry.reads]
    runs = [Run(**run) for source in sources for run in source.runs]
    plan = plan_files.read_slim(job.plan_file, _partitions(runs))
    register_behaviours()
    _mark_plots(job.entry)
    side: Store = {}
    with staging(job) as folder:
        session = Session(plan, folder)
        session.replay(runs)
        replayed = len(session.recorder.operation_records())
        stores: list[Store] = []
        by_dataset: dict[str | None, list[_Source]] = {}
        for source in sources:
            if source.rule == _SIDE:
                side.update(source.all())
            elif source.rule == "merge":
                stores.append(source.all())
            else:
                partition = source.runs[0]["partition"]
                name = partition["dataset"] if partition else None
                by_dataset.setdefault(name, []).append(source)
        for name, parts in by_dataset.items():
            made = [part.wanted() for part in parts]
            if name is None:  # a workflow without datasets: its products are final already
                merged = {key: value for store in made for key, value in store.items()}
            else:
                store = session.reduce(made, name)
                stores.append(session.dataset_end(name, {**side, **store}))
        if None not in by_dataset:
            own_stores = [{k: v for k, v in store.items() if k not in side} for store in stores]
            merged = session.reduce(own_stores, None)
        for key, value in side.items():
            merged.setdefault(key, value)
        session.write_products(merged)
        if formats := job.launch["exports"]:
            exporter = importlib.import_module("fasthep_smk.contrib.export.histograms")
            exporter.export_histograms(folder, formats)
        _note_lacking(folder.glob("artifacts/**/manifest.json"), job.entry)
    # The products are in their place now: a plot that fails does not cost them.
    merged = relocate(merged, str(folder), str(job.build))
    begun = len(session.record(replayed=replayed).operations)
    with staging(job) as folder:
        session.write_to(folder)
        ending = run_end(job, session, folder, merged)
    merged = relocate(merged, str(folder), str(job.build))
    own = session.record(replayed=replayed)
    own.operations = [*own.operations[:begun], *ending.operations]
    own = Run(**relocate(asdict(own), str(folder), str(job.build)))
    if None in by_dataset:
        own.boundary = listed(merged)
    session.settle(job.build, [*runs, own])
    artifacts = {
        key: value for key, value in merged.items() if plan.get_node(key[0]).role == "sink"
    }
    varied = "variation" in plan.context
    written = [] if varied else _write_manifests(session, artifacts, job.build, job.entry)
    session.run_end()
    own.hooks = session.hooks.usage_summary()["enabled"]
    content = save(job, plan, artifacts, folder)
    places = _places(sources, job.place)
    if not varied:
        written += _summarise(plan, job, [*runs, own], job.entry, places)
    job.results.extend(str(path.relative_to(job.build)) for path in written)
    _sync_in_place(job.build)
    new_record = content_of(content, map(facts_of, [*runs, own]))
    new_record["ran_on"] = places
    return cast("Content", {**new_record, **told(job, ending)})


def run_publish(job: WorkerJob) -> Content:
    """Write what the variations of a run share: provenance, writers' manifests, summaries.

    FAST-HEP writes these files once per variation to the same place, so that the last one wins.
    Here ``artifacts/provenance`` lists the artifacts of all variations, and each variation's
    writer manifests lie below its own ``artifacts/<variation>/files``.
    """
    records: dict[str, JsonObject] = {}
    lacking: list[MissingPartition] = []
    sample: SampleFacts | None = None
    table = TaskTable.read(job.build, "finish")
    artifacts, manifest = job.build / "artifacts", _manifest(job.build)
    for read in job.entry.reads:
        source = _Source(job, read)
        runs = [Run(**run) for run in source.runs]
        entry = table.jobs[source.record["key"]]
        plan = plan_files.read_slim(job.build / entry.plan, _partitions(runs))
        session = Session(plan, job.build)
        session.replay(runs)
        variation = str(plan.context["variation"]["name"])
        written = _write_manifests(session, source.all(), job.build, entry)
        for number, path in enumerate(written):
            if path.parents[1] == artifacts / "files":  # a writer's
                written[number] = artifacts / variation / "files" / path.parent.name / path.name
                written[number].parent.mkdir(parents=True, exist_ok=True)
                path.replace(written[number])
                with contextlib.suppress(OSError):  # others may have written there
                    path.parent.rmdir()
        if manifest.is_file():  # one for the artifacts of all so far
            content = json.loads(manifest.read_text(encoding="utf-8"))
            records |= {record["record"]: record for record in content["records"]}
            merged = {**content, "records": list(records.values())}
            files.write_text(manifest, json.dumps(merged, indent=2) + "\n")
        execution = manifest.with_name("execution.json")
        if manifest.is_file() and execution.is_file():
            kept = execution.parent / "variations" / variation / execution.name
            files.write_text(kept, execution.read_text(encoding="utf-8"))
            written.append(kept)
        written += _summarise(plan, job, runs, entry, _places([source], job.place))
        job.results.extend(str(path.relative_to(job.build)) for path in written if path.exists())
        lacking += [partition for partition in entry.missing if partition not in lacking]
        sample = entry.sample or sample
    _note_lacking([manifest], replace(job.entry, missing=tuple(lacking), sample=sample))
    _sync_in_place(job.build)
    return content_of(products.save(job.folder, [], declared=[]), [])


def _places(sources: Iterable[_Source], own: PoolCount) -> list[PoolCount]:
    """Return where a job and those that it reads ran, with those that they reduced."""
    counts = Counter({(own["system"], own["pool"]): own["jobs"]})
    for record in (source.record for source in sources):
        system, pool = record.get("system", "local"), str(record["asked"].get("pool") or "")
        alone: list[PoolCount] = [{"system": system, "pool": pool, "jobs": 1}]
        for count in record.get("ran_on", alone):
            counts[count["system"], count["pool"]] += count["jobs"]
    return [
        {"system": system, "pool": pool, "jobs": jobs}
        for (system, pool), jobs in sorted(counts.items())
    ]


def _summarise(
    plan: Plan, job: WorkerJob, runs: list[Run], entry: JobEntry, places: list[PoolCount]
) -> list[Path]:
    """Write the summary of a run, its reports, and those on what is amiss; return their paths.

    ``entry`` is that of the finish job in its table, ``places`` is where its jobs ran.
    """
    build = job.build
    compiled = build / "compile"
    variation = plan.context.get("variation")
    if isinstance(variation, dict):
        compiled = compiled / str(variation["name"])
    written = summary.summarise(
        plan,
        build,
        runs=runs,
        system=job.sent.system,
        ran_on=places,
        warnings=summary.warnings_of(runs),
        hooks=summary.merged_hooks(runs),
        bundle_id=summary.bundle_id(compiled),
        missing=entry.missing,
        sample=entry.sample,
    )
    # The summary of a variation lies among its reports.
    reports = build / "reports" if written.path.parent == build else written.path.parent
    results = [written.path]
    for name, text in (
        (missing_report.REPORT, missing_report.markdown(entry.missing, written.partitions)),
        (missing_report.SAMPLE, missing_report.of_sample(entry.sample)),
        (missing_report.WARNINGS, summary.told(plan, runs)),
    ):
        report = reports / name
        if text:
            files.write_text(report, text)
            results.append(report)
        else:
            report.unlink(missing_ok=True)
    return results + [path for path in written.reports if build in path.parents and path.is_file()]


def _write_manifests(session: Session, store: Store, build: Path, entry: JobEntry) -> list[Path]:
    """Write the manifests of a run and of its writers, with what they lack; return their paths.

    Among them are the records of provenance that the run's manifest lists.
    """
    manifest, before = _manifest(build), _manifests(build)
    session.write_manifests(store, build)
    written = [path for path, time in _manifests(build).items() if before.get(path) != time]
    _note_lacking({manifest, *(path for path in written if path.name == manifest.name)}, entry)
    if manifest in written:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        written += [build / record["record"] for record in content["records"]]
    return written


def _manifests(build: Path) -> dict[Path, int]:
    """Return the manifests of a run, and when they were written."""
    artifacts = build / "artifacts"
    found = (*artifacts.glob("files/*/manifest.json"), *artifacts.glob("provenance/*.json"))
    return {path: path.stat().st_mtime_ns for path in found}


def _mark_plots(entry: JobEntry) -> None:
    """Let plots of a sample say so."""
    if entry.sample is not None:
        # Imported when needed: it imports matplotlib.
        from fasthep_smk.worker import sample_canvas

        sample_canvas.mark(missing_report.said_of_sample(entry.sample))


def _note_lacking(manifests: Iterable[Path], entry: JobEntry) -> None:
    """Let manifests say what the files listed there were made without, or of what sample, if so."""
    lacking = {"missing_partitions": list(entry.missing), "sample": entry.sample}
    for path in manifests:
        if not path.is_file():
            continue
        before = json.loads(path.read_text(encoding="utf-8"))
        content = {name: value for name, value in before.items() if name not in lacking}
        content |= {name: value for name, value in lacking.items() if value}
        if content != before:
            files.write_text(path, json.dumps(content, indent=2) + "\n")


def _manifest(build: Path) -> Path:
    return build / "artifacts" / "provenance" / "manifest.json"


def _sync_in_place(build: Path) -> None:
    """Let what FAST-HEP writes straight into the build reach the disk: manifests and reports."""
    written = [
        *(build / "artifacts").rglob("*.json"),
        *(path for path in (build / "reports").rglob("*") if path.is_file()),
        *build.glob("run_summary.yaml"),
    ]
    files.sync_all(written)
    files.sync_all({path.parent for path in written})


def _is_kept(plan: Plan, key: Key) -> bool:
    """Whether the end of the run may use a product of a reduced dataset."""
    from fasthep_smk.flow import upstream

    if plan.get_node(key[0]).outputs.get(key[1]) != "event_stream":
        return True
    return any(
        node.role == "sink"
        and upstream.sink_when(node) == "run_end"
        and any((ref.node_id, ref.output_name) == key for ref in node.inputs)
        for node in plan.nodes
    )


def _partitions(runs: Iterable[Run]) -> list[PartitionData]:
    by_id = {run.partition["id"]: run.partition for run in runs if run.partition is not None}
    return list(by_id.values())
