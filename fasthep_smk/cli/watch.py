"""``fasthep-smk watch``: the page on a build folder, served to a browser of this machine."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from html import escape
from pathlib import Path

from fasthep_smk.report.watch import Server
from fasthep_smk.storage.jobs import find_build
from fasthep_smk.util.errors import WrongArgument
from fasthep_smk.util.names import shell
from fasthep_smk.util.scratch import scratch

__all__ = ["watch"]


def watch(folder: Path, *, port: int, browser: bool) -> int:
    """Serve the page until Ctrl-C, and open it where there is a browser.

    Raises:
        WrongArgument: it is no build folder, or the port is taken.
    """
    build = find_build(folder)
    try:
        server = Server(build, port)
    except OSError as error:
        raise WrongArgument.one(
            f"the port cannot be used: {error.strerror or error}",
            key="--port",
            value=str(port),
            hint="without --port, a free one is taken",
        ) from None
    with server, scratch() as private:
        print(f"{server.url}\n    shows {build}; Ctrl-C ends this, not the run", flush=True)
        if "SSH_CONNECTION" in os.environ:
            tunnel = f"{server.server_port}:127.0.0.1:{server.server_port}"
            command = shell(["ssh", "-N", "-L", tunnel, socket.gethostname()])
            print(f"    on your own machine, first: {command}", flush=True)
        if browser and _has_screen():
            _open(server.url, private)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nno longer served", flush=True)
    return 0


def _has_screen() -> bool:
    """Whether a browser has a window here: one for terminals would take this terminal."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(url: str, private: Path) -> None:
    """Open the address by a file that only its user can read: others see the words of a command."""
    path = private / "watch.html"
    path.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}">')
    path.chmod(0o600)
    webbrowser.open(path.as_uri())
