"""Where things lie in a build folder: all paths of ours, relative to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from fasthep_smk.util.names import encode

SMK = "smk"
RUN = "smk/run.json"
#: The page on a build folder, and what the last run leaves about itself for it.
REPORT = "report.html"
LAST_RUN = "smk/last_run.json"
REQUESTS = "smk/requests.json"
#: What is known of rules whose jobs ask for what others took.
SIZES = "smk/sizes.json"
#: What is in input files, which is not asked twice.
INPUTS = "smk/cache/inputs.json"
#: The workflow as FAST-HEP's compiler takes it, where that is another one.
OVERLAY = "smk/overlay.yaml"
#: Which files in ``compile/`` are of the last compilation.
COMPILED = "smk/compiled.json"
RUN_LOG = "debug/distributed/snakemake.log"
#: What happened in the last run: an event on each line (``fasthep_smk.executors.job_events``).
RUN_EVENTS = "debug/distributed/events.jsonl"
#: Which jobs waited in the queue during the last run, and why: what it said each time it was asked.
QUEUE_NOTES = "debug/distributed/queue.jsonl"
#: What was submitted to a batch system, and has not ended (``fasthep_smk.storage.batch_jobs``).
BATCH_JOBS = "smk/batch_jobs.jsonl"
#: What a run says that has lost its terminal, or never had one.
OUTPUT = "debug/distributed/run.log"
TASKS = "smk/tasks"
#: How the names of histograms end in the formats of ``smk: {export: [...]}``.
EXPORTED = {"root": ".root", "uhi": ".uhi.json"}
#: Rules for a Snakefile of a user's own: how to ask what is made, and what was handed over last.
RESULTS = "smk/results.smk"
HOW_TO_ASK = "smk/results.json"
HANDED_OVER = "smk/results.made"
#: New as long as results are old; and as there are some that nothing makes, for which there is
#: never a marker.
OLD_RESULTS, LEFT_OVER, NOT_MADE = "smk/results.old", "smk/left_over.old", "smk/left_over.made"
WORK = "smk/work"
OLD = "smk/old"
BUNDLES = "smk/bundles"
LEDGER = "smk/ledger.json"
#: What jobs were observed to read, and digests of the variables that a run was started with.
OBSERVED = "smk/observed"
#: Which stages a user has asked to run again.
RERUNS = "smk/reruns.json"
ENVIRONMENT = "smk/environment.json"
STAGE = "smk/stage"
#: How jobs travel, where they do, and in its folder what is under way.
TRANSFER = "smk/transfer.json"
DEPOT = "smk/transfer"
PLANS = "smk/plans"
LOGS = "debug/distributed/logs"
#: What a batch system keeps of jobs' standard output and error.
CAPTURED = ("debug/distributed/out", "debug/distributed/err")
LOCK = "smk/lock"
#: Folder of packed environments in the build folder, where FAST-HEP has those of its own; and its
#: default place, beside the build folder.
ARCHIVES = "execution/worker-environments"
ENVIRONMENTS = f"build/{ARCHIVES}"

#: Which jobs pilots run, and what these leave: keys of a run's own, and logs.
PILOTS = "smk/pilots.json"
PILOT_FILES = "debug/distributed/pilots"

#: Starts a job, in the build folder; with ``ALONE`` and the time of its submission first where no
#: Snakemake is on the node.
WORKER = "smk/worker"
ALONE = "--alone"
#: Set where a job is run by a pilot: its batch job is not its own.
IN_PILOT = "FASTHEP_SMK_IN_PILOT"
#: When a job was submitted, in seconds since 1970 (UTC), to its process.
SUBMITTED = "FASTHEP_SMK_SUBMITTED"
#: Names the socket of the fork server to who starts jobs; empty or missing: they start cold.
FORK_SERVER = "FASTHEP_SMK_FORK_SERVER"
#: The file beside its socket that says why jobs are not forked, a line for each.
COLD = "cold"

#: What Snakemake, the translation and FAST-HEP's compiler write: no operation of a job does. Nor
#: ``profiles`` and ``default``: Snakemake alone takes what is there for options, and runs it.
_OF_RUN = frozenset(
    {"smk", ".snakemake", "compile", "debug", "default", "execution", "graph", "profiles", REPORT}
)
#: Where FAST-HEP's own operations write.
OF_FASTHEP = frozenset({"artifacts", "render", "reports", "run_summary.yaml"})
#: The folder of flame graphs, in that of results.
FLAME_GRAPHS = "profiles"

#: In each job's folder: what is written last, and everything but event streams.
RECORD = "record.json"
ARCHIVE = "products.zip"
#: How the name of a cached stream ends: a job keeps it only to make the next edit cheap. Finished
#: jobs have files of this name, and records that name them: another one would lose these.
CACHED = ".spare.arrow"


def job_folder(rule: str, place: Iterable[str]) -> str:
    """Return the folder of a job's products; ``place`` are its wildcards' values."""
    return "/".join((WORK, rule, *place))  # a path object would take ten times as long


def is_record(path: str) -> bool:
    """Whether a path, relative to the build folder, is that of a job's record."""
    return path.startswith(f"{WORK}/") and path.endswith(f"/{RECORD}")


def is_result(path: str) -> bool:
    """Whether an operation may write a file for the user under this path.

    It is relative to the build folder, in its simplest spelling, and in no folder of a run's own.
    """
    parts = path.split("/")
    return parts[0] not in _OF_RUN and not {"", ".", ".."}.intersection(parts) and "\0" not in path


def is_histogram(path: str) -> bool:
    """Whether FAST-HEP's layout has a pickled histogram here, which people read with pickle."""
    return path.endswith(".pkl") and path.split("/")[-2:-1] == ["histograms"]


def is_sealed(path: str) -> bool:
    """Return whether a job writes this file with a checksum in it: a record, or observations."""
    return is_record(path) or path.startswith(f"{OBSERVED}/")


def bundle(rule: str, place: Iterable[str]) -> str:
    """Return the file that says that all jobs of a bundle are done."""
    return _file(BUNDLES, rule, place, "json")


def log(rule: str, place: Iterable[str]) -> str:
    """Return the log of a job, in the folder that FAST-HEP's documentation shows."""
    return _file(LOGS, rule, place, "log")


def place_of_log(path: str) -> tuple[str, str] | tuple[()]:
    """Return the rule and the key of the job whose log this is; nothing if it is no job's."""
    if not path.startswith(f"{LOGS}/"):
        return ()
    parts = PurePosixPath(path).relative_to(LOGS).with_suffix("").parts
    return parts[0], "/".join(parts[1:])


def observed(digest: str) -> str:
    """Return the file of observations that several jobs may share."""
    return f"{OBSERVED}/{digest}.json"


def plan(variation: str) -> str:
    """Return the slim plan of a variation."""
    return f"{PLANS}/{encode(variation)}.json"


def stream(node: str, port: str, *, cached: bool = False) -> str:
    """Return the name of an event stream's file, in the folder of the job that makes it."""
    name = encode(node.removeprefix("stage.").replace(".", "_"))
    suffix = "" if port == "stream" else f"-{encode(port)}"
    return f"{name}{suffix}{CACHED if cached else '.arrow'}"


def table(rule: str) -> str:
    """Return the task table of a rule."""
    return f"{TASKS}/{rule}.json"


def _file(top: str, rule: str, place: Iterable[str], suffix: str) -> str:
    *folders, name = [rule, *(list(place) or [rule])]
    return "/".join((top, *folders, f"{name}.{suffix}"))
