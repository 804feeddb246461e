"""What is measured: one function per case. Each says what it compares, and the figure to reach."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from . import workflows
from .agc import agc
from .clusters import htcondor, slurm
from .forecast import forecast
from .load import load
from .measure import Failed, Measured
from .overhead import overhead
from .page import page
from .patches import patches
from .report import Figure, Result, Row
from .size import marginal, plots, scale, sleeping
from .sizes import sizes
from .steps import (
    Settings,
    Step,
    check_equal,
    fasthep,
    fresh,
    job_records,
    jobs_done,
    records,
    run,
    smk,
)

__all__ = ["CASES", "LONG"]

_CHUNK = 500_000
_POOLS = 3
#: What the ratio of a row is to.
_ABOVE = "(ratio to the row above)"
_AGAIN = f"second run with nothing to do {_ABOVE}"


def tutorial(settings: Settings) -> Result:
    """Return what a first analysis costs: toy events in one partition, and again without edits."""
    folder = settings.folder
    workflows.write(workflows.tutorial(100_000), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    finished: dict[str, int] = {}

    def after_full(measured: Measured) -> None:
        check_equal(theirs, ours)
        finished.clear()
        finished.update(records(ours))
        if not jobs_done(measured):
            raise Failed("the full run has done nothing")

    def after_rerun(measured: Measured) -> None:
        if jobs_done(measured) or records(ours) != finished:
            raise Failed("the rerun has done something")

    found = run(
        [
            Step(
                "fasthep run",
                fasthep("run", "workflow.yaml", "--outdir", "theirs"),
                fresh(theirs),
            ),
            Step("ours", smk("workflow.yaml", "-o", "ours", "-j", "2"), fresh(ours), after_full),
            Step("again", smk("workflow.yaml", "-o", "ours", "-j", "2"), after=after_rerun),
            Step(
                "fasthep compile",
                fasthep("compile", "workflow.yaml", "--outdir", "compiled"),
                fresh(folder / "compiled"),
            ),
        ],
        settings,
    )
    return Result(
        "tutorial",
        "100,000 toy events in one partition, with two histograms and their plots.",
        [
            Row("`fasthep run`", found["fasthep run"]),
            Row("`fasthep-smk -j 2`", found["ours"], found["fasthep run"], 1.4),
            Row(_AGAIN, found["again"], found["ours"], 0.35),
            Row("`fasthep compile`", found["fasthep compile"]),
            Row(_AGAIN, found["again"], found["fasthep compile"], 1.1),
        ],
    )  # fmt: skip


def chain(settings: Settings) -> Result:
    """Return what it costs that stages of one partition need three pools: files between jobs."""
    folder = settings.folder
    workflows.write(workflows.chain(100_000), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    command = smk("workflow.yaml", "-o", "ours", "-j", "2", "--shrink-to-fit")

    def check(_: Measured) -> None:
        check_equal(theirs, ours)
        if len(pools := {one["asked"]["pool"] for one in job_records(ours)}) != _POOLS:
            raise Failed(f"jobs ran in {', '.join(sorted(pools))}: {_POOLS} pools were meant")

    found = run(
        [
            Step(
                "fasthep run",
                fasthep("run", "workflow.yaml", "--outdir", "theirs"),
                fresh(theirs),
            ),
            Step("ours", command, fresh(ours), check),
        ],
        settings,
    )
    return Result(
        "chain",
        "100,000 toy events in one partition, which goes through three pools in turn, with one "
        "histogram and its plot.",
        [
            Row("`fasthep run`", found["fasthep run"]),
            Row("`fasthep-smk -j 2`", found["ours"], found["fasthep run"], 1.0),
        ],
    )


def zmumu(settings: Settings) -> Result:
    """Return what the demo's analysis costs at the size of a real one."""
    folder = settings.folder
    workflows.write(workflows.zmumu(settings.events), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    chunks = ("workflow.yaml", "--chunk-size", str(_CHUNK))
    checked: list[bool] = []

    def check(_: Measured) -> None:
        if not checked:
            check_equal(theirs, ours)
            checked.append(True)

    steps = [Step("local", fasthep("run", *chunks, "--outdir", "theirs"), fresh(theirs))]
    # Threads are what Dask takes if nothing is said; processes are the faster way where Python
    # is what it waits for.
    dask = importlib.util.find_spec("fasthep_distributed") is not None
    for scheduler in ("threads", "processes") if dask else ():
        outdir = folder / scheduler
        how = ("--strategy", "local", "--workers", "2", "--scheduler", scheduler)
        command = fasthep("run", *chunks, "--backend", "dask", *how, "--outdir", scheduler)
        steps.append(Step(scheduler, command, fresh(outdir)))
    steps.append(Step("ours", smk(*chunks, "-o", "ours", "-j", "2"), fresh(ours), check))
    found = run(steps, settings)
    rows = [Row("`fasthep run`", found["local"])]
    rows.append(Row("`fasthep-smk -j 2`", found["ours"], found["local"], 0.65))
    for scheduler in ("threads", "processes") if dask else ():
        rows.append(Row(f"`fasthep run` with Dask, two {scheduler}", found[scheduler]))
        rows.append(Row(f"`fasthep-smk -j 2` {_ABOVE}", found["ours"], found[scheduler], 0.65))
    lacking = "Dask was not measured: fasthep-distributed is not installed."
    title = (
        f"The demo with its plots: {settings.events:,} events in nine datasets, in chunks of "
        f"{_CHUNK:,} events."
    )
    return Result("zmumu", title, rows, notes=[] if dask else [lacking])


def published(settings: Settings) -> Result:
    """Return what the analysis of FAST-HEP's workshop costs, with half as many events as above."""
    folder, number = settings.folder, max(settings.events // 2, 1000)
    workflows.write(workflows.one_plot(number), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    chunks = ("workflow.yaml", "--chunk-size", str(_CHUNK))
    found = run(
        [
            Step("fasthep run", fasthep("run", *chunks, "--outdir", "theirs"), fresh(theirs)),
            Step(
                "ours",
                smk(*chunks, "-o", "ours", "-j", "2"),
                fresh(ours),
                lambda _: check_equal(theirs, ours),
            ),
        ],
        settings,
    )
    return Result(
        "published",
        f"One histogram of muon pairs with its plot, as in FAST-HEP's workshop: {number:,} events "
        f"in nine datasets, in chunks of {_CHUNK:,} events.",
        [
            Row("`fasthep run`", found["fasthep run"]),
            Row("`fasthep-smk -j 2`", found["ours"], found["fasthep run"], 0.65),
        ],
    )


def rebin(settings: Settings) -> Result:
    """Return what a run costs after the binning of one histogram among 20 was changed."""
    folder = settings.folder
    theirs, ours = folder / "theirs", folder / "ours"
    before = workflows.histograms(settings.events, edited=False)
    after = workflows.histograms(settings.events, edited=True)
    # Dates of input files and the name of the workflow stay: only its text changes.
    command = smk("workflow.yaml", "-o", "ours", "-j", "2", "--chunk-size", str(_CHUNK))

    def start() -> None:
        fresh(ours)()
        workflows.write(before, folder)

    found = run(
        [
            Step("full", command, start),
            Step("edited", command, lambda: workflows.write(after, folder)),
        ],
        settings,
    )
    once = Settings(folder, 1, settings.events, settings.files)
    reference = fasthep("run", "workflow.yaml", "--chunk-size", str(_CHUNK), "--outdir", "theirs")
    run([Step("fasthep run, of the edited one", reference, fresh(theirs))], once)
    check_equal(theirs, ours)
    return Result(
        "rebin",
        f"20 histograms of a selection from {settings.events:,} events. Before the second run, one "
        "histogram gets another binning.",
        [
            Row("full run", found["full"]),
            Row("run after the edit", found["edited"], found["full"], 0.15),
        ],
        notes=[
            f"jobs: {jobs_done(found['full'][0])} in the full run, "
            f"{jobs_done(found['edited'][0])} after the edit"
        ],
    )


def variations(settings: Settings) -> Result:
    """Return what 20 systematic variations of the histograms' weights cost, against one."""
    folder = settings.folder
    workflows.write(workflows.varied(settings.events, 1), folder, "one.yaml")
    workflows.write(workflows.varied(settings.events, 20), folder, "many.yaml")
    one, many = folder / "one", folder / "many"
    common = ("-j", "2", "--chunk-size", str(_CHUNK))
    found = run(
        [
            Step("one", smk("one.yaml", "-o", "one", *common), fresh(one)),
            Step("many", smk("many.yaml", "-o", "many", *common), fresh(many)),
        ],
        settings,
    )
    _check_variation(one, many)
    return Result(
        "variations",
        f"20 systematic weights for the five histograms of the demo, {settings.events:,} events.",
        [
            Row("one variation", found["one"]),
            Row("20 variations", found["many"], found["one"], 2.0),
        ],
        notes=[
            f"jobs: {jobs_done(found['one'][0])} with one variation, "
            f"{jobs_done(found['many'][0])} with all"
        ],
    )


def _check_variation(one: Path, many: Path) -> None:
    """Check that the first variation is the same in both, and that the last differs from it."""
    from tests.support.compare import compare_histograms

    first = _histograms(one, "weight_0")
    same, other = _histograms(many, "weight_0"), _histograms(many, "weight_19")
    if not first or set(first) != set(same) or set(first) != set(other):
        raise Failed(f"histograms: {sorted(first)}, {sorted(same)}, {sorted(other)}")
    for name, content in first.items():
        if differences := compare_histograms(content, same[name]):
            raise Failed(f"{name}: {differences[0]}")
        if not compare_histograms(content, other[name]):
            raise Failed(f"{name} is the same in two variations")


def _histograms(build: Path, variation: str) -> dict[str, object]:
    import pickle

    found = (build / "artifacts").rglob("*.pkl")
    return {path.name: pickle.loads(path.read_bytes()) for path in found if variation in path.parts}


def memory(settings: Settings) -> Result:
    """Return the peak memory of a worker, and of ``fasthep run``, on the same partition."""
    folder = settings.folder
    number = max(settings.events // 10, 1000)
    workflows.write(workflows.one_file(number), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    found = run(
        [
            Step("theirs", fasthep("run", "workflow.yaml", "--outdir", "theirs"), fresh(theirs)),
            Step("ours", smk("workflow.yaml", "-o", "ours", "-j", "1"), fresh(ours)),
        ],
        settings,
    )
    check_equal(theirs, ours)
    worker = max(item.largest_of("fasthep_smk.worker") for item in found["ours"])
    reference = max(item.largest for item in found["theirs"])
    if not worker:
        raise Failed("no worker was seen")
    return Result(
        "memory",
        f"The demo without plots, with one partition of {number:,} events.",
        [Row("`fasthep run`", found["theirs"]), Row("`fasthep-smk -j 1`", found["ours"])],
        [Figure("peak memory of a worker (ratio to `fasthep run`)", worker / reference, 1.1)],
    )


def intermediates(settings: Settings) -> Result:
    """Return the bytes of intermediate files against those of the same columns in memory."""
    from .streams import sizes

    folder = settings.folder
    number = max(settings.events // 10, 1000)
    workflows.write(workflows.zmumu(number), folder)
    ours = folder / "ours"
    options = ("-o", "ours", "-j", "2", "--granularity", "stage", "--keep", "all")
    run([Step("ours", smk("workflow.yaml", *options), fresh(ours))], settings)
    on_disk, in_memory, count = sizes(ours)
    if not count:
        raise Failed("there are no intermediate files")
    return Result(
        "intermediates",
        f"The demo with one rule per stage: {number:,} events, {count} files with event streams.",
        [],
        [Figure("size of files (ratio to the same columns in memory)", on_disk / in_memory, 1.0)],
        [f"{on_disk / 1e6:.1f} MB of files, {in_memory / 1e6:.1f} MB of columns"],
    )


CASES: dict[str, Callable[[Settings], Result]] = {
    "tutorial": tutorial,
    "chain": chain,
    "zmumu": zmumu,
    "published": published,
    "rebin": rebin,
    "variations": variations,
    "marginal": marginal,
    "sleeping": sleeping,
    "scale": scale,
    "intermediates": intermediates,
    "memory": memory,
    "agc": agc,
}
#: What runs only if it is asked for by its name.
LONG: dict[str, Callable[[Settings], Result]] = {
    "load": load,
    "patches": patches,
    "plots": plots,
    "slurm": slurm,
    "htcondor": htcondor,
    "page": page,
    "overhead": overhead,
    "sizes": sizes,
    "forecast": forecast,
}
