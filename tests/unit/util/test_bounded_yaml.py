"""YAML that would hold up whoever reads it is refused at once; ordinary aliases work as ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.site import load_site
from fasthep_smk.flow.compile import load_with_digests
from fasthep_smk.flow.overlay import profile_sections
from fasthep_smk.util.bounded_yaml import check, load
from fasthep_smk.util.errors import Findings


def laughs(line: Callable[[int], str], count: int) -> str:
    return "\n".join(["a0: &a0 {k: x}", *(line(i) for i in range(1, count)), ""])


ALIASES, DEEP, LARGE = "holds too many values", "is nested too deeply", "is too large"
ATTACKS = {
    "lists of lists": (laughs(lambda i: f"a{i}: &a{i} [{f'*a{i - 1}, ' * 10}]", 12), ALIASES),
    "mappings": (laughs(lambda i: f"a{i}: &a{i} {{a: *a{i - 1}, b: *a{i - 1}}}", 50), ALIASES),
    "merged": (laughs(lambda i: f"a{i}: &a{i} {{<<: [{f'*a{i - 1}, ' * 10}]}}", 12), ALIASES),
    "a long text": (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 1000}]\n", ALIASES),
    "plain values": (f"a: [{'x,' * 600_000}]\n", ALIASES),
    "a staircase": (laughs(lambda i: f"a{i}: &a{i} [*a{i - 1}]", 2000), DEEP),
    "brackets": ("a: " + "[" * 10_000 + "]" * 10_000, DEEP),
    "open brackets": ("a: " + "[" * 10_000, DEEP),
    "braces": ("a: " + "{a: " * 10_000 + "}" * 10_000, DEEP),
    "dashes": ("- " * 10_000 + "x", DEEP),
    "indentation": ("\n".join(" " * i + "a:" for i in range(2_000)), DEEP),
    "what is broken": ("a: [\tb\n - \t" + "[" * 10_000, None),
    "a huge file": ("# much\n" * 3_000_000, LARGE),
}


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest) -> Iterator[tuple[str, str | None]]:
    start = time.process_time()
    yield ATTACKS[request.param]
    assert time.process_time() - start < 10  # mostly for libyaml to count half a million values


def said(error: pytest.ExceptionInfo[Findings], path: Path, problem: str | None) -> None:
    (found,) = error.value.findings
    assert found.file == str(path)
    assert "recursion" not in str(found)
    assert problem is None or found.problem == problem
    assert problem in (None, LARGE) or str(found.key).startswith("line ")


def test_a_workflow(tmp_path: Path, attack: tuple[str, str | None]) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(attack[0], encoding="utf-8")
    with pytest.raises(Findings) as error:
        load_with_digests(path)
    said(error, path, attack[1])


@pytest.mark.parametrize("kind", ["merged", "brackets", "a huge file"])
def test_an_included_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "part.yaml").write_text(ATTACKS[kind][0], encoding="utf-8")
    (tmp_path / "workflow.yaml").write_text("include: part.yaml\n", encoding="utf-8")
    with pytest.raises(Findings) as error:
        load_with_digests(tmp_path / "workflow.yaml")
    said(error, tmp_path / "part.yaml", ATTACKS[kind][1])


@pytest.mark.parametrize("kind", ["merged", "brackets", "a huge file"])
@pytest.mark.parametrize("name", ["pools.yaml", "config.yaml"])
def test_a_site(tmp_path: Path, kind: str, name: str) -> None:
    (tmp_path / name).write_text(ATTACKS[kind][0], encoding="utf-8")
    with pytest.raises(Findings) as error:
        load_site(str(tmp_path), "local", workflow="workflow.yaml")
    said(error, tmp_path / name, ATTACKS[kind][1])


def test_a_profile_of_the_workflow(tmp_path: Path) -> None:
    folder = tmp_path / ".hepflow" / "profiles"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text(ATTACKS["brackets"][0], encoding="utf-8")
    workflow = tmp_path / "workflow.yaml"
    with pytest.raises(Findings, match=f"a profile that {workflow} uses: line 1.*{DEEP}"):
        profile_sections({"use": {"profiles": ["own"]}}, workflow, tmp_path)


def test_files_that_include_one_another_twice(tmp_path: Path) -> None:
    for number in range(30):
        name = "workflow.yaml" if number == 0 else f"part{number}.yaml"
        text = f"include: [part{number + 1}.yaml, part{number + 1}.yaml]\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "part30.yaml").write_text("a: 1\n", encoding="utf-8")
    with pytest.raises(Findings, match="more than 1000 files are read"):
        load_with_digests(tmp_path / "workflow.yaml")


def ordinary() -> str:
    names = [f"root://host.cern.ch//store/user/me/data/file_{i:05}.root" for i in range(3_000)]
    lines = [
        "x-files: &files",
        *(f"  - {name}" for name in names),
        "x-defaults: &defaults {eventtype: mc, meta: {xsec: 1.5, tags: [a, b]}}",
        "data:",
        "  datasets:",
        *(f"    - {{<<: *defaults, name: d{i}, files: *files}}" for i in range(50)),
    ]
    return "\n".join(lines) + "\n"


def test_anchors_and_aliases_work_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text(ordinary(), encoding="utf-8")
    expected: dict[str, Any] = yaml.safe_load(ordinary())
    found = load_with_digests(path)[0]
    assert found == load(path) == expected
    datasets = found["data"]["datasets"]
    assert datasets[0]["files"] is datasets[49]["files"]
    assert datasets[7]["eventtype"] == "mc"


def test_a_text_that_is_no_yaml_is_refused_by_pyyaml(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text("a: [1\nb: }\n", encoding="utf-8")
    with pytest.raises(yaml.YAMLError):
        load(path)


def test_looking_first_takes_little_of_the_time() -> None:
    text = ordinary()
    start = time.process_time()
    yaml.safe_load(text)
    reading = time.process_time() - start
    start = time.process_time()
    check(text, "workflow.yaml")
    assert time.process_time() - start < reading / 2


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028"])
@pytest.mark.parametrize("level", ["{0}a:", "{0}-", "{0}?", "{0}- - -"])
def test_deep_blocks_are_seen_however_lines_end(level: str, end: str) -> None:
    text = end.join(level.format(" " * (6 * number)) for number in range(120))
    with pytest.raises(Findings, match="is nested too deeply"):
        check(text, "deep.yaml")


def test_deep_blocks_on_one_line_are_seen() -> None:
    with pytest.raises(Findings, match="is nested too deeply"):
        check("- " * 150 + "a", "deep.yaml")
    with pytest.raises(Findings, match="is nested too deeply"):
        check("[" * 150 + "]" * 150, "deep.yaml")


def test_what_a_text_begins_with_hides_nothing() -> None:
    with pytest.raises(Findings, match="is nested too deeply"):
        check("\ufeff" + "- " * 3000 + "a", "deep.yaml")


def test_sequences_below_their_keys_are_levels_too() -> None:
    text = "\n".join(f"{' ' * number}a:\n{' ' * number}-" for number in range(60))
    with pytest.raises(Findings, match="is nested too deeply"):
        check(text, "deep.yaml")


def test_endless_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Findings, match="is not a number"):
        check("a: " + "1:" * 200_000 + "1", "number.yaml")
    path = tmp_path / "text.yaml"
    path.write_text("a: '" + "1:" * 200 + "1'")
    assert load(path) == {"a": "1:" * 200 + "1"}
