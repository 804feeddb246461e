"""Write everything that Snakemake and the jobs need into ``<build>/smk``."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow import local_modules, op_identity, plan_files
from fasthep_smk.flow.modules import own_modules_of
from fasthep_smk.flow.workflow_checks import exports_of, pickles_of
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.storage import layout, pilots
from fasthep_smk.storage.job_settings import MOVED, asked_of
from fasthep_smk.translate import (
    bundles,
    profile,
    result_rules,
    snakefile,
    task_tables,
)
from fasthep_smk.translate.waits_for import Waits
from fasthep_smk.util import files
from fasthep_smk.util.names import is_plain, shell

if TYPE_CHECKING:
    from fasthep_smk.config.run_settings import RunSettings
    from fasthep_smk.reuse import Reuse
    from fasthep_smk.storage.job_settings import Apart, Launch, Requests
    from fasthep_smk.util.documents import YamlMapping

#: The shell's test for a job in a container that Snakemake has started: Python is the container's.
IN_CONTAINER = '[ -n "${APPTAINER_CONTAINER:-${SINGULARITY_CONTAINER:-}}" ]'
#: And in a conda environment: Snakemake puts such a file beside those that it has made.
IN_CONDA = '[ -e "${CONDA_PREFIX:-}.env_setup_done" ]'


@dataclass(frozen=True)
class Written:
    """Where a translation went, and which bundles are to run."""

    build: Path
    snakefile: Path
    profile: Path
    bundles: bundles.Bundles = field(default_factory=dict)

    @classmethod
    def below(cls, build: Path) -> Written:
        """Return the places of a translation in a build folder."""
        return cls(build, build / "smk" / "Snakefile", build / "smk" / "profile")


def write(
    rules: Sequence[Rule],
    variations: Sequence[Variation],
    placement: profile.Placement,
    reuse: Reuse,
    settings: RunSettings,
    *,
    build: Path,
    root: Path,
    document: YamlMapping,
    ignored: Sequence[str],
    stat: Callable[[str], str],
) -> Written:
    """Write the translation of a workflow; files that would not change are left alone.

    ``root`` is the folder the run was started in: relative paths of the ``document`` start there.
    ``placement`` is where its jobs go, and ``reuse`` which of them are done. ``ignored`` are
    patterns of files whose changes do not count; ``stat`` tells size and time of an input file.
    """
    workflow, smk = settings.workflow, build / "smk"
    for variation in variations:
        target = build / layout.plan(variation.label)
        files.write_text(target, plan_files.slim_text(variation.graph.plan))
    waits = Waits(rules, reuse)
    to_run = bundles.mark(rules, waits, build)
    texts = task_tables.table_texts(
        rules,
        root=root,
        waits=waits,
        parts=reuse.parts,
        sources=lambda rule: _sources(rule, variations),
        stat=stat,
    )
    for name, text in texts.items():
        files.write_text(build / layout.table(name), text)
    for stale in (build / layout.TASKS).glob("*.json"):
        if stale.stem not in texts:
            stale.unlink()
    launch = _launch(root, workflow, variations, document, ignored)
    files.write_text(build / layout.RUN, json.dumps(launch, indent=1) + "\n")
    files.write_text(smk / "common.smk", snakefile.COMMON)
    files.write_text(smk / "envs" / "fasthep-smk.yaml", conda_environment())
    files.write_text(build / layout.WORKER, worker_script(), executable=True)
    if not placement.transfers:
        (build / layout.TRANSFER).unlink(missing_ok=True)
    written = replace(Written.below(build), bundles=to_run)
    files.write_text(build / layout.RESULTS, result_rules.RULES)
    files.write_text(build / layout.HOW_TO_ASK, result_rules.how_to_ask(root, workflow, settings))
    outside = [rule.name for rule in rules if task_tables.reads_files(rule, root)]
    text = snakefile.render(
        rules, workflow=workflow.name, outside=outside, conda=is_plain(str(build))
    )
    files.write_text(written.snakefile, text)
    for other in written.profile.glob("*"):
        if other.name != "config.yaml":  # Snakemake would read config.v9+.yaml in its place
            files.remove(other)
    seen = (root, workflow.resolve().parent)
    files.write_text(written.profile / "config.yaml", profile.render(rules, placement, seen=seen))
    pilots.write(placement.crews, build)
    requests = json.dumps(_requests(rules, placement), indent=1)
    files.write_text(build / layout.REQUESTS, f"{requests}\n")
    if placement.changing:
        from fasthep_smk.translate.sizes import changing

        files.write_text(build / layout.SIZES, changing(rules, placement))
    else:
        (build / layout.SIZES).unlink(missing_ok=True)
    return written


def _sources(rule: Rule, variations: Iterable[Variation]) -> dict[str, tuple[str | None, int, int]]:
    """Return the files that signatures of a rule know: identity, size and modification time."""
    nodes = {node for by_node in rule.nodes.values() for node in by_node}
    sources: dict[str, tuple[str | None, int, int]] = {}
    for graph in (variation.graph for variation in variations):
        own = (graph.nodes[node].sources for node in nodes if node in graph.nodes)
        for path in graph.sources.union(*own) - sources.keys():
            try:
                status = Path(path).stat()
            except OSError:
                continue  # it is gone already: the next translation says so
            identity = graph.identity_of(path)
            sources[path] = (identity, status.st_size, status.st_mtime_ns)
    return dict(sorted(sources.items()))


def _launch(
    root: Path,
    workflow: Path,
    variations: Iterable[Variation],
    document: YamlMapping,
    ignored: Sequence[str],
) -> Launch:
    """Return what every job needs to know about where the run was started, and the user's code."""
    own, _ = local_modules.folders(root, workflow)
    named = [item for item in os.environ.get("PYTHONPATH", "").split(os.pathsep) if item]
    plans = (variation.graph.plan for variation in variations)
    modules = sorted({name for plan in plans for name in own_modules_of(plan)})
    texts = [pair for name in modules for pair in op_identity.named_texts(name)]
    return {
        "launch_folder": str(root),
        "workflow": str(workflow.resolve()),
        "own_folders": own,
        "python_path": list(dict.fromkeys(str(Path(item).absolute()) for item in named)),
        "own_modules": sorted({name.partition(".")[0] for name in modules}),
        "named_texts": [(text, str(source)) for text, source in dict.fromkeys(texts)],
        "ignore_reads": list(ignored),
        "pickles_of": sorted(pickles_of(document)),
        "exports": exports_of(document),
    }


