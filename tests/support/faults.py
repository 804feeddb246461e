"""The entries of ``docs/upstream/README.md``: faults of other packages and their workarounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "PAGE", "Entry", "entries"]

FOLDER = Path(__file__).parents[2] / "docs" / "upstream"
PAGE = FOLDER / "README.md"

#: The last paragraph of an entry, as one line. In a place, a function or class follows its file.
_SEEN = re.compile(
    r"Seen with (?P<seen_with>[\w-]+ \d[\w.]*(?:, [\w-]+ \d[\w.]*)*): "
    r"`[^`]+\.py`, `[^`]+`(?:; `[^`]+\.py`, `[^`]+`)* "
    r"\(\[script\]\((?P<script>[\w-]+\.py)\)\)\. "
    r"Workaround: (?P<workaround>.+?)(?:, until (?P<until>.+))?\."
)


@dataclass(frozen=True)
class Entry:
    """A fault of another package."""

    section: str
    title: str
    #: The packages and versions that have it.
    seen_with: str
    #: The name of the script that shows it.
    script: str
    #: The modules of ours that work around it, and until when they have to.
    modules: tuple[str, ...]
    until: str

    @property
    def anchor(self) -> str:
        """What a link to the entry ends with, as code hosting sites and our site make it."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


def entries() -> Iterator[Entry]:
    """Yield the entries in their order: a title, a paragraph, and where the fault was seen."""
    for part in PAGE.read_text().split("\n## ")[1:]:
        section, _, rest = part.partition("\n")
        for entry in rest.split("\n### ")[1:]:
            title, *paragraphs = entry.strip().split("\n\n")
            found = _SEEN.fullmatch(" ".join(paragraphs[-1].split()))
            assert found and len(paragraphs) == 2, f"'{title}' is not in the form of an entry"
            modules = tuple(re.findall(r"`(fasthep_smk/[^`]+)`", found["workaround"]))
            until = found["until"] or "a release has the fix"
            yield Entry(section, title, found["seen_with"], found["script"], modules, until)
