"""The report as one page that needs nothing else: no server, no other file, no host.

Tables and plots are there without JavaScript. The charts of time are drawn in the browser by
libraries that the page holds (``vendor/``); its policy lets no other script run, and nothing be
loaded. What is in the page: ``page.html``, a template; how it looks: ``page.css``; its charts:
``page.js``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from fasthep_smk.contrib.report import document, measures, results, tables
from fasthep_smk.contrib.report.document import Report, clean
from fasthep_smk.contrib.report.drawing import drawn
from fasthep_smk.contrib.report.facts import Facts, gather, grouped
from fasthep_smk.contrib.report.numbers import amount, duration, size, when
from fasthep_smk.contrib.report.tables import Section
from fasthep_smk.storage import layout
from fasthep_smk.util import files
from fasthep_smk.util.errors import Findings
from fasthep_smk.util.names import encode

#: While a run goes on, the page is renewed after so many seconds, or after so many times what it
#: took to write: it costs a run 1 % of one core at most.
_RENEWED, _TIMES = 10.0, 100

#: Bytes of plots that a page holds; others it only names. Rows of a table, and links.
_PICTURES, _MOST = 2_500_000, 500
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
    ours = _resource("page.html").partition("{{")[0].encode()
    try:
        begins = files.read_plain(path, len(ours))
    except OSError:
        if path.is_file():
            raise  # what cannot be read may be anybody's
        return
    if begins and begins != ours:
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
    scripts = [Markup(_resource(name)) for name in _SCRIPTS]
    histograms, not_drawn = drawn(facts.build, report.older)
    plots, links = _plots(facts.build, report)
    readers: dict[str, list[str]] = {row.rule: [] for row in report.each_rule}
    for row in report.each_rule:
        for source in row.reads:
            readers[source].append(row.rule)
    first, outcome, work, origin = (
        [(table.name, table.title, table) for table in group] for group in tables.groups(report)
    )
    parts: list[tuple[str, str, Section | None]] = [
        *first,
        *([("plots", "Plots", None)] if plots or links else []),
        *outcome,
        *([("time", "Time", None)] if facts.ran else []),
        *work,
        *([("each-rule", "Each rule", None)] if report.each_rule else []),
        *origin,
    ]
    return _template().render(
        policy=_policy(scripts),
        style=Markup(_resource("page.css")),
        scripts=scripts,
        name="/".join(report.build.split("/")[-2:]),  # that of the project, too
        facts=facts,
        report=report,
        again=again,
        figures=_figures(facts, report),
        parts=parts,
        histograms=Markup("".join(histograms)),
        not_drawn=not_drawn,
        plots=plots,
        links=links,
        readers=readers,
        jobs_of=tables.jobs_of,
        told=_told(facts, report, again),
        most=_MOST,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "quoted": lambda path: quote(path, errors="surrogateescape"),
        "clean": clean,
        "encode": encode,
        "amount": amount,
        "when": when,
    }
    return environment.from_string(_resource("page.html"))


def _resource(name: str) -> str:
    return (resources("fasthep_smk.contrib.report") / name).read_text(encoding="utf-8").strip()


def _policy(scripts: list[Markup]) -> Markup:
    """Return what the browser may do: run these scripts, and load nothing."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    run = " ".join(f"'sha256-{digest}'" for digest in digests)
    return Markup(
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {run}; "
        "base-uri 'none'; form-action 'none'"
    )


def _figures(facts: Facts, report: Report) -> list[tuple[str, str]]:
    """Return the numbers at the head of the page; those that are not known are empty."""
    run, done = report.run, facts.done
    events = sum(many or 0 for many in facts.events.values())
    return [
        ("jobs", f"{len(facts.jobs)}"),
        ("last run", duration(run["ended"] - run["started"]) if run and run["ended"] else ""),
        ("on CPUs", duration(sum(job.cpu for job in done)) if done else ""),
        ("events", amount(events) if events else ""),
        ("most memory", size(max(job.memory for job in done)) if done else ""),
    ]


def _plots(build: Path, report: Report) -> tuple[Markup, list[str]]:
    """Return the plots that a page has room for, and the others."""
    figures, left, room = Markup(), list[str](), _PICTURES
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
        figures += Markup(
            '<figure><a href="./{}"><img src="{}" alt="{}"></a><figcaption>{}</figcaption></figure>'
        ).format(quote(file.file), source, *[file.file.removeprefix("artifacts/")] * 2)
    return figures, left


def _told(facts: Facts, report: Report, again: int | None) -> Markup:
    """Return what the charts show as JSON that can stand in a page, and when it reloads itself."""
    jobs, kinds = facts.ran, {"failed": [1], "running": [2]}
    first = min((job.waited_from or job.started for job in jobs), default=0.0)
    zero = min(facts.run["started"], first) if facts.run else first
    rows, row, grey = measures.lanes(jobs)
    by_rule, by_pool = grouped(jobs, lambda job: job.rule), grouped(jobs, lambda job: job.pool)
    index = {rule: number for number, rule in enumerate(by_rule)}

    def since(moment: float) -> float:
        return round(moment - zero, 2)

    waits = [(since(job.waited_from), since(job.started)) for job in jobs if job.waited_from]
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
        "waiting": measures.at_a_time(waits),
        "running": {
            clean(pool): measures.at_a_time((since(job.started), since(job.ended)) for job in of)
            for pool, of in sorted(by_pool.items())
        },
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
    return Markup(json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c"))
