"""The report as one page that needs nothing else: no server, no other file, no host.

Tables and plots are there without JavaScript. The charts of time are drawn in the browser by
libraries that the page holds (``vendor/``); its policy lets no other script run, and nothing be
loaded. How the page looks: ``page.css``; its charts: ``page.js``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import quote

from fasthep_smk.contrib.report import document, measures, results, tables
from fasthep_smk.contrib.report.document import Report, clean
from fasthep_smk.contrib.report.drawing import drawn
from fasthep_smk.contrib.report.facts import Facts, gather, grouped
from fasthep_smk.contrib.report.numbers import amount, duration, size, when
from fasthep_smk.contrib.report.rules import RuleFacts
from fasthep_smk.contrib.report.tables import Link, Section
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.names import encode

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
            "is kept, because fasthep-smk has not written this file",
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
    parts = [part for part in _parts(facts, report) if part[2]]
    links = "".join(f'<a href="#{part}">{escape(title)}</a>' for part, title, _ in parts)
    text = [
        f'{_BEGINNING}{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        *([f'<noscript><meta http-equiv="refresh" content="{again}"></noscript>'] if again else []),
        f"<title>{escape(f'{report.verdict.state}: {name}')}</title>",
        f"<style>{_resource('page.css')}</style>\n</head>\n<body>",
        _header(name, facts, report, again),
        f'<main><nav aria-label="Parts of this page">{links}</nav>',
        *(
            f'<section id="{part}"><h2>{escape(title)}</h2>{shown}</section>'
            for part, title, shown in parts
        ),
        f'</main><script type="application/json" id="jobs">{_told(facts, report, again)}</script>',
        *(f"<script>{script}</script>" for script in scripts),
        "</body>\n</html>\n",
    ]
    return "\n".join(text)


def _resource(name: str) -> str:
    return (resources("fasthep_smk.contrib.report") / name).read_text(encoding="utf-8").strip()


def _policy(scripts: list[str]) -> str:
    """Return what the browser may do: run these scripts, and load nothing."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    run = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {run}; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(name: str, facts: Facts, report: Report, again: int | None) -> str:
    run, done, state = report.run, facts.done, report.verdict.state
    events = sum(many or 0 for many in facts.events.values())
    figures = [
        ("jobs", f"{len(facts.jobs)}"),
        ("last run", duration(run["ended"] - run["started"]) if run and run["ended"] else ""),
        ("on CPUs", duration(sum(job.cpu for job in done)) if done else ""),
        ("events", amount(events) if events else ""),
        ("most memory", size(max(job.memory for job in done)) if done else ""),
    ]
    renewed = (
        f'<p class="note" id="renewed">This page was written at {when(report.made)}. While the '
        f"run goes on, it is renewed about every {again} s, and reloads itself.</p>"
    )
    return (
        f'<header><p class="verdict {state.replace(" ", "-")}">{escape(state)}</p>'
        f'<h1>{escape(name)}</h1><p class="said">{escape(report.verdict.text)}</p>'
        f"<dl>{_described(figures)}</dl>{renewed if again else ''}</header>"
    )


def _parts(facts: Facts, report: Report) -> list[tuple[str, str, str]]:
    """Return the parts of the page: the name and title of each, and what stands in it, if any."""
    pictures = {"histograms": _histograms(facts.build, report)}
    first, outcome, work, origin = (
        [
            (part.name, part.title, pictures.get(part.name, "") + _table(part, report))
            for part in group
        ]
        for group in tables.groups(report)
    )
    return [
        *first,
        ("plots", "Plots", _plots(facts.build, report)),
        *outcome,
        ("time", "Time", _charts(facts, report)),
        *work,
        ("each-rule", "Each rule", _rules(report)),
        *origin,
    ]


def _table(table: Section, report: Report) -> str:
    """Return a table with its notes; a long one is closed, and of failed jobs are articles."""
    shown, many = _grid(replace(table, rows=table.rows[:_MOST])), len(table.rows)
    if table.name == "failures":
        shown = _failures(report, table)
    if many > _OPEN or table.name == "histograms":
        first = f"; this page has the first {_MOST}" if many > _MOST else ""
        shown = f"<details><summary>{many} rows{first}</summary>{shown}</details>"
    return "".join(f"<p class=note>{escape(note)}</p>" for note in table.notes) + shown


