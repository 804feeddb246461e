"""``python -m fasthep_smk.worker RULE [VALUE ...]``: run one job in the build folder.

The exit status is 0 when the job's record is written, else 1; what went wrong stands in the log
and, for the end of the run, in ``smk/failures``.
"""

from __future__ import annotations

import sys

from fasthep_smk.worker.job import main

sys.exit(main(sys.argv[1:]))
