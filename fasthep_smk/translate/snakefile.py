"""The text of the generated Snakefile and of the look-ups it includes."""

from __future__ import annotations

from collections.abc import Iterable

from fasthep_smk import layout
from fasthep_smk.names import comment, literal
from fasthep_smk.plan.rules import Rule
from fasthep_smk.products import ARCHIVE, RECORD

__all__ = ["COMMON", "output_files", "render"]

#: What the rules look up. It stands in its own file, as Snakemake's linter asks for.
COMMON = '''\
"""Looks up what each job reads, and its signature, in the task tables of the build folder."""

import json
from pathlib import Path, PurePosixPath

TASKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path("smk", "tasks").glob("*.json"))
}


def job_of(rule, wildcards):
    """Return the entry of one job; a rule's wildcards name it."""
    table = TASKS[rule]
    key = PurePosixPath(*(str(getattr(wildcards, name)) for name in table["wildcards"]))
    key = "" if key == PurePosixPath() else str(key)
    if key not in table["jobs"]:
        raise ValueError(f"rule {rule} has no job {key!r}")
    return table["jobs"][key]


def inputs_of(rule):
    """Return the input function of a rule."""
    return lambda wildcards: job_of(rule, wildcards)["inputs"]


def signature_of(rule):
    """Return the function that gives each job its signature: what it computes and from what."""
    return lambda wildcards: job_of(rule, wildcards)["signature"]


def results_of(rule):
    """Return the records of all jobs of a rule."""
    return [job["record"] for job in TASKS[rule]["jobs"].values()]
'''

_SENTENCE = {
    "side": "Once, before the partitions",
    "partition": "For each partition",
    "merge": "For each dataset, reduce its partitions",
    "finish": "At the end of the run, reduce the datasets, make products, plots and reports",
    "publish": "Write the manifests that all variations share",
}


def render(rules: Iterable[Rule], *, workflow: str, conda: bool = True) -> str:
    """Return the Snakefile of a workflow. ``workflow`` is named in its first line.

    Without ``conda`` the rules name no environment.
    """
    rules = list(rules)
    last = rules[-1].name
    parts = [
        f"# Rules of the FAST-HEP workflow {comment(workflow)}, written by fasthep-smk.\n"
        "# The next translation overwrites this file: change the workflow or the profile instead.\n"
        "\n\n"
        'include: "common.smk"\n'
        "\n\n"
        "wildcard_constraints:\n"
        '    variation="[A-Za-z0-9_]+",\n'
        '    dataset="[A-Za-z0-9_]+",\n'
        '    part="[A-Za-z0-9_]+",\n'
        "\n\n"
        "rule all:\n"
        "    input:\n"
        f"        results_of({literal(last)}),\n"
    ]
    parts += [_rule(rule, conda) for rule in rules]
    return "\n\n".join(parts)


def output_files(rule: Rule) -> dict[str, str]:
    """Return the declared outputs of a rule's jobs, by name, relative to the job's folder."""
    outputs = {"record": RECORD}
    if rule.archive:
        outputs["products"] = ARCHIVE
    for number, name in enumerate(dict.fromkeys(rule.streams.values()), start=1):
        outputs[f"stream{number}"] = name
    return outputs


def _rule(rule: Rule, conda: bool) -> str:
    place = [f"{{{name}}}" for name in rule.wildcards]
    folder = layout.job_folder(rule.name, place)
    outputs = "".join(
        f"        {name}={literal(f'{folder}/{file}')},\n"
        for name, file in output_files(rule).items()
    )
    words = ["sh smk/worker", rule.name, *(f"{{wildcards.{name}}}" for name in rule.wildcards)]
    stages = ", ".join(comment(stage) for stage in rule.stages)
    environment = '    conda:\n        "envs/fasthep-smk.yaml"\n' if conda else ""
    sentence = _SENTENCE[rule.scope] + (f": {stages}" if stages else "")
    return (
        f"rule {rule.name}:\n"
        f"{_docstring(sentence)}"
        "    input:\n"
        f"        inputs_of({literal(rule.name)}),\n"
        "    output:\n"
        f"{outputs}"
        "    log:\n"
        f"        {literal(layout.log(rule.name, place))},\n"
        "    benchmark:\n"
        f"        {literal(layout.benchmark(rule.name, place))}\n"
        f"{environment}"
        "    threads: 1\n"
        "    resources:\n"
        f"        pool={literal(rule.pool)},\n"
        "    params:\n"
        f"        signature=signature_of({literal(rule.name)}),\n"
        "    shell:\n"
        f"        {literal(' '.join(words) + ' > {log} 2>&1')}\n"
    )


def _docstring(sentence: str) -> str:
    lines, line = [], ""
    for word in f"{sentence}.".split():
        if line and len(line) + len(word) + 1 > 90:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    lines.append(line)
    if len(lines) == 1:
        return f'    """{lines[0]}"""\n'
    body = "".join(f"    {item}\n" for item in lines[1:])
    return f'    """{lines[0]}\n{body}    """\n'
