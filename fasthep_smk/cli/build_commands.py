"""The arguments of the commands on a build folder: what they look at, and what they change."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli import values
from fasthep_smk.cli.usage import Parser

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]

__all__ = ["add_build_folder", "add_trust"]


def add_build_folder(commands: Commands, run: Parser) -> None:
    """Add what is about a build folder and its size."""
    status = commands.add_parser(
        "status",
        help="what is done, running, failed and to do in a build folder; disk used",
        description="Show which jobs of a build folder are done, running, failed or to do, who "
        "works on it, and what it costs on disk. Compiles and changes nothing.",
    )
    status.add_argument("--json", action="store_true", help="as JSON")
    status.add_argument(
        "--verify",
        action="store_true",
        help="also list the files of finished jobs that are gone, truncated or changed, which "
        "reads all of them: exit status 1 if there are any",
    )
    report = commands.add_parser(
        "report",
        help="a page on a build folder: results, times, what was asked for and used",
        description="Write BUILD/report.html, one file that needs no server and no network: how "
        "it stands, cutflows, plots and histograms, what each rule took, when jobs ran and what "
        "set the end, what could ask for less, failures, versions. A run writes it at its end.",
    )
    shown = report.add_mutually_exclusive_group()
    shown.add_argument("--text", action="store_true", help="the same tables in the terminal")
    shown.add_argument("--json", action="store_true", help="the same as JSON")
    compare = commands.add_parser(
        "compare",
        help="which results of two build folders differ, and which rules got slower",
        description="Compare the cutflows, the histograms bin by bin, and what each rule took. "
        "Exit status 0 if the results are the same, 1 if they differ, 2 if they cannot be "
        "compared. Changes nothing.",
    )
    compare.add_argument("build", type=values.folder, metavar="BUILD", help="a build folder")
    compare.add_argument("other", type=values.folder, metavar="OTHER", help="another one")
    compare.add_argument("--json", action="store_true", help="as JSON")
    add_trust(compare)
    sizes = commands.add_parser(
        "sizes",
        help="what jobs took, and what the next ones should ask for: a file for --sizes",
        description="Print what the jobs of a build folder took of memory and time, what they had "
        "asked for, and what such jobs should ask for, as YAML: to be read, edited, kept under "
        "version control, and given to a run with --sizes.",
    )
    sizes.add_argument("--json", action="store_true", help="the same as JSON, in bytes and seconds")
    cancel = commands.add_parser(
        "cancel",
        help="stop a run, and cancel the jobs that it has in a batch system",
        description="Stop the run of a build folder as Ctrl-C does, and cancel jobs that an "
        "earlier run has left in a batch system's queue. What finished is kept.",
    )
    retry = commands.add_parser(
        "retry",
        help="let a job be submitted to its batch system again",
        description="Cancel one job in the queue, such as one that hangs: the run submits it "
        "again, as its next attempt.",
    )
    retry.add_argument(
        "job", metavar="JOB", help="its name or number in the queue, as status lists them"
    )
    clean = commands.add_parser(
        "clean",
        help="free what a finished run does not need",
        description="Delete superseded results, event streams between jobs, leftovers of killed "
        "jobs, logs of succeeded ones and unused metadata. Results and products stay; what is "
        "needed again is made again.",
    )
    clean.add_argument(
        "--all",
        action="store_true",
        help="all intermediates: only results stay, the next run starts from nothing",
    )
    clean.add_argument("-n", "--dry-run", action="store_true", help="show what would be freed")
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
        help="intermediates after a success: all; auto, which bounds what superseded results "
        "take (the default); none, which deletes all that a run without changes can do without",
    )


def add_trust(command: Parser) -> None:
    command.add_argument(
        "--trust-build",
        action="store_true",
        help="also with a build folder in which another user has made something, or where others "
        "may write: what is in it is believed, and run in your name",
    )
