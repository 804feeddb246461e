"""A run in a hostile environment: it works, or says once what is wrong and how to fix it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import WORKFLOW, Run
from tests.support import warm
from tests.support.compare import compare_builds
from tests.support.forms import in_turn, some

pytestmark = pytest.mark.integration

SMK = shlex.join([sys.executable, "-m", "fasthep_smk"])
RUN = f"{SMK} workflow.yaml -j 2"
RESULT = "artifacts/histograms/Met.pkl"
#: Moves input files away while a file ``trouble.*`` exists; to look for one is not to read it.
OPS = """\
from pathlib import Path
SPEC = {"name": "own.trouble", "kind": "transform", "params": {},
        "input": {"name": "stream", "kind": "event_stream", "required": True},
        "result": {"kind": "event_stream"}}


def run(*, stream, ctx=None, **_):
    all_, others, raises = (Path(f"trouble.{how}").exists() for how in ("all", "others", "raise"))
    if all_ or others or raises:
        Path("away").mkdir(exist_ok=True)
        own = Path(dict(ctx["partition"])["file"]).name
        for name in ("data_0.root", "data_1.root", "dy_0.root"):
            if Path("data", name).exists() and not (others and name == own):
                Path("data", name).rename(Path("away", name))
    if raises:
        raise OSError("the events are gone")
    return stream
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The folder of the small analysis, after a run."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(small_files, folder / "data")
    (folder / "workflow.yaml").write_text(WORKFLOW)
    assert smk("workflow.yaml", "-j", "2", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def fresh(finished: Path, tmp_path: Path) -> Path:
    """The same analysis, never run, with input files of its own."""
    shutil.copytree(finished / "data", tmp_path / "data")
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path


@pytest.fixture
def done(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished analysis, in which an edit makes all of it run again."""
    folder = tmp_path / "done"
    shutil.copytree(finished, folder, symlinks=True)
    edit(folder)
    return folder


@pytest.fixture
def troubled(fresh: Path) -> Path:
    """The analysis with a stage that moves the input files away."""
    (fresh / "own_ops.py").write_text(OPS)
    document = yaml.safe_load(WORKFLOW)
    document["registry"] = {
        "transforms": {"own.trouble": {"spec": "own_ops:SPEC", "impl": "own_ops:run"}}
    }
    document["analysis"]["stages"].insert(0, {"id": "Trouble", "op": "own.trouble"})
    (fresh / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return fresh


def edit(folder: Path) -> None:
    (folder / "workflow.yaml").write_text(WORKFLOW.replace("met > 5", "met > 6"))


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line; it must not hang, and nobody sees a traceback.

    A command by itself, for which the shell would prepare nothing, starts warm.
    """
    if command.startswith(f"{SMK} ") and not set(command) & set("$;<>|&"):
        done = warm.run(*shlex.split(command.removeprefix(SMK)), cwd=cwd, timeout=120)
    else:
        done = subprocess.run(
            ["sh", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=120
        )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def refused(command: str, cwd: Path, *words: str) -> str:
    """Run a command that must fail; return its one message, which holds these words."""
    done = sh(command, cwd)
    assert done.returncode in (1, 2), done.stderr
    assert done.stderr.count("fasthep-smk: ") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    return done.stderr


def succeed(folder: Path, command: str = RUN) -> str:
    done = sh(command, folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "build" / RESULT).is_file()
    return done.stderr


# --- times in the future ------------------------------------------------------------------------


def date_ahead(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() + 86400,) * 2, follow_symlinks=False)


@pytest.mark.parametrize(
    ("names", "granularity"),
    some(
        in_turn(
            [
                ["workflow.yaml", "data/dy_0.root", "data", "."],
                ["data/data_0.root", "data/data_1.root", "data/dy_0.root"],
            ],
            ["auto", "stage"],
        ),
        1,
    ),
)
def test_files_of_the_future_are_read(fresh: Path, names: list[str], granularity: str) -> None:
    date_ahead(*(fresh / name for name in names))
    succeed(fresh, f"{RUN} --granularity {granularity}")
    assert "everything was up to date" in sh(f"{RUN} --granularity {granularity}", fresh).stdout


@pytest.mark.long
def test_plain_snakemake_reads_files_of_the_future(fresh: Path, snakemake: Run) -> None:
    date_ahead(*(fresh / "data").iterdir())
    assert sh(f"{SMK} translate workflow.yaml", fresh).returncode == 0
    done = snakemake("--profile", "build/smk/profile", cwd=fresh)
    assert done.returncode == 0, done.stderr
    assert (fresh / "build" / RESULT).is_file()


def test_earlier_results_of_the_future_stand(done: Path, finished: Path) -> None:
    """The clock was wrong when they were made, and only the end of the run is made again."""
    (done / "workflow.yaml").write_text(WORKFLOW)
    (done / "build/smk/work/finish/record.json").unlink()
    date_ahead(*(done / "build").rglob("*"))
    said = succeed(done)
    assert "1 job to run: 1 x finish" in said
    assert compare_builds(finished / "build", done / "build") == []


# --- folders in the place of files, files in the place of folders -------------------------------

#: Files that are written before the first job, in a job and by Snakemake.
OURS = [
    "compile/plan.yaml",
    "compile/normalized.yaml",
    "smk/worker",
    "smk/Snakefile",
    "smk/profile/config.yaml",
    "smk/tasks/finish.json",
    "smk/plans/nominal.json",
    "smk/lock",
    "smk/requests.json",
    "smk/run.json",
    "smk/ledger.json",
    "smk/cache/inputs.json",
    "smk/work/finish/record.json",
    "debug/distributed/snakemake.log",
    "graph/graph.json",
    "run_summary.yaml",
    "artifacts/provenance/manifest.json",
    "artifacts/provenance/execution.json",
    RESULT,
    "artifacts/plots/Met.png",
    "artifacts/files/skim/manifest.json",
    "artifacts/files/skim/dy/0_0.root",
]


def replace_by_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("name", some(OURS, 2))
def test_a_folder_with_something_in_it_is_left_alone(done: Path, name: str) -> None:
    path = done / "build" / name
    replace_by_folder(path)
    (path / "mine.txt").write_text("mine")
    said = refused(RUN, done, str(path))
    assert (path / "mine.txt").read_text() == "mine"
    if "to run" in said:  # what was done by then is not done again
        assert "failed" in said
    path.rename(done / "moved")
    succeed(done)
    assert path.is_file()


FOLDERS = [
    "compile",
    "graph",
    "render",
    "smk",
    "smk/work",
    "smk/tasks",
    "smk/cache",
    "smk/failures",
    "smk/work/finish",
    "smk/work/stages_Vars_to_Met/dy",
    "debug/distributed/logs",
    "debug/distributed/logs/stages_Vars_to_Met/dy",
    "debug/distributed/logs/finish",
    "debug/distributed",
    ".snakemake",
    ".snakemake/incomplete",
    "artifacts",
    "artifacts/plots",
    "artifacts/files/skim/dy",
]


@pytest.mark.parametrize(
    ("name", "what"), some(in_turn(FOLDERS, ["a file", "a symbolic link to nothing"]), 2)
)
def test_something_else_in_the_place_of_a_folder_is_named(done: Path, name: str, what: str) -> None:
    path = done / "build" / name
    if path.exists():
        shutil.rmtree(path)
    if what == "a file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere/at/all")
    refused(RUN, done, str(path))
    assert path.is_symlink() or path.read_text() == "mine"
    path.unlink()
    succeed(done)


# --- files that go while a run goes on ----------------------------------------------------------


@pytest.mark.parametrize("how", some(["all", "others", "raise"], 1))
def test_input_folders_stay_when_their_files_are_moved_away(troubled: Path, how: str) -> None:
    trouble = troubled / f"trouble.{how}"
    trouble.touch()
    said = refused(f"{SMK} workflow.yaml -j 1", troubled, "moved or deleted during the run")
    assert (troubled / "data").is_dir()
    assert f" {troubled}/data/" in said
    assert re.search("put (it|them) back, then run the same command again", said)
    assert "localrule" not in said
    trouble.unlink()
    for path in (troubled / "away").iterdir():
        path.rename(troubled / "data" / path.name)
    said = succeed(troubled)
    assert (how == "others") == said.startswith("3 jobs to run")


def test_the_current_folder_may_be_gone(fresh: Path) -> None:
    gone = "mkdir gone; cd gone; rmdir ../gone"
    for command in ("run", "translate", "why", "explain", "check"):
        refused(
            f"{gone}; {SMK} {command} {fresh}/workflow.yaml", fresh, "current folder was deleted"
        )
    assert not (fresh / "build").exists()


# --- standard streams ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "streams",
    some(
        [
            "<&- >&- 2>&-",
            "2>&-",
            ">&-",
            ">/dev/full 2>&1",
            "<&-",
            "2>/dev/full",
            "2>&1 | true",
            ">/dev/full",
        ],
        2,
    ),
)
def test_a_run_does_not_depend_on_who_listens(fresh: Path, finished: Path, streams: str) -> None:
    done = sh(f"({RUN}; echo $? >status) {streams}", fresh)
    assert (fresh / "status").read_text() == "0\n", done.stderr
    assert compare_builds(finished / "build", fresh / "build") == []
    lock = json.loads((fresh / "build/smk/lock").read_text())
    assert lock["state"] == "ended"


