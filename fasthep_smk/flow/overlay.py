"""The ``execution`` section of a workflow between FAST-HEP's documentation and its compiler.

The compiler knows less than the documentation promises: a pool's resources must be the name of a
class, ``require`` must name a class, ``backend: dask`` needs the package, and of environments it
knows two types. What it would refuse or
drop is taken out before compiling, by an overlay that includes the workflow, and is brought
together with the stages afterwards (``fasthep_smk.config``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from fasthep_smk.flow import upstream
from fasthep_smk.flow.compile import readable_errors
from fasthep_smk.util import files
from fasthep_smk.util.documents import YamlMapping


def profile_sections(document: YamlMapping, workflow: Path, root: Path) -> dict[str, YamlMapping]:
    """Return the ``execution`` sections of the profiles that a workflow uses, by their files.

    Raises:
        Findings: a profile does not exist or cannot be read.
    """
    used = document.get("use")
    listed = used.get("profiles") if isinstance(used, dict) else []
    where = {"project_root": root, "entry_dir": workflow.parent}
    sections: dict[str, YamlMapping] = {}
    with readable_errors(workflow):
        names = upstream.normalize_profile_names(listed)
        for name in upstream.expand_profile_names(names, **where):
            config, provenance = upstream.load_profile_config_with_provenance(name, **where)
            if section := config.get("execution"):
                sections[str(provenance["path"])] = section
    return sections


def compilable(document: YamlMapping) -> bool:
    """Whether FAST-HEP's compiler takes the ``execution`` of a workflow as it is."""
    stages = (document.get("analysis") or {}).get("stages")
    try:
        section = upstream.normalize_global_execution(document.get("execution"))
        upstream.validate_stage_execution_resource_references(
            stages if isinstance(stages, list) else [], section["resources"], section["pools"]
        )
    except (ValueError, TypeError):
        return False
    return bool(section["backend"] == "local" and section["strategy"] == "default")


def overlay(document: YamlMapping, workflow: Path, target: Path, asked: Iterable[str]) -> Path:
    """Write a workflow that includes ``workflow`` and that the compiler takes; return its path.

    ``asked`` are the names that stages require, prefer or fall back to: each becomes a class with
    a pool, so that the compiler accepts the stages and the plan carries their words.
    """
    section = document.get("execution") or {}
    pools: dict[str, dict[str, object]] = {
        str(name): {"resources": str(name)} for name in section.get("pools") or {}
    }
    pools |= {name: {"resources": name} for name in asked}
    for name, content in (section.get("pools") or {}).items():
        if (content or {}).get("workers", 1) is None:  # unlimited, for which FAST-HEP has no word
            pools[name]["workers"] = 1
    classes: dict[str, object] = {
        name: {} for name in pools if name not in (section.get("resources") or {})
    }
    execution: dict[str, object] = {"backend": "local", "strategy": "default"}
    if pools:
        execution |= {"resources": classes, "pools": pools}
    included = [str(workflow.resolve())]
    if not _takes_environment(section):
        # Mappings are merged; only what is no mapping clears the way for an empty one.
        cleared = target.with_name(f"{target.stem}-environment.yaml")
        files.write_text(cleared, "execution: {environment: null}\n")
        included.append(str(cleared.resolve()))
        execution["environment"] = {}
    text = yaml.safe_dump(
        {"include": included, "execution": execution},
        sort_keys=False,
        allow_unicode=True,
    )
    header = (
        "# The workflow as FAST-HEP's compiler takes it: pools and classes are names only.\n"
        "# Written by fasthep-smk; the workflow and the site define the pools.\n"
    )
    files.write_text(target, header + text)
    return target


def _takes_environment(section: YamlMapping) -> bool:
    """Whether FAST-HEP's compiler takes the ``environment`` of an ``execution`` section."""
    if "environment" not in section:
        return True
    try:
        upstream.normalize_global_execution({"environment": section["environment"]})
    except (ValueError, TypeError):
        return False
    return True
