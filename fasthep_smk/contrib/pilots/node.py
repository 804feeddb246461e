"""A pilot on its node: Parsl's workers, and a fork server that their jobs come from.

``python -m fasthep_smk.contrib.pilots.node SYSTEM ARGUMENT ...`` takes the arguments of Parsl's
``process_worker_pool``, and adds its name, the batch job of that system. All that is left running
ends with it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

from fasthep_smk import sites
from fasthep_smk.run.fork_server import ForkServer
from fasthep_smk.util.processes import die_with_parent

_MANAGER = "fasthep_smk.contrib.pilots.manager"


def main() -> int:
    """Start both, and return the status of Parsl's."""
    here = os.getpid()
    name, *arguments = sys.argv[1:]
    if job := sites.system(name).batch_job():
        # A job that is evicted may start again, while the first one is not yet known to be gone.
        arguments += ["--uid", f"{job}.{secrets.token_hex(4)}"]
    # Each of its jobs asks which batch job it is in.
    server = ForkServer(dict(os.environ), imports=[f"fasthep_smk.sites.{name}"])
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MANAGER, *arguments],
            env={**os.environ, **server.variables},
            pass_fds=server.shared,
            preexec_fn=lambda: die_with_parent(here),
        )
        return process.wait()
    finally:
        server.end()


if __name__ == "__main__":
    sys.exit(main())
