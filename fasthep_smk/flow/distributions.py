"""Installed packages: which distribution a package came with, and what identifies that."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sysconfig
from functools import cache
from importlib import metadata
from pathlib import Path

from fasthep_smk.util.files import digest_of, sha256_file

NOT_INSTALLED = "not installed"
#: Seconds. A file that is younger than the ``RECORD`` of its distribution by more was edited.
_INSTALLATION = 2.0
_CODE = (".py", ".so", ".pyd")
_STANDARD = tuple({sysconfig.get_paths()[name] + "/" for name in ("stdlib", "platstdlib")})


@cache
def is_installed_file(path: str) -> bool:
    """Whether a file belongs to Python or to an installed distribution."""
    if path.startswith("<frozen"):
        return True
    parts = path.split("/")
    return "site-packages" in parts or "dist-packages" in parts or path.startswith(_STANDARD)


def package_of(file: str) -> str | None:
    """Return the top-level package or module that an installed file came with.

    A library may have modules of its own under other names, which are found only once it has run.
    """
    parts = file.split("/")
    places = [at for at, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    return parts[places[-1] + 1].partition(".")[0] if places else None


@cache
def version(distribution: str) -> str:
    """Return the version of a distribution, ``not installed`` if there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


@cache
def package_identity(package: str) -> str:
    """Return what identifies an installed top-level package: version, and edits made in place.

    Source of the file list: the ``RECORD`` of its distribution
    (https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
    """
    distribution = _distribution(package)
    if distribution is None:
        return _loose_identity(package)
    edited, local = _edited(distribution), _local(distribution)
    marks = [f"+local.{local}" if local else "", f"+edited.{edited}" if edited else ""]
    return f"{distribution.version}{''.join(marks)}"


def _distribution(package: str) -> metadata.Distribution | None:
    """Return the distribution that a top-level package came with."""
    try:
        distribution = metadata.distribution(package)
        if _provides(distribution, package):
            return distribution
    except metadata.PackageNotFoundError:
        pass
    # The distribution has another name than the package, as scikit-learn for sklearn.
    return next((other for other in metadata.distributions() if _provides(other, package)), None)


def _provides(distribution: metadata.Distribution, package: str) -> bool:
    listed = distribution.read_text("RECORD") or ""
    name = re.escape(package)
    return re.search(rf"^{name}(/|\.py,|\.[\w.-]*so,)", listed, re.MULTILINE) is not None


def _local(distribution: metadata.Distribution) -> str:
    """Return a digest of the code of what was installed from a folder or repository, else empty.

    Its code may be another one under the same version
    (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    if distribution.read_text("direct_url.json") is None:
        return ""
    listed = (distribution.read_text("RECORD") or "").splitlines()
    return digest_of(sorted(line for line in listed if line.partition(",")[0].endswith(_CODE)))[:16]


def _edited(distribution: metadata.Distribution) -> str:
    """Return a digest of the files that were written to since the installation, empty if none."""
    listed = (
        line.partition(",")[0] for line in (distribution.read_text("RECORD") or "").splitlines()
    )
    names = [name for name in listed if name.endswith((*_CODE, "RECORD"))]
    folder = str(distribution.locate_file(""))
    times = {}
    for name in names:  # there may be thousands, and path objects would take most of the time
        with contextlib.suppress(OSError):
            times[name] = os.stat(f"{folder}/{name}").st_mtime  # noqa: PTH116
    installed = [time for name, time in times.items() if name.endswith("/RECORD")]
    limit = max(installed, default=float("inf")) + _INSTALLATION
    edited = [name for name, time in times.items() if time > limit and name.endswith(_CODE)]
    digests = [[name, sha256_file(Path(folder, name))] for name in edited]
    return digest_of(digests)[:16] if edited else ""


def _loose_identity(package: str) -> str:
    """Return the identity of a package without a distribution: a digest of its files."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return NOT_INSTALLED
    if spec is None:
        return NOT_INSTALLED
    if spec.origin and Path(spec.origin).name != "__init__.py":
        files = [Path(spec.origin)]
    else:
        folders = spec.submodule_search_locations or ()
        files = [
            f for folder in folders for f in sorted(Path(folder).rglob("*")) if f.suffix in _CODE
        ]
    content = [[path.name, sha256_file(path)] for path in files if path.is_file()]
    return f"no-version.{digest_of(content)[:16]}"
