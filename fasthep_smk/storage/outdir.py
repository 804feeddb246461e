"""The build folder as a user names it."""

from __future__ import annotations

from pathlib import Path

from fasthep_smk.util.errors import Findings
from fasthep_smk.util.ownership import make_own

#: FAST-HEP takes the parent of a folder of such a name for the build folder.
_RESERVED_FOLDERS = ("compile", "graph", "render", "reports", "debug", "execution")
#: What people look for in one, in FAST-HEP's layout.
_RESULTS = {
    "plots": "artifacts/**/plots/**/*.png",
    "tables": "artifacts/**/tables/**/*.csv",
    "histograms": "artifacts/**/histograms/*.pkl",
    "files": "artifacts/**/files/**/*.root",
    "report": "report.html",
    "summary": "run_summary.yaml",
    "summaries": "reports/**/run_summary.yaml",
}


def build_folder(outdir: Path) -> Path:
    """Return the absolute path of a build folder.

    Raises:
        Findings: it cannot be one.
    """
    build = outdir.absolute()
    if build.name in _RESERVED_FOLDERS:
        raise Findings.one(
            "FAST-HEP uses this name inside a build folder",
            key="--outdir",
            value=str(outdir),
            expected=f"a name other than {', '.join(_RESERVED_FOLDERS)}",
        )
    if build.exists() and not build.is_dir():
        raise Findings.one("is a file, not a folder", key="--outdir", value=str(outdir))
    return build


def make_folder(folder: Path, shown: Path, option: str = "--outdir") -> None:
    """Make a folder that the user has named by ``option``; ``shown`` is how the user calls it.

    Raises:
        Findings: it cannot be made.
    """
    try:
        make_own(folder)
    except OSError as error:
        raise Findings.one(
            f"the folder cannot be made: {error.strerror or error}",
            key=option,
            value=str(shown),
            expected="a folder that you may write to",
        ) from error


def results_in(build: Path) -> str:
    """Return a line for each kind of results, with the first of them."""
    lines = []
    for title, pattern in _RESULTS.items():
        names = [str(path.relative_to(build)) for path in sorted(build.glob(pattern))]
        if names:
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            lines.append(f"    {title + ':':12s} {', '.join(names[:4])}{more}\n")
    return "".join(lines)
