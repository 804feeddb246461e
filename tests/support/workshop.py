"""The example workflows of fasthep-workshop, and data for them.

The examples are in the source distribution only, so that is what is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import events

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "2026.8.2"
CACHE = Path(__file__).parents[1] / ".cache"
EXAMPLES = {
    "l1trigger": "CMS/L1Trigger",
    "zmumu": "CMS/Zmumu",
    "mssi": "LZ/mssi",
    "exoplanets": "NASA/exoplanets",
    "runtime_smoke": "testing/runtime-smoke",
    "split_packages": "testing/split-packages",
}
ZMUMU_EVENTS = {
    "data": 2400,
    "dy": 1500,
    "qcd": 42,
    "single_top": 300,
    "ttbar": 600,
    "wjets": 700,
    "ww": 250,
    "wz": 240,
    "zz": 200,
}


class WorkshopUnavailableError(RuntimeError):
    """The source distribution is neither cached nor to be had from the package index."""


def _unpacked(cache: Path) -> Path:
    return cache / f"fasthep_workshop-{VERSION}"


def fetch(cache: Path = CACHE) -> Path:
    """Folder of the unpacked source distribution; downloaded at most once per cache."""
    target = _unpacked(cache)
    if (target / "examples").is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    archive = _download(cache)
    # Unpacked elsewhere and renamed, so that parallel test workers never see half of it.
    partial = cache / f".unpack-{os.getpid()}"
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(partial, filter="data")
        found = partial / target.name
        if not (found / "examples").is_dir():
            raise WorkshopUnavailableError(f"{archive.name} holds no {target.name}/examples")
        try:
            found.rename(target)
        except OSError:
            if not (target / "examples").is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _download(cache: Path) -> Path:
    name = f"fasthep_workshop-{VERSION}.tar.gz"
    archive = cache / name
    if archive.is_file():
        return archive
    folder = cache / f".download-{os.getpid()}"
    # The index has a wheel too, and that holds no examples. Building is never wanted, but pip
    # asks the build backend for the metadata of a source distribution even to download it.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", ":all:", "--dest", str(folder)]
    command += [f"fasthep-workshop=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not (folder / name).is_file():
            tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
            raise WorkshopUnavailableError(
                f"cannot fetch fasthep-workshop {VERSION}: "
                + (" | ".join(tail) or f"pip left no {name}")
                + f"; put {name} into {cache} to run these tests without a package index"
            )
        (folder / name).replace(archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return archive


def workflows(cache: Path = CACHE) -> dict[str, Path]:
    """Paths of the six example workflows by short name."""
    root = fetch(cache) / "examples"
    found = {name: root / folder / "workflow.yaml" for name, folder in EXAMPLES.items()}
    missing = sorted(name for name, path in found.items() if not path.is_file())
    if missing:
        raise WorkshopUnavailableError(f"fasthep-workshop {VERSION} lacks examples: {missing}")
    return found


def _zmumu(folder: Path) -> None:
    for seed, (name, n) in enumerate(ZMUMU_EVENTS.items(), start=11):
        path = folder / f"data/CMS/Zmumu/{name}.root"
        events.analysis_file(path, n, seed, is_data=name == "data")


def _l1trigger(folder: Path) -> None:
    for seed, (name, n) in enumerate({"2k": 400, "2kmu": 300}.items(), start=31):
        events.l1_file(folder / f"data/CMS/L1Trigger/{name}.root", n, seed)


def _mssi(folder: Path) -> None:
    for seed, name in enumerate(("U238-late_AnodeGridWires", "Th232-late_HVInnerCone"), start=41):
        events.lz_file(folder / f"data/LZ/mssi/SS_skim_{name}.root", 700, seed)


def _exoplanets(folder: Path) -> None:
    events.exoplanets_parquet(folder / "data/NASA/exoplanets.parquet")


def _split_packages(folder: Path) -> None:
    events.split_packages_file(folder / "data/testing/split-packages/events.root")


_DATA: dict[str, Callable[[Path], None]] = {
    "l1trigger": _l1trigger,
    "zmumu": _zmumu,
    "mssi": _mssi,
    "exoplanets": _exoplanets,
    "runtime_smoke": lambda _folder: None,
    "split_packages": _split_packages,
}


def prepare(name: str, folder: Path, cache: Path = CACHE) -> Path:
    """Lay out one example below ``folder``: its data and an unchanged ``workflow.yaml``."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "workflow.yaml"
    shutil.copyfile(workflows(cache)[name], target)
    _DATA[name](folder)
    return target
