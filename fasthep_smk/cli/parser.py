"""The arguments of ``fasthep-smk``: commands, options, and what goes to Snakemake unchanged."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.cli import values
from fasthep_smk.cli.build_commands import add_build_folder, add_trust
from fasthep_smk.cli.usage import Parser, not_a_command, subcommands, unknown_words
from fasthep_smk.config.environment import PACKED
from fasthep_smk.storage.layout import ARCHIVES
from fasthep_smk.util.errors import UsageError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]

#: How each shell takes what is printed into use; for its users' start-up file.
SHELLS = {
    "bash": 'eval "$(fasthep-smk completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(fasthep-smk completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "fasthep-smk completion fish | source    # in ~/.config/fish/config.fish",
}
#: Options of a run that Snakemake has, too.
_SNAKEMAKES = {
    "-h", "--help", "-j", "--cores", "--jobs", "-k", "--keep-going", "-n", "--dry-run", "-q",
    "--quiet", "-v", "--verbose",
}  # fmt: skip


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options; ``snakemake`` is what stands after ``--``.

    Raises:
        UsageError: the command line is wrong.
    """
    extra: list[str] = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1 :]
    parser = make_parser()
    options, unknown = parser.parse_known_args(_with_command(arguments, subcommands(parser)))
    if unknown:
        actions = [options.action] if "action" in options else []
        raise unknown_words(parser, [options.command, *actions], unknown)
    options.snakemake = tuple(extra)
    return options


