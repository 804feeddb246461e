"""Whether a job's input files and sources are still those that it was planned with.

A job whose inputs have changed must not count: its signature speaks of the earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fasthep_smk.flow.named_files import NamedFiles
from fasthep_smk.storage.inputs import identity_of
from fasthep_smk.storage.observed import written as written_files
from fasthep_smk.util.errors import SmkError
from fasthep_smk.worker.job import WorkerJob
from fasthep_smk.worker.refused import SENT


class Changed(SmkError):
    """A file is not what the job was planned with; ``fix`` is for those that change each time.

    ``failed`` is the error of a job that may have read half of a file.
    """

    fix = (
        "'fasthep-smk translate' plans the job with the edited file. If an operation writes the "
        "file, list the file under smk: {ignore_reads: [...]}"
    )

    def __init__(self, files: Iterable[str], *, failed: BaseException | None = None) -> None:
        names = list(dict.fromkeys(files))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        effect = "the results of the job are not used"
        if failed is not None:
            effect = f"this may be why the job failed: {type(failed).__name__}: {failed}"
        super().__init__(f"{names[0]}{more} changed during the run: {effect}")


def check_files(
    job: WorkerJob, named: NamedFiles, *, modules: bool, written: Collection[str] = ()
) -> None:
    """Compare a job's input files, and the files that its signature knows, with the plan.

    Relative paths start in the current folder. Without ``modules``, Python files are left to
    :func:`check_modules`: one that is edited after it was imported changes nothing. What the job
    has ``written`` itself does not count.

    Raises:
        Changed: a file is another one.
    """
    if os.environ.get(SENT):
        return  # what a job is sent was looked at when it was sent; times are others here
    changed = [
        path for path, identity in job.entry.files.items() if identity_of(path, Path()) != identity
    ]
    others = [
        path
        for path, (identity, *stat) in job.table.sources.items()
        if (modules or not path.endswith(".py"))
        and not _is_same(path, identity, stat, named)
        and not any(f"{file}/".startswith(f"{path}/") for file in written)
    ]
    if others:  # the content of a folder counts but for what jobs have written into it
        named = named.knowing(written_files(job.build, named.roots[0]))
        sources = job.table.sources
        changed += [path for path in others if named.identity_now(path) != sources[path][0]]
    if changed:
        raise Changed(changed)


def check_modules(job: WorkerJob, sources: Mapping[str, str]) -> None:
    """Compare the modules that a job has run, digests by their real paths, with the plan.

    Raises:
        Changed: the source of one is another.
    """
    planned = {os.path.realpath(path): source[0] for path, source in job.table.sources.items()}
    changed = [path for path, digest in sources.items() if planned.get(path, digest) != digest]
    if changed:
        raise Changed(changed)


def _is_same(path: str, identity: str | None, stat: list[int], named: NamedFiles) -> bool:
    try:
        status = Path(path).stat()
    except OSError:
        return identity is None
    return [status.st_size, status.st_mtime_ns] == stat or named.identity_now(path) == identity
