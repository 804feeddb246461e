"""Jobs in a container: Snakemake starts each in the image that is asked for.

There is no runtime for containers where these tests run. A stand-in notes how it is called, and
starts the command on this machine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import WORKFLOW, Run
from tests.support import warm

pytestmark = pytest.mark.integration

STAND_IN = """\
#!/bin/sh
case "$1" in
--version) echo "apptainer version 1.3.0"; exit ;;
exec) ;;
*) exit 1 ;;
esac
printf '%s\\n' "$(echo "$*" | tr '\\n' ' ')" >>{calls}  # two jobs write at the same time
for last; do :; done
APPTAINER_CONTAINER={image} exec bash -c "$last"
"""
CONTAINED = "execution: {{environment: {{type: container, image: {image}}}}}\nanalysis:"


@pytest.fixture
def image(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an image, and a stand-in for apptainer in the PATH."""
    folder = tmp_path_factory.mktemp("apptainer")
    image = folder / "hep.sif"
    image.write_bytes(b"")
    apptainer = folder / "apptainer"
    apptainer.write_text(STAND_IN.format(calls=folder / "calls", image=image))
    apptainer.chmod(0o755)
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}:{here}:{os.environ['PATH']}")
    return image


def test_every_job_runs_in_the_image(analysis: Path, image: Path, smk: Run) -> None:
    workflow = WORKFLOW.replace("analysis:", CONTAINED.format(image=image))
    (analysis / "workflow.yaml").write_text(workflow)
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    calls = (image.parent / "calls").read_text().splitlines()
    assert len(calls) == 4
    for call in calls:
        assert f"--bind {analysis}" in call
        assert f" {image} bash -c " in call
        assert "sh smk/worker" in call
    records = [
        json.loads(p.read_text()) for p in (analysis / "build/smk/work").rglob("record.json")
    ]
    assert len(records) == 4
    assert not any(record["used"]["warm"] for record in records)  # it is on the other side
    assert (analysis / "build/artifacts/plots/Met.png").is_file()


@pytest.mark.parametrize("name", ["it's mine", "$HOME", "a,b", "a:b"])
def test_a_folder_that_no_container_can_be_shown_is_refused(
    analysis: Path, image: Path, name: str
) -> None:
    folder = analysis / name
    folder.mkdir()
    (folder / "data").symlink_to((analysis / "data").readlink())
    workflow = WORKFLOW.replace("analysis:", CONTAINED.format(image=image))
    (folder / "workflow.yaml").write_text(workflow)
    done = warm.run("workflow.yaml", "-j", "2", cwd=folder)
    assert done.returncode == 1
    assert "environment.type: this folder cannot be mounted in a container" in done.stderr
    assert not (image.parent / "calls").exists()


def test_probes_run_with_the_python_of_the_image(analysis: Path, image: Path, smk: Run) -> None:
    """That of this machine is nowhere in it."""
    python = image.parent / "python3"
    calls = image.parent / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >>"{calls}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    workflow = WORKFLOW.replace("analysis:", CONTAINED.format(image=image))
    (analysis / "workflow.yaml").write_text(workflow)
    done = smk("doctor", "workflow.yaml", "--json", cwd=analysis)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["what"]: check["found"] for check in json.loads(done.stdout)}
    assert found["environment"] == f"container {image}"
    assert "-m fasthep_smk.worker.probe" in calls.read_text()


def test_without_a_runtime_it_is_said_before_anything_runs(
    analysis: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    workflow = WORKFLOW.replace("analysis:", CONTAINED.format(image="docker://hep:1"))
    (analysis / "workflow.yaml").write_text(workflow)
    done = warm.run("workflow.yaml", cwd=analysis)
    assert done.returncode == 1
    said = "workflow.yaml: environment.type: this machine has no program that runs containers"
    assert said in done.stderr
