"""What this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from fasthep_smk.sites.local import memory_limits


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        # Version 2: that of the session, and that of the user around it.
        (
            "0::/user/session",
            {"memory.max": "max", "user/memory.max": "8000", "user/session/memory.max": "9000"},
            [8000, 9000],
        ),
        # Version 1 has a folder for each kind of limit.
        (
            "7:cpu:/job\n4:memory:/job\n0::/",
            {"memory/memory.limit_in_bytes": "7000", "memory/job/memory.limit_in_bytes": "500"},
            [500, 7000],
        ),
        # In a container its own group is at the top.
        ("0::/", {"memory.max": "6000"}, [6000]),
        ("0::/gone", {}, []),
    ],
)
def test_a_group_of_processes_has_a_limit_of_memory(
    groups: str, files: dict[str, str], limits: list[int], tmp_path: Path
) -> None:
    (tmp_path / "own").write_text(f"{groups}\n")
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(f"{text}\n")
    assert sorted(memory_limits(tmp_path / "own", tmp_path / "root")) == limits
