"""Findings about what datasets say: event types nearly right, and files that count twice."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from fasthep_smk.flow.places import datasets_at, mapping, variations_of
from fasthep_smk.util.errors import Finding, is_slip, nearest
from fasthep_smk.util.remote import local_path, same_file
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["dataset_findings"]

_EVENTTYPES = ("data", "mc")
_NUMBERS = ("xs", "n_unskimmed_events", "filter_efficiency")
#: URLs of files as they are written most, and other names of the first.
_USUAL = ("root", "https", "http", "file", "s3")
_XROOTD = ("xrootd", "xroot", "roots", "xrd")
#: The first word of a URL, what stands between it and the rest, and the rest.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+]+)([:;]{1,2}/*|//(?=\w+\.\w+\.\w+/))(.*)")
#: What differs between two datasets that list one file by mistake.
_NO_DIFFERENCE = (
    *("name", "files", "nevents", "group", "xs", "n_unskimmed_events", "filter_efficiency"),
    *("comment", "description"),
)
#: By these, an expression tells which of the events are whose.
_TOLD_APART = re.compile(r"\bdataset_(name|group)\b\s*\S|\S\s*\bdataset_(name|group)\b")
#: Slips of the short word; any other two letters may be an event type of a user's own.
_NEARLY_MC = ("cm", "mcc", "mmc", "nc", "mx", "mv")


def dataset_findings(document: Mapping[str, object], *, workflow: str) -> list[Finding]:
    """Return event types that are slips of the keyboard, files that stand twice, odd values."""
    return [
        *_of_eventtypes(document, workflow),
        *_of_files(document, workflow),
        *_of_values(document, workflow),
        *_of_urls(document, workflow),
    ]


def _of_values(document: Mapping[str, object], workflow: str) -> Iterator[Finding]:
    """Yield numbers that are not finite, and those that a comma has cut."""
    for key, _, content in datasets_at(document):
        for number in _NUMBERS:
            value = content.get(number)
            if isinstance(value, float) and not math.isfinite(value):
                yield Finding(
                    file=workflow,
                    key=f"{key}.{number}",
                    problem="is not a finite number",
                    value=as_yaml(value),
                )
        for path, kind, value in _not_json(content, key):
            yield Finding(
                file=workflow,
                key=path,
                problem=f"YAML reads this as {kind}, which FAST-HEP cannot write",
                value=str(value),
                hint=f"write '{value}', in quotes"
                if isinstance(value, datetime.date)
                else "write texts or lists",
            )
        for odd, value in content.items():
            if str(odd).isdecimal() and value is None:
                yield Finding(
                    file=workflow,
                    key=key,
                    problem=f"holds the key {odd}, without a value",
                    hint="a decimal comma makes two entries of a number: write 1.5, not 1,5",
                )


def _not_json(content: object, key: str) -> Iterator[tuple[str, str, object]]:
    """Yield values that JSON does not have: where they stand, what they are, and themselves."""
    if isinstance(content, dict):
        for name, value in content.items():
            below = f"{key}.{name}"
            yield from _not_json(value, below)
            if isinstance(value, dict) and len({_kind(one) for one in value}) > 1:
                yield below, "a mapping with keys of several kinds", list(value)
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _not_json(value, f"{key}[{number}]")
    elif isinstance(content, datetime.date):  # with a time, too
        yield key, "a date", content
    elif isinstance(content, bytes | set):
        yield key, "binary data" if isinstance(content, bytes) else "a set", content


def _kind(key: object) -> str:
    """Return with what a key can be sorted."""
    return "number" if isinstance(key, int | float) else type(key).__name__


def _of_urls(document: Mapping[str, object], workflow: str) -> Iterator[Finding]:
    """Yield files by a URL that nothing reads, and lists of no file."""
    sources = mapping(document.get("sources")).values()
    of_root = all(mapping(one).get("kind") in (None, "root_tree") for one in sources)
    for key, _, content in datasets_at(document):
        files = content.get("files")
        if files == []:
            expected = "a list with at least one file"
            problem, place = "is empty", f"{key}.files"
            yield Finding(file=workflow, key=place, problem=problem, value="[]", expected=expected)
        for number, file in enumerate(files if isinstance(files, list) and of_root else ()):
            if isinstance(file, str) and (told := _url_problem(file)):
                yield Finding(
                    file=workflow,
                    key=f"{key}.files[{number}]",
                    problem=told[0],
                    value=as_yaml(file),
                    expected=f"a path, or a URL: {', '.join(f'{one}://…' for one in _USUAL)}",
                    hint=told[1],
                )


def _url_problem(file: str) -> tuple[str, str | None] | None:
    """Return what is wrong with the beginning of a URL, and what to write."""
    found = _SCHEME.match(file)
    here = local_path(file)
    if found is None or (here is not None and Path(here).exists()):
        return None
    scheme, slashes, rest = found.groups()
    if scheme.lower() == "file" and slashes.strip("/") == ":":
        path = re.sub(r"^//[^/]*(?=/)", "", file.partition(":")[2]).removeprefix("//")
        if scheme == "file" and ("//" not in slashes or path == here):
            return None  # it is missing, which is said where files are looked at
        taken = f", which is taken for {here!r}" if here else ""
        return f"no reader of files knows {file.removesuffix(path)}{taken}", f"write {path}"
    usual = "root" if scheme.lower() in _XROOTD else scheme.lower()
    if usual not in _USUAL:
        usual = nearest(usual, _USUAL, cutoff=0.7) or ""
    meant = f"write {usual}://{rest}" if usual else None
    if slashes == "://":
        if scheme in _USUAL or _is_known(scheme):
            return None
        if scheme.lower() == "eos":
            meant = "write root://, the server, and //eos/…"
        return f"no reader of files knows {scheme}://", meant
    return ("is no URL: '://' follows its first word", meant) if usual else None


def _is_known(scheme: str) -> bool:
    """Whether a package, perhaps not installed, reads URLs that begin so."""
    import fsspec  # type: ignore[import-untyped]  # takes a moment, and is seldom asked

    return scheme in fsspec.available_protocols()


def _of_eventtypes(document: Mapping[str, object], workflow: str) -> Iterator[Finding]:
    defaults = mapping(mapping(document.get("data")).get("defaults"))
    said = [("data.defaults", defaults.get("eventtype"))]
    said += [(key, content.get("eventtype")) for key, _, content in datasets_at(document)]
    for key, value in said:
        meant = _meant(str(value).strip().lower()) if isinstance(value, str) else None
        if meant is not None:
            yield Finding(
                file=workflow,
                key=f"{key}.eventtype",
                problem="is neither data nor mc: no stage for one of them would see the dataset",
                value=as_yaml(value),
                expected="data or mc, or a word of your own that does not resemble them",
                hint=f"did you mean {meant!r}?",
            )


def _meant(text: str) -> str | None:
    if text in _EVENTTYPES:
        return None
    if text in _NEARLY_MC:
        return "mc"
    return "data" if is_slip(text, "data") else None


def _of_files(document: Mapping[str, object], workflow: str) -> Iterator[Finding]:
    seen: dict[str, tuple[str, dict[str, object]]] = {}
    exchanged = {
        str(one)
        for _, variation in variations_of(document)
        for pair in mapping(mapping(variation.get("datasets")).get("replace")).items()
        for one in pair
    }
    told_apart = any(map(_TOLD_APART.search, _texts(document.get("analysis"))))
    for key, name, content in datasets_at(document):
        own = {key: value for key, value in content.items() if key not in _NO_DIFFERENCE}
        files = content.get("files")
        for number, file in enumerate(files if isinstance(files, list) else ()):
            if not isinstance(file, str):
                continue
            same = same_file(file)
            other, said = seen.get(same, (None, own))
            # By what is said of it, an operation may tell which of the events are whose; of those
            # that variations exchange, one is there.
            same_events = said == own and not {other, name} <= exchanged and not told_apart
            if other is not None and (other == name or same_events):
                yield Finding(
                    file=workflow,
                    key=f"{key}.files[{number}]",
                    problem="the dataset lists this file twice: its events would count twice"
                    if other == name
                    else f"dataset {other!r} lists this file, too: its events would count twice",
                    value=as_yaml(file),
                    expected="each file once",
                    hint=None
                    if other == name
                    else "say how they differ by a key of yours, such as part: low_mass",
                )
            seen[same] = (name, own)


def _texts(content: object) -> Iterator[str]:
    """Yield all texts among the values of a document."""
    left = [content]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one
