"""The jobs after the partitions: reduce a dataset, finish the run, publish shared manifests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from fasthep_smk.flow import plan_files, summary
from fasthep_smk.flow.runtime import Session
from fasthep_smk.flow.shapes import Key
from fasthep_smk.flow.summary import Run, listed, relocate
from fasthep_smk.storage import missing_report, products
from fasthep_smk.storage.record import Content, PoolCount, Record, content_of
from fasthep_smk.storage.run_records import facts_of
from fasthep_smk.storage.streams import register_behaviours
from fasthep_smk.storage.task_table import JobEntry, Read, TaskTable
from fasthep_smk.util import files
from fasthep_smk.util.documents import JsonObject
from fasthep_smk.worker.export import export_histograms
from fasthep_smk.worker.job import WorkerJob, staging
from fasthep_smk.worker.made import save
from fasthep_smk.worker.plots import run_end, told

if TYPE_CHECKING:
    from fasthep_smk.flow.records import MissingPartition, PartitionData, SampleFacts
    from fasthep_smk.flow.shapes import Plan, Store


def run_merge(job: WorkerJob) -> Content:
    """Reduce the partitions of one dataset and run what comes at its end."""
    plan = plan_files.read_slim(job.plan_file)
    register_behaviours()
    _mark_plots(job.entry)
    dataset = str(job.entry.dataset)
    records = _records(job)
    with staging(job) as folder:
        session = Session(plan, folder)
        store, runs = _reduce_partitions(session, job, job.entry.reads, dataset, records)
        for side, record in records.items():
            if record["rule"] == "side_products":
                store.update(_load(job, side))
        session.dataset_end(dataset, store)
        own = facts_of(session.record())
        later = {key: value for key, value in store.items() if _is_kept(plan, key)}
        content = save(job, plan, later, folder)
        own = relocate(own, str(folder), str(job.build))
    # Side products come before all datasets: the end of the run counts them.
    before = [record for record in records.values() if record["rule"] != "side_products"]
    new_record = content_of(content, [*map(facts_of, runs), own])
    new_record["ran_on"] = _places(before, job.place)
    return new_record


def run_finish(job: WorkerJob) -> Content:
    """Reduce the datasets, write the products and plots, and close the run."""
    records = _records(job)
    runs = [Run(**run) for record in records.values() for run in record["runs"]]
    partitions = _partitions(runs)
    plan = plan_files.read_slim(job.plan_file, partitions)
    register_behaviours()
    _mark_plots(job.entry)
    side: Store = {}
    with staging(job) as folder:
        session = Session(plan, folder)
        session.replay(runs)
        replayed = len(session.recorder.operation_records())
        stores: list[Store] = []
        by_dataset: dict[str | None, list[Read]] = {}
        for read in job.entry.reads:
            record = records[read.folder]
            if record["rule"] == "side_products":
                side.update(_load(job, read.folder))
            elif record["rule"] == "merge":
                stores.append(_load(job, read.folder))
            else:
                dataset = record["runs"][0]["partition"]
                by_dataset.setdefault(dataset["dataset"] if dataset else None, []).append(read)
        for name, reads in by_dataset.items():
            if name is None:  # a workflow without datasets: its products are final already
                stores.append({k: v for read in reads for k, v in _available(job, read).items()})
                continue
            store, _ = _reduce_partitions(session, job, reads, name, records)
            stores.append(session.dataset_end(name, {**side, **store}))
        merged = (
            stores[0]
            if None in by_dataset and stores
            else session.reduce(
                [{k: v for k, v in store.items() if k not in side} for store in stores], None
            )
        )
        for key, value in side.items():
            merged.setdefault(key, value)
        session.write_products(merged)
        export_histograms(folder, job.launch["exports"])
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
    if not varied:
        job.results.extend(_write_manifests(session, artifacts, job.build, job.entry))
    session.run_end()
    own.hooks = session.hooks.usage_summary()["enabled"]
    content = save(job, plan, artifacts, folder)
    places = _places(records.values(), job.place)
    if not varied:
        system = job.sent.system
        job.results.extend(_summarise(plan, job.build, [*runs, own], job.entry, system, places))
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
    manifests: list[JsonObject] = []
    lacking: list[MissingPartition] = []
    sample: SampleFacts | None = None
    table = TaskTable.read(job.build, "finish")
    for read in job.entry.reads:
        record = _record(job, read.folder)
        runs = [Run(**run) for run in record["runs"]]
        entry = table.jobs[record["key"]]
        plan = plan_files.read_slim(job.build / entry.plan, _partitions(runs))
        session = Session(plan, job.build)
        session.replay(runs)
        before = _writer_manifests(job.build)
        written = _write_manifests(session, _load(job, read.folder), job.build, entry)
        variation = str(plan.context["variation"]["name"])
        job.results.extend(_move_writer_manifests(job.build, variation, before))
        manifest = _manifest(job.build)
        if manifest.is_file():
            manifests.append(json.loads(manifest.read_text(encoding="utf-8")))
            written += _keep_execution(job.build, variation, manifests[-1], manifests)
        system, places = job.sent.system, _places([record], job.place)
        job.results.extend(_summarise(plan, job.build, runs, entry, system, places))
        job.results.extend(name for name in written if (job.build / name).exists())
        lacking += [partition for partition in entry.missing if partition not in lacking]
        sample = entry.sample or sample
    _note_lacking([_manifest(job.build)], replace(job.entry, missing=tuple(lacking), sample=sample))
    content = products.save(job.folder, [], declared=[])
    _sync_in_place(job.build)
    return content_of(content, [])


def _places(records: Iterable[Record], own: PoolCount) -> list[PoolCount]:
    """Return where a job and those of some records ran, with those that they reduced."""
    counts = Counter({(own["system"], own["pool"]): own["jobs"]})
    for record in records:
        for count in record.get("ran_on", ()):
            counts[count["system"], count["pool"]] += count["jobs"]
        if "ran_on" not in record:
            system = record.get("system", "local")
            counts[system, str(record["asked"].get("pool") or "")] += 1
    return [
        {"system": system, "pool": pool, "jobs": jobs}
        for (system, pool), jobs in sorted(counts.items())
    ]


def _summarise(
    plan: Plan,
    build: Path,
    runs: list[Run],
    entry: JobEntry,
    system: str,
    places: list[PoolCount],
) -> list[str]:
    """Write the summary of a run, its reports, and those on what is amiss; return their paths.

    ``entry`` is that of the finish job in its table. ``system`` is what jobs are sent to now,
    ``places`` is where they ran.
    """
    compiled = build / "compile"
    variation = plan.context.get("variation")
    if isinstance(variation, dict):
        compiled = compiled / str(variation["name"])
    written = summary.summarise(
        plan,
        build,
        runs=runs,
        system=system,
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
    results += [path for path in written.reports if build in path.parents and path.is_file()]
    return [str(path.relative_to(build)) for path in results]


def _write_manifests(session: Session, store: Store, build: Path, entry: JobEntry) -> list[str]:
    """Write the manifests of a run and of its writers, with what they lack; return their paths.

    Among them are the records of provenance that the run's manifest lists.
    """
    manifest = _manifest(build)
    provenance = (manifest, manifest.with_name("execution.json"))
    before = {**_writer_manifests(build), **_times(provenance)}
    session.write_manifests(store, build)
    after = {**_writer_manifests(build), **_times(provenance)}
    written = [path for path, time in after.items() if before.get(path) != time]
    manifests = {path for path in written if path.name == manifest.name}
    _note_lacking([*manifests, manifest], entry)
    if manifest in written:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        written += [build / record["record"] for record in content["records"]]
    return [str(path.relative_to(build)) for path in written]


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


def _times(paths: Iterable[Path]) -> dict[Path, int]:
    """Return when files were written, of those that are there."""
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def _sync_in_place(build: Path) -> None:
    """Let what FAST-HEP writes straight into the build reach the disk: manifests and reports."""
    written = [
        *(build / "artifacts").rglob("*.json"),
        *(path for path in (build / "reports").rglob("*") if path.is_file()),
        *build.glob("run_summary.yaml"),
    ]
    files.sync_all(written)
    files.sync_all({path.parent for path in written})


def _reduce_partitions(
    session: Session,
    job: WorkerJob,
    reads: Iterable[Read],
    dataset: str,
    records: Mapping[str, Record],
) -> tuple[Store, list[Run]]:
    stores: list[Store] = []
    runs: list[Run] = []
    for read in reads:
        record = records[read.folder]
        if record["rule"] == "side_products":
            continue
        runs.extend(Run(**run) for run in record["runs"])
        stores.append(_available(job, read, record))
    return session.reduce(stores, dataset), runs


def _available(job: WorkerJob, read: Read, record: Record | None = None) -> Store:
    """Load those of the wanted products that the job made (a node may not apply to a dataset)."""
    record = record or _record(job, read.folder)
    made = {(entry["node"], entry["port"]) for entry in record["products"]}
    wanted = [key for key in read.keys if key in made]
    return _load(job, read.folder, wanted) if wanted else {}


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


def _records(job: WorkerJob) -> dict[str, Record]:
    """Return the records of the jobs that a job reads, by their folders."""
    return {read.folder: _record(job, read.folder) for read in job.entry.reads}


def _record(job: WorkerJob, folder: str) -> Record:
    """Return another job's record; paths in it are those of the build folder as it is now."""
    record = products.read_record(job.build / folder)
    here, there = str(job.build), record.get("build")
    moved: Record = relocate(record, there, here) if there not in (None, here) else record
    return moved


