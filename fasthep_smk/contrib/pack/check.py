"""Unpack an archive in an empty place, and import there what jobs will import."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fasthep_smk.contrib.pack.libraries import is_of_libc
from fasthep_smk.util.errors import Finding, Findings

#: Seconds; a cold import of everything takes ten on a slow disk.
_LIMIT = 600
#: Run by the packed Python. It also says which modules and libraries are of somewhere else.
_SCRIPT = """\
import importlib, json, os, sys
problems = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        problems[name] = f"{type(error).__name__}: {error}"
inside = os.path.realpath(sys.prefix) + os.sep
files = {n: getattr(m, "__file__", None) for n, m in list(sys.modules.items())}
modules = {n: f for n, f in files.items() if f and not os.path.realpath(f).startswith(inside)}
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].strip() for line in maps if ".so" in line}
libraries = sorted(path for path in mapped if not path.startswith(inside))
print(json.dumps({"problems": problems, "modules": modules, "libraries": libraries}))
"""


def check_archive(archive: Path, modules: Iterable[str]) -> None:
    """Raise if what jobs import cannot be imported from the archive alone.

    Nothing of this environment is visible there: no variables, another home, an empty folder.

    Raises:
        Findings: what cannot be imported, or comes from outside of the archive.
    """
    wanted = sorted(set(modules))
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f"{archive.name}-") as name:
        place = Path(name).absolute()
        for folder in ("home", "work"):
            (place / folder).mkdir()
        command = ["sh", str(archive.absolute()), "--cache", str(place / "cache"), "--"]
        try:
            done = subprocess.run(
                [*command, "-c", _SCRIPT, json.dumps(wanted)],
                cwd=place / "work",
                env={"HOME": str(place / "home"), "TMPDIR": str(place / "work")},
                capture_output=True,
                text=True,
                timeout=_LIMIT,
            )
        except subprocess.TimeoutExpired:
            raise Findings.one(
                f"its Python took more than {_LIMIT} s to import the modules that jobs need",
                key="packed environment",
            ) from None
    _judge(done)


def _judge(done: subprocess.CompletedProcess[str]) -> None:
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        output = (done.stderr or done.stdout).strip()[-1000:]
        raise Findings.one(
            f"its Python does not start (exit status {done.returncode}): {output}",
            key="packed environment",
        ) from None
    findings = [
        Finding(
            key="packed environment",
            problem=f"it cannot import the module {name!r}: {problem}",
            hint="install the missing package in the environment that you pack",
        )
        for name, problem in answer["problems"].items()
    ]
    findings += [
        Finding(
            key="packed environment",
            problem=f"it does not contain the module {name!r}, which jobs need",
            value=path,
            hint="install the module, instead of naming its folder in a .pth file",
        )
        for name, path in answer["modules"].items()
    ]
    libraries = [path for path in answer["libraries"] if not is_of_libc(Path(path).name)]
    if libraries:
        findings.append(
            Finding(
                key="packed environment",
                problem=f"it does not contain {len(libraries)} libraries that it needs",
                value=", ".join(libraries),
                hint="install wheels that contain these libraries, because a node may lack them",
            )
        )
    if findings:
        raise Findings(findings)
