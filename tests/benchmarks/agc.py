"""The Analysis Grand Challenge: workflow/agc beside the same analysis in coffea."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.support import agc as results

from .events import CACHE
from .measure import Failed, Measured
from .report import Figure, Result, Row
from .steps import Settings, Step, fasthep, fresh, jobs_done, run, smk
from .workflows import Document

__all__ = ["agc"]

_SOURCES = Path(__file__).parents[2] / "workflow" / "agc"
_COFFEA = Path(__file__).with_name("agc_coffea.py")
#: Files of the sample: 2 % of them are one.
_FILES = 50


def agc(settings: Settings) -> Result:
    """Return what the ttbar analysis costs with all its systematics, here and in coffea."""
    if importlib.util.find_spec("coffea") is None:
        raise Failed("coffea is not installed: make bench installs it")
    total = max(settings.events // 5, _FILES)
    folder, ours = settings.folder, settings.folder / "ours"
    lay_out = functools.partial(_lay_out, folder, total)
    lay_out()
    nominal = ("--chunk-size", "100000", "--outdir")
    # FAST-HEP looks for the module of the operations where Python does.
    where = ["env", f"PYTHONPATH={folder}"]
    local = where + fasthep("run", "workflow.yaml", *nominal, "theirs")
    dask = where + fasthep(
        "run", "workflow.yaml", "--backend", "dask", "--strategy", "local",
        "--workers", "2", "--scheduler", "processes", *nominal, "dask",
    )  # fmt: skip
    command = smk("workflow.yaml", "-o", "ours", "-j", "2", "--chunk-size", "100000")
    lenient = [*command, "--accept-missing", "1"]
    skipping = _coffea("skipped.pkl", "--skip-bad-files")
    steps = [
        Step("futures", _coffea("futures.pkl")),
        Step("clients", _coffea("clients.pkl", "--executor", "dask")),
        Step("theirs", local, fresh(folder / "theirs")),
        Step("dask", dask, fresh(folder / "dask")),
        Step("ours", command, _both(lay_out, fresh(ours)), lambda _: _compare(folder)),
        Step("again", command, after=_does_nothing),
        Step("edited", command, lambda: _edit(folder, _finer_bins)),
        Step("one more", command, lambda: _edit(folder, _one_more)),
        Step("lenient", lenient, _both(lay_out, fresh(ours), lambda: _break(folder))),
        Step("skipped", skipping, after=lambda _: _mended(folder)),
    ]
    found = run(steps, settings)
    futures, clients = found["futures"], found["clients"]
    to = "(ratio to coffea's futures)"
    rows = [
        Row("coffea with two futures", futures),
        Row("`fasthep-smk -j 2`", found["ours"], futures, 1.0),
        Row("coffea with Dask, two processes", clients),
        Row("`fasthep-smk -j 2` (ratio to the row above)", found["ours"], clients, 1.0),
        Row("`fasthep run`, nominal plan only", found["theirs"]),
        Row("`fasthep run` with Dask, two processes, nominal plan only", found["dask"]),
        Row(f"`fasthep-smk` with nothing to do {to}", found["again"], futures),
        Row(f"`fasthep-smk` with other bins of a histogram {to}", found["edited"], futures, 0.2),
        Row(f"`fasthep-smk` with one more variation {to}", found["one more"], futures),
        Row("coffea with two futures, 2 % of the files broken", found["skipped"]),
        Row(
            "`fasthep-smk --accept-missing 1` (ratio to the row above)",
            found["lenient"],
            found["skipped"],
        ),
    ]
    cpu = {name: min(one.cpu for one in found[name]) for name in ("futures", "ours")}
    notes = [
        f"jobs: {jobs_done(found['ours'][0])} in the full run, {jobs_done(found['edited'][0])} "
        f"after the edit, {jobs_done(found['one more'][0])} for one more variation",
    ]
    title = f"The ttbar analysis of workflow/agc: nine datasets, {total:,} events, 17 variations."
    return Result("agc", title, rows, [Figure(
        f"CPU time {to}", cpu["ours"] / cpu["futures"], 1.0
    )], notes)  # fmt: skip


def _coffea(out: str, *options: str) -> list[str]:
    # By another path than our own commands': it runs once, whichever installation is measured.
    python = str(Path(sys.executable).with_name("python3"))
    return [python, str(_COFFEA), "data/datasets.yaml", out, "--workers", "2", *options]


def _lay_out(folder: Path, total: int) -> None:
    """Copy the analysis into ``folder``, with links to its events; these are made once."""
    for name in ("workflow.yaml", "operations.py", "corrections.json"):
        shutil.copyfile(_SOURCES / name, folder / name)
    made = CACHE / f"agc-{total}"
    if not (made / "datasets.yaml").exists():
        _generator().make(made, total, -(-total // _FILES))
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.copytree(made, folder / "data", copy_function=lambda a, b: Path(b).symlink_to(a))
    document = yaml.safe_load((made / "datasets.yaml").read_text(encoding="utf-8"))
    for dataset in document["data"]["datasets"]:
        dataset["files"] = [f"data/{Path(file).name}" for file in dataset["files"]]
    path = folder / "data" / "datasets.yaml"
    path.unlink()
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _generator() -> object:
    spec = importlib.util.spec_from_file_location("make_events_of_agc", _SOURCES / "make_events.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def _compare(folder: Path) -> None:
    ours, wanted = results.of_build(folder / "ours"), results.of_coffea(folder / "futures.pkl")
    if len({variation for _, variation, _ in wanted}) != 17:
        raise Failed("coffea has not made all variations")
    if told := results.differences(wanted, ours):
        raise Failed("the results differ:\n" + "\n".join(told[:20]))


def _does_nothing(measured: Measured) -> None:
    if jobs_done(measured):
        raise Failed("the rerun has done something")


def _edit(folder: Path, change: Callable[[Document], object]) -> None:
    path = folder / "workflow.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def _finer_bins(document: Document) -> None:
    (stage,) = (one for one in document["analysis"]["stages"] if one["id"] == "HT4j1b")
    stage["params"]["axes"][0]["bins"]["nbins"] = 50


def _one_more(document: Document) -> None:
    more = {"name": "luminosity_up", "weight": {"multiply": ["1.026"]}}
    document["systematics"]["variations"].append(more)


def _break(folder: Path) -> None:
    """Put a file with zeros in its middle in the place of one, of 50 more or less.

    One that is cut off would be seen, and refused, before the run.
    """
    path = folder / "data" / _broken(folder)
    content = bytearray(path.read_bytes())
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    path.unlink()
    path.write_bytes(content)


def _mended(folder: Path) -> None:
    path = folder / "data" / _broken(folder)
    whole = next(one for one in path.parent.iterdir() if one.is_symlink()).resolve()
    path.unlink()
    path.symlink_to(whole.with_name(path.name))


def _broken(folder: Path) -> str:
    return sorted(path.name for path in (folder / "data").glob("wjets_*.root"))[0]


def _both(*what: Callable[[], object]) -> Callable[[], None]:
    def do() -> None:
        for one in what:
            one()

    return do
