"""``python -m fasthep_smk``: the same as the ``fasthep-smk`` command."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; return the exit status. Before and after, Ctrl-C ends it silently."""
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fasthep_smk.cli.main import main as command

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return command()
    finally:
        if hears:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