def _with_command(arguments: list[str], commands: Collection[str]) -> list[str]:
    """Return a command line that begins with a command, or asks for help."""
    if not arguments:
        hint = "'fasthep-smk help' lists the commands"
        raise UsageError(f"name a workflow or a command\n    hint: {hint}")
    first, *rest = arguments
    if first == "help":
        topics = [word for word in rest if not word.startswith("-")]
        if topics and topics[0] not in commands:
            first, rest = topics[0], topics[1:]
        else:
            return [*(word for word in topics if word != "help"), "--help"]
    if first in (*commands, "-h", "--help", "--version"):
        return arguments
    if problem := not_a_command(first, commands):
        raise problem
    # The short form: a workflow instead of a command.
    return ["run", *arguments]


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from fasthep_smk import __version__

        print(f"fasthep-smk {__version__}")
        parser.exit()


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="fasthep-smk",
        description="Run a FAST-HEP workflow as a Snakemake workflow. "
        "'fasthep-smk workflow.yaml' is short for 'fasthep-smk run workflow.yaml'.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run",
        help="compile, translate and run a workflow",
        description="Compile, translate and run a workflow. Options after -- go to Snakemake.",
    )
    _add_init(commands)
    translate = commands.add_parser(
        "translate",
        help="write the Snakefile, profile and task tables; run nothing",
        description="Write the Snakefile, profile and task tables below OUTDIR/smk; run nothing.",
    )
    why = commands.add_parser(
        "why",
        help="say why each job would run; run nothing",
        description="Say what has changed for each job that would run. Nothing is run.",
    )
    why.add_argument("--json", action="store_true", help="print JSON")
    explain = commands.add_parser(
        "explain",
        help="show rules, pools and requests; run nothing",
        description="Show each rule of a workflow with its pool, the reason for this pool, the "
        "resources that it requests, and the origin of each setting. Nothing is run or written.",
    )
    explain.add_argument("--json", action="store_true", help="print JSON")
    check = commands.add_parser(
        "check",
        help="check that a workflow could run; run nothing",
        description="Validate a workflow, its input files, pools and site. Nothing is run or "
        "written.",
    )
    forecast = commands.add_parser(
        "forecast",
        help="estimate the time and resources of the remaining jobs; run nothing",
        description="Estimate the time, core-hours and disk of the remaining jobs. The "
        "estimate uses jobs that are done, such as those of a run with --sample. Nothing is run or "
        "written.",
    )
    forecast.add_argument("--json", action="store_true", help="print JSON, in seconds and bytes")
    doctor = commands.add_parser(
        "doctor",
        help="check that a site works, with a probe job in each pool",
        description="Check the batch commands, accounting, credentials, current folder, and "
        "what the pools request. If all is well, send a probe job to each pool of the workflow. "
        "Without a workflow, send a probe job to each pool of the site.",
    )
    doctor.add_argument("workflow", type=Path, nargs="?", help="the workflow's YAML file")
    doctor.add_argument("--profile", metavar="SITE", help="as for 'run'")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--timeout",
        type=values.positive,
        default=300,
        metavar="SECONDS",
        help="the time limit of all probe jobs together (default: 300)",
    )
    site = commands.add_parser(
        "site", help="write a first site profile", description="Write a first site profile."
    )
    actions = site.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = actions.add_parser(
        "init",
        help="write a first site profile, with what the batch system reports",
        description="Ask the batch system for its partitions or slots, limits, GPUs and "
        "accounting, and write a first profile: config.yaml and pools.yaml, for you to adapt.",
    )
    init.add_argument(
        "system", choices=("slurm", "htcondor", "local"), help="the batch system, or this machine"
    )
    init.add_argument(
        "folder",
        nargs="?",
        type=values.folder,
        help="where to write the profile (default: site-SYSTEM, such as site-slurm)",
    )
    add_build_folder(commands, run)
    _add_pack(commands)
    _add_export(commands)
    _add_backend(commands)
    _add_ops(commands)
    _add_help(commands)
    for command in (run, translate, why, explain, check, forecast):
        command.add_argument("workflow", type=Path, help="the workflow's YAML file")
        _add_outdir(command, "build folder (default: build)")
        command.add_argument(
            "--chunk-size",
            type=values.events,
            metavar="EVENTS",
            help="cut each file into partitions of at most this many events; 100k is 100000",
        )
        command.add_argument(
            "--granularity",
            choices=("auto", "stage"),
            default="auto",
            help="auto (the default): join stages into one rule, unless a file between them saves "
            "work; stage: make one rule per stage",
        )
        command.add_argument(
            "--bundle",
            type=values.bundle,
            default="auto",
            metavar="N",
            help="combine N jobs into one, which runs them in turn; auto (the default): combine "
            "jobs only if they are tiny or too many",
        )
        command.add_argument(
            "--variation", metavar="NAME", help="use only this systematic variation (default: all)"
        )
        if command is not forecast:
            _add_sample(command)
        command.add_argument(
            "--profile",
            metavar="SITE",
            help="where to run: local, slurm, htcondor, or the name or folder of a Snakemake "
            "profile; the default is the first that exists of SNAKEMAKE_PROFILE, profiles/default "
            "beside the workflow, execution.strategy, and your profile called default",
        )
        command.add_argument(
            "--identity",
            choices=("stat", "checksum"),
            default="stat",
            help="how to detect a changed input file: stat (the default) compares its size, "
            "modification time and first bytes; checksum compares its whole content",
        )
        command.add_argument(
            "--shrink-to-fit",
            action="store_true",
            help="reduce larger pools to the size of this machine",
        )
        command.add_argument(
            "--sizes",
            type=Path,
            metavar="FILE",
            help="take the memory and time of jobs from this file, not from their pools; "
            "'fasthep-smk sizes' writes such a file",
        )
        add_trust(command)
    for command in (run, translate, why):
        command.add_argument(
            "--rerun",
            action="append",
            metavar="STAGE",
            help="rerun this stage and all that depends on it, after a change that fasthep-smk "
            "cannot detect, such as to a database; repeat the option for more stages",
        )
    for command in (run, why):
        command.add_argument(
            "--verify",
            action="store_true",
            help="check the files of finished jobs by content, not only by size, and make changed "
            "files again",
        )
    for command in (run, translate, check):
        command.add_argument(
            "--no-preflight",
            action="store_true",
            help="do not test the workflow on its first events before the run",
        )
    check.set_defaults(try_plots=True)
    for command in (why, explain, forecast):  # these run nothing
        command.set_defaults(no_preflight=True)
    for command in (run, check):
        command.add_argument(
            "--allow-expiring",
            action="store_true",
            help="run even if a credential may expire before the longest job ends; jobs then wait "
            "until you renew it",
        )
    for command in (run, forecast):
        command.add_argument(
            "-j",
            "--cores",
            "--jobs",
            dest="jobs",
            type=values.jobs,
            metavar="N",
            help="use N cores at a time (default: all); on a cluster, run N jobs at a time",
        )
    run.add_argument(
        "-k",
        "--keep-going",
        action="store_true",
        help="after a failure, still run the jobs that do not depend on the failed job",
    )
    run.add_argument(
        "--accept-missing",
        type=values.limit,
        metavar="LIMIT",
        help="keep going after failures; finish without the failed partitions if at most this "
        "number or share of all partitions failed, such as 3 or 1%%",
    )
    ends = run.add_mutually_exclusive_group()
    ends.add_argument(
        "--json",
        action="store_true",
        help="at the end, even if the run is refused, print outcome, problem, build, report, jobs "
        "and failures as one line of JSON; print everything else to standard error",
    )
    run.add_argument(
        "--cancel",
        action="store_true",
        help="cancel all jobs that an earlier run left in the queue (default: take over the jobs "
        "that are needed)",
    )
    ends.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would run; run nothing"
    )
    run.add_argument(
        "--waiting",
        type=values.positive,
        metavar="SECONDS",
        help="if no job finishes in this time, print what the jobs wait for (default: 60)",
    )
    loud = run.add_mutually_exclusive_group()
    loud.add_argument(
        "-q", "--quiet", action="store_true", help="print only problems and the result"
    )
    loud.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also print which jobs start a Python of their own, and why",
    )
    return parser


