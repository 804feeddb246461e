"""Plots at the end of a run: several at a time, and each only if it would come out differently."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fasthep_smk.storage import layout
from tests.integration.conftest import WORKFLOW, Run
from tests.support import warm
from tests.support.compare import compare_builds

pytestmark = pytest.mark.integration

SCHEMAS = Path(__file__).parents[2] / "fasthep_smk" / "storage"
PLOTTED = """\
    - id: {name}
      op: hep.hist
      from: Cuts
      params:
        axes:
          - {{name: x, source: {column}, type: regular, bins: {{low: 0, high: 50, nbins: {bins}}}}}
      render: {{style: {style}, when: final}}
"""
#: The small analysis with four plots.
PLOTS = (
    WORKFLOW.replace(' style: {experiment: ""},', "").replace(
        "analysis:",
        "  plain: {op: hep.render.hist1d, figure: {dpi: 40}, axes: {x: {name: x}, y: {name: n}}}\n"
        "  titled: {op: hep.render.hist1d, figure: {dpi: 40}, axes: {x: {name: x}, y: {name: m}}}\n"
        "analysis:",
    )
    + PLOTTED.format(name="Vertices", column="NPrimaryVertices", bins=10, style="plain")
    + PLOTTED.format(name="Wide", column="met", bins=5, style="plain")
    + PLOTTED.format(name="Fine", column="met", bins=40, style="titled")
)
ALL = {"Met", "Vertices", "Wide", "Fine"}
REBINNED = PLOTS.replace("nbins: 10", "nbins: 25")

Reference = Callable[[str], Path]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Reference:
    """Return a folder in which a workflow was run by FAST-HEP, and by us with one core, once."""
    made: dict[str, Path] = {}

    def run_once(workflow: str) -> Path:
        if workflow not in made:
            folder = tmp_path_factory.mktemp("reference")
            (folder / "data").symlink_to(small_files)
            run(smk, folder, workflow, "-j", "1")
            warm.fasthep("run", "workflow.yaml", "--outdir", "theirs", cwd=folder)
            made[workflow] = folder
        return made[workflow]

    return run_once


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The analysis, run once on two cores."""
    folder = tmp_path_factory.mktemp("plots")
    (folder / "data").symlink_to(small_files)
    run(smk, folder, PLOTS)
    return folder


@pytest.fixture
def project(done: Path, tmp_path: Path) -> Path:
    """A copy of the analysis, run once."""
    return Path(shutil.copytree(done, tmp_path / "project", symlinks=True))