def _requests(rules: Sequence[Rule], placement: profile.Placement) -> Requests:
    """Return what the jobs of each rule ask for, attempt by attempt, and which credentials."""
    asked = {
        rule: [asked_of(attempt) for attempt in attempts]
        for rule, attempts in placement.attempts.items()
    }
    apart: dict[str, Apart] = {
        rule.name: {
            "wildcards": [*rule.named_by],
            "attempts": {
                place: [asked_of(attempt) for attempt in attempts]
                for place, attempts in placement.by_dataset[rule.name].items()
            },
        }
        for rule in rules
        if rule.name in placement.by_dataset
    }
    credentials = [credential.as_data() for credential in placement.credentials]
    return {
        "system": placement.site.system,
        "credentials": credentials,
        "rules": asked,
        "by_dataset": apart,
        "submitted_as": placement.submitted_as(),
        "fallback_after": dict(placement.fallback_after),
        "spread": [rule.name for rule in rules if profile.may_spread(rule)],
    }


def begin_alone(more: str = "") -> str:
    """Return how a job's script begins where no Snakemake is on the node; ``more`` is done first.

    It goes to the build folder, and takes away the words that stand before a job's own.
    """
    return (
        f'if [ "$1" = {layout.ALONE} ]; then\n'
        f"{more}"
        f'    case $0 in */{layout.WORKER}) cd "${{0%/{layout.WORKER}}}" || exit 2 ;; esac\n'
        "    shift 2\n"
        "fi\n"
    )


def conda_environment() -> str:
    """Return the environment of jobs for conda: this package, and the packages that it requires.

    An index need not have this package: pip gets it from where it was installed from (PEP 610).
    """
    needs = ["fasthep-smk"]
    with contextlib.suppress(metadata.PackageNotFoundError):
        ours = metadata.distribution("fasthep-smk")
        origin = json.loads(ours.read_text("direct_url.json") or "{}")
        url, vcs = origin.get("url"), origin.get("vcs_info")
        if vcs:
            url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        needs = [f"fasthep-smk @ {url}" if url else f"fasthep-smk =={ours.version}"]
        needs += [need for need in ours.requires or () if "extra ==" not in need]
    python = ".".join(map(str, sys.version_info[:2]))
    lines = "".join(f"      - {json.dumps(need, ensure_ascii=False)}\n" for need in needs)
    return (
        "channels:\n  - conda-forge\n"
        f"dependencies:\n  - python ={python}\n  - pip\n  - pip:\n{lines}"
    )


def worker_script() -> str:
    # -P: the build folder, where Snakemake starts jobs, must not be searched for modules.
    command = shell([sys.executable, "-P", "-m", "fasthep_smk.worker"])
    return (
        "#!/bin/sh\n"
        "# Starts one job, in the build folder:\n"
        f"# worker [{layout.ALONE} TIME] LOG ATTEMPT THREADS RULE [VARIATION] [DATASET] "
        "[PARTITION]\n"
        f"# {layout.ALONE}: no Snakemake runs beside the job, which starts in any folder.\n"
        "# TIME: when it was submitted, in seconds since 1970.\n"
        + begin_alone(f"    {layout.SUBMITTED}=$2\n    export {layout.SUBMITTED}\n")
        + "log=$1 attempt=$2 threads=$3\n"
        "shift 3\n"
        "# Snakemake removes the log of a failed attempt, but not its copy under another name.\n"
        ': >"$log"\n'
        f"FASTHEP_SMK_LOG=${{log%.log}}.attempt$((${{attempt%%:*}} % {MOVED})).log\n"
        'ln -f "$log" "$FASTHEP_SMK_LOG" 2>/dev/null\n'
        "export FASTHEP_SMK_LOG\n"
        'set -- --attempt "$attempt" --threads "$threads" -- "$@"\n'
        "# In a container, or an environment that Snakemake has made, Python is the one there.\n"
        f"if {IN_CONTAINER} || {IN_CONDA}; then\n"
        '    exec python3 -P -m fasthep_smk.worker "$@" >>"$log" 2>&1\n'
        "fi\n"
        f'exec {command} "$@" >>"$log" 2>&1\n'
    )
