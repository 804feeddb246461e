"""``python -m tests.benchmarks [CASE ...]``: measure, print tables, write them to a file."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from .cases import CASES, LONG
from .measure import Failed
from .report import document, pairs, text
from .steps import Settings


def main() -> int:
    """Run the cases; return 1 if one of them failed. A figure that is not reached is no failure."""
    options = _parser().parse_args()
    results, failed, paired = [], False, False
    parent = options.folder or Path(tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for name in options.cases or CASES:
        print(f"{name}:", file=sys.stderr)
        folder = Path(tempfile.mkdtemp(prefix=f"fasthep-smk-{name}-", dir=parent.resolve()))
        try:
            other = str(options.other.absolute()) if options.other else None
            settings = Settings(
                folder,
                options.repeats,
                options.events,
                options.files,
                other,
                traces=options.traces,
            )
            results.append({**CASES, **LONG}[name](settings))
            told = pairs(name, settings.pairs) if settings.pairs else text(results[-1])
            paired |= bool(settings.pairs)
            print(told, flush=True)
        except Failed as error:
            failed = True
            print(f"{name} failed: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.write and not failed and not paired:
        page = options.write.read_text(encoding="utf-8") if options.write.exists() else ""
        made = document(results, repeats=options.repeats, page=page)
        options.write.write_text(made, encoding="utf-8")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        choices=[*CASES, *LONG, []],
        help=f"{', '.join(CASES)}; not without being asked: {', '.join(LONG)}",
    )
    parser.add_argument("--repeats", type=_positive, default=5, help="default: 5")
    parser.add_argument("--events", type=_positive, default=10_000_000, help="default: 10 million")
    parser.add_argument("--files", type=_positive, default=10_000, help="of the case scale")
    parser.add_argument("--folder", type=Path, help="where builds go (default: temporary files)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put all tables into this page")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="clones, of the case sizes")
    parser.add_argument(
        "--other",
        type=Path,
        metavar="PYTHON",
        help="compare with the installation of another version of this package: its Python",
    )
    return parser  # fmt: skip


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(f"{number} is not positive")
    return number


if __name__ == "__main__":
    sys.exit(main())
