"""Random operations, random edits: never a stale number, and one number however it is computed.

After each edit the results of the build folder are those of a fresh one with the other granularity
or, where no operation changes what is not its own, of ``fasthep run``. Where only files, modules
and variables change that operations read, no more jobs run than those of the datasets whose
operations read them, and the end of the run. ``FASTHEP_SMK_MIXES`` is how many mixes are tried,
``FASTHEP_SMK_MIX_SEED`` the first seed. What fails prints all that is needed to do it again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.compare import compare_builds
from tests.support.mixes import Mix

pytestmark = pytest.mark.integration

MIXES = int(os.environ.get("FASTHEP_SMK_MIXES", "2"))
SEED = int(os.environ.get("FASTHEP_SMK_MIX_SEED", "0"))
STEPS = 8 if "FASTHEP_SMK_MIXES" in os.environ else 2
GRANULARITIES = ("auto", "stage")


def run(mix: Mix, granularity: str, outdir: str = "build") -> None:
    mix.call("workflow.yaml", "-q", "-j", "2", "--granularity", granularity, "-o", outdir)


def compare(mix: Mix, reference: str) -> None:
    """Compare the build folder with another one, which is removed."""
    # Which changes a warning names depends on what runs in one process.
    ignore = ["reports/*warnings.md"] if mix.leaky else []
    differences = compare_builds(mix.folder / reference, mix.folder / "build", ignore=ignore)
    assert not differences, mix.told("\n".join(differences))
    shutil.rmtree(mix.folder / reference)


@pytest.mark.parametrize("seed", range(SEED, SEED + MIXES))
def test_results_are_never_stale_and_the_same_in_any_way(tmp_path: Path, seed: int) -> None:
    mix = Mix(tmp_path, seed)
    concerned: set[str] | None = None
    granularity = mix.chance.choice(GRANULARITIES)
    for _ in range(STEPS):
        if concerned is None:
            granularity = mix.chance.choice(GRANULARITIES)
        else:
            to_run = mix.to_run("--granularity", granularity)
            assert to_run <= concerned | {"finish", "publish"}, mix.told((to_run, concerned))
        run(mix, granularity)
        if mix.leaky:
            run(mix, GRANULARITIES[granularity == "auto"], "reference")
        else:
            mix.fasthep("reference")
        compare(mix, "reference")
        concerned = mix.edit()
    stage = mix.more_events()
    for granularity in GRANULARITIES:
        options = ("-q", "--granularity", granularity)
        printed = mix.call("workflow.yaml", *options, fails=True)
        assert f"stage {stage!r} (" in printed, mix.told(printed)
        assert "failed: it returned" in printed, mix.told(printed)
        assert ", but got " in printed, mix.told(printed)
    mix.undo()
    run(mix, granularity)
    run(mix, "auto", "reference")
    compare(mix, "reference")
