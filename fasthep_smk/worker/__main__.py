"""``python -m fasthep_smk.worker RULE [VALUE ...]``: run one job in the build folder.

The exit status is 0 when the job's record is written, else 1; what went wrong stands in the log
and, for the end of the run, in ``smk/failures``.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from fasthep_smk.worker.job_end import End, end_python, guard


def _note(end: End) -> None:
    from fasthep_smk.worker.runner import note_end

    note_end(Path.cwd(), sys.argv[1:], end)


guard(_note)  # before anything is imported: it waits, and needs little memory

from fasthep_smk.util.ownership import close_new_files  # noqa: E402
from fasthep_smk.worker.processes import exit_status  # noqa: E402
from fasthep_smk.worker.runner import run  # noqa: E402

close_new_files()  # a node may not know the umask of the run
signal.signal(signal.SIGINT, signal.default_int_handler)
end_python(exit_status(lambda: run(sys.argv[1:])[0]))
