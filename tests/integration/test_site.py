"""The pages as a site: every link leads somewhere, and every page is in the navigation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def make_site(pages: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / ".ci/make-site"), sys.executable, str(site), str(pages)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_pages_of_this_repository(tmp_path: Path) -> None:
    made = make_site(ROOT, tmp_path)
    assert made.returncode == 0, made.stderr
    assert "docs/index.html" in (tmp_path / "index.html").read_text()
    reference = (tmp_path / "docs/reference.html").read_text()
    assert 'id="hep-hist"' in reference or 'id="hephist"' in reference


#: A line of a page, and what is said of it; nothing if it is right.
LINES = {
    "[a page](other.md)": None,
    "[a part of a page](other.md#second-part)": None,
    "[a file](../code.py)": None,
    "[a page](oter.md)": "oter",
    "[a part of a page](other.md#third-part)": "third-part",
    "[a file](../cod.py)": "cod.py",
    "![a picture](picture.png)": "picture.png",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said of made-up pages with these lines."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "docs").mkdir()
    (folder / "code.py").touch()
    index = "# Index\n\n```{toctree}\nfirst\nother\n```\n"
    pages = {
        "index.md": index,
        "first.md": "# First\n\n" + "".join(f"{line}\n\n" for line in LINES),
        "other.md": "# Other\n\n## Second part\n\nText.\n",
        "alone.md": "# Alone\n\nNobody leads here.\n",
    }
    for name, text in pages.items():
        (folder / "docs" / name).write_text(text)
    made = make_site(folder, folder / "build")
    assert made.returncode != 0
    return made.stderr


@pytest.mark.parametrize("line", LINES)
def test_a_link_that_leads_nowhere(said: str, line: str) -> None:
    found = [
        one for one in said.splitlines() if f"first.md:{3 + 2 * list(LINES).index(line)}:" in one
    ]
    wrong = LINES[line]
    assert bool(found) == bool(wrong), said
    assert all(str(wrong) in one for one in found)


def test_a_page_that_is_not_in_the_navigation(said: str) -> None:
    assert "alone.md: WARNING: document isn't included in any toctree" in said
