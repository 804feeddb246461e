"""What commands have in common that take the steps of a run up to one of them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from fasthep_smk.cli.values import settings_of
from fasthep_smk.run import pipeline
from fasthep_smk.run.lock import look
from fasthep_smk.storage.image import make_image
from fasthep_smk.storage.outdir import build_folder
from fasthep_smk.translate.translation import Placed, Start, Translation
from fasthep_smk.util.scratch import scratch


def begin(options: argparse.Namespace, build: Path, aside: Path) -> Start:
    """Return what the steps of a command begin with."""
    return Start(settings=settings_of(options), root=Path.cwd(), build=build, aside=aside)


@contextlib.contextmanager
def placed(options: argparse.Namespace) -> Iterator[Placed]:
    """Take the steps before anything is written; leave no file behind."""
    with scratch() as folder:
        start = begin(options, folder / "build", folder / "aside")
        yield pipeline.placed(pipeline.load(start))


@contextlib.contextmanager
def imagined(options: argparse.Namespace) -> Iterator[Translation]:
    """Translate in an image of the build folder, which lasts for the block."""
    build = build_folder(options.outdir)
    look(build)
    with placed(options) as planned:
        make_image(build, planned.build)
        yield pipeline.accepted(planned)
