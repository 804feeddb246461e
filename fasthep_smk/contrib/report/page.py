"""The report as one page that needs nothing else: no server, no other file, no host.

Tables and plots are there without JavaScript. The charts of time are drawn in the browser by
libraries that the page holds (``vendor/``); its policy lets no other script run, and nothing be
loaded. How the page looks: ``page.css``; its charts: ``page.js``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import quote

from fasthep_smk.contrib.report import document, measures, results, rule_pages, tables
from fasthep_smk.contrib.report.document import FailedJob, Report
from fasthep_smk.contrib.report.facts import Facts, gather
from fasthep_smk.contrib.report.numbers import duration, when
from fasthep_smk.contrib.report.tables import Section
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.units import about_bytes

__all__ = ["as_html", "pause", "write"]

#: While a run goes on, the page is renewed after so many seconds, or after so many times what it
#: took to write: it costs a run 1 % of one core at most.
_RENEWED, _TIMES = 10.0, 100

#: How each page begins: another file of its name is not ours.
_BEGINNING = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" content="'
)

#: Bytes of plots that a page holds; others it only names.
_PICTURES = 2_500_000
#: A longer table is closed until a reader opens it, and has no more rows than this.
_OPEN, _MOST = 40, 500
#: Characters of a text that stays on one line.
_SHORT = 32
_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "page.js")
#: After these sections stand the plots, and before that the charts.
_PLOTS_BEFORE, _CHARTS_BEFORE = ("histograms", "skims", "files", "rules"), ("rules", "pools")
_GRAPH_BEFORE = "provenance"
#: Of pools; those of rules are in ``page.js``.
_COLOURS = (
    "#a463f2", "#3ca951", "#efb118", "#4269d0", "#e8604c", "#6cc5b0", "#c77dba", "#9c6b4e",
    "#97bbf5", "#8c95a3",
)  # fmt: skip


def pause(took: float) -> float:
    """Return after how many seconds a page may be renewed that took so many to write."""
    return max(_RENEWED, _TIMES * took)


def write(build: Path, *, renewed: float = _RENEWED) -> Path:
    """Write the page of a build folder, and return its path.

    While a run goes on, the page reloads itself after ``renewed`` seconds.

    Raises:
        Findings: its task tables cannot be read, or a file of another origin is in its place.
        OSError: it cannot be written.
    """
    path = build / layout.REPORT
    _refuse_other(path)
    facts = gather(build)
    report = document.report_on(facts)
    text = as_html(facts, report, renewed=renewed)
    # If it quotes logs, it is like these: no other user may read them.
    with files.atomic_path(path, durable=False, private=bool(report.failures)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _refuse_other(path: Path) -> None:
    """Raise ``Findings`` if a file that is no page of ours would be replaced."""
    try:
        begins = files.read_plain(path, len(_BEGINNING))
    except OSError:
        if path.is_file():
            raise  # what cannot be read may be anybody's
        return
    if begins and begins != _BEGINNING.encode():
        raise Findings.one(
            "this file is not one that fasthep-smk has written",
            file=str(path),
            hint="move it away, then run the same command again",
        )


def as_html(facts: Facts, report: Report, *, renewed: float = _RENEWED) -> str:
    """Return the page; ``report`` is that on these facts.

    While a run goes on, the page reloads itself after ``renewed`` seconds.
    """
    again = round(renewed) if facts.is_running else None
    scripts = [_resource(name) for name in _SCRIPTS]
    name = "/".join(report.build.split("/")[-2:])  # that of the project, too
    title = f"{report.verdict.state}: {name}"
    parts = [
        f'{_BEGINNING}{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        *([f'<noscript><meta http-equiv="refresh" content="{again}"></noscript>'] if again else []),
        f"<title>{escape(title)}</title>\n<style>{_resource('page.css')}</style>\n</head>\n<body>",
        _header(name, facts, report, again),
        "<main>",
        *_body(facts, report),
        "</main>",
        f'<script type="application/json" id="jobs">{_told(facts, report, again)}</script>',
        *(f"<script>{script}</script>" for script in scripts),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _resource(name: str) -> str:
    return (resources("fasthep_smk.contrib.report") / name).read_text(encoding="utf-8").strip()


def _policy(scripts: list[str]) -> str:
    """Return what the browser may do: run these scripts, and load nothing."""
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    run = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {run}; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(name: str, facts: Facts, report: Report, again: int | None) -> str:
    verdict, counts, run = report.verdict, report.counts, report.run
    figures = [(f"{sum(counts.values())}", "jobs")]
    if run and run["ended"] is not None:
        figures.append((duration(run["ended"] - run["started"]), "last run"))
    if facts.done:
        figures.append((duration(sum(job.cpu for job in facts.done)), "on CPUs"))
    events = sum(many or 0 for many in facts.events.values())
    if events:
        figures.append((f"{events:,}".replace(",", "\u202f"), "events"))
    if facts.done:
        figures.append((about_bytes(max(job.memory for job in facts.done)), "most memory"))
    shown = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for value, label in figures
    )
    state = verdict.state
    renewed = (
        f'<p class="note" id="renewed">Written at {when(report.made)}, and renewed '
        f"about every {again} s while the run goes on: this page reloads itself.</p>"
    )
    return (
        f'<header><p class="verdict {state.replace(" ", "-")}">{escape(state)}</p>'
        f'<h1>{escape(name)}</h1><p class="said">{escape(verdict.text)}</p>'
        f"<dl>{shown}</dl>{renewed if again else ''}</header>"
    )


def _body(facts: Facts, report: Report) -> Iterator[str]:
    found = tables.sections(report)
    names = [section.name for section in found]
    plots = _plots(facts.build, report)
    at = next((name for name in _PLOTS_BEFORE if name in names), _GRAPH_BEFORE)
    each, colours, before = report.each_rule, _colours(report), _before(found)
    charts = bool(facts.ran)
    yield _navigation(found, plots=bool(plots), charts=charts, rules=bool(each))
    for section in found:
        if section.name == at:
            yield plots
        if section.name == before and charts:
            yield _charts(report, memory=bool(facts.new))
        if section.name == _GRAPH_BEFORE and each:
            yield rule_pages.as_html(each, colours)
        yield _failures(report) if section.name == "failures" else _table(section)


def _before(found: list[Section]) -> str:
    """Return the section before which the charts of time stand."""
    names = [section.name for section in found]
    return next((name for name in _CHARTS_BEFORE if name in names), _GRAPH_BEFORE)


def _colours(report: Report) -> dict[str, str]:
    """Return the colour of each pool, the same in all pictures."""
    pools = sorted({pool for row in report.each_rule for pool in row.pools})
    return {pool: _COLOURS[number % len(_COLOURS)] for number, pool in enumerate(pools)}


def _navigation(found: list[Section], *, plots: bool, charts: bool, rules: bool) -> str:
    entries: list[tuple[str, str]] = []
    before = _before(found)
    for section in found:
        if section.name == before and charts:
            entries.append(("time", "Time"))
        if section.name == _GRAPH_BEFORE and rules:
            entries.append(("graph", "Graph of rules"))
        entries.append((section.name, section.title))
    if plots:
        entries.insert(0, ("plots", "Plots"))
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title in entries)
    return f'<nav aria-label="Parts of this page">{links}</nav>'


def _table(section: Section) -> str:
    rows = section.rows[:_MOST]
    right = [header in section.right for header in section.headers]
    head = "".join(
        f'<th scope="col"{" class=n" if number else ""}>{escape(header)}</th>'
        for header, number in zip(section.headers, right, strict=True)
    )
    lines = []
    for number, row in enumerate(rows):
        goals = [
            section.links[name][number] if name in section.links else "" for name in section.headers
        ]
        cells = zip(row, right, goals, strict=True)
        lines.append("<tr>" + "".join(_cell(*cell) for cell in cells) + "</tr>")
    head = f"<thead><tr>{head}</tr></thead>" if any(section.headers) else ""
    table = (
        f'<div class="wide" tabindex="0"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'
    )
    if len(section.rows) > _OPEN:
        many = f"{len(section.rows)} rows"
        if len(rows) < len(section.rows):
            many += f", of which the first {len(rows)} are here"
        table = f"<details><summary>{many}</summary>{table}</details>"
    notes = "".join(f"<p class=note>{escape(note)}</p>" for note in section.notes)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{notes}{table}</section>'


def _cell(text: str, right: bool, goal: str) -> str:
    shown = _link(goal, escape(text)) if goal else escape(text)
    if right:
        return f"<td class=n>{shown}</td>"
    return f"<td class=t>{shown}</td>" if len(text) > _SHORT else f"<td>{shown}</td>"


def _link(path: str, shown: str) -> str:
    return f'<a href="./{escape(quote(path))}">{shown}</a>'


def _failures(report: Report) -> str:
    items = []
    for one in report.failures:
        facts = [
            ("at", one.at),
            ("dataset", one.dataset),
            ("file", f"{one.file} ({one.entries})" if one.file else ""),
            ("where", one.where),
            ("memory", _memory(one)),
            ("fix", one.fix),
        ]
        told = "".join(
            f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in facts if text
        )
        tail = "\n".join(one.tail)
        log = f"<pre>{escape(tail)}</pre>" if tail else ""
        items.append(
            f"<article><h3>{escape(one.stage or one.rule)} {escape(one.key)}</h3>"
            f"<p class=problem>{escape(one.problem)}</p><dl class=facts>{told}</dl>"
            f"<p class=note>run it alone:</p><pre class=whole>{escape(one.rerun)}</pre>"
            f"<p class=note>end of {_link(one.log, escape(one.log))}:</p>{log}</article>"
        )
    more = report.failed - len(items)
    rest = f"<p class=note>and {more} more</p>" if more > 0 else ""
    return f'<section id="failures"><h2>Failed jobs</h2>{"".join(items)}{rest}</section>'


def _memory(failure: FailedJob) -> str:
    asked, used = failure.memory, failure.used
    parts = [f"{about_bytes(asked)} asked for"] if asked else []
    return ", ".join([*parts, *([f"{about_bytes(used)} used"] if used else [])])


def _plots(build: Path, report: Report) -> str:
    shown = [one for one in report.files if one.shown]
    if not shown:
        return ""
    kept, figures = results.fitting(shown, _PICTURES), []
    for one in kept:
        try:
            source = results.picture(build / one.file)
            kind = " class=broad" if results.is_broad(build / one.file) else ""
        except OSError:
            continue  # a run that begins has just removed it
        name = escape(one.file.removeprefix("artifacts/"))
        image = f'<img src="{source}" alt="{name}">'
        figures.append(
            f"<figure{kind}>{_link(one.file, image)}<figcaption>{name}</figcaption></figure>"
        )
    left = [_link(one.file, escape(one.file)) for one in shown if one not in kept]
    rest = f"<p class=note>too large for one page: {', '.join(left[:50])}</p>" if left else ""
    return (
        f'<section id="plots"><h2>Plots</h2><div class="plots">{"".join(figures)}</div>{rest}'
        "</section>"
    )


def _charts(report: Report, *, memory: bool) -> str:
    earlier = report.earlier
    reasons = any(row.reasons for row in report.pools)
    why = "; below, for what, as the batch system said" if reasons else ""
    has_asked = any(row.asked_memory for row in report.rules)
    asked = ", and what was asked for (line); the scale is logarithmic" if has_asked else ""
    held = (
        "<figure><figcaption>Memory: from the job that held least to that which held most"
        f'{asked}.</figcaption><div class="chart" id="memory" role="img" '
        'aria-label="Memory by rule"></div></figure>'
    )
    kept = f" Results of earlier runs that count still are not here: {earlier}." if earlier else ""
    return (
        '<section id="time"><h2>Time</h2>'
        f"<p class=note>What ran in the last run, by the time since it began.{kept}"
        " Grey: a job waited that could have run."
        f"{' Pale: it runs still.' if report.counts['running'] else ''}"
        "</p><noscript><p class=note>These charts need JavaScript.</p></noscript>"
        '<label>rule <select id="only"><option value="">all</option></select></label>'
        "<figure><figcaption>When each job ran. A row is a place for one job, of a pool on a "
        "host; in a red frame: an attempt that failed; ◆: the one before has failed.</figcaption>"
        '<div class="chart" id="timeline" role="img" aria-label="When each job ran"></div></figure>'
        "<figure><figcaption>How many jobs ran at a time in each pool, against its limit (dashed), "
        f"and how many waited that could have run{why}.</figcaption>"
        '<div class="chart" id="concurrency" role="img" aria-label="How many jobs ran at a time">'
        f"</div></figure>{held if memory else ''}</section>"
    )


def _told(facts: Facts, report: Report, again: int | None) -> str:
    """Return what the charts show as JSON that can stand in a page, and when it reloads itself."""
    jobs, kinds = facts.ran, {"failed": [1], "running": [2]}
    run, first = facts.run, min((job.waited_from or job.started for job in jobs), default=0.0)
    zero = min(run["started"], first) if run else first
    rows, row, grey = measures.lanes(jobs)
    rules = list(dict.fromkeys(job.rule for job in jobs))
    index = {rule: number for number, rule in enumerate(rules)}
    curves = measures.concurrency(jobs)
    memory = []
    for rule in rules:
        held = [job for job in facts.new if job.rule == rule]
        if not held:
            continue
        used, asked = [job.memory for job in held], [job.asked_memory or 0 for job in held]
        memory.append([index[rule], min(used), max(used), max(asked)])
    told = {
        "rules": [document.clean(rule) for rule in rules],
        "rows": [document.clean(name) for name in rows],
        "jobs": [
            [
                index[job.rule],
                row[number],
                round(grey[number] - zero, 2),
                round(job.started - zero, 2),
                round(job.ended - zero, 2),
                job.retries,
                document.clean(job.key),
                *kinds.get(job.state, ()),
            ]
            for number, job in enumerate(jobs)
        ],
        "times": [round(time - zero, 2) for time in curves.times],
        "waiting": curves.waiting,
        "running": {document.clean(pool): many for pool, many in curves.running.items()},
        "pools": _colours(report),
        "limits": {row.pool: row.limit for row in report.pools if row.limit and row.pool},
        "queue": [
            [
                round(one.time - zero, 2),
                document.clean(one.pool),
                document.clean(one.reason),
                one.jobs,
            ]
            for one in facts.waited
        ],
        "memory": memory,
        "made": report.made,
        "again": again,
    }
    # No "<": nothing in it can end the element that holds it.
    return json.dumps(told, separators=(",", ":")).replace("<", "\\u003c")
