"""Findings about the profiles that a workflow uses and that stand in files of the user's.

FAST-HEP reads a few keys of a profile and passes over all others; of one that has ``includes`` it
reads only that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from fasthep_smk.flow import upstream
from fasthep_smk.flow.locations import located_in, yaml_slips
from fasthep_smk.flow.places import mapping
from fasthep_smk.flow.vocabulary import Vocabulary
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.names import shell
from fasthep_smk.util.ownership import problem_of

_INCLUDES = "includes"
_IN_EXECUTION = ("execution.", "execution[")


def profile_findings(document: Mapping[str, object], workflow: Path, root: Path) -> list[Finding]:
    """Return what is wrong in the profiles of a workflow, with file and line."""
    findings = [*_of_others((root, workflow.resolve().parent), workflow)]
    for path, content in _profiles(document, workflow, root).items():
        shown = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        in_profile = Vocabulary({}).findings(content, "profile", file=shown)
        # What stands in execution is checked with what the workflow says of it.
        others = [
            finding for finding in in_profile if not (finding.key or "").startswith(_IN_EXECUTION)
        ]
        findings += located_in(others, path)
        findings += yaml_slips([path], workflow=path, shown=shown, part="profile")
    return findings


def expanded(names: Iterable[str], root: Path) -> list[str]:
    """Return the profiles that FAST-HEP reads for these names; none if one cannot be read."""
    with contextlib.suppress(Exception):
        return [str(name) for name in upstream.expand_profile_names(list(names), project_root=root)]
    return []


def _of_others(places: Iterable[Path], workflow: Path) -> Iterator[Finding]:
    """Yield where others may have written profiles, which FAST-HEP finds by their names there.

    They name Python that runs, and may stand in for those of packages.
    """
    for place in (folder / ".hepflow" for folder in dict.fromkeys(places)):
        for path in (place, place / "profiles", *sorted((place / "profiles").glob("*.yaml"))):
            if problem := problem_of(path, workflow):
                yield Finding(
                    file=str(path),
                    problem=f"is not used, since {problem}",
                    expected="profiles of your own, which nobody else can write to",
                    hint=f"if it is yours: {shell(['chmod', '-R', 'go-w', place])}; otherwise "
                    "remove it",
                )
                return


def _profiles(
    document: Mapping[str, object], workflow: Path, root: Path
) -> dict[Path, YamlMapping]:
    """Return the profiles of a workflow that are files of the user's, with those they include.

    One that cannot be read is left out: others tell of it.
    """
    used = mapping(document.get("use")).get("profiles")
    left = [str(name) for name in used if name] if isinstance(used, list) else []
    profiles: dict[Path, YamlMapping] = {}
    while left:
        name = left.pop(0)
        with contextlib.suppress(Exception):
            content, provenance = upstream.load_profile_config_with_provenance(
                name, project_root=root, entry_dir=workflow.parent
            )
            places = (root / str(provenance["path"]), workflow.parent / str(provenance["path"]))
            path = next((place for place in places if place.is_file()), None)
            if path is None or path in profiles:
                continue  # of a package
            profiles[path] = content
            included = content.get(_INCLUDES)
            for profile in included if isinstance(included, list) else ():
                other = mapping(profile).get("profile", mapping(profile).get("name")) or profile
                left += [other] if isinstance(other, str) else []
    return profiles
