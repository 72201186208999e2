"""The page: one HTML file that loads nothing. All foreign text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from fp8tune import __version__
from fp8tune.search.comments import choices, summary
from fp8tune.search.report.data import Case
from fp8tune.search.report.figures.canvas import Absent, Figure, inline
from fp8tune.search.report.figures.knobs import knobs
from fp8tune.search.report.figures.loss import loss
from fp8tune.search.report.figures.memory import memory
from fp8tune.search.report.figures.predicted import predicted
from fp8tune.search.report.figures.steps import steps
from fp8tune.search.report.story import story
from fp8tune.search.report.tables import HEAD, MOST, environment, every_trial
from fp8tune.search.report.words import clean
from fp8tune.search.writeback import CannotWrite, write_back
from fp8tune.toml.diff import unified_diff

MOST_ROWS = 500
"""Rows of a figure's table."""
MOST_LINES = 400
"""Lines of the diff."""


class Section(NamedTuple):
    """A part of the page: its anchor, its name in the contents, and its HTML."""

    name: str
    contents: str
    html: str


def figures(case: Case) -> list[Figure | Absent]:
    """Every plot of a study, the most important first."""
    return [plot(case) for plot in (memory, knobs, predicted, loss, steps)]


def page(case: Case, plots: Sequence[Figure | Absent]) -> str:
    """The whole page."""
    told = story(case)
    sections = [*map(_figure, plots), *_tables(case)]
    text = files("fp8tune.search.report").joinpath("page.html").read_text("utf-8")
    path = escape(clean(case.plan.config.path))
    name = escape(clean(case.name))
    return Template(text).substitute(
        title=f"{escape(told.headline)} - {name}",
        of=f"fp8tune search of <code>{path}</code>, study <code>{name}</code>",
        warnings=_each(told.warnings, '<p class="warning" role="note">{}</p>'),
        headline=escape(told.headline),
        sentences=_each(told.sentences, "<li>{}</li>"),
        commands=escape("\n".join(told.commands)),
        contents="\n".join(
            f'<li><a href="#{s.name}">{escape(s.contents)}</a></li>' for s in sections
        ),
        sections="\n".join(s.html for s in sections),
        version=escape(__version__),
        count=str(len(case.trials)),
    )


def _each(texts: Iterable[str], form: str) -> str:
    return "\n".join(form.format(escape(text)) for text in texts)


CONTENTS = {
    "memory": "Memory and speed",
    "knobs": "Knobs",
    "predicted": "Predictions",
    "loss": "Loss",
    "steps": "Step times",
}


def _figure(plot: Figure | Absent) -> Section:
    contents = CONTENTS[plot.name]
    if isinstance(plot, Absent):
        html = f"<p>{escape(plot.why)}</p>"
        return Section(plot.name, contents, _section(plot.name, plot.title, html))
    label = escape(f"{plot.title}. {plot.about} {plot.note}".strip())
    drawn = "".join(
        inline(plot, narrow).replace(
            "<svg ", f'<svg role="img" aria-label="{label}" class="{kind}" ', 1
        )
        for narrow, kind in ((False, "wide"), (True, "narrow"))
    )
    note = f"<figcaption>{escape(plot.note)}</figcaption>" if plot.note else ""
    table = _table(plot.head, plot.rows[:MOST_ROWS], f"Data: {plot.title}")
    more = _cut(len(plot.rows), MOST_ROWS)
    html = (
        f"<figure>{drawn}{note}</figure>"
        f"<details><summary>The numbers</summary>{table}{more}</details>"
    )
    return Section(plot.name, contents, _section(plot.name, plot.title, html))


def _section(name: str, title: str, html: str) -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{escape(title)}</h2>{html}</section>'
    )


def _tables(case: Case) -> Iterator[Section]:
    rows = every_trial(case)
    table = _table(HEAD, rows, "Every trial", failed=3) if rows else "<p>None yet.</p>"
    html = table + _cut(len(case.trials), MOST)
    title = "Every trial, the fastest first"
    yield Section("trials", "Trials", _section("trials", title, html))
    html = _table(("what", "value"), environment(case), "Environment")
    title = "What was measured, and on what"
    yield Section("environment", "Environment", _section("environment", title, html))
    title = "What changes in the config"
    yield Section("diff", "Diff", _section("diff", title, _diff(case)))


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], label: str, failed: int = -1
) -> str:
    """A table; ``failed`` is the column whose ``ok`` tells a row that succeeded."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(_row(row, failed) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str], failed: int) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
    lost = failed >= 0 and row[failed] != "ok"
    return f'<tr class="failed">{cells}</tr>' if lost else f"<tr>{cells}</tr>"


def _cut(count: int, most: int) -> str:
    return f"<p>{most:,} of {count:,} rows are shown.</p>" if count > most else ""


def _diff(case: Case) -> str:
    config = case.plan.config
    chosen = choices(case.plan, case.found)
    if not chosen:
        return "<p>Nothing: no other values are proposed.</p>"
    try:
        said = summary(case.plan, case.found, case.name)
        after = write_back(config.data, chosen, said)
    except CannotWrite as error:
        return f"<p>It cannot be written: {escape(clean(str(error)))}</p>"
    lines = unified_diff(config.path, config.data, after).split("\n")
    marked = "\n".join(_marked(line) for line in lines[:MOST_LINES])
    more = _cut(len(lines), MOST_LINES)
    return f'<pre tabindex="0" role="region" aria-label="diff">{marked}</pre>{more}'


def _marked(line: str) -> str:
    text = escape(clean(line, 500))
    kinds = {"+": "ins", "-": "del"}
    kind = "" if line.startswith(("+++", "---")) else kinds.get(line[:1], "")
    return f"<{kind}>{text}</{kind}>" if kind else text
