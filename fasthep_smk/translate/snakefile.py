"""The text of the generated Snakefile and of the look-ups it includes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from fasthep_smk import sites
from fasthep_smk.config.requests import Attempt
from fasthep_smk.plan.rules import Rule, output_files
from fasthep_smk.storage import layout
from fasthep_smk.translate.waits_for import files_read
from fasthep_smk.util.names import comment, literal

#: What the rules look up. It stands in its own file, as Snakemake's linter asks for.
COMMON = '''\
"""Looks up in the task tables of the build folder which files each job waits for."""

import json
import os
import shlex
import time
from functools import cache
from pathlib import Path, PurePosixPath

from snakemake.exceptions import WorkflowError

# Other users may read the files that are made here, but not write to them.
os.umask(os.umask(0o022) | 0o022)
SMK = Path(os.path.abspath(str(workflow.current_basedir)))
if not (os.path.isdir("smk") and os.path.samefile("smk", SMK)):
    raise WorkflowError(
        f"the rules of {SMK / 'Snakefile'} run in its build folder: "
        f"add  --directory {shlex.quote(str(SMK.parent))}\\n"
        f"A Snakefile of your own takes {SMK / 'results.smk'} as a module instead."
    )
TASKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path("smk", "tasks").glob("*.json"))
}
MARKERS = {
    table["jobs"][key]["folder"]: bundle["marker"]
    for table in TASKS.values()
    for bundle in table["bundles"].values()
    for key in bundle["jobs"]
}
if config.get("container"):

    container: config["container"]


# The final jobs need all results, and write in the build folder itself.
if config.get("staging") == "transfer":

    localrules:
        finish,
        publish,


def job_of(rule, wildcards):
    """Return the entry of one job, or bundle of jobs; a rule's wildcards name it."""
    table = TASKS[rule]
    names = table["wildcards"]
    key = PurePosixPath(*(str(getattr(wildcards, name)) for name in names))
    key = "" if key == PurePosixPath() else str(key)
    jobs = table["bundles"] or table["jobs"]
    if key not in jobs:
        raise ValueError(f"rule {rule} has no job {key!r}")
    return jobs[key]


def inputs_of(rule):
    """Return the input function of bundles of jobs: the files that the jobs wait for."""
    return lambda wildcards: ancient(files_for(rule, job_of(rule, wildcards)))


def input_files(rule):
    """Return the input function for files from outside: those of the job's partition."""

    def found(wildcards):
        paths = files_for(rule, job_of(rule, wildcards))
        return ancient([path for path in paths if path.startswith("/")])

    return found


def awaited(rule, *patterns):
    """Return the input function for those files of other jobs that a job waits for.

    Signatures decide whether results are valid: a job does not wait for a file of a finished job
    that was deleted to make room.
    """

    def found(wildcards):
        paths = files_for(rule, job_of(rule, wildcards))
        wanted = [path for path in paths if not path.startswith("/")]
        known = {path.format_map(dict(wildcards.items())) for path in patterns}
        if unknown := set(wanted) - known:
            raise ValueError(f"rule {rule} does not say that it reads {min(unknown)}")
        return ancient(wanted)

    listed = [[one] if isinstance(one, str) else one for one in patterns]
    patterns = {path for paths in listed for path in paths}
    return found


def jobs_of(rule):
    """Return the wildcards of all jobs of a rule, by name, for expand(pattern, zip, ...)."""
    table = TASKS[rule]
    keys = [PurePosixPath(key).parts for key in table["bundles"] or table["jobs"]]
    return dict(zip(table["wildcards"], map(list, zip(*keys))))


@cache
def is_in_future(path):
    """Whether an input file's time is in the future: Snakemake would fail each job that reads it.

    Inside a job, files of the build folder count, too, because the node may have another clock.
    """
    if workflow.is_main_process and not Path(path).is_absolute():
        return False
    return os.path.lexists(path) and os.lstat(path).st_mtime > time.time()


def files_for(rule, entry):
    """Return the files that a job waits for; for a file of a bundle, the bundle's marker."""
    jobs = TASKS[rule]["jobs"]
    entries = [jobs[key] for key in entry["jobs"]] if "jobs" in entry else [entry]
    paths = [path for one in entries for path in one["inputs"]]
    found = [MARKERS.get(path.rpartition("/")[0], path) for path in paths]
    return [path for path in dict.fromkeys(found) if not is_in_future(path)]


def by_attempt(*values):
    """Return the function that gives a job's first attempt the first value, and so on."""
    return lambda wildcards, attempt: values[min(attempt, len(values)) - 1]


def attempt_of(wildcards, attempt):
    """Return the number of a job's attempt, from 1."""
    return attempt


