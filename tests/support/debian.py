"""A minimal Debian of another release, without Python: a machine that shares nothing with this."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["RELEASE", "DebianUnavailableError", "debian_tree", "in_tree"]

#: Older than the Debian of this machine, so that its C library is too.
RELEASE = "bullseye"
CACHE = Path(os.environ.get("FASTHEP_SMK_TEST_CACHE", Path(__file__).parents[1] / ".cache"))
_APT = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


class DebianUnavailableError(RuntimeError):
    """There is no such tree, and it cannot be made here."""


def debian_tree() -> Path:
    """Folder of the tree; made at most once per cache."""
    if os.geteuid() != 0:
        raise DebianUnavailableError("this is not root")
    tree = CACHE / f"debian-{RELEASE}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"debian-{RELEASE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.is_dir():
            _make(tree)
    return tree


def in_tree(tree: Path, folder: Path, *command: str, user: int = 1234) -> list[str]:
    """Return the command that runs another in the tree, as a user without a home.

    ``folder`` is /outside there, and nothing else of this machine is to be seen. There are no
    variables, not even PATH.
    """
    script = (
        'mount -t tmpfs tmpfs "$1/mnt" && mkdir "$1/mnt/root" "$1/mnt/up" "$1/mnt/own" && '
        'mount -t overlay -o "lowerdir=$1,upperdir=$1/mnt/up,workdir=$1/mnt/own" overlay '
        '"$1/mnt/root" && '
        'cd "$1/mnt/root" && mkdir -p outside && mount --bind "$2" outside && '
        "mount -t proc proc proc && mount --bind /dev/null dev/null && user=$3 && shift 3 && "
        'chroot=$(command -v chroot) && exec env -i "$chroot" --userspec="$user:$user" . "$@"'
    )
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    return [*unshare, str(tree), str(folder), str(user), *command]


def _make(tree: Path) -> None:
    new = tree.with_name(f"{tree.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    if shutil.which("debootstrap") is None:
        _call("apt-get", "install", "-y", "debootstrap")
    mirror = _mirror()
    if not mirror:
        _call("apt-get", "update")
        mirror = _mirror()
    if not mirror:
        raise DebianUnavailableError("apt names no mirror of Debian")
    _call("debootstrap", "--variant=minbase", RELEASE, str(new), mirror)
    new.rename(tree)


def _mirror() -> str:
    """The mirror that apt uses here, as tests/clusters/htcondor.sh finds it."""
    which = ("Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout.split() or [""])[0]


def _call(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=_APT)
    except OSError as error:
        raise DebianUnavailableError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise DebianUnavailableError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-500:]}")
