"""What runs again after an edit, and what stays when something fails."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
import uproot

from tests.integration.conftest import Run
from tests.integration.test_damage import EVERY_KIND
from tests.support.forms import some

pytestmark = pytest.mark.integration


def jobs_to_run(smk: Run, folder: Path) -> str:
    done = smk("workflow.yaml", "-n", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def finished(analysis: Path, smk: Run) -> Path:
    """The small analysis with an op of its own that reads a file, run once."""
    (analysis / "own_helper.py").write_text("SHIFT = 0.0\n")
    (analysis / "own_ops.py").write_text(
        "import awkward as ak\nfrom own_helper import SHIFT\n"
        'SPEC = {"name": "own.scale", "kind": "transform", "params": {},\n'
        '        "input": {"name": "stream", "kind": "event_stream", "required": True},\n'
        '        "result": {"kind": "event_stream"}}\n'
        "def run(*, stream, table, ctx=None):\n"
        "    factor = float(open(table).read())\n"
        "    return ak.with_field(stream, stream.met * factor + SHIFT, 'met')\n"
    )
    (analysis / "factor.txt").write_text("1.0")
    workflow = analysis / "workflow.yaml"
    text = workflow.read_text().replace(
        "    - id: Scale\n",
        "    - {id: Own, op: own.scale, params: {table: factor.txt}}\n    - id: Scale\n",
    )
    registry = "registry: {transforms: {own.scale: {spec: 'own_ops:SPEC', impl: 'own_ops:run'}}}\n"
    workflow.write_text(registry + text)
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert "Nothing to do" in jobs_to_run(smk, analysis)
    return analysis


def test_what_is_made_once_before_all_partitions_follows_from_the_datasets(
    analysis: Path, smk: Run
) -> None:
    """The schema of a dataset has its group, which no partition may read."""
    workflow = analysis / "workflow.yaml"
    workflow.write_text(EVERY_KIND)
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    workflow.write_text(EVERY_KIND.replace("{name: dy, files", "{name: dy, group: boson, files"))
    assert " side_products " in jobs_to_run(smk, analysis)


@pytest.mark.parametrize("granularity", ["auto", "stage"])
def test_a_writer_at_the_end_of_the_run_writes_the_columns_that_it_keeps_now(
    analysis: Path, smk: Run, granularity: str
) -> None:
    """Its events come from the jobs that reduce datasets."""
    workflow = analysis / "workflow.yaml"
    text = workflow.read_text()
    written = []
    for keep in ("keep: [met], ", "keep: [met, MET_px], ", ""):
        sink = f"{{kind: root_tree, path: all.root, {keep}format: ttree, when: final}}"
        workflow.write_text(text.replace("{kind: root_tree, path: skim.root, keep: [met]}", sink))
        done = smk("workflow.yaml", "-j", "2", "--granularity", granularity, cwd=analysis)
        assert done.returncode == 0, done.stderr
        written.append(uproot.open(analysis / "build/artifacts/files/all.root")["events"].keys())
    assert written[:2] == [["met"], ["met", "MET_px"]]
    assert {"met", "MET_px", "MET_py"} <= set(written[2])


@pytest.mark.parametrize(
    ("file", "content"), [("factor.txt", "2.0"), ("own_helper.py", "SHIFT = 5.0\n")]
)
def test_what_an_op_reads_or_imports_counts(
    finished: Path, smk: Run, file: str, content: str
) -> None:
    (finished / file).write_text(content)
    assert jobs_to_run(smk, finished).startswith("4 of 4 jobs would run")


@pytest.mark.long
def test_deleted_results_are_made_again(finished: Path, smk: Run) -> None:
    shutil.rmtree(finished / "build/artifacts/plots")
    assert jobs_to_run(smk, finished).startswith("1 of 4 jobs would run")
    (finished / "build/artifacts/files/skim/dy/0_0.root").unlink()
    assert jobs_to_run(smk, finished).startswith("2 of 4 jobs would run")
    assert smk("workflow.yaml", "-j", "2", cwd=finished).returncode == 0
    assert (finished / "build/artifacts/plots/Met.png").is_file()
    assert (finished / "build/artifacts/files/skim/dy/0_0.root").is_file()


def test_files_outside_the_build_folder_are_made_again(analysis: Path, smk: Run) -> None:
    workflow, there = analysis / "workflow.yaml", analysis / "there"
    plain = workflow.read_text().replace("path: skim.root", f"path: {there}/skim.root")
    plain = plain.replace("{style: met, when: final}", f"{{style: met, out: {there}/met.png}}")

    def run(text: str) -> float:
        workflow.write_text(text)
        done = smk("workflow.yaml", "-j", "2", cwd=analysis)
        assert done.returncode == 0, done.stderr
        assert "Nothing to do" in jobs_to_run(smk, analysis)
        assert (there / "met.png").is_file()
        files = sorted(there.glob("skim/*/*.root"))
        assert len(files) == 3
        return sum(uproot.open(path)["events"].num_entries for path in files)

    written = run(plain)
    assert run(plain.replace("met > 5", "met > 20")) < written
    assert run(plain) == written  # the edit is undone
    (there / "met.png").unlink()
    assert jobs_to_run(smk, analysis).startswith("1 of 4 jobs would run")
    why = smk("why", "workflow.yaml", cwd=analysis).stdout.split()
    assert "met.png, written by render.Met.0, is gone" in " ".join(why)
    shutil.rmtree(there)
    assert run(plain) == written


def test_a_file_of_several_jobs_gets_a_warning(finished: Path, smk: Run) -> None:
    ops, workflow = finished / "own_ops.py", finished / "workflow.yaml"
    returns = "    return ak.with_field"
    writes = "    (Path(ctx['outdir']) / 'list.txt').write_text(str(stream.met.tolist()))\n"
    ops.write_text(
        "from pathlib import Path\n" + ops.read_text().replace(returns, writes + returns)
    )
    with workflow.open("a") as stream:
        stream.write("systematics:\n  include_nominal: true\n  variations:\n")
        stream.write("    - {name: up, replace: {met: MET_px}}\n")
    done = smk("workflow.yaml", "-j", "2", "--no-preflight", cwd=finished)
    assert done.returncode == 0, done.stderr
    unique = "ctx['partition']['id'] and ctx['variation']['name']"
    said = "6 jobs of Own wrote the same file, list.txt: only one version of it is left"
    assert f"warning: {said}. Put {unique} into the file's name\n" in done.stderr
    name = "f\"list_{ctx['partition']['id']}_{ctx.get('variation', {}).get('name')}.txt\""
    ops.write_text(ops.read_text().replace("'list.txt'", name))
    done = smk("workflow.yaml", "-j", "2", "--no-preflight", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert "wrote the same file" not in done.stderr
    assert len([*(finished / "build").glob("list_*_*.txt")]) == 6


def test_a_run_of_a_part_leaves_the_results_of_the_end_in_place(finished: Path, smk: Run) -> None:
    (finished / "factor.txt").write_text("2.0")
    done = smk("workflow.yaml", "--", "--until", "stages_Vars_to_Met", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert (finished / "build/artifacts/plots/Met.png").is_file()


def test_a_moved_build_folder_is_still_done(finished: Path, smk: Run) -> None:
    (finished / "build").rename(finished / "moved")
    done = smk("workflow.yaml", "-n", "--outdir", "moved", cwd=finished)
    assert "Nothing to do" in done.stdout


@pytest.mark.parametrize("damage", some(["missing", "altered", "truncated", "empty"], 1))
def test_a_damaged_intermediate_is_named_and_made_again(
    finished: Path, smk: Run, damage: str
) -> None:
    work = finished / "build" / "smk" / "work" / "stages_Vars_to_Met"
    archive = work / "dy" / "0_0" / "products.zip"
    before = {path: path.stat().st_mtime_ns for path in work.rglob("record.json")}
    content = archive.read_bytes()
    stored = (finished / "build/artifacts/histograms/Met.pkl").read_bytes()
    if damage == "missing":
        archive.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        archive.write_bytes(
            {"altered": flipped, "truncated": content[:middle], "empty": b""}[damage]
        )
    shutil.rmtree(finished / "build/artifacts/plots")
    done = smk("workflow.yaml", "-j", "2", cwd=finished)
    assert done.returncode == 0, done.stderr
    if damage != "missing":  # which Snakemake sees itself
        assert "dy/0_0/products.zip" in done.stderr
        # A size that differs is seen before anything runs.
        seen = "the run repeats the jobs that made these files" not in done.stderr
        assert seen == (damage in ("truncated", "empty"))
    # Only the job that made the file ran again, and the result is the same.
    again = [path for path in before if path.stat().st_mtime_ns != before[path]]
    assert again == [archive.parent / "record.json"]
    assert (finished / "build/artifacts/histograms/Met.pkl").read_bytes() == stored


def test_a_plot_that_fails_does_not_cost_the_histograms(analysis: Path, smk: Run) -> None:
    workflow = analysis / "workflow.yaml"
    plain, labelled = "{name: met}", "{name: met, label: '$\\\\frac$'}"
    assert plain in workflow.read_text()
    workflow.write_text(workflow.read_text().replace(plain, labelled))
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 1
    assert "stage 'Met' (hep.render.hist1d) failed" in done.stderr
    stored = pickle.loads((analysis / "build/artifacts/histograms/Met.pkl").read_bytes())
    assert stored.sum() > 0


def test_reports_of_a_variation_do_not_replace_those_of_the_nominal_plan(
    analysis: Path, smk: Run
) -> None:
    workflow = analysis / "workflow.yaml"
    workflow.write_text(
        workflow.read_text()
        + "observers:\n  - {kind: hep.schema_snapshot, at: read.events, out: snap}\n"
        "systematics:\n  include_nominal: true\n  variations:\n"
        "    - {name: other, datasets: {replace: {data: dy}}}\n"
    )
    done = smk("workflow.yaml", "-j", "2", cwd=analysis)
    assert done.returncode == 0, done.stderr
    name = "schema/snap/read_events/events__data__0.json"
    nominal = json.loads((analysis / "build/reports" / name).read_text())
    other = json.loads((analysis / "build/reports/other" / name).read_text())
    assert nominal["metadata"]["file"] != other["metadata"]["file"]


def test_why_names_the_stage_and_the_parameter_that_changed(analysis: Path, smk: Run) -> None:
    by_stage, workflow = ("workflow.yaml", "--granularity", "stage"), analysis / "workflow.yaml"
    assert smk(*by_stage, "-j", "2", cwd=analysis).returncode == 0
    before = workflow.read_text()

    def why(old: str, new: str) -> dict[str, str]:
        workflow.write_text(before.replace(old, new))
        said = smk("why", *by_stage, "--json", cwd=analysis).stdout
        return {one["rule"]: one["reason"] for one in json.loads(said)["to_run"]}

    change = "hep.define Vars: params.variables['met'].expr"
    said = why("MET_px ** 2 +", "MET_px ** 2 + 1 +")
    assert said["stage_Vars"].startswith(f"{change} sqrt(")
    assert said["stage_Met"].startswith(f"its input changed: {change} sqrt(")
    assert said["finish"].startswith(f"its input changed: {change} sqrt(")
    # FAST-HEP puts the axis of the datasets before it.
    assert "params.axes['met'].bins.nbins 20 → 10" in why("nbins: 20", "nbins: 10")["stage_Met"]
    assert why("id: Scale", "id: Doubled")["stage_Doubled"] == "Scale is now called Doubled"
    assert why("id: Scale", "id: Scale") == {}
