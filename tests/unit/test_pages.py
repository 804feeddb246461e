"""The pages show commands, options, keys and names of Python that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks, pages, problems


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path) -> None:
    assert problems(str(page.relative_to(ROOT)), page.read_text()) == []


def test_every_page_is_looked_at() -> None:
    shown = [one for page in pages() for one in blocks(page.name, page.read_text())]
    assert len(shown) > 30


RIGHT = {
    "sh": [
        "fasthep-smk workflow.yaml -j 8 --chunk-size 100k -- --keep-going",
        'eval "$(fasthep-smk completion bash)"',
        "fasthep run workflow.yaml --outdir build",
        "make test && snakemake --profile build/smk/profile",
        "pip install '.[slurm]'",
    ],
    "yaml": ["execution: {pools: {gpu: {workers: 2}}}", "x-mine: 1"],
    "yaml site": ["keep_logs: 30d"],
    "yaml stage": ["{id: A, op: hep.hist}"],
    "python": ['import fasthep_smk\nfasthep_smk.run("a.yaml", chunk_size=3).files()'],
    "text": ["anything"],
}
#: A block of a page that is wrong, and what is said of it.
WRONG = {
    ("sh", "fasthep-smk workflow.yaml --chunk-sise 3"): "--chunk-sise",
    ("sh", "fasthep-smk statsu build"): "statsu",
    ("sh", "fasthep-smk workflow.yaml -- --keep-goign"): "--keep-goign",
    ("sh", 'eval "$(fasthep-smk completion tcsh)"'): "tcsh",
    ("sh", "fasthep run workflow.yaml --outdri build"): "--outdri",
    ("sh", "snakemake --profil build/smk/profile"): "--profil",
    ("sh", "cd first && make tset"): "tset",
    ("sh", "pip install '.[slrum]'"): "slrum",
    ("sh", "fasthepsmk workflow.yaml"): "not a known program",
    ("yaml", "execution: {pols: {}}"): "pols",
    ("yaml", "analysis: {stages: [{id: A, opp: hep.hist}]}"): "opp",
    ("yaml", "a: {b"): "expected",
    ("yaml site", "keep_log: 30d"): "keep_log",
    ("yaml nothing", "a: 1"): "no part 'nothing'",
    ("python", "import fasthep_smk\nfasthep_smk.rum('a.yaml')"): "rum",
    ("python", "from fasthep_smk import rum"): "rum",
    ("python", "import fasthep_smk\nr = fasthep_smk.load_results()\nr.hist('a')"): "no hist",
    ("python", "import fasthep_smk\nfasthep_smk.run('a', chunksize=3)"): "chunksize",
    ("python", "def a(:"): "line 1",
    ("console", "$ ls"): "not one of",
}


@pytest.mark.parametrize(
    ("language", "text"), [(language, text) for language in RIGHT for text in RIGHT[language]]
)
def test_a_block_that_is_right(language: str, text: str) -> None:
    assert problems("page.md", f"# Page\n\n```{language}\n{text}\n```\n") == []


@pytest.mark.parametrize(("language", "text"), WRONG)
def test_a_block_that_is_wrong(language: str, text: str) -> None:
    (found,) = problems("page.md", f"# Page\n\n```{language}\n{text}\n```\n")
    assert found.startswith("page.md:3: ")
    assert WRONG[language, text] in found


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("fasthep-smk status", False),
        ("--chunk-size", False),
        ("make demo", False),
        ("fasthep-smk stats", True),
        ("--chunk-sizes", True),
        ("--chunk-sizes 100k", True),
        ("make dmeo", True),
    ],
)
def test_code_within_a_sentence(code: str, *, wrong: bool) -> None:
    assert bool(problems("page.md", f"Type `{code}`, or read on.\n")) == wrong
