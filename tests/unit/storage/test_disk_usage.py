"""What may be deleted from a build folder, and what the disk gets back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from fasthep_smk.run import cleanup
from fasthep_smk.storage.disk_usage import Amount, File, Survey, amount, freed_by, survey
from fasthep_smk.storage.jobs import TaskJob
from fasthep_smk.storage.retention import Freeable, Keep, after_success, beyond, cleanable
from tests.support import tables

CUT = [
    TaskJob(
        rule="cut",
        key=f"dy/{part}",
        scope="partition",
        outputs=("record.json", "products.zip", "cut.arrow"),
        entry=tables.entry(
            folder=f"smk/work/cut/dy/{part}",
            signature=tables.signed(part),
            inputs=("/data/dy.root",),
        ),
    )
    for part in ("0_0", "1_0")
]
MERGE = TaskJob(
    rule="merge",
    key="dy",
    scope="merge",
    outputs=("record.json", "products.zip"),
    entry=tables.entry(
        folder="smk/work/merge/dy",
        signature=tables.signed("merge"),
        inputs=tuple(f"{job.folder}/{name}" for job in CUT for name in job.outputs),
    ),
)
JOBS = [*CUT, MERGE]


def file(path: str, size: int = 10, inode: int | None = None, links: int = 1) -> File:
    return File(path, size, (1, hash(path) if inode is None else inode), links)


def write(build: Path, path: str, size: int = 10) -> Path:
    (build / path).parent.mkdir(parents=True, exist_ok=True)
    (build / path).write_bytes(b"x" * size)
    return build / path


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """The folder of a run that succeeded."""
    for job in JOBS:
        for name in job.outputs:
            write(tmp_path, f"{job.folder}/{name}", 1000 if name.endswith("arrow") else 100)
    for path in (
        "artifacts/histograms/Met.pkl",
        "smk/old/0123/record.json",
        "smk/old/0123/products.zip",
        "smk/plans/nominal.json",
        "debug/distributed/snakemake.log",
        "debug/distributed/logs/cut/dy/0_0.log",
    ):
        write(tmp_path, path)
    return tmp_path


def survey_of(build: Path, *, without: Iterable[TaskJob] = ()) -> Survey:
    return survey(build, JOBS, done=[job.folder for job in JOBS if job not in without])


def paths(parts: Freeable) -> dict[str, list[str]]:
    return {what: sorted(one.path for one in files) for what, files in parts.items()}


def names_in(parts: Freeable) -> set[str]:
    return {path for listed in paths(parts).values() for path in listed}


@pytest.mark.parametrize("keep", ["all", "auto", "none"])
def test_cached_streams_may_go_but_are_kept_for_a_rerun(build: Path, keep: Keep) -> None:
    cached = write(build, f"{CUT[0].folder}/cut.spare.arrow", 1000)
    other = write(build, f"{CUT[0].folder}/value.arrow", 1000)  # of a product that is no stream
    found = survey_of(build)
    assert found.usage["event streams"] == Amount(4, 4000)
    names, gone = names_in(cleanable(found)), names_in(after_success(found, keep))
    assert str(cached.relative_to(build)) in names
    assert (str(cached.relative_to(build)) in gone) == (keep == "none")
    assert str(other.relative_to(build)) not in names | gone


# --- what it costs --------------------------------------------------------------------------------


def test_each_file_belongs_to_one_kind(build: Path) -> None:
    write(build, "smk/stage/cut/dy.1/artifacts/skim.root")
    write(build, ".snakemake/log/today.log")
    write(build, "execution/worker-environments/packed-venv-1.run")
    usage = survey_of(build).usage
    assert usage == {
        "results": Amount(1, 10),
        "event streams": Amount(2, 2000),
        "other products": Amount(6, 600),
        "superseded results": Amount(2, 20),
        "environments": Amount(1, 10),
        "unfinished jobs": Amount(1, 10),
        "logs": Amount(2, 20),
        "translation": Amount(1, 10),
        "Snakemake's own": Amount(1, 10),
    }
    assert survey_of(build).total == Amount(17, 2690)


def test_what_a_job_was_before_is_superseded(build: Path) -> None:
    found = survey_of(build, without=[MERGE])
    assert {one.folder for one in found.of("superseded results")} == {"smk/old/0123", MERGE.folder}


def test_jobs_of_another_variation_are_left_alone(build: Path) -> None:
    other = "smk/work/cut/jes_up/dy/0_0"
    for name in ("record.json", "products.zip", "cut.arrow"):
        write(build, f"{other}/{name}")
    found = survey_of(build)
    gone = names_in(cleanable(found)) | names_in(after_success(found, "none"))
    assert not any(name.startswith(other) for name in gone)


def test_a_job_without_record_is_unfinished(build: Path) -> None:
    (build / MERGE.folder / "record.json").unlink()
    write(build, "smk/work/earlier_rule/dy/0_0/products.zip")
    found = survey(build, JOBS)
    assert not found.complete
    assert sorted(one.path for one in found.of("unfinished jobs")) == [
        "smk/work/earlier_rule/dy/0_0/products.zip",
        "smk/work/merge/dy/products.zip",
    ]


def test_a_file_with_two_names_counts_once(build: Path) -> None:
    (build / "smk/old/0123/shared.zip").hardlink_to(build / CUT[0].folder / "products.zip")
    usage = survey_of(build).usage
    assert usage["other products"] == Amount(6, 600)
    assert usage["superseded results"] == Amount(2, 20)


def test_links_to_elsewhere_are_not_followed(
    build: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere, "large.root", 5000)
    (build / "data").symlink_to(elsewhere)
    assert survey_of(build).usage["results"].size < 100


def test_what_lies_on_another_disk_counts(
    build: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scratch = tmp_path_factory.mktemp("scratch") / "smk"
    (build / "smk").rename(scratch)
    (build / "smk").symlink_to(scratch)
    found = survey_of(build)
    assert found.usage["event streams"] == Amount(2, 2000)
    assert cleanup.delete(build, cleanable(found)) == []
    assert not list(scratch.rglob("*.arrow"))
    assert (build / "smk").is_symlink()


def test_a_file_is_freed_with_its_last_name() -> None:
    one, two, beside = (file(name, inode=7, links=2) for name in ("one", "two", "beside"))
    assert freed_by({"a": [one], "b": [two]}) == {"a": Amount(1, 0), "b": Amount(1, 10)}
    assert freed_by({"a": [beside]}) == {"a": Amount(1, 0)}
    assert amount([one, two]) == Amount(2, 10)


# --- clean ----------------------------------------------------------------------------------------


def test_clean_leaves_results_records_and_products(build: Path) -> None:
    assert paths(cleanable(survey_of(build))) == {
        "superseded results": ["smk/old/0123/products.zip", "smk/old/0123/record.json"],
        "event streams": [f"{job.folder}/cut.arrow" for job in CUT],
        "logs of succeeded jobs": ["debug/distributed/logs/cut/dy/0_0.log"],
    }


def test_streams_that_a_job_still_has_to_read_stay(build: Path) -> None:
    write(build, "debug/distributed/logs/merge/dy.log")
    write(build, "debug/distributed/logs/merge/dy.attempt1.log")
    (build / MERGE.folder / "record.json").unlink()
    parts = paths(cleanable(survey_of(build, without=[MERGE])))
    assert "event streams" not in parts
    assert parts["leftovers of killed jobs"] == ["smk/work/merge/dy/products.zip"]
    # Of the job that has not succeeded, the logs stay.
    assert parts["logs of succeeded jobs"] == ["debug/distributed/logs/cut/dy/0_0.log"]


def test_a_stream_that_snakemake_does_not_know_stays(build: Path) -> None:
    write(build, f"{CUT[0].folder}/stage_Own_value.arrow")
    write(build, f"{CUT[0].folder}/cut.1.arrow")  # goes with cut.arrow
    streams = paths(cleanable(survey_of(build)))["event streams"]
    assert f"{CUT[0].folder}/stage_Own_value.arrow" not in streams
    assert f"{CUT[0].folder}/cut.1.arrow" in streams


def test_what_a_batch_system_captured_goes_when_all_jobs_are_done(build: Path) -> None:
    captured = write(build, "debug/distributed/out/rule_cut/4711.log")
    name = str(captured.relative_to(build))
    assert name in paths(cleanable(survey_of(build)))["logs of succeeded jobs"]
    left = paths(cleanable(survey_of(build, without=[MERGE])))
    assert name not in left["logs of succeeded jobs"]


def test_leftovers_and_notes_of_snakemake_go(build: Path) -> None:
    for path in (
        "smk/stage/cut/dy.1/artifacts/skim.root",
        "artifacts/provenance/.0123456789abcdef.tmp-123",
        ".snakemake/log/yesterday.log",
        ".snakemake/metadata/@c21rL3dvcmsv/bWVyZ2UvZHkvcmVjb3JkLmpzb24=",
        ".snakemake/conda/environment",
    ):
        write(build, path)
    parts = paths(cleanable(survey_of(build)))
    assert parts["leftovers of killed jobs"] == [
        "artifacts/provenance/.0123456789abcdef.tmp-123",
        "smk/stage/cut/dy.1/artifacts/skim.root",
    ]
    assert parts["Snakemake's logs and notes"] == [
        ".snakemake/log/yesterday.log",
        ".snakemake/metadata/@c21rL3dvcmsv/bWVyZ2UvZHkvcmVjb3JkLmpzb24=",
    ]


def test_clean_all_leaves_no_intermediate(build: Path) -> None:
    write(build, ".snakemake/locks/0.input.lock")
    assert cleanup.delete(build, cleanable(survey_of(build), everything=True)) == []
    left = sorted(str(path.relative_to(build)) for path in build.rglob("*") if path.is_file())
    assert left == [
        "artifacts/histograms/Met.pkl",
        "debug/distributed/snakemake.log",
        "smk/plans/nominal.json",
    ]
    assert not (build / "smk/work").exists()
    assert not (build / ".snakemake").exists()


def test_what_cannot_be_deleted_is_named(build: Path) -> None:
    in_the_way = build / CUT[0].folder / "cut.arrow"
    found = survey_of(build)
    in_the_way.unlink()
    in_the_way.mkdir()
    (in_the_way / "file").touch()
    problems = cleanup.delete(build, cleanable(found))
    assert [one.file for one in problems] == [str(in_the_way)]
    assert "cannot be deleted" in problems[0].problem


# --- after a run ----------------------------------------------------------------------------------


def test_the_oldest_superseded_results_go_first() -> None:
    c, b, a = newest_first = [[file(f"smk/old/{name}/products.zip")] for name in "cba"]
    assert beyond(30, newest_first) == []
    assert beyond(20, newest_first) == a
    assert beyond(15, newest_first) == [*b, *a]
    assert beyond(9, newest_first) == [*c, *b, *a]


def test_what_superseded_results_share_costs_nothing() -> None:
    current, of_a, of_b = (file(name, inode=1, links=3) for name in ("now", "a", "b"))
    newest_first = [[of_b, file("own")], [of_a]]
    assert len(beyond(19, newest_first)) == 3
    assert beyond(20, newest_first) == []
    assert beyond(10, newest_first, beside=[current]) == []


@pytest.mark.parametrize(("little", "gone"), [(0, ["smk/old/0123"]), (10**6, [])])
def test_auto_lets_superseded_results_take_as_much_as_the_current(
    build: Path, little: int, gone: list[str]
) -> None:
    write(build, "smk/old/4567/record.json", 2500)
    os.utime(build / "smk/old/0123", (1, 1))
    found = survey_of(build)
    assert after_success(found, "auto", little=little) == {}
    write(build, "smk/old/4567/cut.arrow", 100)  # 2620 bytes beside 2610
    found = survey_of(build)
    freed = paths(after_success(found, "auto", little=little))
    assert sorted({str(Path(path).parent) for what in freed for path in freed[what]}) == gone


def test_none_leaves_records_and_merged_products(build: Path) -> None:
    found = survey_of(build)
    assert paths(after_success(found, "none")) == {
        "superseded results": ["smk/old/0123/products.zip", "smk/old/0123/record.json"],
        "event streams": [f"{job.folder}/cut.arrow" for job in CUT],
        "products of partitions": [f"{job.folder}/products.zip" for job in CUT],
    }


@pytest.mark.parametrize("keep", ["auto", "none"])
def test_nothing_goes_as_long_as_a_job_is_left(build: Path, keep: Keep) -> None:
    write(build, "smk/old/4567/cut.arrow", 9000)
    found = survey_of(build, without=[MERGE])
    assert after_success(found, keep, little=0) == {}


def test_all_keeps_all(build: Path) -> None:
    write(build, "smk/old/4567/cut.arrow", 9000)
    found = survey_of(build)
    assert after_success(found, "all", little=0) == {}


def test_the_line_after_a_run(build: Path) -> None:
    (build / "smk/tasks").mkdir()
    for job in JOBS:
        mine = [one for one in JOBS if one.rule == job.rule]
        table = tables.table(
            rule=job.rule,
            scope=job.scope,
            outputs=job.outputs,
            jobs={one.key: one.entry for one in mine},
        )
        (build / f"smk/tasks/{job.rule}.json").write_text(table.to_text())
    said = cleanup.after_run(build, "all", shown=Path("out"))
    assert said.startswith("disk: ")
    assert said.endswith(
        " in out (results 10 B, event streams 2.0 kB, other products 600 B, superseded results "
        "20 B); fasthep-smk clean out frees 2.0 kB"
    )
    said = cleanup.after_run(build, "none", shown=Path("build"))
    assert "; freed 2.2 kB; fasthep-smk clean frees 10 B" in said
    assert sorted(path.name for path in (build / CUT[0].folder).iterdir()) == ["record.json"]
