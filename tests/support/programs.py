"""Programs of packages: on Debian, as root, installed when a test needs them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.clusters.conftest import not_had

__all__ = ["program"]


def program(name: str, package: str | None = None) -> str:
    """Return the path of a program, whose package is installed if it is missing."""
    if (found := shutil.which(name)) is None:
        problem = _install(name, package or name)
        found = shutil.which(name)
        if found is None:
            not_had(name, problem)
    return found


def _install(name: str, package: str) -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "it is installed only by root on Debian"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Clusters that start at the same time install theirs under the same lock.
    with Path("/tmp/fasthep-smk-test-programs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = None
        for command in (
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", package],
            ["apt-get", "update", "-q"],
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", package],
        ):
            if shutil.which(name) is None:
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return (done.stderr.strip().splitlines() or ["?"])[-1] if done else ""
