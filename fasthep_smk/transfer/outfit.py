"""What jobs that travel run with: the environment is packed before the first of them leaves."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fasthep_smk import files, layout
from fasthep_smk.flow.modules import modules_of

if TYPE_CHECKING:
    from fasthep_smk.describe.environment import Environment
    from fasthep_smk.translation import Translation

__all__ = ["equip"]


def equip(translation: Translation, *, tell: TextIO | None = None) -> None:
    """Pack the environment of jobs, unless workers have it, and write down how jobs travel.

    ``tell`` is told what takes a while.

    Raises:
        Findings: the environment cannot be packed, or what was packed does not work.
    """
    placement, build = translation.placement, translation.written.build
    environment = placement.environment
    assert environment is not None, "a site was refused whose jobs would have none"
    modules = {name for one in translation.variations for name in modules_of(one.graph.plan)}
    python = _python(environment, sorted(modules), build, tell)
    content = {
        "python": python,
        "brings_python": environment.is_packed,
        "shared": list(placement.staging.shared),
        "wildcards": {rule.name: list(rule.named_by) for rule in translation.rules},
    }
    files.write_text(build / layout.TRANSFER, json.dumps(content, indent=1) + "\n")


def _python(environment: Environment, modules: list[str], build: Path, tell: TextIO | None) -> str:
    if not environment.is_packed:
        return str(Path(environment.prefix) / "bin" / "python")
    from fasthep_smk.environment.pack import archive_path, contents_of, pack

    contents = contents_of(environment.type, modules)
    folder = build / layout.ARCHIVES
    if tell is not None and not archive_path(contents, folder).is_file():
        print(f"packing the environment ({environment.type}), once", file=tell, flush=True)
    began = time.monotonic()
    packed = pack(contents, folder)
    if tell is not None and packed.seconds is not None:
        size = f"{packed.size / 1e6:.0f} MB"
        print(f"packed and tested in {time.monotonic() - began:.0f} s: {size}", file=tell)
    return str(packed.path.relative_to(build))
