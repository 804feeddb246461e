"""A small analysis that most integration tests run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fasthep_smk.worker import processes
from tests.support import events, warm

WORKFLOW = """\
version: 1.0
use: {profiles: [hep]}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: data, eventtype: data, files: [data/data_0.root, data/data_1.root]}
    - {name: dy, files: [data/dy_0.root]}
sources:
  events: {kind: root_tree, tree: events}
styles:
  met: {op: hep.render.hist1d, style: {experiment: ""}, figure: {dpi: 40}, axes: {x: {name: met}}}
analysis:
  stages:
    - id: Vars
      op: hep.define
      params:
        variables:
          - {name: met, expr: "sqrt(MET_px ** 2 + MET_py ** 2)"}
    - id: Scale
      op: hep.define
      applies_to: {eventtype: mc}
      params:
        variables:
          - {name: weight, expr: "EventWeight * 2"}
    - id: Cuts
      op: hep.selection.cutflow
      params: {selection: {All: ["met > 5"]}}
      write:
        - {kind: root_tree, path: skim.root, keep: [met]}
    - id: Met
      op: hep.hist
      params:
        dataset_axis: true
        axes:
          - {name: met, source: met, type: regular, bins: {low: 0, high: 100, nbins: 20}}
      render: {style: met, when: final}
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session", autouse=True)
def packages_and_files_are_read_once() -> None:
    """Tests that compile in the process of pytest do so in less time."""
    warm.read_packages_once()
    warm.read_entries_once()


#: Modules whose runs begin with the first events. In the others an operation may misbehave, or
#: counts how often it runs.
WITH_PREFLIGHT = (
    *("agc", "alone", "bad_input", "examples", "loaded", "mistakes", "own_op_page"),
    *("pages_run", "parity", "preflight", "refused", "tutorial", "unusual", "upstream_texts"),
)


#: Those that try them in processes forked from that of pytest, each of which draws plots.
IN_PROCESS = ("examples", "mistakes", "preflight")


@pytest.fixture(scope="module", autouse=True)
def first_events(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the first events out but in the modules that are about them."""
    name = request.module.__name__.rpartition(".test_")[2]
    if name in IN_PROCESS:
        processes.import_for_good(processes.FOR_PLOTS)
    with pytest.MonkeyPatch.context() as patch:
        if name not in WITH_PREFLIGHT:
            patch.setenv("FASTHEP_SMK_PREFLIGHT", "")
        yield


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small ROOT files: two of data, one of simulation."""
    folder = tmp_path_factory.mktemp("small") / "data"
    folder.mkdir()
    for seed, (name, number) in enumerate({"data_0": 60, "data_1": 40, "dy_0": 80}.items()):
        is_data = name.startswith("data")
        events.zmumu_file(folder / f"{name}.root", number, seed, is_data=is_data)
    return folder


@pytest.fixture
def analysis(tmp_path: Path, small_files: Path) -> Path:
    """A folder with a small analysis, ready to run."""
    (tmp_path / "data").symlink_to(small_files)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel; all else is that of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", str(folder / "dist"), str(Path(__file__).parents[2])],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    python = folder / "venv/bin/python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    place = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    others |= {one for one in sys.path if one.endswith("-packages")}
    (place / "others.pth").write_text("".join(f"{one}\n" for one in sorted(others)))
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    return folder / "venv"


@pytest.fixture(scope="session")
def installed_alone(installed: Path) -> Path:
    """A new virtual environment with the wheel and what it says that it needs, by pip: minutes."""
    (wheel,) = (installed.parent / "dist").glob("*.whl")
    folder = installed.with_name("alone")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--python", str(folder / "bin/python"), "install", f"{wheel}[slurm]"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


#: What these look at is how processes start, what they are, and how they end.
COLD = (
    *("chaos", "container", "environment", "forked_jobs", "killed", "prestart"),
    *("sturdy", "terminal"),
)


@pytest.fixture(scope="module")
def smk(request: pytest.FixtureRequest) -> Run:
    """Run ``fasthep-smk`` with these arguments in a folder; warm, if the module may."""
    cold = request.module.__name__.rpartition(".test_")[2] in COLD

    def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return warm.run(*arguments, cwd=cwd, cold=cold)

    return run


@pytest.fixture
def snakemake() -> Run:
    """Run plain Snakemake as from a fresh shell: no environment but PATH and HOME."""

    def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "snakemake"), *arguments]
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)

    return run
