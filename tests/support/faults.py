"""The entries of ``docs/upstream/README.md``: faults of other packages and their workarounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "PAGE", "Entry", "entries"]

FOLDER = Path(__file__).parents[2] / "docs" / "upstream"
PAGE = FOLDER / "README.md"

_PLACE = r"`[^`]+\.py`(?:, `[\w.]+`)+"
#: The last paragraph of an entry, as one line. In a place, functions or classes follow their file.
_LAST = re.compile(
    rf"(?P<places>{_PLACE}(?:; {_PLACE})*) "
    r"\((?P<scripts>\[script\]\([\w-]+\.py\)(?:, \[another\]\([\w-]+\.py\))*)\)\. "
    r"Workaround: (?P<ours>.+)\."
)
#: A row of the table of packages: how places begin, and the package with its version.
_PACKAGE = re.compile(r"^\| `([\w.]+)` \| \[([\w-]+ [\d.]+)\]\(https:.+\) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A fault of another package."""

    section: str
    title: str
    #: The packages and versions that have it.
    seen_with: str
    #: The names of the scripts that show it.
    scripts: tuple[str, ...]
    #: The modules of ours that work around it.
    modules: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """What a link to the entry ends with, as code hosting sites and our site make it."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


def entries() -> Iterator[Entry]:
    """Yield the entries in their order: a title, a paragraph, and where the fault was seen."""
    head, *parts = PAGE.read_text().split("\n## ")
    packages = dict(_PACKAGE.findall(head))
    for part in parts:
        section, _, rest = part.partition("\n")
        for entry in rest.split("\n### ")[1:]:
            title, *paragraphs = entry.strip().split("\n\n")
            last = _LAST.fullmatch(" ".join(paragraphs[-1].split()))
            assert last and len(paragraphs) == 2, f"'{title}' is not in the form of an entry"
            files = re.findall(r"`([^`]+\.py)`", last["places"])
            seen = dict.fromkeys(packages[file.partition("/")[0]] for file in files)
            scripts = tuple(re.findall(r"\(([\w-]+\.py)\)", last["scripts"]))
            modules = tuple(f"fasthep_smk/{one}" for one in re.findall(r"`([^`]+)`", last["ours"]))
            yield Entry(section, title, ", ".join(seen), scripts, modules)
