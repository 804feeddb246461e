"""What a first local run loads of the package: the core, in its own process not all of that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.loaded import PACKAGE, loaded_by_a_first_run

pytestmark = pytest.mark.integration

#: Lines that the process of the command may load. It becomes smaller, never larger.
MOST = 25_500


@pytest.fixture(scope="module")
def loaded() -> Mapping[str, set[Path]]:
    return loaded_by_a_first_run()


def listed(modules: set[Path]) -> str:
    """Modules with their lines, the longest first."""
    lines = {path.relative_to(PACKAGE): path.read_text().count("\n") for path in modules}
    rows = sorted(lines.items(), key=lambda row: -row[1])
    return "\n".join(f"{count:5d} {path}" for path, count in rows)


def test_the_process_of_the_command_loads_no_more_than_it_did(
    loaded: Mapping[str, set[Path]],
) -> None:
    total = sum(path.read_text().count("\n") for path in loaded["driver"])
    assert total <= MOST, f"{total} lines:\n{listed(loaded['driver'])}"


def test_optional_parts_are_loaded_by_processes_of_their_own(
    loaded: Mapping[str, set[Path]],
) -> None:
    for process, modules in loaded.items():
        optional = {path for path in modules if path.is_relative_to(PACKAGE / "contrib")}
        assert not optional or process.startswith("fasthep_smk.contrib."), listed(optional)
    assert any(process.startswith("fasthep_smk.contrib.report") for process in loaded)


def test_batch_systems_are_not_loaded_by_a_run_on_this_machine(
    loaded: Mapping[str, set[Path]],
) -> None:
    names = {path.stem for modules in loaded.values() for path in modules}
    assert not names & {"slurm", "htcondor", "piloted", "earlier_jobs"}
