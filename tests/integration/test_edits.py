"""What runs again after an edit: for each kind of edit the exact set of jobs.

Each row of the tables is one edit of a finished analysis, ``tests/workflows/edits``, with the jobs
that it costs. ``stages("Mass")`` are the jobs that hold this stage: with ``--granularity stage``
they run nothing else, with ``auto`` they hold whatever is joined with it; so that a row says the
same for both. What ran is read off the jobs' own records, and compared with what Snakemake says.
After each edit the results are those of the edited analysis run from scratch, and a second call
runs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.support import events
from tests.support.compare import compare_builds
from tests.support.forms import chosen, in_turn
from tests.support.project import Project, make_project, once, shared_base
from tests.support.reruns import (
    ALL,
    FINISH,
    NOTHING,
    PUBLISH,
    Choice,
    dataset,
    ends,
    executed,
    file,
    jobs_of,
    said_by_snakemake,
    said_to_run,
    stages,
    variation,
)

pytestmark = pytest.mark.integration

#: What an edit does to a project; a new one where the folder or the options change.
Change = Callable[[Project], Project | None]


@dataclass(frozen=True)
class Edit:
    """A row of the table: an edit, and the jobs that run again.

    ``auto`` are those with ``--granularity auto`` where the choice by stages does not say it all.
    ``before`` is an edit that was made, and run, before. Without ``scratch`` the edit is one that
    by its nature leaves every result as it is: none of them may be written.
    ``plain``: also ask Snakemake itself how many jobs it would run.
    """

    name: str
    edit: Change
    reruns: Choice
    auto: Choice | None = None
    before: Change | None = None
    scratch: bool = True
    plain: bool = False
    workflow: str = "workflow.yaml"

    def reruns_at(self, granularity: str) -> Choice:
        return self.auto if granularity == "auto" and self.auto else self.reruns


# --- how a project is edited -----------------------------------------------------------------


def text(old: str, new: str, *, of: str = "workflow.yaml") -> Change:
    """Replace a text that stands once in a file."""

    def change(project: Project) -> None:
        path = project.folder / of
        content = path.read_text()
        assert content.count(old) == 1, f"{of} holds {content.count(old)} x {old!r}"
        path.write_text(content.replace(old, new))

    return change


def both(*changes: Change) -> Change:
    def change(project: Project) -> Project:
        for one in changes:
            project = one(project) or project
        return project

    return change


def options(*more: str) -> Change:
    return lambda project: replace(project, options=(*project.options, *more))


def in_chunks_of(events: int) -> Change:
    """Cut files into partitions of at most so many events; the last word counts."""
    return options("--chunk-size", str(events))


def events_in(name: str, number: int, seed: int) -> Change:
    """Write an input file."""

    def change(project: Project) -> None:
        events.zmumu_file(project.folder / f"data/{name}.root", number, seed)

    return change


def of_one_size(name: str, seed: int) -> Change:
    """Write a file that differs from one with another ``seed`` in neither size nor time."""

    def change(project: Project) -> None:
        path = project.folder / f"data/{name}.root"
        events.zmumu_file(path, 90, seed)
        with path.open("r+b") as stream:
            stream.truncate(100_000)
        os.utime(path, (1_700_000_000, 1_700_000_000))

    return change


def touched(name: str) -> Change:
    return lambda project: os.utime(project.folder / name)


def removed(*names: str) -> Change:
    def change(project: Project) -> None:
        for name in names:
            path = project.folder / name
            # Nothing is there yet where the edited project runs from scratch.
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return change


def without_stage(name: str) -> Change:
    """Take a stage out of the workflow, with all that is attached to it."""

    def change(project: Project) -> None:
        path = project.folder / project.workflow
        before, _, rest = path.read_text().partition(f"    - id: {name}\n")
        end = min(at for mark in ("\n    - id:", "\nstyles:") if (at := rest.find(mark)) >= 0)
        path.write_text(before + rest[end:].lstrip("\n"))

    return change


def sections_reversed(project: Project) -> None:
    """Write the keys of each section in another order, but for what operations are given."""

    def reverse(value: object) -> object:
        if isinstance(value, list):
            return [reverse(item) for item in value]
        if not isinstance(value, dict):
            return value
        keep = ("params", "globals", "styles")
        pairs = [(key, item if key in keep else reverse(item)) for key, item in value.items()]
        return dict(reversed(pairs))

    path = project.folder / "workflow.yaml"
    path.write_text(yaml.safe_dump(reverse(yaml.safe_load(path.read_text())), sort_keys=False))


def other_formatting(project: Project) -> None:
    path = project.folder / "workflow.yaml"
    lines = [f"{line}  # as before" for line in path.read_text().splitlines()]
    content = "\n\n".join(lines).replace("op: hep.hist ", "op: 'hep.hist' ")
    path.write_text(f"# A comment.\n{content}\n")


def moved_build(project: Project) -> Project:
    project.build.rename(project.folder / "elsewhere")
    return replace(project, outdir="elsewhere")


def copied_project(project: Project) -> Project:
    return project.copy(project.folder.with_name("copy"))


def renamed_workflow(project: Project) -> Project:
    (project.folder / "workflow.yaml").rename(project.folder / "analysis.yaml")
    return replace(project, workflow="analysis.yaml")


def other_site(project: Project) -> Project:
    site = project.folder / "site"
    site.mkdir()
    (site / "config.yaml").write_text("cores: 1\nlatency-wait: 5\n")
    (site / "pools.yaml").write_text("default: {resources: {memory: 3GB}}\n")
    return replace(project, options=(*project.options, "--profile", "site"))


def other_granularity(project: Project) -> Project:
    other = "stage" if "auto" in project.options else "auto"
    return replace(project, options=("--granularity", other))


def newer(distribution: str) -> Change:
    """Let a published package be one release newer: what Python says of its version."""

    def change(project: Project) -> None:
        name = distribution.replace("-", "_")
        folder = project.folder / f"{name}-2026.10.99.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2026.10.99\n"
        )

    return change


def translated_again(project: Project) -> None:
    project.translate()


# --- the table -------------------------------------------------------------------------------

#: What reads the events that stage Muons makes, directly or not.
AFTER_CALIBRATED = ("Simulation", "DiMuon", "Selection", "Mass", "MuonPt")
AFTER_MUONS = ("Calibrated", *AFTER_CALIBRATED)
DY_1, DY_2 = file("data/dy_1.root"), file("data/dy_2.root")
SKIM = "write.Selection.0"
#: A histogram with ``dataset_axis: true`` has a bin for each dataset of the run.
DATASET_AXIS = stages("Mass")

ADD_FILE = events_in("dy_2", 50, 7)
FILES_OF_DY = "files: [data/dy_0.root, data/dy_1.root]"
ADD_DATASET = both(
    events_in("wjets_0", 70, 8),
    text("\nsources:", "    - {name: wjets, files: [data/wjets_0.root]}\n\nsources:"),
)
RENAME_STYLE = both(text("style: mass,", "style: dimuon,"), text("\n  mass:\n", "\n  dimuon:\n"))
#: Python's own modules and NumPy have functions with a ``ctx`` among their arguments.
IMPORT_MUCH = text(
    "import awkward as ak",
    """import collections.abc, dataclasses, inspect, json, logging, math, typing
