"""The part of the page on single rules: their graph, and of each of them all that is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import quote

from fasthep_smk.contrib.report import graph
from fasthep_smk.contrib.report.numbers import amount, duration, when
from fasthep_smk.contrib.report.rules import RuleFacts, RuleJob, StageText
from fasthep_smk.util.names import encode
from fasthep_smk.util.units import about_bytes

__all__ = ["as_html"]

_HEADERS = ("job", "state", "host", "batch job", "started", "ran", "memory", "retries", "log")


def as_html(rules: Sequence[RuleFacts], colours: Mapping[str, str]) -> str:
    """Return the section on the rules of a build folder; ``colours`` are those of the pools."""
    legend = "".join(
        f'<li><i style="background:{colour}"></i>{escape(pool or "no pool")}</li>'
        for pool, colour in colours.items()
    )
    drawn = graph.as_svg(rules, colours) if len(rules) <= graph.MOST else ""
    picture = f'<div class="graph wide" tabindex="0">{drawn}</div>' if drawn else ""
    readers: dict[str, list[str]] = {}
    for row in rules:
        for source in row.reads:
            readers.setdefault(source, []).append(row.rule)
    each = "".join(_rule(row, readers.get(row.rule, [])) for row in rules)
    return (
        '<section id="graph"><h2>Graph of rules</h2><p class="note">Each rule stands below those '
        "that it reads; its colour is its pool. A dashed border: jobs are left to do; red: some "
        f'failed.</p><ul class="legend">{legend}</ul>{picture}{each}</section>'
    )


def _rule(row: RuleFacts, readers: Iterable[str]) -> str:
    rule, states = row.rule, row.states
    total = sum(states.values())
    counts = ", ".join(f"{amount(many)} {state}" for state, many in states.items() if many)
    facts = [
        ("pool", escape(", ".join(row.pools))),
        ("jobs", escape(counts)),
        ("reads", ", ".join(_link(name) for name in row.reads)),
        ("read by", ", ".join(_link(name) for name in readers)),
    ]
    told = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts if text)
    stages = "".join(_stage(stage) for stage in row.stages)
    kept = len(row.jobs)
    of = (
        f"Of {amount(total)} jobs {kept}: those that failed or run, then the longest."
        if kept < total
        else ""
    )
    note = f"<p class=note>{of}</p>" if of else ""
    return (
        f'<details class="rule"><summary>{escape(rule)}</summary><div id="rule-{encode(rule)}">'
        f'<dl class="facts">{told}</dl>{stages}{note}{_jobs(row.jobs)}</div></details>'
    )


def _link(rule: str) -> str:
    return f'<a href="#rule-{encode(rule)}">{escape(rule)}</a>'


def _stage(stage: StageText) -> str:
    lines = "\n".join(stage.params)
    op = f": {escape(stage.op)}" if stage.op else ""
    params = f"<pre>{escape(lines)}</pre>" if lines else ""
    return f"<h3>{escape(stage.stage)}{op}</h3>{params}"


def _jobs(jobs: Sequence[RuleJob]) -> str:
    rows = []
    for job in jobs:
        log = f'<a href="./{escape(quote(job.log))}">log</a>' if job.log else ""
        cells = [
            job.key,
            job.state,
            job.host,
            job.batch_job,
            "" if job.started is None else when(job.started),
            "" if job.seconds is None else duration(job.seconds),
            "" if job.memory is None else about_bytes(job.memory),
            str(job.retries or ""),
        ]
        rows.append([*map(escape, cells), log])
    kept = [number for number in range(len(_HEADERS)) if any(row[number] for row in rows)]
    head = "".join(f'<th scope="col">{_HEADERS[number]}</th>' for number in kept)
    body = "".join(
        f"<tr>{''.join(f'<td>{row[number]}</td>' for number in kept)}</tr>" for row in rows
    )
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
