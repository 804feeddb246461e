"""What many jobs cost: the next one of a run, and a translation of ten thousand files."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

import yaml

from . import workflows
from .measure import Failed, Measured
from .report import Figure, Result, Row
from .steps import Settings, Step, fasthep, fresh, job_records, jobs_done, run, smk

__all__ = ["marginal", "plots", "scale", "sleeping", "slopes"]

_FEW, _MANY = 50, 250
_PLOTS = 200
#: Jobs that sleep a second, and how many of them at a time.
_SLEEPING, _AT_A_TIME = 162, 64
_TOTAL = re.compile(r"^total\s+(\d+)\s*$", re.MULTILINE)
#: Settings of a profile that belong to its own rules.
_OWN = ("snakefile", "directory", "set-resources", "set-threads", "groups", "group-components")
#: One rule and many jobs, as in our Snakefiles: rules of their own would cost Snakemake more.
_BARE = """\
rule all:
    input:
        expand("out/{{number}}", number=range({count})),


rule bare:
    output:
        touch("out/{{number}}"),
    shell:
        "true"
"""


def marginal(settings: Settings) -> Result:
    """Return what one more trivial job costs, against one of Snakemake's that does nothing."""
    folder = settings.folder
    steps = [step for count in (_FEW, _MANY) for step in _of_size(folder, count)]
    found = run(steps, settings)
    kinds = {
        "ours": "a partition, `fasthep-smk -j 2`",
        "alone": "a partition, `fasthep-smk -j 2 --bundle 1`",
        "bare": "a Snakemake job that runs `true`",
    }
    cost = {kind: slopes(found[f"{kind} {_FEW}"], found[f"{kind} {_MANY}"]) for kind in kinds}
    ours, alone, bare = (cost[kind][0] for kind in kinds)
    return Result(
        "marginal",
        f"The cost of one more trivial partition: the slope between runs of {_FEW} and of {_MANY} "
        "partitions.",
        [],
        [
            Figure("a partition (ratio to a bare Snakemake job)", ours / bare, 4.0),
            Figure(
                "a partition in a job of its own (ratio to a bare Snakemake job)", alone / bare, 6.0
            ),
        ],
        [
            f"{kinds[kind]}: {wall * 1e3:.1f} ms, {cpu * 1e3:.1f} ms of CPU"
            for kind, (wall, cpu) in cost.items()
        ],
    )


def _of_size(folder: Path, count: int) -> list[Step]:
    document, chunk = workflows.tiny(count)
    name = f"tiny{count}.yaml"
    workflows.write(document, folder, name)
    ours, alone, bare = (folder / f"{kind}{count}" for kind in ("ours", "alone", "bare"))

    def prepare(measured: Measured) -> None:
        if jobs_done(measured) < count:
            raise Failed("partitions share jobs: this is not the cost of one")

    def prepare_bare(_: Measured) -> None:
        fresh(bare)()
        settings = yaml.safe_load((ours / "smk/profile/config.yaml").read_text(encoding="utf-8"))
        kept = {key: value for key, value in settings.items() if key not in _OWN}
        (bare / "profile").mkdir(parents=True)
        (bare / "profile" / "config.yaml").write_text(yaml.safe_dump(kept), encoding="utf-8")
        (bare / "Snakefile").write_text(_BARE.format(count=count), encoding="utf-8")

    def check(_: Measured) -> None:
        if (made := len(list((bare / "out").iterdir()))) != count:
            raise Failed(f"Snakemake has run {made} of {count} jobs")

    command = [sys.executable, "-P", "-m", "snakemake", "--profile", f"{bare.name}/profile"]
    command += ["--snakefile", f"{bare.name}/Snakefile", "--directory", bare.name, "--cores", "2"]
    size = ("--chunk-size", str(chunk))
    return [
        Step(
            f"ours {count}", smk(name, "-o", ours.name, "-j", "2", *size), fresh(ours), prepare_bare
        ),
        Step(
            f"alone {count}",
            smk(name, "-o", alone.name, "-j", "2", "--bundle", "1", *size),
            fresh(alone),
            prepare,
        ),
        Step(f"bare {count}", command, after=check),
    ]


