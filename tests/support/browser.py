"""A page as Chromium shows it, without a screen: what is in it then, what it said and asked for."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.programs import program

__all__ = ["Shown", "measured", "show"]

#: What the browser would ask for by itself.
_QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--no-first-run", "--no-pings",
)  # fmt: skip


class Shown(NamedTuple):
    """The document when its scripts have run, lines of the console, URLs that were asked for."""

    document: str
    console: list[str]
    requests: list[str]


def show(
    page: Path | str, folder: Path, *, width: int = 1200, picture: Path | None = None
) -> Shown:
    """Open a page by its path or address.

    ``folder`` is for what the browser writes, ``picture`` for how it looks.
    """
    log = folder / "net.json"
    command = [
        program("chromium"),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        *_QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        f"--window-size={width},2000",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
        *([f"--screenshot={picture}"] if picture else ["--dump-dom"]),
        page.as_uri() if isinstance(page, Path) else page,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Shown(done.stdout, console, _requests(json.loads(log.read_text())))


#: A page in a frame of some width, which says what of it reaches beyond, and what is no picture.
_FRAME = """<iframe style="width:%dpx; height:900px; border:0"></iframe><pre></pre><script>
const frame = document.querySelector("iframe");
frame.onload = () => setTimeout(() => {
  const page = frame.contentDocument, wide = page.documentElement.clientWidth;
  for (const one of page.querySelectorAll("details")) one.open = true;
  const all = [...page.body.querySelectorAll("*")];
  const beyond = all.filter((one) => one.getBoundingClientRect().right > wide + 1);
  document.querySelector("pre").textContent = JSON.stringify({
    wide, elements: all.length, scrolled: page.documentElement.scrollWidth,
    beyond: beyond.map((one) => one.outerHTML.slice(0, 200)),
    pictures: [...page.images].map((one) => one.naturalWidth),
    drawings: [...page.querySelectorAll("figure > svg")].map((one) => one.clientWidth),
  });
}, 500);
frame.srcdoc = %s;
</script>"""


def measured(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """Return what is in a page in a window of this width, with all its parts open.

    ``beyond`` are the elements that do not end in it, ``pictures`` the widths of pictures as their
    files have them, 0 for what is none; ``drawings`` are those of histograms, on the screen.
    """
    text = json.dumps(page.read_text()).replace("<", "\\u003c")
    frame = folder / "frame.html"
    frame.write_text(_FRAME % (width, text))
    shown = show(frame, folder).document
    found: dict[str, Any] = json.loads(unescape(shown.partition("<pre>")[2].partition("</pre>")[0]))
    return found


def _requests(log: dict[str, Any]) -> list[str]:
    """Return the URLs that a page has asked for, by the browser's own log of its network.

    What the browser asks for by itself has no origin.
    """
    told = [event["params"] for event in log["events"] if isinstance(event.get("params"), dict)]
    of_pages = [one for one in told if one.get("initiator", "not an origin") != "not an origin"]
    return sorted({one["url"] for one in of_pages if re.match(r"(https?|wss?|ftp):", one["url"])})
