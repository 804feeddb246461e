"""What the reader of YAML says of a file that is none, in words that tell what to change."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from fasthep_smk.util.errors import Finding, Findings
from fasthep_smk.util.names import shell

#: What it says -> what is wrong, and what to do.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"found character '\\t' that cannot start",
        "a tab is used where YAML allows only spaces",
        "indent with spaces",
    ),
    (
        r"mapping values are not allowed",
        "YAML does not allow a ':' here",
        "put quotes around a text that has a ': ', and align a key with its neighbours",
    ),
    (
        r"expected <block end>|could not find expected ':'",
        "the line does not fit the lines above it",
        "indent it as far as the lines that it belongs to; each key needs a ':'",
    ),
    (
        r"while scanning a quoted scalar",
        "a quote is not closed",
        "close the quote, or write the text without quotes",
    ),
    (
        r"expected ',' or|while parsing a flow",
        "a bracket is not closed, or a comma is missing",
        "look for the [ or { before it; put quotes around a text that has a ':'",
    ),
    (r"undefined alias", "the anchor after * is not defined", "define it: write & before its name"),
    (
        r"found duplicate anchor",
        "two anchors have the same name",
        "give one of them another name",
    ),
    (
        r"could not determine a constructor for the tag",
        "tags (words with !) are not allowed",
        "leave out the word that begins with !, or put the text into quotes",
    ),
    (r"another document", "a second document begins", "leave out the ---"),
    (
        r"character '[@`%]' that cannot start",
        "a text that begins with this character needs quotes",
        "put quotes around it",
    ),
)


def unreadable(path: Path, error: Exception) -> Findings:
    """Return what was raised while a file was read as one message."""
    if isinstance(error, yaml.MarkedYAMLError):
        return Findings([_yaml_finding(path, error)])
    if isinstance(error, yaml.YAMLError | UnicodeDecodeError):
        return Findings([_text_finding(path)])
    if isinstance(error, IsADirectoryError):
        problem = "is a folder, not a file"
        return Findings.one(problem, file=str(path), expected="a YAML file")
    if isinstance(error, RecursionError):
        return Findings.one("is nested too deeply to be read", file=str(path))
    reason = getattr(error, "strerror", None) or error  # or a date that is none
    return Findings.one(f"cannot be read: {reason}", file=str(path))


def _yaml_finding(path: Path, error: yaml.MarkedYAMLError) -> Finding:
    """Return what is wrong with a file, or with one that it includes, and in which line."""
    mark = error.problem_mark or error.context_mark
    file = str(path)
    if mark and (named := Path(str(mark.name))).exists() and named.resolve() != path.resolve():
        file = str(named)
    message = " ".join(str(part) for part in (error.context, error.problem) if part)
    matches = (words for pattern, *words in _KNOWN if re.search(pattern, message))
    problem, hint = next(matches, (f"({message})", "look for quotes and brackets around that line"))
    return Finding(
        file=file,
        problem=f"is not valid YAML: {problem}",
        at=f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else None,
        hint=hint,
    )


def _text_finding(file: Path) -> Finding:
    """Return in which line a file holds what is not text to YAML: another encoding, odd characters.

    A byte-order mark, and the line ends of other systems, are taken.
    """
    content = file.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Finding(
            file=str(file),
            problem="is UTF-16, not UTF-8 text",
            at=f"{file}, line 1",
            expected="UTF-8 text",
            hint=f"iconv -f UTF-16 -t UTF-8 {shell([file])}",
        )
    start, problem, hint = 0, "", None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        start, byte = error.start, chr(content[error.start])
        shown = f" ({byte!r} in Latin-1)" if byte.isprintable() else ""
        problem = f"holds a byte that is not UTF-8 text: 0x{ord(byte):02X}{shown}"
        hint = f"iconv -f ISO-8859-1 -t UTF-8 {shell([file])}, if the file is in Latin-1"
    else:
        odd = yaml.reader.Reader.NON_PRINTABLE.search(text)
        start = len(text[: odd.start()].encode()) if odd else 0
        problem = (
            f"holds a character that YAML does not allow: U+{ord(odd[0]):04X}"
            if odd
            else "is not YAML"
        )
        hint = "delete it" if odd else None
    line = content.count(b"\n", 0, start) + 1
    return Finding(
        file=str(file),
        problem=problem,
        at=f"{file}, line {line}",
        expected="UTF-8 text",
        hint=hint,
    )