from multiprocessing import context
import awkward as ak""",
    of="my_ops.py",
)
DRAW = both(
    text(
        "import numpy as np\n", "import numpy as np\nfrom fasthep_smk import rng\n", of="my_ops.py"
    ),
    text("output, **_", "output, ctx, **_", of="my_ops.py"),
    text("* FACTOR", "* FACTOR * rng(ctx).normal(1, 0.1, len(stream))", of="my_ops.py"),
)
GROUPS = """\
          All:
            - triggerIsoMu24
            - "NGoodMuon >= 1"
            - "MET > 3"
"""
LOOSE = "          Loose: [triggerIsoMu24]\n"
TABLE = both(
    text("params: {output: MET}", "params: {output: MET, table: {times: 3, plus: 5}}"),
    text("output, **_", "output, table=(), **_", of="my_ops.py"),
    text("np.hypot(", "len(list(table)[0]) + np.hypot(", of="my_ops.py"),
)
MORE_BINS = text("nbins: 20", "nbins: 40")
ONE_MORE = """
    - id: {name}
      op: hep.hist
      from: Selection
      params:
        axes:
          - {{name: x, source: {column}, type: regular, bins: {{low: 0, high: 50, nbins: 10}}}}

styles:
"""


def add_histogram(name: str, column: str) -> Change:
    return text("\nstyles:\n", ONE_MORE.format(name=name, column=column))


EDITS = (
    # The analysis.
    Edit("bins of a histogram", text("nbins: 30}}\n      render", "nbins: 60}}\n      render"),
         stages("Mass") | ends(), plain=True),
    Edit("bins of a histogram on another pool", MORE_BINS, stages("MuonPt") | ends()),
    Edit("bins, and back again", text("nbins: 40", "nbins: 20"), FINISH, before=MORE_BINS),
    Edit("an expression of the first stage", text("< 0.3", "< 0.25"),
         stages("Muons", *AFTER_MUONS) | ends(), plain=True),
    Edit("an expression of a stage for simulation only", text("* 0.9", "* 0.8"),
         stages(*AFTER_CALIBRATED) & dataset("dy", "ttbar") | ends("dy", "ttbar")),
    Edit("a cut", text("MET > 3", "MET > 4"), stages("Selection", "Mass", "MuonPt") | ends()),
    Edit("a global", text("min_pt: 12.0", "min_pt: 14.0"), ALL),
    Edit("the order of globals", text("{min_pt: 12.0, top: 9}", "{top: 9, min_pt: 12.0}"), ALL,
         before=text("{min_pt: 12.0}", "{min_pt: 12.0, top: 9}")),
    Edit("the order of a mapping of an own op's", text("times: 3, plus: 5", "plus: 5, times: 3"),
         stages("Calibrated", *AFTER_CALIBRATED) | ends(), before=TABLE),
    Edit("the order of the groups of a cutflow", text(LOOSE + GROUPS, GROUPS + LOOSE),
         stages("Selection", "Mass", "MuonPt") | ends(), before=text(GROUPS, LOOSE + GROUPS)),
    Edit("a stage is renamed", both(text("id: Vertices", "id: Pileup")),
         stages("Pileup") | ends()),
    Edit("a histogram and its plot are removed", without_stage("MuonPt"), ends()),
    Edit("a histogram is removed", without_stage("Vertices"), ends()),
    Edit("a histogram of a column that is in the files", add_histogram("Met", "MET"),
         stages("Met") | ends()),
    Edit("a histogram of a column that is not", add_histogram("Isolation", "Muon_Iso"),
         stages(*AFTER_MUONS, "Isolation") - stages("Mass", "MuonPt") | ends(),
         auto=stages("Isolation") | ends()),
    Edit("a style is renamed", RENAME_STYLE, NOTHING),
    Edit("a label of a style", text("label: Mass", "label: Dimuon mass"), FINISH, plain=True),
    Edit("the file name of a plot", text("out: muon_pt", "out: transverse_momentum"), FINISH),
    # Operations.
    Edit("the module of an own op", text("np.hypot(", "0.99 * np.hypot(", of="my_ops.py"),
         stages("Calibrated", *AFTER_CALIBRATED) | ends()),
    Edit("a module that an own op imports", text("1.05", "1.06", of="my_helper.py"),
         stages("Calibrated", *AFTER_CALIBRATED) | ends()),
    Edit("a module that no op imports", text("42", "43", of="my_notes.py"), NOTHING,
         scratch=False),
    Edit("a newer package with the ops", newer("fasthep-carpenter"), ALL),
    Edit("a newer package with the plots", newer("fasthep-render"), FINISH),
    # Input files and datasets.
    Edit("an input file is touched", touched("data/dy_1.root"), DY_1 | ends("dy")),
    Edit("an input file is touched, and known by its content", touched("data/dy_1.root"),
         NOTHING, before=options("--identity", "checksum"), scratch=False),
    Edit("an input file has other content", events_in("dy_1", 90, 9), DY_1 | ends("dy")),
    Edit("an input file is made again, with its size and time", of_one_size("dy_1", 9),
         DY_1 | ends("dy"), before=of_one_size("dy_1", 8)),
    Edit("a file at the end of a dataset",
         both(ADD_FILE, text(FILES_OF_DY, f"{FILES_OF_DY[:-1]}, data/dy_2.root]")),
         DY_2 | ends("dy")),
    # The skim of dy_0.root is dy/1_0.root now.
    Edit("a file at the beginning of a dataset",
         both(ADD_FILE, text(FILES_OF_DY, FILES_OF_DY.replace("[", "[data/dy_2.root, "))),
         DY_2 | stages(SKIM) & dataset("dy") | ends("dy")),
    Edit("a file is taken out of a dataset", text(FILES_OF_DY, "files: [data/dy_0.root]"),
         ends("dy")),
    Edit("a dataset is added", ADD_DATASET, dataset("wjets") | DATASET_AXIS | ends()),
    Edit("a dataset is added, and an own op imports modules of Python's", ADD_DATASET,
         dataset("wjets") | DATASET_AXIS | ends(), before=IMPORT_MUCH),
    Edit("a dataset is added, and an own op draws random numbers", ADD_DATASET,
         dataset("wjets") | DATASET_AXIS | ends(), before=DRAW),
    Edit("a file at the beginning of a dataset, and an own op draws random numbers",
         both(ADD_FILE, text(FILES_OF_DY, FILES_OF_DY.replace("[", "[data/dy_2.root, "))),
         DY_2 | stages(SKIM) & dataset("dy") | ends("dy"), before=DRAW),
    Edit("a dataset is removed",
         text("    - name: ttbar\n      group: top\n      files: [data/ttbar_0.root]\n", ""),
         DATASET_AXIS | ends()),
    Edit("metadata of a dataset", text("group: top", "group: quarks"),
         dataset("ttbar") | ends("ttbar")),
    Edit("metadata of a dataset that nothing reads", text("group: top", "group: top\n      by: me"),
         dataset("ttbar") | ends("ttbar")),
    Edit("the order of metadata of a dataset", text("by: me, at: home", "at: home, by: me"),
         dataset("ttbar") | ends("ttbar"),
         before=text("group: top", "group: top\n      made: {by: me, at: home}")),
    Edit("the event type of a dataset",
         text("group: top", "group: top\n      eventtype: data"),
         dataset("ttbar") | ends("ttbar")),
    Edit("files are cut otherwise", in_chunks_of(110), file("data/dy_0.root") | ends("dy"),
         before=in_chunks_of(150)),
    # A writer's manifest says which entries the file is made of: 0 to 80 instead of all.
    Edit("files are cut at all", in_chunks_of(110),
         file("data/dy_0.root") | stages(SKIM) | ends()),
    # Where jobs run.
    Edit("what a pool has", text("{cpus: 1, memory: 1GB}", "{cpus: 1, memory: 1.5GB}"), NOTHING,
         scratch=False),
    Edit("a stage goes to another pool",
         text("op: hep.selection.cutflow\n", "op: hep.selection.cutflow\n"
              "      execution: {require: plots}\n"),
         NOTHING, scratch=False, plain=True),
    Edit("another site", other_site, NOTHING, scratch=False),
    Edit("the other granularity", other_granularity, NOTHING, scratch=False),
    # What is no part of the analysis.
    Edit("a description", text('version: "1.0"', 'version: "1.0"\ndescription: Dimuons'), NOTHING,
         scratch=False),
    Edit("the order of keys of sections", sections_reversed, NOTHING, scratch=False),
    Edit("comments, blank lines and quotes", other_formatting, NOTHING, scratch=False),
    Edit("the build folder is moved", moved_build, NOTHING, scratch=False),
    Edit("the project is copied", copied_project, NOTHING, scratch=False),
    Edit("the workflow file is renamed", renamed_workflow, NOTHING, scratch=False),
    Edit("translated again", translated_again, NOTHING, scratch=False, plain=True),
    Edit("Snakemake's own folder is removed", removed("build/.snakemake"), NOTHING,
         scratch=False),
    # Results.
    Edit("a plot is deleted", removed("build/artifacts/plots/mass.png"), FINISH),
    Edit("a skim is deleted", removed("build/artifacts/files/skim/dy/1_0.root"),
         stages(SKIM) & DY_1),
)  # fmt: skip

SYSTEMATICS = "systematics.yaml"
WEIGHT_UP = '{name: weight_up, weight: {multiply: ["1.1"]}}\n'
WEIGHT_DOWN = '- {name: weight_down, weight: {multiply: ["0.9"]}}\n'
VARIATION_EDITS = tuple(
    replace(row, workflow=SYSTEMATICS)
    for row in (
        Edit("the weight of a variation", text('"1.1"', '"1.2"', of=SYSTEMATICS),
             (stages("Leading") | ends()) & variation("weight_up") | PUBLISH),
        Edit("a variation of the first stage", text('"1.03"', '"1.04"', of=SYSTEMATICS),
             variation("scale_up") | PUBLISH),
        Edit("one more variation of the weight",
             text(WEIGHT_UP, WEIGHT_UP + "    " + WEIGHT_DOWN, of=SYSTEMATICS),
             variation("weight_down") | PUBLISH),
        Edit("a variation is removed", text(f"    - {WEIGHT_UP}", "", of=SYSTEMATICS), PUBLISH),
        Edit("the nominal weight", text("weight_expr: EventWeight", "weight_expr: EventWeight*0.5",
                                        of=SYSTEMATICS),
             stages("Leading") | ends()),
        )
)  # fmt: skip


# --- the tests -------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test session share."""
    return shared_base(tmp_path_factory) / "edits"