@pytest.mark.parametrize(
    "command",
    some(
        [
            "why --json workflow.yaml",
            "why workflow.yaml",
            "explain workflow.yaml",
            "explain --json workflow.yaml",
            "status --json",
            "workflow.yaml -n",
        ],
        1,
    ),
)
def test_an_answer_that_cannot_be_written_is_a_failure(done: Path, command: str) -> None:
    said = refused(f"{SMK} {command} >/dev/full", done, "cannot write to standard output")
    assert "No space left on device" in said
    assert sh(f"{SMK} {command} >&-", done).returncode == 0
    assert sh(f"{SMK} {command} | true", done).returncode == 0


# --- limits, folders that cannot be written -----------------------------------------------------


@pytest.mark.parametrize("blocks", some([20, 1, 40], 1))
def test_a_limit_on_the_size_of_files_is_named(fresh: Path, finished: Path, blocks: int) -> None:
    said = refused(f"ulimit -f {blocks}; {RUN}", fresh, "File too large")
    assert "did you mean" not in said
    succeed(fresh)
    assert compare_builds(finished / "build", fresh / "build") == []


def test_a_limit_that_a_job_meets_is_named(fresh: Path) -> None:
    (fresh / "workflow.yaml").write_text(WORKFLOW.replace("nbins: 20", "nbins: 20000"))
    done = sh(f"ulimit -f 100; {RUN}", fresh)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "1 job to run: 1 x finish" in succeed(fresh)


