"""A first site profile, from what the batch system says of itself."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import yaml

from fasthep_smk import sites
from fasthep_smk.config.site import Site
from fasthep_smk.sites.slurm_partitions import PARTITIONS
from fasthep_smk.translate.profile import BASE
from fasthep_smk.util import files
from fasthep_smk.util.errors import UsageError
from fasthep_smk.util.names import shell

_CONFIG = """\
# Snakemake's part of a site profile. fasthep-smk has written it from what {system} reports.
# You can add any option of Snakemake to this file. Use the profile with:
#     fasthep-smk workflow.yaml --profile {name}
"""
_POOLS = """\
# Profiles for the pools of a workflow on this site. The key `use` of a pool names its profile.
# Without `use`, a pool gets the profile of the same name. Settings in the workflow override
# profiles.
"""
_FURTHER = """\
# Limits of Slurm's partitions. A job that names no partition goes to the partition that fits best.
# Plain Snakemake finds this file if its option --profile has the absolute path of this folder.
"""


def do_site(options: argparse.Namespace) -> int:
    """Write a first site profile, and say what to do with it."""
    folder = options.folder or Path(f"site-{options.system}")
    written, invented = init_site(options.system, folder)
    for path in written:
        print(f"written: {path}")
    for text in invented:
        print(f"example value: {text}")
    command = f"fasthep-smk workflow.yaml --profile {shell([folder])}"
    print(f"adapt pools.yaml, then use the profile: {command}")
    return 0


def init_site(system: str, folder: Path) -> tuple[list[Path], list[str]]:
    """Write ``config.yaml`` and ``pools.yaml`` of a site into ``folder``.

    Return their paths, and which values in ``pools.yaml`` are examples.

    Raises:
        UsageError: the batch system does not answer, or the files exist.
    """
    module = sites.system(system)
    draft = module.draft()
    if draft is None:
        raise UsageError(
            f"{system} does not answer on this machine: log in to a machine that can submit jobs"
        )
    settings: dict[str, object] = {
        **module.settings(Site(system)),
        **BASE,
        "retries": module.RETRIES,
    }
    settings.pop("resources", None)
    if PARTITIONS in draft.files:
        settings["slurm-partition-config"] = PARTITIONS
    remarks = "".join(f"# {line}\n" for line in draft.remarks)
    texts = {
        "config.yaml": _CONFIG.format(system=system, name=folder) + _yaml(settings),
        "pools.yaml": _POOLS + remarks + _invented(draft) + "\n" + _yaml(draft.pools),
        **{name: _FURTHER + _yaml(content) for name, content in draft.files.items()},
    }
    for name in texts:
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists: choose another folder, or remove this file")
    for name, text in texts.items():
        files.write_text(folder / name, text)
    return [folder / name for name in texts], list(draft.invented)


def _invented(draft: sites.Draft) -> str:
    lines = "".join(f"#     {text}\n" for text in draft.invented)
    title = "# The batch system does not report these values: adapt the examples to your jobs:"
    return f"{title}\n{lines}" if lines else ""


def _yaml(content: Mapping[str, object]) -> str:
    return str(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True))
