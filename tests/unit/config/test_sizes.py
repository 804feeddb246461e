"""A file of sizes: what it may say, and which rules take it."""

from pathlib import Path

import pytest

from fasthep_smk.config.sizes import Size, entry_of, read_sizes, unknown_names
from fasthep_smk.util.errors import Findings, WrongArgument


def said(folder: Path, text: str) -> Path:
    path = folder / "sizes.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def size(*stages: str, pool: str = "default", scope: str = "partition", memory: int = 1) -> Size:
    return Size(stages=stages, pool=pool, scope=scope, memory=memory)


def test_a_file_says_amounts_as_a_workflow_does(tmp_path: Path) -> None:
    path = said(
        tmp_path,
        """\
sizes:
- stages: [Cuts, Met]
  pool: default
  ask: {memory: 1.5GB, walltime: 20m}
  measured: {jobs: 3, memory: {most: 1200MB}}
- {stages: [Plot], scope: finish, pool: big}
""",
    )
    cuts, plot = read_sizes(path)
    assert (cuts.stages, cuts.scope, cuts.pool) == (("Cuts", "Met"), "partition", "default")
    assert (cuts.memory, cuts.walltime) == (1_500_000_000, 1200)
    assert (plot.scope, plot.memory, plot.walltime) == ("finish", None, None)
    assert cuts.place("ask.memory") == f"{path}: sizes[0].ask.memory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "sizes.yaml: is a list\n    found: []\n    expected: a mapping with sizes"),
        (
            "sizes:\n- {stages: [A], pool: p, ask: {memory: 1GB, memory: 9GB}}",
            "sizes.yaml: memory: appears twice in one mapping: only the last one would count\n"
            "    at: sizes.yaml, lines 2 and 2\n    expected: each key once",
        ),
        (
            "sizes:\n- {stages: [A], pool: p\n",
            "sizes.yaml: is not valid YAML: while parsing a flow mapping, expected ',' or '}', but "
            "got '<stream end>'\n    at: sizes.yaml, line 3, column 1\n    hint: look for quotes",
        ),
        ("sizes: []\nsize: []", "sizes.yaml: size: unknown key\n    expected: sizes"),
        (
            "sizes: [{stages: [A], pool: p, asks: {memory: 1GB}}]",
            "sizes.yaml: sizes[0].asks: unknown key\n"
            "    expected: stages, scope, pool, ask, measured\n"
            "    hint: did you mean 'ask'?",
        ),
        (
            "sizes: [{stages: [A]}]",
            "sizes.yaml: sizes[0].pool: is missing\n    expected: the pool that the jobs ran in",
        ),
        (
            "sizes: [{stages: [A], pool: p, ask: {memory: 1 gigabyte}}]",
            "sizes.yaml: sizes[0].ask.memory: is not a valid value\n    found: '1 gigabyte'\n"
            "    expected: a number with a unit, such as 4GB or 4GiB; the units are",
        ),
        (
            "sizes: [{stages: [A, B], pool: p}, {stages: [B, A], pool: p}]",
            "sizes.yaml: sizes[1]: repeats what sizes[0] sets for the same jobs",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(Findings) as error:
        read_sizes(said(tmp_path, text))
    shown = "\n".join(map(str, error.value.findings)).replace(f"{tmp_path}/", "")
    assert shown.startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WrongArgument, match="there is no such file"):
        read_sizes(tmp_path / "sizes.yaml")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = said(tmp_path, "")
    path.write_bytes("sizes: []\n# été\n".encode("latin-1"))
    with pytest.raises(Findings, match=r"sizes\.yaml, line 2\n    expected: UTF-8 text"):
        read_sizes(path)


def test_a_stage_that_the_workflow_lacks_is_told_with_the_nearest() -> None:
    (stage, pool) = unknown_names(
        [Size(stages=("Cut",), pool="larg", file="sizes.yaml", key="sizes[0]")],
        stages=["Cuts", "Met"],
        pools=["default", "large"],
    )
    assert str(stage).splitlines() == [
        "sizes.yaml: sizes[0].stages[0]: the workflow has no such stage",
        "    found: 'Cut'",
        "    expected: Cuts or Met",
        "    hint: did you mean 'Cuts'?",
    ]
    assert "sizes[0].pool: the workflow has no pool of this name" in str(pool)


def test_a_rule_takes_the_entry_of_its_stages_scope_and_pool() -> None:
    sizes = [size("A", "B"), size("A", "B", scope="merge"), size("A", "B", pool="big"), size("A")]
    assert entry_of(sizes, scope="partition", stages=["B", "A"], pool="default") == [sizes[0]]
    assert entry_of(sizes, scope="merge", stages=["A", "B"], pool="default") == [sizes[1]]
    assert not entry_of(sizes, scope="partition", stages=["C"], pool="default")


def test_a_rule_that_has_got_another_stage_takes_what_was_measured_of_the_others() -> None:
    sizes = [size("A", "B"), size("C"), size("D", "E")]
    assert entry_of(sizes, scope="partition", stages=["A", "B", "C", "new"], pool="default") == [
        sizes[0],
        sizes[1],
    ]
