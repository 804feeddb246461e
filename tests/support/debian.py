"""A minimal Debian of another release, without Python: a machine that shares nothing with this."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["RELEASE", "DebianUnavailableError", "debian_tree", "in_tree"]

#: Older than the Debian of this machine, so that its C library is too.
RELEASE = "bullseye"
CACHE = Path(os.environ.get("FASTHEP_SMK_TEST_CACHE", Path(__file__).parents[1] / ".cache"))
#: What a shell script of a packed environment, and the tests themselves, call there.
_PACKAGES = (
    "base-files", "base-passwd", "coreutils", "dash", "grep", "gzip", "libc-bin", "sed", "tar",
    "util-linux",
)  # fmt: skip


class DebianUnavailableError(RuntimeError):
    """There is no such tree, and it cannot be made here."""


def debian_tree(release: str = RELEASE) -> Path:
    """Folder of the tree; made at most once per cache."""
    if os.geteuid() != 0:
        raise DebianUnavailableError("this is not root")
    tree = CACHE / f"debian-{release}"
    command = [Path(__file__).with_name("debian.sh"), release, tree, *_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise DebianUnavailableError(f"debian.sh: {(done.stdout + done.stderr)[-500:]}")
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