def tries(number):
    """Return how often to try a failed job again; only the main process does so."""
    return number if workflow.is_main_process else 0


def targets():
    """Return the records of the jobs that make something for the user."""
    jobs = [job for table in TASKS.values() for job in table["jobs"].values()]
    records = {job["record"]: job["folder"] for job in jobs if job["target"]}
    return list(dict.fromkeys(MARKERS.get(records[path], path) for path in records))
'''

_SENTENCE = {
    "side": "Once, before the partitions",
    "partition": "For each partition",
    "merge": "For each dataset, reduce its partitions",
    "finish": "At the end of the run, reduce the datasets, make products, plots and reports",
    "publish": "Write the manifests that all variations share",
}


def render(
    rules: Iterable[Rule], *, workflow: str, outside: Collection[str], conda: bool = True
) -> str:
    """Return the Snakefile of a workflow. ``workflow`` is named in its first line.

    ``outside`` are the names of the rules with jobs that wait for files from outside the build
    folder. Without ``conda`` the rules name no environment.
    """
    rules = list(rules)
    bundle = "" if not any(rule.bundles for rule in rules) else '    bundle="bundle_[0-9]+",\n'
    parts = [
        f"# Rules of the FAST-HEP workflow {comment(workflow)}, written by fasthep-smk.\n"
        "# The next translation overwrites this file: change the workflow or the profile instead.\n"
        "# HTCondor's plugin does not read mem_mb, disk_mb and gpu, but htcondor_request_mem_mb,\n"
        "# htcondor_request_disk_mb and request_gpus.\n"
        "\n\n"
        'include: "common.smk"\n'
        "\n\n"
        "wildcard_constraints:\n"
        '    variation="[A-Za-z0-9_]+",\n'
        '    dataset="[A-Za-z0-9_]+",\n'
        '    part="[A-Za-z0-9_]+",\n'
        f"{bundle}"
        "\n\n"
        "rule all:\n"
        "    input:\n"
        "        targets(),\n"
    ]
    makers = {job.folder: rule for rule in rules for job in rule.jobs.values()}
    parts += [_rule(rule, makers, conda=conda, outside=rule.name in outside) for rule in rules]
    return "\n\n".join(parts)


def render_probe(rules: Iterable[Rule]) -> str:
    """Return the Snakefile of ``fasthep-smk doctor``: one small job for each pool."""
    rules = list(rules)
    wanted = "".join(f"        {literal(f'{rule.name}.json')},\n" for rule in rules)
    parts = [f'include: "common.smk"\n\n\nrule all:\n    input:\n{wanted}']
    for rule in rules:
        attempts = [*rule.route.attempts]
        asked = "".join(
            f"        {name}={by_attempt(values)},\n"
            for name, values in resources(attempts).items()
        )
        parts.append(
            f"rule {rule.name}:\n"
            "    output:\n"
            f"        {literal(f'{rule.name}.json')},\n"
            f"    threads: {by_attempt([attempt.request.cpus for attempt in attempts])}\n"
            "    resources:\n"
            f"{asked}"
            "    shell:\n"
            '        "sh smk/worker {output}"\n'
        )
    return "\n\n".join(parts)


def _rule(rule: Rule, makers: Mapping[str, Rule], *, conda: bool, outside: bool) -> str:
    place = [f"{{{name}}}" for name in rule.named_by]
    folder = layout.job_folder(rule.name, place)
    paths = {name: f"{folder}/{file}" for name, file in output_files(rule).items()}
    if rule.bundles:
        paths = {"marker": layout.bundle(rule.name, place)}
    outputs = "".join(f"        {name}={literal(path)},\n" for name, path in paths.items())
    # How a job was sent out is for its record. This text must stay the same whatever the pool.
    words = ["sh smk/worker {log} {resources.attempt} {threads}", rule.name]
    words += [f"{{wildcards.{name}}}" for name in rule.named_by]
    cpus = by_attempt([attempt.request.cpus for attempt in rule.route.attempts])
    requests = resources(lengthened(rule, rule.asked))
    asked = "".join(f"        {name}={by_attempt(values)},\n" for name, values in requests.items())
    retries = f"    retries: tries({rule.route.retries})\n" if rule.route.fixed else ""
    stages = ", ".join(comment(stage) for stage in rule.stages)
    environment = '    conda:\n        "envs/fasthep-smk.yaml"\n' if conda else ""
    sentence = _SENTENCE[rule.scope] + (f": {stages}" if stages else "")
    return (
        f"rule {rule.name}:\n"
        f"{_docstring(sentence)}"
        f"{_inputs(rule, makers, outside=outside)}"
        "    output:\n"
        f"{outputs}"
        "    log:\n"
        f"        {literal(layout.log(rule.name, place))},\n"
        f"{environment}"
        f"    threads: {cpus}\n"
        f"{retries}"
        "    resources:\n"
        "        attempt=attempt_of,\n"
        f"{asked}"
        "    shell:\n"
        f"        {literal(' '.join(words))}\n"
    )


def _inputs(rule: Rule, makers: Mapping[str, Rule], *, outside: bool) -> str:
    """Return the input section: which files, of which rules, the jobs of this one wait for.

    ``outside``: some of them also wait for files from outside the build folder.
    """
    name = literal(rule.name)
    if rule.bundles:
        return f"    input:\n        inputs_of({name}),\n"
    lines = [f"        input_files({name}),\n"] if outside else []
    if patterns := _awaited(rule, makers):
        lines += ["        awaited(\n", f"            {name},\n", *patterns, "        ),\n"]
    return f"    input:\n{''.join(lines)}" if lines else ""


def _awaited(rule: Rule, makers: Mapping[str, Rule]) -> list[str]:
    """Return the patterns of the files of other jobs, each in lines of its own."""
    files: dict[str, dict[str, None]] = {}
    by_name: dict[str, Rule] = {}
    listed: set[str] = set()  # rules of which a job reads other jobs than the one of its own place
    for job in rule.jobs.values():
        for read in job.reads:
            maker = makers[read.folder]
            by_name[maker.name] = maker
            files.setdefault(maker.name, {}).update(dict.fromkeys(files_read(read, maker)))
            if maker.name not in listed:
                place = [job.wildcards.get(name, "") for name in maker.named_by]
                if maker.bundles or read.folder != layout.job_folder(maker.name, place):
                    listed.add(maker.name)
    lines: list[str] = []
    for maker in by_name.values():
        place = [f"{{{name}}}" for name in maker.named_by]
        folder = layout.job_folder(maker.name, place)
        paths = [literal(f"{folder}/{file}") for file in files[maker.name]]
        if maker.bundles:
            paths = [literal(layout.bundle(maker.name, place))]
        lines += _expanded(maker, paths) if maker.name in listed else _lines(paths, indent=12)
    return lines


def _expanded(maker: Rule, paths: list[str]) -> list[str]:
    """Return the call that makes the paths of all jobs of a rule from their patterns."""
    inner = _lines(paths, indent=16)
    if len(paths) > 1:
        inner = [f"{' ' * 16}[\n", *_lines(paths, indent=20), f"{' ' * 16}],\n"]
    rest = _lines(["zip", f"**jobs_of({literal(maker.name)})"], indent=16)
    return [f"{' ' * 12}expand(\n", *inner, *rest, f"{' ' * 12}),\n"]


def _lines(items: Iterable[str], *, indent: int) -> list[str]:
    return [f"{' ' * indent}{item},\n" for item in items]


def resources(attempts: list[Attempt]) -> dict[str, list[int]]:
    """Return the resources that a rule asks for, each with its value at every attempt."""
    by_name: dict[str, list[int]] = {}
    common = [sites.common_resources(attempt) for attempt in attempts]
    for name in dict.fromkeys(name for amounts in common for name in amounts):
        # A job needs as much wherever it runs: a pool that says nothing takes the other's word.
        stated = next(amounts[name] for amounts in common if name in amounts)
        missing = 0 if name in ("gpu", "request_gpus") else stated
        by_name[name] = [amounts.get(name, missing) for amounts in common]
    return by_name


def lengthened(
    rule: Rule,
    attempts: Iterable[Attempt],
    longest: Callable[[Attempt], int | None] = lambda _: None,
) -> list[Attempt]:
    """Return attempts with time for all jobs of a bundle.

    ``longest`` says for how many seconds an attempt may last at most, if that is known.
    """
    number, lengthened = rule.together, list[Attempt]()
    for attempt in attempts:
        walltime = attempt.request.walltime
        if walltime is not None and number > 1:
            together, limit = walltime * number, longest(attempt)
            walltime = together if limit is None else max(walltime, min(together, limit))
        lengthened.append(replace(attempt, request=replace(attempt.request, walltime=walltime)))
    return lengthened


def by_attempt(values: Sequence[str | int]) -> str:
    """Return Python code for a value, or for one that changes with the attempt."""
    if len(set(values)) == 1:
        return literal(values[0])
    return f"by_attempt({', '.join(literal(value) for value in values)})"


def _docstring(sentence: str) -> str:
    first, *others = wrap(f"{sentence}.", 90, break_long_words=False, break_on_hyphens=False)
    body = "".join(f"    {line}\n" for line in others)
    return f'    """{first}\n{body}    """\n' if others else f'    """{first}"""\n'