def run(smk: Run, folder: Path, workflow: str, *options: str) -> str:
    (folder / "workflow.yaml").write_text(workflow)
    done = smk("workflow.yaml", *(options or ("-j", "2")), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def finish(project: Path) -> dict[str, Any]:
    """Return the record of the job that ends the run."""
    path = project / "build" / "smk" / "work" / "finish" / "record.json"
    found: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(found, json.loads((SCHEMAS / "record.schema.json").read_text()))
    return found


def log(project: Path) -> str:
    return (project / "build" / layout.log("finish", ())).read_text()


def drawn(project: Path) -> set[str]:
    """Return the stages whose plots the last run has drawn."""
    record = finish(project)
    nodes = record["ran"] if "ran" in record else record["made_of"]["nodes"]
    return {re.search("(Met|Vertices|Wide|Fine)", node)[0] for node in nodes}  # type: ignore[index]


def plots(build: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (build / "artifacts").rglob("*.png")}


def inodes(project: Path) -> dict[str, int]:
    found = (project / "build" / "artifacts").rglob("*.png")
    return {path.stem: path.stat().st_ino for path in found}


def assert_like(reference: Path, project: Path) -> None:
    """Plots are those of FAST-HEP, byte by byte; the rest is that of a run from scratch."""
    assert plots(project / "build") == plots(reference / "theirs")
    assert compare_builds(reference / "build", project / "build") == []


def test_two_processes_draw_what_fasthep_draws(project: Path, reference: Reference) -> None:
    assert finish(project)["threads"] == 2
    assert "one after the other" not in log(project)
    assert set(plots(project / "build")) == {f"{name}.png" for name in ALL}
    assert_like(reference(PLOTS), project)


def test_with_one_core_one_process_draws_them(reference: Reference) -> None:
    folder = reference(PLOTS)
    assert finish(folder)["threads"] == 1
    assert_like(folder, folder)


def test_a_changed_histogram_redraws_its_own_plot_only(
    project: Path, smk: Run, reference: Reference
) -> None:
    before = inodes(project)
    run(smk, project, REBINNED)
    assert drawn(project) == {"Vertices"}
    changed = {name for name, inode in inodes(project).items() if inode != before[name]}
    assert changed == {"Vertices"}
    assert_like(reference(REBINNED), project)


def test_an_edit_that_is_undone_redraws_the_one_plot(
    project: Path, smk: Run, reference: Reference
) -> None:
    run(smk, project, REBINNED)
    run(smk, project, PLOTS)
    assert drawn(project) == {"Vertices"}
    assert_like(reference(PLOTS), project)


@pytest.mark.long
def test_a_style_redraws_the_plots_that_have_it(
    project: Path, smk: Run, reference: Reference
) -> None:
    styled = PLOTS.replace("y: {name: m}", "y: {name: m, label: Number}")
    said = run(smk, project, styled)
    assert drawn(project) == {"Fine"}
    assert "1 job to run: 1 x finish" in said
    assert_like(reference(styled), project)


#: FAST-HEP sets matplotlib's style for a plot, and it stays for plots that set none.
STYLES = PLOTS.replace(
    "plain: {op: hep.render.hist1d,",
    'plain: {op: hep.render.hist1d, style: {experiment: ""},',
).replace("style: plain", "style: titled", 1)  # Met, Vertices and Fine have one, Wide has none


def test_a_plot_without_a_style_looks_as_after_those_before_it(
    project: Path, smk: Run, reference: Reference
) -> None:
    run(smk, project, STYLES)
    assert "one after the other" not in log(project)
    other = STYLES.replace(
        "met: {op: hep.render.hist1d,", "met: {op: hep.render.hist1d, style: {experiment: ATLAS},"
    )
    run(smk, project, other)
    # What ATLAS sets and CMS does not stays for all that follow.
    assert drawn(project) == ALL
    assert_like(reference(other), project)


@pytest.mark.long
def test_several_processes_keep_the_styles_of_plots_that_have_one(
    project: Path, smk: Run, reference: Reference
) -> None:
    run(smk, project, STYLES)
    assert_like(reference(STYLES), project)


HEATS = """\
    - id: Fine
      op: hep.hist
      from: Cuts
      params:
        dataset_axis: true
        axes:
          - {name: x, source: met, type: regular, bins: {low: 0, high: 50, nbins: 5}}
          - {name: y, source: NPrimaryVertices, type: regular, bins: {low: 0, high: 50, nbins: 5}}
      render: {style: heat, when: final, out: many}
"""


def test_plots_that_write_one_file_are_drawn_together(
    project: Path, smk: Run, reference: Reference
) -> None:
    heats = (
        (PLOTS[: PLOTS.index("    - id: Fine")] + HEATS).replace(
            "analysis:",
            "  heat: {op: hep.render.heatmap2d, figure: {dpi: 40}, heatmap2d: {per_dataset: true},"
            " axes: {x: {name: x, label: A}, y: {name: y}}}\nanalysis:",
            1,
        )
    ) + PLOTTED.format(name="Wide2", column="met", bins=7, style="plain").replace(
        "when: final", "when: final, out: many/dy"
    )
    run(smk, project, heats)
    labelled = heats.replace("label: A", "label: B")
    run(smk, project, labelled)
    assert drawn(project) == {"Fine", "Wide"}  # Wide2, not Wide
    assert "render.Wide.0" not in finish(project)["ran"]
    assert_like(reference(labelled), project)


def test_a_plot_that_is_gone_is_drawn_alone(project: Path, smk: Run, reference: Reference) -> None:
    (project / "build/artifacts/plots/Wide.png").unlink()
    run(smk, project, PLOTS)
    assert drawn(project) == {"Wide"}
    assert_like(reference(PLOTS), project)


def test_a_plot_that_somebody_has_painted_over_is_not_taken_over(
    project: Path, smk: Run, reference: Reference
) -> None:
    painted = project / "build/artifacts/plots/Wide.png"
    painted.write_bytes(painted.read_bytes()[:-1] + b"x")  # as long as it was
    run(smk, project, REBINNED)
    assert drawn(project) == ALL
    assert "Wide.png was changed" in log(project)
    assert_like(reference(REBINNED), project)


@pytest.mark.long
def test_a_removed_plot_goes_and_the_others_stay(
    project: Path, smk: Run, reference: Reference
) -> None:
    fewer = PLOTS[: PLOTS.index("    - id: Fine")]
    before = inodes(project)
    run(smk, project, fewer)
    assert drawn(project) == set()
    del before["Fine"]
    assert inodes(project) == before
    assert_like(reference(fewer), project)


def test_other_events_redraw_every_plot(project: Path, smk: Run, small_files: Path) -> None:
    (project / "data").unlink()
    shutil.copytree(small_files, project / "data")
    shutil.copy(project / "data/data_0.root", project / "data/dy_0.root")
    run(smk, project, PLOTS)
    assert drawn(project) == ALL


def test_a_plot_that_cannot_be_drawn_costs_no_other_result(
    project: Path, smk: Run, reference: Reference
) -> None:
    # A formula that has no end.
    broken = REBINNED.replace("y: {name: n}", 'y: {name: n, label: "$x_{$"}')
    (project / "workflow.yaml").write_text(broken)
    done = smk("workflow.yaml", "-j", "2", cwd=project)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "Fine" in said
    assert "hep.render.hist1d" in said
    assert not [path for path in (project / "build/smk/stage").rglob("*") if path.is_file()]
    run(smk, project, REBINNED)
    assert drawn(project) == {"Vertices"}
    assert_like(reference(REBINNED), project)