def _load(job: WorkerJob, folder: str, wanted: Iterable[Key] | None = None) -> Store:
    """Return products of another job; what they refer to lies in the build folder as it is now."""
    store: Store = products.load(job.build / folder, wanted)
    here, there = str(job.build), products.read_record(job.build / folder).get("build")
    if there in (None, here):
        return store
    return {key: relocate(value, there, here) for key, value in store.items()}


def _partitions(runs: Iterable[Run]) -> list[PartitionData]:
    by_id = {run.partition["id"]: run.partition for run in runs if run.partition is not None}
    return list(by_id.values())


def _writer_manifests(build: Path) -> dict[Path, int]:
    return _times((build / "artifacts" / "files").glob("*/manifest.json"))


def _move_writer_manifests(build: Path, variation: str, before: dict[Path, int]) -> list[str]:
    """Move what was written into a variation's own folder; return it relative to the build."""
    moved = []
    for path, written in _writer_manifests(build).items():
        if before.get(path) == written:
            continue
        goal = build / "artifacts" / variation / "files" / path.parent.name / path.name
        goal.parent.mkdir(parents=True, exist_ok=True)
        path.replace(goal)
        moved.append(str(goal.relative_to(build)))
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return moved


def _keep_execution(
    build: Path, variation: str, manifest: JsonObject, manifests: list[JsonObject]
) -> list[str]:
    """Keep each variation's execution index, and one manifest with the artifacts of all so far.

    Returns the path of the index.
    """
    execution = _manifest(build).with_name("execution.json")
    kept = execution.parent / "variations" / variation / execution.name
    if execution.is_file():
        files.write_text(kept, execution.read_text(encoding="utf-8"))
    records = {record["record"]: record for written in manifests for record in written["records"]}
    merged = {**manifest, "records": list(records.values())}
    files.write_text(_manifest(build), json.dumps(merged, indent=2) + "\n")
    return [str(kept.relative_to(build))] if execution.is_file() else []