@pytest.fixture(autouse=True)
def own_modules_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds what lies beside the workflow first: packages that an edit puts there."""
    before = os.environ.get("PYTHONPATH")
    path = [str(tmp_path / "project"), *([before] if before else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


def finished(shared: Path, workflow: str, granularity: str, goal: Path) -> Project:
    """Return a copy of a finished run; the run itself happens once per session."""
    options = ("--granularity", granularity)

    def make(folder: Path) -> None:
        project = replace(make_project(folder, workflow), options=options)
        project.run()

    made = once(shared / f"{workflow}-{granularity}", make)
    return Project(made, workflow, options).copy(goal)


def from_scratch(shared: Path, edit: Edit) -> Path:
    """Return the build folder of the edited analysis, run in one go; once per session."""

    def make(folder: Path) -> None:
        project = make_project(folder, edit.workflow)
        changed = both(*filter(None, [edit.before, edit.edit]))(project)
        assert changed is not None
        changed.run()

    return once(shared / edit.name.replace(" ", "_"), make) / "build"


def results_of(build: Path) -> dict[str, int]:
    """Return the results in a build folder with the times at which they were written."""
    found = [*(build / "artifacts").rglob("*"), *(build / "reports").rglob("*")]
    return {
        str(path.relative_to(build)): path.stat().st_mtime_ns for path in found if path.is_file()
    }


def untrue_manifests(build: Path) -> list[str]:
    """Return the files of which a writer's manifest gives another size than they have."""
    manifests = [json.loads(path.read_text()) for path in build.glob("artifacts/**/manifest.json")]
    files = [
        item
        for manifest in manifests
        for content in manifest.get("datasets", {}).values()
        for item in content["files"]
    ]
    return [
        item["path"]
        for item in files
        if (build / item["path"]).stat().st_size != item["size_bytes"]
    ]


