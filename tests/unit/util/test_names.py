"""Free text becomes names that mean the same to Python, Snakemake, a shell and a file system."""

from __future__ import annotations

import ast
import keyword
import re
import subprocess
from pathlib import Path

import pytest
from snakemake.pathvars import Pathvars

from fasthep_smk.util.names import comment, encode, is_plain, literal, shell

HOSTILE = [
    "two words",
    "single'quote",
    'double"quote',
    "$HOME",
    "$(touch CANARY)",
    "`touch CANARY`",
    "a; touch CANARY",
    "a && touch CANARY",
    "a | touch CANARY",
    "a > CANARY",
    "{}",
    "{dataset}",
    "{{x}}",
    "%s",
    "new\nline",
    "tab\tbed",
    "nul\0byte",
    "back\\slash",
    "日本語",
    "🎉",
    "é",
    "e\u0301",
    "\udcff",
    "-rf",
    "--help",
    ".hidden",
    "..",
    "../up",
    "/etc/passwd",
    "a/b",
    "~",
    "*",
    "[ab]",
    "#comment",
    "<results>",
    "a<<word>>",
    "x" * 61,
    "x" * 200,
    "",
    " ",
    "_",
]


@pytest.mark.parametrize("name", ["DiMuonMass", "dy", "x", "A_1", "mc2018", "a_b", "0"])
def test_a_plain_name_stays_readable(name: str) -> None:
    assert encode(name) == name


@pytest.mark.parametrize("text", HOSTILE)
def test_any_other_text_becomes_letters_digits_and_underscores(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]{1,60}", encode(text))
    assert encode(text) == encode(text)


def test_what_is_left_of_a_text_can_be_recognised() -> None:
    assert re.fullmatch(r"two_words_x[0-9a-f]{10}", encode("two words"))
    assert re.fullmatch(r"x[0-9a-f]{10}", encode("日本語"))


def test_different_texts_have_different_names() -> None:
    texts = [*HOSTILE, "a b", "a_b", "a-b", "a.b", "a  b", "A b", " a b", "x" * 60, "x" * 201]
    assert len({encode(text) for text in texts}) == len(texts)


def test_a_text_that_looks_like_an_encoded_one_does_not_meet_it() -> None:
    impostor = encode("two words")
    assert encode(impostor) != impostor
    assert encode(encode(impostor)) not in (impostor, encode(impostor))


@pytest.mark.parametrize("name", ["all", "All", "con", "NUL", "aux"])
def test_names_that_others_have_taken_are_not_used(name: str) -> None:
    assert encode(name) != name


@pytest.mark.parametrize("word", keyword.kwlist)
def test_a_rule_name_made_with_a_prefix_is_never_a_keyword(word: str) -> None:
    assert not keyword.iskeyword(f"stage_{encode(word)}")
    assert f"stage_{encode(word)}".isidentifier()


@pytest.mark.parametrize("word", [text for text in HOSTILE if "\0" not in text])
def test_a_shell_gets_each_word_with_its_exact_value(word: str) -> None:
    command = shell(["printf", "%s|", word, Path("last one")])
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stdout == b"|".join(
        [word.encode("utf-8", "surrogateescape"), str(Path("last one")).encode(), b""]
    )


@pytest.mark.parametrize("value", [*HOSTILE, 0, -3, 10**20])
def test_a_literal_has_the_value_it_was_made_of(value: str | int) -> None:
    text = literal(value)
    assert ast.literal_eval(text) == value
    assert "\n" not in text


def test_a_literal_is_in_double_quotes() -> None:
    assert literal("it's") == '"it\'s"'


@pytest.mark.parametrize("text", [*HOSTILE, '"""', "a\u2028b", "\x1b[31m", "\u202eltr"])
def test_a_comment_cannot_end_its_line_or_docstring(text: str) -> None:
    shown = comment(text)
    assert len(shown) <= 80
    assert shown == "" or shown.isprintable()
    assert not set(shown) & set('"\\{}')
    assert ast.literal_eval(f'"""{shown} """') == f"{shown} "


def test_a_long_comment_is_cut() -> None:
    assert comment("x" * 80) == "x" * 80
    assert comment("x" * 81) == "x" * 77 + "..."


@pytest.mark.parametrize("path", ["a<b", "<", "<>", "a<B>", "<1>", "<two words>", "$HOME/~", "%s"])
def test_a_path_that_snakemake_takes_as_it_is(path: str) -> None:
    """Snakemake itself says so."""
    assert is_plain(path)
    assert Pathvars.with_defaults().apply(path) == path


@pytest.mark.parametrize("path", ["{x}", "{", "a<results>.root", "<word>", "<<a_1>>", "<b<c>>"])
def test_a_path_that_snakemake_would_fill_in(path: str) -> None:
    assert not is_plain(path)
