"""What is read from Snakemake's output."""

from __future__ import annotations

from fasthep_smk.run.snakemake_output import Reader

STARTED = """\
localrule stage_A:
    output: smk/work/stage_A/dy/0_0/record.json
    log: logs/stage_A/dy/0_0.log
    jobid: 4
    reason: Missing output files: smk/work/stage_A/dy/0_0/record.json
"""
FAILED = """\
Error in rule stage_A:
    message: None
    jobid: {number}
    output: smk/work/stage_A/dy/{number}_0/record.json
    log: {log} (check log file(s) for error details)
    shell:
        sh smk/worker
        (command exited with non-zero exit code)
"""
AGAIN = "Trying to restart job {number}.\n"


def read(text: str) -> Reader:
    reader = Reader(None)
    reader.lines(text.splitlines())
    return reader


def failed(number: int, *captured: str) -> str:
    return FAILED.format(number=number, log=", ".join([f"logs/{number}.log", *captured]))


def test_a_failed_job_is_known_by_its_log() -> None:
    assert list(read(STARTED + failed(4)).failed_logs.values()) == ["logs/4.log"]


def test_what_the_batch_system_captured_is_not_the_log() -> None:
    assert list(read(failed(4, "/out/4.log")).failed_logs.values()) == ["logs/4.log"]


def test_a_job_that_is_tried_again_has_not_failed() -> None:
    text = failed(4) + failed(5) + AGAIN.format(number=4) + STARTED
    assert list(read(text).failed_logs.values()) == ["logs/5.log"]


def test_the_last_attempt_counts() -> None:
    text = failed(4) + AGAIN.format(number=4) + failed(4)
    assert list(read(text).failed_logs.values()) == ["logs/4.log"]


def test_several_jobs_in_one_of_the_batch_system_are_known_by_what_that_captured() -> None:
    group = "    log: /out/group.log (check log file(s) for error details)\n    jobs:\n"
    assert list(read(failed(4) + STARTED + group).failed_logs.values()) == [
        "logs/4.log",
        "/out/group.log",
    ]