def rules_of(names: set[str]) -> dict[str, int]:
    """Return how many of these jobs each rule has."""
    rules = [name.partition(" ")[0] for name in names]
    return {rule: rules.count(rule) for rule in rules}


#: One of each kind; of these, each granularity in turn.
SHORT = (
    "bins of a histogram",
    "an expression of a stage for simulation only",
    "a module that an own op imports",
    "a newer package with the plots",
    "an input file has other content",
    "a file is taken out of a dataset",
    "comments, blank lines and quotes",
    "another site",
    "the workflow file is renamed",
    "a variation of the first stage",
)
PAIRS = in_turn(EDITS + VARIATION_EDITS, ["auto", "stage"])


@pytest.mark.parametrize(
    ("edit", "granularity"),
    chosen(PAIRS, lambda edit, _: edit.name in SHORT),
    ids=lambda value: getattr(value, "name", value),
)
def test_what_runs_again_after(edit: Edit, granularity: str, tmp_path: Path, shared: Path) -> None:
    project = finished(shared, edit.workflow, granularity, tmp_path / "project")
    if edit.before:
        project = edit.before(project) or project
        project.run()
    before = results_of(project.build)
    start = time.time()

    project = edit.edit(project) or project
    if edit.plain:
        announced = said_to_run(project.dry_run())
        assert said_by_snakemake(project.plain_dry_run()) == announced
    printed = project.run()

    jobs = jobs_of(project.build)
    wanted, ran = edit.reruns_at(granularity).of(jobs), executed(jobs, start)
    assert sorted(ran - wanted) == [], "ran again for nothing"
    assert sorted(wanted - ran) == [], "should have run again"
    assert said_to_run(printed) == rules_of(ran)
    assert not edit.plain or announced == rules_of(ran)

    if ran:
        assert "Nothing to do" in project.dry_run()
    if edit.scratch:
        assert compare_builds(from_scratch(shared, edit), project.build) == []
        assert untrue_manifests(project.build) == []
    else:
        assert results_of(project.build) == before


