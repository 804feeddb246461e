"""The page that a run leaves: its numbers are those of the records, and a browser shows it."""

from __future__ import annotations

import json
import math
import pickle
import re
import stat
import statistics
import sys
import threading
from html import unescape
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fasthep_smk import load_results
from fasthep_smk.contrib.report import document, facts, page
from tests.integration.conftest import WORKFLOW, Run
from tests.support.browser import measured, show
from tests.support.recomputed import differences

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "fasthep_smk"]
CANARY = "<script>document.title='canary'</script>"
#: Writes what nobody may see into its error, for each file of simulation.
OPERATION = """\
SPEC = {
    "name": "own.fail",
    "kind": "transform",
    "version": "1.0",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "result": {"kind": "event_stream"},
    "params": {},
}


def fail(*, stream, ctx=None):
    if ctx["dataset_name"] != "data":
        raise ValueError("no answer of https://me:hunter2@host/x?authz=abcdefghij")
    return stream
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, small_files: Path, smk: Run) -> Path:
    """The build folder of a run with a dataset of a hostile name."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "data").symlink_to(small_files)
    text = WORKFLOW.replace("name: dy,", f'name: "{CANARY}",')
    (folder / "workflow.yaml").write_text(text)
    done = smk("workflow.yaml", "-j", "2", "--chunk-size", "30", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "report.html was not written" not in done.stderr
    return folder / "build"


@pytest.fixture(scope="module")
def data(ran: Path, smk: Run) -> dict[str, Any]:
    done = smk("report", "--json", cwd=ran.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def records(ran: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (ran / "smk/work").rglob("record.json")]


def table(page: Path, name: str) -> list[dict[str, str]]:
    """The rows of a table of the page, as people read them."""
    text = page.read_text()
    section = text.partition(f'<section id="{name}">')[2].partition("</section>")[0]
    rows = [
        [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", section)
    ]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


# --- numbers, by another way than the page's ------------------------------------------------------


def test_every_number_follows_from_what_the_run_has_left(ran: Path, data: dict[str, Any]) -> None:
    assert differences(ran, data) == []


def test_rules_are_those_of_the_records(
    ran: Path, data: dict[str, Any], records: list[dict[str, Any]]
) -> None:
    rules = {one["rule"] for one in records}
    assert {row["rule"] for row in data["rules"]} == rules
    shown = {row["rule"]: row for row in table(ran / "report.html", "rules")}
    for row in data["rules"]:
        mine = [one for one in records if one["rule"] == row["rule"]]
        times = [one["ended"] - one["started"] for one in mine]
        assert row["jobs"] == len(mine) == int(shown[row["rule"]]["jobs"])
        assert row["least"] == pytest.approx(min(times))
        assert row["median"] == pytest.approx(statistics.median(times))
        assert row["most"] == pytest.approx(max(times))
        given = sum(one["threads"] * time for one, time in zip(mine, times, strict=True))
        assert row["cpu"] == pytest.approx(sum(one["used"]["cpu"] for one in mine) / given)
        assert row["memory"] == max(one["used"]["memory"] for one in mine)
        assert row["asked_memory"] == (max(one["asked"]["memory"] or 0 for one in mine) or None)
        assert row["read"] == sum(one["used"]["read"] for one in mine)
        assert row["written"] == sum(one["used"]["written"] for one in mine)
        assert float(shown[row["rule"]]["CPU"].removesuffix(" %")) == pytest.approx(
            100 * row["cpu"], rel=0.01
        )
        spans = [one["runs"][0]["partition"] for one in mine if one["events"] is not None]
        if spans:
            events = sum(one["stop"] - one["start"] for one in spans)
            assert row["events"] == events == 180
            assert row["speed"] == pytest.approx(events / sum(times))


def test_each_rule_is_that_of_the_records_and_of_the_workflow(
    ran: Path, data: dict[str, Any], records: list[dict[str, Any]]
) -> None:
    rule_of = {f"smk/work/{one['rule']}/{one['key']}".rstrip("/"): one["rule"] for one in records}
    text = (ran / "report.html").read_text()
    assert [row["rule"] for row in data["each_rule"]] == list(
        dict.fromkeys(row["rule"] for row in data["each_rule"])
    )
    for row in data["each_rule"]:
        mine = {one["key"]: one for one in records if one["rule"] == row["rule"]}
        assert row["states"] == {"done": len(mine), "running": 0, "failed": 0, "to do": 0}
        read = {folder for one in mine.values() for folder in one["made_of"]["reads"]}
        assert set(row["reads"]) == {rule_of[folder] for folder in read}
        assert row["pools"] == sorted({one["asked"]["pool"] for one in mine.values()})
        nodes = {node for one in mine.values() for node in one["made_of"]["nodes"]}
        assert set(row["stages"]) == {node.removeprefix("stage.") for node in nodes}
        for job in row["jobs"]:
            one = mine.pop(job["key"])
            assert job["seconds"] == pytest.approx(one["ended"] - one["started"])
            assert (job["memory"], job["host"]) == (one["used"]["memory"], one["host"])
            assert (ran / job["log"]).is_file() or job["log"] == ""
        assert not mine
        assert f'<a href="#rule-{row["rule"]}"' in text
        assert text.count(f'id="rule-{row["rule"]}"') == 1


def test_cutflows_and_histograms_are_those_of_the_artifacts(
    ran: Path, data: dict[str, Any]
) -> None:
    told = json.loads((ran / "artifacts/cutflows/Cuts.json").read_text())
    (cutflow,) = data["cutflows"]
    assert len(cutflow["rows"]) == len(told["nodes"]) * len(told["datasets"])
    for row in cutflow["rows"]:
        (stats,) = (node["stats"][row["dataset"]] for node in told["nodes"])
        assert (row["before"], row["after"]) == (
            stats["n_unweighted_in"], stats["n_unweighted_out"],
        )  # fmt: skip
        assert row["weights"] == stats["sumw_out"]
        assert row["error"] == math.sqrt(stats["sumw2_out"])
    histogram = pickle.loads((ran / "artifacts/histograms/Met.pkl").read_bytes())
    assert {row["dataset"] for row in data["histograms"]} == {"data", CANARY}
    for row in data["histograms"]:
        view = histogram[{"dataset": row["dataset"]}].view(flow=True)
        total = float(view["value"].sum() if view.dtype.names else view.sum())
        assert row["sum"] == pytest.approx(total)
        assert row["sum"] - row["outside"] == pytest.approx(
            float(histogram[{"dataset": row["dataset"]}].values().sum())
        )


def test_what_is_said_of_the_run_is_what_was_run(ran: Path, data: dict[str, Any]) -> None:
    assert data["verdict"] == {
        "state": "finished",
        "text": f"All {sum(data['counts'].values())} jobs are done.",
    }
    assert data["run"]["command"].endswith("workflow.yaml -j 2 --chunk-size 30")
    sizes = {one["file"]: one["size"] for one in data["inputs"]}
    assert sizes == {name: (ran.parent / name).stat().st_size for name in sizes} != {}
    assert sum(sum(one.values()) for one in data["reasons"].values()) == data["counts"]["done"]
    files = {one["file"]: one["size"] for one in data["files"]}
    assert "artifacts/plots/Met_0.png" in files or any(name.endswith(".png") for name in files)
    assert files == {name: (ran / name).stat().st_size for name in files}


def test_it_names_the_files_that_own_code_has_read(tmp_path: Path, smk: Run) -> None:
    assert smk("init", cwd=tmp_path).returncode == 0
    module = tmp_path / "my_ops.py"
    first = "    if mask is not None:\n"
    assert first in module.read_text()
    reads = '    pt = pt * float(open("scale.txt").read())\n'
    module.write_text(module.read_text().replace(first, reads + first))
    (tmp_path / "scale.txt").write_text("1.01")
    assert smk("workflow.yaml", cwd=tmp_path).returncode == 0
    told = json.loads(smk("report", "--json", cwd=tmp_path).stdout)["own_reads"]
    by = {one["name"]: one["by"] for one in told}
    assert list(by) == ["my_ops.py", "scale.txt"]
    assert by["scale.txt"] == "my.pair_mass"
    assert "Read by your own code" in (tmp_path / "build/report.html").read_text()


def test_a_repair_by_undoing_an_edit_is_a_finished_run(tmp_path: Path, smk: Run) -> None:
    assert smk("init", cwd=tmp_path).returncode == 0
    assert smk("workflow.yaml", cwd=tmp_path).returncode == 0
    module = tmp_path / "my_ops.py"
    before = module.read_text()
    first = "    if mask is not None:\n"
    module.write_text(before.replace(first, f"    assert len(pt) <= 100\n{first}"))
    assert smk("workflow.yaml", cwd=tmp_path).returncode == 1
    with pytest.warns(UserWarning, match="has not finished .failed."):
        load_results(tmp_path / "build")
    module.write_text(before)
    assert smk("workflow.yaml", cwd=tmp_path).returncode == 0
    assert (
        json.loads(smk("report", "--json", cwd=tmp_path).stdout)["verdict"]["state"] == "finished"
    )
    assert "<title>finished" in (tmp_path / "build/report.html").read_text()
    load_results(tmp_path / "build")


# --- as a browser shows it ------------------------------------------------------------------------


def test_a_browser_draws_it_and_asks_nobody(ran: Path, tmp_path: Path) -> None:
    found = show(ran / "report.html", tmp_path)
    assert found.console == []
    assert found.requests == []
    assert (
        f"<title>finished: {ran.parent.name}/build</title>" in found.document
    )  # the canary has not sung
    for name in ("timeline", "concurrency", "memory"):
        chart = found.document.partition(f'id="{name}"')[2].partition("</figure>")[0]
        assert "<svg" in chart or 'class="plot' in chart, name


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_nothing_is_cut_off_at_any_width(ran: Path, tmp_path: Path, width: int) -> None:
    found = measured(ran / "report.html", tmp_path, width)
    assert width - 20 < found["wide"] <= width  # without its scroll bar
    assert found["scrolled"] == found["wide"]
    assert found["elements"] > 100
    assert len(found["pictures"]) >= 1 and all(found["pictures"])
    assert len(found["drawings"]) >= 1 and min(found["drawings"]) > 200


def test_what_is_cut_off_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<p style="width:500px">wide</p><img src="data:image/png;base64,AAAA">')
    found = measured(page, tmp_path, 400)
    assert found["beyond"][0].startswith("<p") and found["pictures"] == [0]


def test_a_page_reloads_itself_as_long_as_a_run_goes_on(
    ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second page is that of a run that has ended."""
    goes_on = iter([True] * 3)  # it is asked thrice for a page
    monkeypatch.setattr(facts.Facts, "is_running", property(lambda _: next(goes_on, False)))
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            gathered = facts.gather(ran)
            text = page.as_html(gathered, document.report_on(gathered), renewed=1.0)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found = show(f"http://127.0.0.1:{server.server_port}/", tmp_path)
        server.shutdown()
        thread.join()
    assert found.console == []
    assert 'class="verdict finished"' in found.document
    assert asked == ["/", "/"]


def test_what_a_page_asks_for_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<img src="http://127.0.0.1:1/asked.png"><script>no_such_name</script>')
    found = show(page, tmp_path)
    assert found.requests == ["http://127.0.0.1:1/asked.png"]
    assert "no_such_name is not defined" in "".join(found.console)


# --- for those who use Snakemake's own -----------------------------------------------------------


def test_a_logger_plugin_writes_beside_ours(analysis: Path, smk: Run) -> None:
    pytest.importorskip("snakemake_logger_plugin_rich")
    done = smk("workflow.yaml", "-j", "2", "--", "--logger", "rich", cwd=analysis)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d+ jobs done; results in \S+/build$", done.stdout, re.MULTILINE)
    assert re.search(r"^\[\d+/\d+\] jobs done", done.stderr, re.MULTILINE)  # ours
    log = (analysis / "build/debug/distributed/snakemake.log").read_text()
    assert "Workflow start" in log and "Workflow Finished" in log  # theirs


# --- runs that do not succeed ---------------------------------------------------------------------


def test_a_run_that_fails_leaves_a_page_too(analysis: Path, smk: Run, tmp_path: Path) -> None:
    (analysis / "own.py").write_text(OPERATION)
    text = WORKFLOW.replace(
        "data:\n",
        "registry: {transforms: {own.fail: {spec: 'own:SPEC', impl: 'own:fail'}}}\ndata:\n",
        1,
    ).replace("    - id: Cuts\n", "    - {id: Fails, op: own.fail}\n    - id: Cuts\n")
    text = text.replace("name: dy,", f'name: "{CANARY}",')
    (analysis / "workflow.yaml").write_text(text)
    done = smk("workflow.yaml", "-j", "2", "-k", "--json", cwd=analysis)
    assert done.returncode == 1
    ended = json.loads(done.stdout)
    assert ended["outcome"] == "failed"
    assert ended["problem"].startswith("1 job failed; finished jobs are kept:")
    assert "Fails" in ended["problem"] and "hunter2" not in done.stdout
    page = analysis / "build/report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert "hunter2" not in text and "abcdefghij" not in text
    assert f"<title>failed: {analysis.name}/build</title>" in text
    data = json.loads(smk("report", "--json", cwd=analysis).stdout)
    (failure,) = data["failures"]
    assert (failure["stage"], failure["dataset"], failure["file"]) == (
        "Fails", CANARY, "data/dy_0.root",
    )  # fmt: skip
    assert failure["rerun"].endswith(
        f"snakemake --profile smk/profile -- {failure['rerun'].split()[-1]}"
    )
    assert any("no answer of" in line for line in failure["tail"])
    assert differences(page.parent, data) == []
    found = show(page, tmp_path)
    assert (found.console, found.requests) == ([], [])
    assert f"<title>failed: {analysis.name}/build</title>" in found.document
    assert 'class="framed"' in found.document  # the attempt that failed is in the timeline