def sleeping(settings: Settings) -> Result:
    """Return what jobs take that use next to no CPU, many more at a time than there are cores."""
    folder, ours = settings.folder, settings.folder / "ours"
    (folder / "sleeping.py").write_text(workflows.SLEEP.replace("SECONDS", "1.0"), encoding="utf-8")
    in_jobs: dict[int, list[float]] = {1: [], _SLEEPING: []}

    def step(count: int) -> Step:
        document, size = workflows.sleeping(count)
        workflows.write(document, folder, f"sleep{count}.yaml")
        # Before they have run once, they seem tiny, and would be bundled.
        options = ("-j", str(_AT_A_TIME), "--bundle", "1", "--chunk-size", str(size))
        command = smk(f"sleep{count}.yaml", "-o", "ours", *options)

        def look(_: Measured) -> None:
            jobs = job_records(ours)
            slept = [job for job in jobs if job["ended"] - job["started"] >= 1.0]
            if len(slept) != count:
                raise Failed(f"{len(slept)} of {count} partitions have slept")
            in_jobs[count].append(sum(job["used"]["cpu"] for job in jobs))

        return Step(str(count), command, fresh(ours), look)

    found = run([step(1), step(_SLEEPING)], settings)
    one, everything = found["1"], found[str(_SLEEPING)]
    cpu, theirs = (
        (statistics.median(many) - statistics.median(few)) / (_SLEEPING - 1)
        for few, many in (
            ([item.cpu for item in one], [item.cpu for item in everything]),
            (in_jobs[1], in_jobs[_SLEEPING]),
        )
    )
    ideal = _SLEEPING / _AT_A_TIME
    wall = statistics.median(item.wall for item in everything)
    return Result(
        "sleeping",
        f"{_SLEEPING} partitions that sleep for 1 s, each in its own job, {_AT_A_TIME} at a time.",
        [Row("one partition", one), Row("all of them", everything)],
        [
            Figure(f"all of them (ratio to {ideal:.1f} s, the minimum)", wall / ideal, 1.5),
            Figure(
                "CPU time of the run per job, without that of the job itself",
                1e3 * (cpu - theirs),
                40,
                " ms",
            ),
        ],
        [
            "CPU time of a job according to its record, without the start and end of its process: "
            f"{1e3 * theirs:.0f} ms"
        ],
    )


def plots(settings: Settings) -> Result:
    """Return what many plots cost in the last job of a run, and what as many jobs would cost."""
    folder = settings.folder
    workflows.write(workflows.plots(_PLOTS), folder)
    workflows.write(workflows.plots(1), folder, "one.yaml")
    ours = folder / "ours"
    alone = [step for count in (_FEW, _MANY) for step in _of_size(folder, count)[1:2]]
    found = run(
        [
            Step("one", smk("one.yaml", "-o", ours.name, "-j", "2"), fresh(ours)),
            Step("by two", smk("workflow.yaml", "-o", ours.name, "-j", "2"), fresh(ours)),
            Step("by one", smk("workflow.yaml", "-o", ours.name, "-j", "1"), fresh(ours)),
            *alone,
        ],
        settings,
    )
    job, _ = slopes(*(found[step.name] for step in alone))
    wall = statistics.median(item.wall for item in found["by two"])
    return Result(
        "plots",
        f"{_PLOTS} histograms of 1,000 events with a plot each, which `finish` draws.",
        [
            Row("one plot, `-j 2`", found["one"]),
            Row(f"{_PLOTS} plots, `-j 2`", found["by two"]),
            Row(f"{_PLOTS} plots, `-j 1`", found["by one"]),
        ],
        [
            Figure(
                f"what {_PLOTS} jobs of their own would add, {job * 1000:.0f} ms each, to `-j 2`",
                _PLOTS * job / wall,
                0.1,
            )
        ],
    )


def slopes(few: list[Measured], many: list[Measured]) -> tuple[float, float]:
    """Return the wall time and the CPU of one more job.

    Raises:
        Failed: more jobs have taken less time; something else was at work.
    """
    walls = [statistics.median(item.wall for item in runs) for runs in (few, many)]
    if walls[1] <= walls[0]:
        raise Failed(f"more jobs have taken less time: {walls[0]:.2f} s, then {walls[1]:.2f} s")
    cpus = [statistics.median(item.cpu for item in runs) for runs in (few, many)]
    return (walls[1] - walls[0]) / (_MANY - _FEW), (cpus[1] - cpus[0]) / (_MANY - _FEW)


def scale(settings: Settings) -> Result:
    """Return what it takes before the first job of a very large analysis can start."""
    folder = settings.folder
    workflows.write(workflows.many_files(folder, settings.files), folder)
    theirs, ours = folder / "theirs", folder / "ours"
    dry = [sys.executable, "-P", "-m", "snakemake", "--profile", "ours/smk/profile", "-n"]
    compiling = fasthep("compile", "workflow.yaml", "--outdir", "theirs")
    shrunk = ("-o", "ours", "--shrink-to-fit")
    found = run(
        [
            Step("compile", compiling, fresh(theirs)),
            Step("translate", smk("translate", "workflow.yaml", *shrunk), fresh(ours)),
            Step("dry", dry),
            Step("translate again", smk("translate", "workflow.yaml", *shrunk)),
        ],
        settings,
    )  # fmt: skip
    said = _TOTAL.search(found["dry"][0].output)
    if not said:
        raise Failed("Snakemake does not say how many jobs there are")
    wall = {name: statistics.median(item.wall for item in runs) for name, runs in found.items()}
    peak = max(item.largest for name in ("translate", "dry") for item in found[name])
    return Result(
        "scale",
        f"{settings.files:,} files and ten stages, which need three pools in turn.",
        [
            Row("`fasthep compile`", found["compile"]),
            Row("`fasthep-smk translate`", found["translate"]),
            Row("`snakemake -n`", found["dry"]),
            Row("`fasthep-smk translate` with known files", found["translate again"]),
        ],
        [
            Figure(
                "translation and dry run, minus FAST-HEP's compilation",
                wall["translate"] + wall["dry"] - wall["compile"],
                15,
                " s",
            ),
            Figure("jobs for Snakemake", int(said[1]) - 1, 3000),
            Figure("peak memory of any one process", peak / 1e6, 1000, " MB"),
        ],
    )  # fmt: skip