COUNTED = """
SPEC = {
    "name": "my.counted",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {},
    "result": {"kind": "event_stream"},
}


def counted(*, stream, **_):
    with open("calls.txt", "a") as calls:
        print(len(stream), file=calls)
    return stream
"""
MANY = """
version: "1.0"
use: {profiles: [hep]}
registry: {transforms: {my.counted: {spec: "my_counted:SPEC", impl: "my_counted:counted"}}}
data:
  defaults: {eventtype: mc, tree_primary: events}
  datasets:
    - {name: dy, files: [data/dy_1.root]}
    - {name: ttbar, files: [data/ttbar_0.root]}
systematics:
  include_nominal: true
  variations:
    - {name: "weight_{number}", matrix: {number: NUMBERS}, weight: {multiply: ["1.{number}"]}}
analysis:
  stages:
    - {id: Counted, op: my.counted}
    - id: Vertices
      op: hep.hist
      params:
        storage: weighted
        weight_expr: EventWeight
        axes:
          - {name: n, source: NPrimaryVertices, type: regular, bins: {low: 0, high: 30, nbins: 30}}
"""


def test_many_variations_of_the_last_stage_share_what_comes_before(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", "many.yaml")
    (project.folder / "my_counted.py").write_text(COUNTED)
    calls = project.folder / "calls.txt"

    (project.folder / "many.yaml").write_text(MANY.replace("NUMBERS", str([*range(4)])))
    project.run()
    first = jobs_of(project.build)
    assert len(stages("Counted").of(first)) == 2
    assert len(stages("Vertices").of(first)) == 2 * 5
    assert sorted(calls.read_text().split()) == ["60", "80"]

    start = time.time()
    (project.folder / "many.yaml").write_text(MANY.replace("NUMBERS", str([*range(5)])))
    project.run()
    jobs = jobs_of(project.build)
    assert executed(jobs, start) == (variation("weight_4") | PUBLISH).of(jobs)
    assert len(executed(jobs, start)) == 2 + 1 + 1
    assert sorted(calls.read_text().split()) == ["60", "80"]