def _add_outdir(command: Parser, text: str) -> None:
    command.add_argument(
        "-o", "--outdir", type=values.folder, default=Path("build"), metavar="FOLDER", help=text
    )


def _add_folder(command: Parser, text: str) -> None:
    command.add_argument(
        "folder", type=values.folder, nargs="?", default=Path(), metavar="FOLDER", help=text
    )


def _add_sample(command: Parser) -> None:
    """Add what chooses some of the partitions."""
    group = command.add_mutually_exclusive_group()
    group.add_argument(
        "--sample",
        type=values.sample,
        metavar="SHARE",
        help="run only this share of the partitions of each dataset, such as 1%%, and at least "
        "one; a later run adds the rest",
    )
    group.add_argument(
        "--partitions",
        type=values.partitions,
        metavar="DATASET:FIRST-LAST",
        help="run only these partitions, such as data:1-3,dy:2 (numbers start at 1), and the "
        "first partition of each other dataset",
    )
    group.add_argument(
        "--events",
        type=values.sample_of_events,
        metavar="EVENTS",
        help="run only partitions with about this many events in total; 100k is 100000",
    )


def _add_init(commands: Commands) -> None:
    init = commands.add_parser(
        "init",
        help="write a first analysis, ready to run",
        description="Write a first analysis, ready to run: a commented workflow, an operation, "
        "and generated events. With --from-root, write a workflow that reads your own file. "
        "Existing files are not overwritten.",
    )
    _add_folder(init, "where to write the analysis (default: the current folder)")
    init.add_argument(
        "--from-root",
        metavar="FILE",
        help="show the trees and branches of this ROOT file, and write a workflow that makes a "
        "first histogram from the file",
    )
    init.add_argument(
        "--tree",
        metavar="NAME",
        help="the tree that --from-root reads (default: the tree with the most entries)",
    )


def _add_ops(commands: Commands) -> None:
    ops = commands.add_parser(
        "ops",
        help="list the operations, renderers, functions … that a workflow can use",
        description="List the operations and other components that a workflow can use, or the "
        "parameters of one operation.",
    )
    ops.add_argument(
        "name", nargs="?", metavar="NAME", help="describe only this operation, such as hep.hist"
    )
    ops.add_argument(
        "--workflow",
        type=Path,
        metavar="FILE",
        help="also list the operations that this workflow adds",
    )
    ops.add_argument("--json", action="store_true", help="print JSON")