def _grid(table: Section) -> str:
    """Return the rows of a table below their headers."""
    columns = table.columns
    labels = {header: escape(header) for header in columns}
    head = "".join(
        f'<th scope="col"{" class=n" if is_number else ""}>{labels[header]}</th>'
        for header, is_number in columns.items()
    )
    rows = "".join(
        f"<tr>{''.join(_cell(row[name], labels[name], columns[name]) for name in columns)}</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(text: str, label: str, right: bool) -> str:
    """Return a cell; its label is shown where a window is too narrow for the headers."""
    kind = " class=n" if right else " class=t" if len(text) > _SHORT else ""
    return f'<td{kind} data-of="{label}">{_text(text)}</td>'


def _text(text: str) -> str:
    """Return the text of a cell; one that leads to a file as a link."""
    return _link(text.path, escape(text)) if isinstance(text, Link) else escape(text)


def _link(path: str, shown: str) -> str:
    return f'<a href="./{escape(quote(path, errors="surrogateescape"))}">{shown}</a>'


def _described(facts: Iterable[tuple[str, str]]) -> str:
    """Return facts, which are HTML, with what each of them is; empty ones are left out."""
    return "".join(f"<div><dt>{name}</dt><dd>{fact}</dd></div>" for name, fact in facts if fact)


def _failures(report: Report, table: Section) -> str:
    """Return an article on each failed job, with the end of its log."""
    articles = []
    for job, row in zip(report.failures, table.rows, strict=True):
        facts = _described((name, _text(cell)) for name, cell in row.items())
        tail = escape("\n".join(job.tail))
        articles.append(
            f"<article><h3>{escape(job.stage or job.rule)} {escape(job.key)}</h3>"
            f"<dl class=facts>{facts}</dl>{f'<pre>{tail}</pre>' if tail else ''}</article>"
        )
    return "".join(articles)


def _histograms(build: Path, report: Report) -> str:
    """Return pictures of the histograms, and which lack any."""
    figures, left_out = drawn(build, report.older)
    note = (
        "Each plot shows the sum of weights in each bin. The lower panel shows the variations "
        "divided by the nominal; the grey band is the statistical error of the nominal. A "
        "histogram with several axes has a plot for each axis, summed over the other axes."
    )
    why = (
        "not drawn, or drawn without variations, because the page has no room, because the bins "
        "differ from those of the nominal, or because the file cannot be read"
    )
    return f"<p class=note>{note}</p>{_gallery('plots small', figures, why, left_out)}"


def _gallery(kind: str, figures: Sequence[str], why: str, left: Sequence[str]) -> str:
    """Return pictures side by side, and links to the others, with the reason why they are none."""
    links = ", ".join(_link(path, escape(clean(path))) for path in left[:_MOST])
    rest = f"<details><summary>{len(left)} others: {why}</summary>{links}</details>" if left else ""
    return f'<div class="{kind}">{"".join(figures)}</div>{rest}' if figures or left else ""


def _plots(build: Path, report: Report) -> str:
    figures, left, room = [], [], _PICTURES
    # Of variations, the histograms are drawn against nominal.
    names = [*results.variations(build)]
    is_first = "nominal" in names and "nominal" not in report.older
    varied = tuple(f"artifacts/{name}/" for name in names if is_first and name != "nominal")
    for file in (file for file in report.files if file.shown):
        if file.size > room or file.file.startswith(varied):
            left.append(file.file)
            continue
        try:
            source = results.picture(build / file.file)
        except OSError:
            continue  # a run that begins has just removed it
        room -= file.size
        name = escape(file.file.removeprefix("artifacts/"))
        image = _link(file.file, f'<img src="{source}" alt="{name}">')
        figures.append(f"<figure>{image}<figcaption>{name}</figcaption></figure>")
    return _gallery(
        "plots", figures, "plots of variations, and plots that are too large for this page", left
    )


def _charts(facts: Facts, report: Report) -> str:
    """Return the places of the charts of time, which ``page.js`` draws."""
    if not facts.ran:
        return ""
    why = "; the batch system's reasons are below" if facts.waited else ""
    kept = f" Not shown: jobs of earlier runs whose results are still valid ({report.earlier})."
    charts = {
        "timeline": "When each job ran. Each row belongs to a pool on a host, and holds one job at "
        "a time. A red frame marks a failed attempt, ◆ marks a retry.",
        "concurrency": "For each pool: how many jobs ran at a time, the pool's limit (dashed), "
        f"and how many jobs were ready but waited{why}.",
        "memory": "The range of memory that the jobs of each rule used. If the jobs asked for "
        "memory, a line shows the amount, and the scale is logarithmic.",
    }
    figures = "".join(
        f'<figure><figcaption id="on-{name}">{caption}</figcaption><div class="chart" '
        f'id="{name}" role="img" aria-labelledby="on-{name}"></div></figure>'
        for name, caption in charts.items()
        if name != "memory" or facts.new
    )
    return (
        "<p class=note>The jobs of the last run. Times count from the start of this run."
        f"{kept if report.earlier else ''} Grey: a job was ready but waited."
        f"{' Pale: still running.' if report.counts['running'] else ''}"
        "</p><noscript><p class=note>These charts need JavaScript.</p></noscript>"
        f'<label>rule <select id="only"><option value="">all</option></select></label>{figures}'
    )


def _told(facts: Facts, report: Report, again: int | None) -> str:
    """Return what the charts show as JSON that can stand in a page, and when it reloads itself."""
    jobs, kinds = facts.ran, {"failed": [1], "running": [2]}
    first = min((job.waited_from or job.started for job in jobs), default=0.0)
    zero = min(facts.run["started"], first) if facts.run else first
    rows, row, grey = measures.lanes(jobs)
    index = {rule: number for number, rule in enumerate(grouped(jobs, lambda job: job.rule))}
    times, waiting, running = measures.concurrency(jobs)

    def since(moment: float) -> float:
        return round(moment - zero, 2)

    limits = facts.run.get("limits", {}) if facts.run else {}
    shown = {
        "rules": [clean(rule) for rule in index],
        "rows": [clean(name) for name in rows],
        "jobs": [
            [
                index[job.rule],
                row[number],
                since(grey[number]),
                since(job.started),
                since(job.ended),
                job.retries,
                clean(job.key),
                *kinds.get(job.state, ()),
            ]
            for number, job in enumerate(jobs)
        ],
        "times": [since(moment) for moment in times],
        "waiting": waiting,
        "running": {clean(pool): many for pool, many in running.items()},
        "limits": {clean(pool): limit for pool, limit in limits.items() if limit},
        "queue": [
            [since(wait.time), clean(wait.pool), clean(wait.reason), wait.jobs]
            for wait in facts.waited
        ],
        "memory": [
            [
                index[rule],
                min(job.memory for job in members),
                max(job.memory for job in members),
                max(job.asked_memory or 0 for job in members),
            ]
            for rule, members in grouped(facts.new, lambda job: job.rule).items()
        ],
        "made": report.made,
        "again": again,
    }
    # No "<": nothing in it can end the element that holds it.
    return json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")


def _rules(report: Report) -> str:
    """Return of each rule all that is known."""
    readers: dict[str, list[str]] = {}
    for row in report.each_rule:
        for source in row.reads:
            readers.setdefault(source, []).append(row.rule)
    return "".join(_rule(row, readers.get(row.rule, [])) for row in report.each_rule)


def _rule(row: RuleFacts, readers: Iterable[str]) -> str:
    counts = ", ".join(f"{amount(many)} {state}" for state, many in row.states.items() if many)
    reads, read_by = (
        ", ".join(f'<a href="#rule-{encode(name)}">{escape(name)}</a>' for name in names)
        for names in (row.reads, readers)
    )
    facts = [("stages", escape(", ".join(row.stages)))]
    facts += [("pool", escape(", ".join(row.pools))), ("jobs", counts)]
    facts += [("reads", reads), ("read by", read_by)]
    total, kept = sum(row.states.values()), len(row.jobs)
    of = f"{kept} of {amount(total)} jobs: failed and running jobs, then the longest jobs."
    return (
        f'<details class="rule" id="rule-{encode(row.rule)}"><summary>{escape(row.rule)}</summary>'
        f'<div><dl class="facts">{_described(facts)}</dl>'
        f"{f'<p class=note>{of}</p>' if kept < total else ''}{_grid(tables.jobs_of(row))}</div>"
        "</details>"
    )