def test_a_page_that_is_too_large_is_named_and_the_run_is_complete(
    fresh: Path, finished: Path
) -> None:
    said = succeed(fresh, f"ulimit -f 100; {RUN}")
    assert "warning: report.html was not written" in said
    assert "File too large" in said
    assert compare_builds(finished / "build", fresh / "build") == []


def test_a_limit_on_open_files_is_named(fresh: Path, finished: Path) -> None:
    refused(f"ulimit -n 10; {RUN}", fresh, "Too many open files")
    succeed(fresh, f"ulimit -n 40; {RUN}")
    assert compare_builds(finished / "build", fresh / "build") == []


@pytest.mark.parametrize(
    "home",
    some(["unset HOME", "export HOME=", "export HOME=/proc/none", "export HOME=/etc/passwd"], 1),
)
def test_no_home_is_needed(fresh: Path, home: str) -> None:
    succeed(fresh, f"{home}; {RUN}")
    assert (fresh / ".cache").exists() is False


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    """Make a folder read-only; afterwards it is as before."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        for options in (["--bind", str(folder)], ["-o", "remount,ro,bind"]):
            command = ["mount", *options, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                reason = f"read-only folders are not tested, nothing can be mounted: {done.stderr}"
                if os.environ.get("CI") == "true" and os.geteuid() == 0:
                    pytest.fail(reason)
                warnings.warn(reason, stacklevel=2)
                pytest.skip(reason)
            if folder not in mounted:
                mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("command", some([RUN, f"{SMK} translate workflow.yaml"], 1))
def test_a_read_only_build_folder_is_named(
    done: Path, read_only: Callable[[Path], None], command: str
) -> None:
    read_only(done / "build")
    refused(command, done, f"{done}/build/smk", "Read-only file system")
    assert sh(f"{SMK} status", done).returncode == 0
    for asking in ("explain workflow.yaml", "why workflow.yaml", "workflow.yaml -n"):
        assert sh(f"{SMK} {asking}", done).returncode == 0


def test_a_build_folder_on_a_read_only_disk_is_named(
    fresh: Path, read_only: Callable[[Path], None]
) -> None:
    read_only(fresh)
    refused(RUN, fresh, "--outdir", "Read-only file system")
    assert "ready to run" in sh(f"{SMK} check workflow.yaml", fresh).stdout


# --- what is not a regular file ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "command"),
    in_turn(
        [
            ("mkfifo workflow.yaml", "is a pipe or a device, but must be a file"),
            ("ln -s /dev/null workflow.yaml", "is a pipe or a device, but must be a file"),
            ("ln -s nowhere workflow.yaml", "does not exist"),
            ("mkdir workflow.yaml", "is a folder, not a workflow file"),
        ],
        ["run", "explain", "check"],
    ),
)
def test_a_workflow_that_is_no_file_is_refused(
    fresh: Path, case: tuple[str, str], command: str
) -> None:
    make, said = case
    refused(f"rm workflow.yaml; {make}; {SMK} {command} workflow.yaml", fresh, said)


def test_a_workflow_whose_name_is_no_text_is_refused(fresh: Path) -> None:
    for name in ("$(printf 'w\\377.yaml')", "$(printf 'd\\377')/w.yaml"):
        make = f'mkdir -p "$(dirname "{name}")"; cp workflow.yaml "{name}"'
        refused(f'{make}; {SMK} "{name}"', fresh, "is not UTF-8 text", "rename the file")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ("mkfifo data/dy_0.root", "is a pipe or a device"),
        ("ln -s /dev/zero data/dy_0.root", "is a pipe or a device"),
        ("mkdir data/dy_0.root", "is a folder"),
        ("ln -s nowhere data/dy_0.root", "is a symbolic link to nowhere, which does not exist"),
    ],
)
def test_an_input_file_that_is_no_file_is_refused(fresh: Path, make: str, said: str) -> None:
    refused(f"rm data/dy_0.root; {make}; {RUN}", fresh, "data/dy_0.root: ", said)
