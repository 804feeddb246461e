"""Every key misspelt once: refused before anything runs, with its line and what was meant."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.cli.main import main
from fasthep_smk.flow import release
from fasthep_smk.flow.compile import compile_workflow
from tests.support import mistakes, slips
from tests.support.forms import chosen

pytestmark = pytest.mark.integration

#: Which keys an environment has depends on its type; ``type`` itself is misspelt without.
WITH_TYPE = {
    "prefix": "shared-prefix",
    "mode": "packed-pixi",
    "source": "packed-pixi",
    "environment": "packed-pixi",
    "archive_path": "packed-pixi",
    "worker_env_dir": "packed-pixi",
    "image": "container",
}
#: Names that people give: a source, steps of a selection, the side of a variation, a weight, a
#: column that a variation exports, a known value, and a dataset with a style that does not occur.
NAMES = {"events", "Loose", "Tight", "side", "up", "W_shifted", "min_pt", "old_sample"}
SEEDS = int(os.environ.get("FASTHEP_SMK_SLIPS", "1"))


@pytest.fixture(scope="session")
def root_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mistakes.make_data(tmp_path_factory.mktemp("misspelt")) / "data.root"


def shown(place: slips.Place) -> str:
    return ".".join(map(str, place))


def about(key: str, said: str) -> str:
    """Return what is said of a key."""
    found = [
        one for one in re.split(r"^- ", said, flags=re.MULTILINE) if key in one.partition("\n")[0]
    ]
    assert len(found) == 1, said
    return found[0]


@pytest.mark.parametrize("place", slips.keys_of_language(), ids=shown)
def test_a_misspelt_key_is_named_with_its_line_and_the_right_name(
    place: slips.Place,
    root_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    *above, name = place
    odd = slips.slip(str(name), seed=1)
    document: dict[str, Any] = {
        "data": {"datasets": [{"name": "a", "files": [str(root_file)]}]},
        "sources": {"events": {"kind": "root_tree", "tree": "events"}},
        **slips.only((*above, odd), None),
    }
    if above == ["execution", "environment"] and name in WITH_TYPE:
        document["execution"]["environment"]["type"] = WITH_TYPE[str(name)]
    text = yaml.safe_dump(document, sort_keys=False)
    (tmp_path / "workflow.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "workflow.yaml"]) == 1
    said = about(odd, capfd.readouterr().err)
    assert f"did you mean {name!r}?" in said
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"{odd}:" in one)
    assert f"workflow.yaml, line {line}\n" in said
    assert list(tmp_path.iterdir()) == [tmp_path / "workflow.yaml"]


def kind_of(place: slips.Place) -> slips.Place:
    """The same of keys that are read alike: those of two axes, datasets, or stages of one op."""
    steps = list(place)
    stages = mistakes.BASE["analysis"]["stages"]
    for at, (above, step) in enumerate(itertools.pairwise(place), 1):
        if above == "stages":
            steps[at] = stages[step]["op"]
        elif above in ("axes", "datasets", "variables") and isinstance(step, int):
            steps[at] = 0
    return tuple(steps)


PLACES = list(slips.keys_of(mistakes.BASE))
FIRST = {kind_of(place): place for place in reversed(PLACES)}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    "place",
    chosen([(place,) for place in PLACES], lambda place: FIRST[kind_of(place)] == place),
    ids=shown,
)
def test_no_slip_in_a_key_changes_a_result_in_silence(
    place: slips.Place,
    seed: int,
    root_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name = str(place[-1])
    odd = slips.slip(name, seed)
    base = mistakes.base_for(place[0])
    document = slips.renamed(base, place, odd)
    (tmp_path / "data").symlink_to(root_file.parent)
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    status = main(["check", "workflow.yaml"])
    said = capfd.readouterr().err
    assert status == 1 or name in NAMES, f"{shown(place)} as {odd!r} is taken\n{said}"
    if status and name not in NAMES:
        assert odd in said
        assert re.search(r"workflow.yaml, line \d+", said), said
    if not status:
        other = re.sub(rf"(?<![^\W_]){odd}(?![^\W_])", name, plans(tmp_path))
        expected = plans_of_base(root_file.parent, place[0] == "systematics")
        assert other == expected, "more than a name differs"


def plans(folder: Path) -> str:
    """What is to be computed of a workflow: all nodes of all its plans."""
    compiled = compile_workflow(Path("workflow.yaml"), folder / "compiled")
    parts = ([one.variation, *one.plan.nodes, one.plan.context["datasets"]] for one in compiled)
    return "\n".join(repr(part) for found in parts for part in found)


@cache
def plans_of_base(data: Path, with_all_variations: bool) -> str:
    base = mistakes.base_for("systematics" if with_all_variations else None)
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        Path("data").symlink_to(data)
        Path("workflow.yaml").write_text(yaml.safe_dump(base, sort_keys=False))
        return plans(Path(name))


def test_a_rename_that_is_more_would_be_noticed(
    root_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = mistakes.base_for("analysis")
    other["analysis"]["globals"]["min_pt"] = 21.0
    other["analysis"]["stages"][2]["params"]["axes"][0]["bins"]["nbins"] = 21
    (tmp_path / "data").symlink_to(root_file.parent)
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    assert plans(tmp_path) != plans_of_base(root_file.parent, False)


#: A profile of one's own. It and included files are read like the workflow.
PROFILE = {
    "registry": {"execution_modifiers": {"own.noop": {"impl": "own_noop:Noop"}}},
    "execution": {
        "resources": {"small": {"cpus": 1, "memory": "1GB"}},
        "pools": {"default": {"resources": "small"}},
    },
}
NAMED = ("own.noop", "default", "small")
OF_PROFILE = [one for one in slips.keys_of(PROFILE) if one[-1] not in NAMED]
IN_FILES = [
    ("part.yaml", ("data", "datasets")),
    ("part.yaml", ("data", "datasets", 0, "eventtype")),
    ("part.yaml", ("styles", "met", "with")),
    *(("own.yaml", place) for place in OF_PROFILE),
]


@pytest.mark.parametrize(("file", "place"), IN_FILES, ids=str)
def test_a_slip_in_an_included_file_or_a_profile_is_named_with_its_line(
    file: str,
    place: slips.Place,
    root_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    included = {key: mistakes.BASE[key] for key in ("data", "styles")}
    few = mistakes.base_for("data")
    base = {key: value for key, value in few.items() if key not in included}
    files: dict[str, Any] = {
        "part.yaml": included,
        "own.yaml": PROFILE,
        "workflow.yaml": {**base, "include": "part.yaml", "use": {"profiles": ["hep", "own.yaml"]}},
    }
    odd = slips.slip(str(place[-1]), 1)
    files[file] = slips.renamed(files[file], place, odd)
    (tmp_path / "data").symlink_to(root_file.parent)
    (tmp_path / "own_noop.py").write_text("class Noop:\n    def before_node(self, **_): ...\n")
    for name, content in files.items():
        (tmp_path / name).write_text(yaml.safe_dump(content, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["check", "workflow.yaml"]) == 1
    said = about(odd, capfd.readouterr().err)
    assert f"did you mean {place[-1]!r}?" in said
    text = (tmp_path / file).read_text()
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"{odd}:" in one)
    assert f"{file}, line {line}\n" in said


def test_a_newer_release_may_have_keys_of_its_own(
    root_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A key that is far from all others is a warning then; a slip is still refused."""
    document = mistakes.base_for("analysis")
    document["analysis"]["stages"][0]["caching"] = True
    document["styles"]["plane"]["palette"] = "viridis"
    (tmp_path / "data").symlink_to(root_file.parent)
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["check", "workflow.yaml"]) == 1
    assert "caching: unknown key" in capfd.readouterr().err
    monkeypatch.setattr(release, "TESTED", dict.fromkeys(release.TESTED, "2020.1"))
    release.is_newer.cache_clear()
    try:
        assert main(["check", "workflow.yaml"]) == 0
        said = "".join(capfd.readouterr())
        for key in ("analysis.stages['Vars'].caching", "styles.plane.palette"):
            assert re.search(
                rf"workflow.yaml, line \d+: {re.escape(key)}: unknown key, unless a newer "
                "FAST-HEP reads it",
                said,
            ), said
        document["styles"]["plane"]["figre"] = {"dpi": 50}
        (tmp_path / "workflow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        assert main(["check", "workflow.yaml"]) == 1
        said = capfd.readouterr().err
        assert "did you mean 'figure'?" in said
        assert "palette" not in said
    finally:
        release.is_newer.cache_clear()