def _add_help(commands: Commands) -> None:
    """Add what explains the command line itself: last, as ``help`` takes the commands before it."""
    commands.add_parser(
        "schema",
        help="print the JSON schema of a workflow, for editors",
        description="Print the JSON schema of a workflow. An editor can complete and check a file "
        "that begins with '# yaml-language-server: $schema=' and the name of the schema file.",
    )
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print a script that completes commands, options and files.\n\n"
        + "\n".join(f"{shell:4}  {line}" for shell, line in SHELLS.items()),
    )
    completion.add_argument("shell", choices=tuple(SHELLS), help="your shell")
    help_ = commands.add_parser("help", help="explain a command")
    help_.add_argument(
        "topic",
        nargs="*",
        metavar="COMMAND",
        choices=tuple(commands.choices),
        help="the command to explain",
    )


def _add_pack(commands: Commands) -> None:
    pack = commands.add_parser(
        "pack",
        help="pack this environment into one file that unpacks itself on a worker",
        description="Pack the environment of fasthep-smk, and the modules that a workflow names, "
        "into one file, and test this file. Workers unpack the file with sh, tar and gzip. The "
        "same content is packed only once.",
    )
    pack.add_argument("workflow", type=Path, nargs="?", help="the workflow's YAML file")
    pack.add_argument("--profile", metavar="SITE", help="as for 'run'")
    pack.add_argument(
        "--environment",
        choices=PACKED,
        help="the kind of environment to pack (default: the kind that the workflow or site names, "
        "or else the kind of this environment)",
    )
    _add_outdir(pack, "the build folder of the run that will use the file (default: build)")
    pack.add_argument(
        "--output",
        type=values.folder,
        metavar="FOLDER",
        help=f"write the archives to this folder (default: {ARCHIVES} in the build folder)",
    )
    add_trust(pack)


def _add_export(commands: Commands) -> None:
    export = commands.add_parser(
        "export", help="export an analysis", description="Export an analysis."
    )
    actions = export.add_subparsers(dest="action", metavar="ACTION", required=True)
    bundle = actions.add_parser(
        "bundle",
        help="write a folder with everything needed to run an analysis elsewhere",
        description="Write a new folder with the plans and files of an analysis, the packages of "
        "this environment, the Snakemake workflow, and instructions to launch it.",
    )
    bundle.add_argument("workflow", type=Path, help="the workflow's YAML file")
    bundle.add_argument("out", type=values.folder, metavar="OUT", help="a new or an empty folder")
    bundle.add_argument("--profile", metavar="SITE", help="as for 'run'")
    bundle.add_argument("--chunk-size", type=values.events, metavar="EVENTS", help="as for 'run'")


def _add_backend(commands: Commands) -> None:
    """Add what lets FAST-HEP's own command find us."""
    enable = commands.add_parser(
        "enable",
        help="let 'fasthep run --backend snakemake' work in a folder",
        description="Write .hepflow/profiles/registry.yaml into a folder. In that folder, "
        "'fasthep run workflow.yaml --outdir build --backend snakemake --strategy slurm' runs an "
        "unmodified workflow as fasthep-smk does. Existing files are not overwritten.",
    )
    disable = commands.add_parser(
        "disable",
        help="undo 'enable'",
        description="Remove the file that 'enable' has written, unless somebody has edited it.",
    )
    for command in (enable, disable):
        _add_folder(
            command, "the folder in which you call 'fasthep run' (default: the current one)"
        )


def misplaced(extra: list[str]) -> str | None:
    """Return an option of ours, and not of Snakemake's, that was given after ``--`` by mistake."""
    actions = subcommands(make_parser())["run"]._actions
    options = {option for action in actions for option in action.option_strings} - _SNAKEMAKES
    words = [word.partition("=")[0] for word in extra]
    return next((word for word in words if word in options), None)
