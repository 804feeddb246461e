"""The arguments of the commands on a build folder: what they look at, and what they change."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli import values
from fasthep_smk.cli.usage import Parser

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]


def add_build_folder(commands: Commands, run: Parser) -> None:
    """Add what is about a build folder and its size."""
    status = commands.add_parser(
        "status",
        help="count the jobs that are done, running, failed or to do; show disk use",
        description="Count the jobs of a build folder that are done, running, failed or to do. "
        "Show the run in progress, if there is one, and the disk use of the folder. Nothing is "
        "changed.",
    )
    status.add_argument("--json", action="store_true", help="print JSON")
    status.add_argument(
        "--verify",
        action="store_true",
        help="read all files of finished jobs, and list missing, truncated and changed files; if "
        "there are any, the exit status is 1",
    )
    report = commands.add_parser(
        "report",
        help="write a page with results, times, and the resources that jobs requested and used",
        description="Write BUILD/report.html, one file that needs no network. It shows cutflows, "
        "plots, histograms, failures, versions, the resources of each rule, and when jobs ran. "
        "Each run writes this report at its end.",
    )
    shown = report.add_mutually_exclusive_group()
    shown.add_argument("--text", action="store_true", help="print the same tables in the terminal")
    shown.add_argument("--json", action="store_true", help="print these tables as JSON")
    compare = commands.add_parser(
        "compare",
        help="show which results of two build folders differ",
        description="Compare cutflows, histograms (bin by bin), plots, skims and other files. The "
        "exit status is 0 if the results are the same, 1 if they differ, and 2 if they cannot be "
        "compared. Nothing is changed.",
    )
    compare.add_argument("build", type=values.folder, metavar="BUILD", help="a build folder")
    compare.add_argument("other", type=values.folder, metavar="OTHER", help="another build folder")
    compare.add_argument("--json", action="store_true", help="print JSON")
    add_trust(compare)
    sizes = commands.add_parser(
        "sizes",
        help="print the memory and time that jobs should request, as a file for --sizes",
        description="Print, as YAML, how much memory and time the jobs of a build folder used, "
        "requested and should request. Save and edit this output, and give it to a run with "
        "--sizes.",
    )
    cancel = commands.add_parser(
        "cancel",
        help="stop a run, and cancel its jobs in the batch system",
        description="Stop the run of a build folder as Ctrl-C does, and cancel jobs that an "
        "earlier run left in the queue of a batch system. Finished jobs are kept.",
    )
    retry = commands.add_parser(
        "retry",
        help="cancel one job in the queue, so that the run submits it again",
        description="Cancel one job in the queue, for example because it hangs. The run then "
        "submits the job again. This does not count as a failed attempt.",
    )
    retry.add_argument(
        "job", metavar="JOB", help="the job's name or its number in the queue; status lists both"
    )
    clean = commands.add_parser(
        "clean",
        help="delete files that a finished run does not need",
        description="Delete superseded results, event streams between jobs, leftovers of killed "
        "jobs, logs of succeeded jobs and unused metadata. Results and products are kept. A later "
        "run makes deleted files again if it needs them.",
    )
    clean.add_argument(
        "--all",
        action="store_true",
        help="delete all intermediate files; the next run then starts from the beginning",
    )
    clean.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would be deleted; delete nothing"
    )
    for command in (status, report, sizes, cancel, retry, clean):
        command.add_argument(
            "build",
            type=values.folder,
            nargs="?",
            default=Path("build"),
            metavar="BUILD",
            help="build folder (default: build)",
        )
        add_trust(command)
    run.add_argument(
        "--keep",
        choices=("all", "auto", "none"),
        default="auto",
        help="after a success, keep all intermediate files (all), only those that a run without "
        "changes needs (none), or all but the oldest superseded results if these take much space "
        "(auto, the default)",
    )


def add_trust(command: Parser) -> None:
    command.add_argument(
        "--trust-build",
        action="store_true",
        help="use a build folder even if other users wrote or can write files in it; their code "
        "may then run in your name",
    )
