"""How many entries input files have, without opening them for each compile.

While it compiles, FAST-HEP opens all files of a dataset that does not say its ``nevents``, one
after the other. How many entries they have is known here already, or found for several at a time.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches import KNOWN_ENTRIES

#: By file and tree.
Entries = Mapping[str, Mapping[str, int]]
#: Takes files and trees; returns ``None`` if one of the files has to be opened.
EntriesOf = Callable[[Sequence[str], Sequence[str]], Entries | None]

#: What FAST-HEP warns of before it opens many files.
_WILL_OPEN = r"\d+ files in \d+ datasets will be opened to read entry counts"


@contextlib.contextmanager
def known_entries(entries_of: EntriesOf, *, quiet: bool) -> Iterator[None]:
    """Let FAST-HEP's compiler ask ``entries_of`` in the block; what it learns is the same.

    What that does not know FAST-HEP finds itself, or says what is wrong with it. ``quiet``: the
    compiler does not warn that it will open files.
    """
    hook = upstream.entries_hook()
    opened = hook._inspect_dataset_files

    def told(dataset: str, listed: list[object], trees: list[str]) -> object:
        names = [str(file) for file in listed]
        entries = entries_of(names, trees)
        if entries is None:
            return opened(dataset, listed, trees)
        return {
            name: {
                "entries": entries[name][trees[0]],
                "by_tree": {tree: entries[name][tree] for tree in trees},
            }
            for name in names
        }

    with warnings.catch_warnings(), KNOWN_ENTRIES.made(hook, _inspect_dataset_files=told):
        if quiet:
            warnings.filterwarnings("ignore", message=_WILL_OPEN)
        yield
