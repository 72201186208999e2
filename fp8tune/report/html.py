"""Render the report of a study as one HTML page, with what to type next; write it."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from jinja2 import Environment, PackageLoader, StrictUndefined

from fp8tune import __version__, atomic
from fp8tune.formats.edits import unified_diff
from fp8tune.report.curves_plot import loss_plot
from fp8tune.report.data import StudyReport, headline, read_report, sentences, warnings
from fp8tune.report.knobs_plot import knobs_plot
from fp8tune.report.memory_plot import memory_plot
from fp8tune.report.plots import Plot, to_svg
from fp8tune.report.steps_plot import steps_plot
from fp8tune.report.tables import environment, figures_table, trial_table
from fp8tune.search.answer.stored import options_of, password_lines
from fp8tune.search.linting import quoted
from fp8tune.search.saved_study import load_study
from fp8tune.search.storage import BadStudy
from fp8tune.studies import FOLDER, make_folder
from fp8tune.words import clean, plain

NAME = "report.html"
MAX_ROWS = 1000
"""Rows of a table that are shown."""
MAX_LINES = 400
"""Lines of the diff that are shown."""
SCRIPT = "report.js"
"""The page's script; its digest in the page lets a browser run it and no other."""
MAX_LINE = 500
"""Longest line of a config that is shown [characters]."""
MAX_TEXT = 4000
"""Longest text that is inserted into the page [characters]."""


class DiffLine(NamedTuple):
    """A line of the diff, and the HTML element that marks it."""

    text: str
    tag: str


def write_report(folder: str, url: str = "") -> str:
    """Write the report of a study's folder; return its path.

    Nothing else in the study's folder changes, and no link in it is followed. Raises
    ``CannotSearch``, ``OSError``.
    """
    report = read_report(load_study(folder, url))
    page = render(report, draw_plots(report)).encode(errors="backslashreplace")
    make_folder(folder)  # of a study that only the storage has
    path = os.path.join(folder, NAME)
    atomic.write(path, page, through=False)
    return path


def write_at_end(folder: str, out: TextIO, url: str = "") -> None:
    """Write the report of a search that has ended, and print where it is.

    The search has its answer by now: a failure here is only a note on stderr.
    """
    try:
        path = write_report(folder, url=url)
    except BadStudy as error:
        print(f"note: no report: {plain(str(error))}", file=sys.stderr)
    except OSError as error:
        place = plain(error.filename2 or error.filename or NAME)
        why = error.strerror or error
        print(f"note: no report: {place}: {why}", file=sys.stderr)
    else:
        print(f"report {plain(path)}", file=out)


def draw_plots(report: StudyReport) -> list[Plot]:
    """Return every plot of a report, the most important first."""
    every = (memory_plot, knobs_plot, loss_plot, steps_plot)
    return [plot(report) for plot in every]


def render(report: StudyReport, plots: Sequence[Plot]) -> str:
    """Return the page: it loads nothing, and all text from outside is escaped."""
    pages = environment_of_pages()
    diff, tuned, why_no_diff = _diff(report)
    script, digest = script_of(pages)
    return pages.get_template(NAME).render(
        report=report,
        headline=headline(report),
        warnings=list(warnings(report)),
        sentences=list(sentences(report)),
        drawn=[plot for plot in plots if plot.draw],
        undrawn=[plot for plot in plots if not plot.draw],
        svg=to_svg,
        figures=figures_table(report),
        commands=commands(report),
        trials=trial_table(report),
        environment=environment(report),
        diff=diff,
        why_no_diff=why_no_diff,
        tuned=tuned,
        script=script,
        script_hash=digest,
        max_rows=MAX_ROWS,
        max_lines=MAX_LINES,
        version=__version__,
    )


def environment_of_pages() -> Environment:
    """Return what renders the templates: all text from outside is escaped."""
    return Environment(
        loader=PackageLoader("fp8tune.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_of(pages: Environment) -> tuple[str, str]:
    """Return the script of a page, and its digest for the page's policy."""
    script = pages.get_template(SCRIPT).render()
    digest = hashlib.sha256(script.encode()).digest()
    return script, base64.b64encode(digest).decode()


def commands(report: StudyReport) -> list[str]:
    """Return what to type next: to continue from a study, or to look again."""
    about = report.study.about
    if not report.is_running:
        return list(report.commands)
    again = f"fp8tune report {_study(report)}{options_of(about, 'storage')}"
    line = f"{again}  # again: the search is still running"
    return [*password_lines(about), line]


def _study(report: StudyReport) -> str:
    """Return the study's name or path as ``fp8tune report`` takes it."""
    folder = os.path.relpath(report.study.folder)
    is_default = os.path.dirname(folder) == FOLDER
    return quoted(report.study.name if is_default else folder)


def _finalize(value: Any) -> Any:
    """Make text harmless before it is escaped; what is HTML already stays as it is."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return clean(value, MAX_TEXT)
    return value


def _diff(report: StudyReport) -> tuple[list[DiffLine], list[str], str]:
    """Return the diff of the config and its tuned text, or why there are none."""
    about, config = report.study.about, report.plan.config
    tuned, unwritten = about.get("tuned"), about.get("unwritten")
    if report.output is None:
        return [], [], "Nothing yet: the search has not ended."
    if unwritten:
        return [], [], f"It cannot be written: {unwritten}"
    if not tuned:
        return [], [], "Nothing: no other values are proposed."
    texts = tuned if isinstance(tuned, dict) else {config.path: str(tuned)}
    before = config.bytes_by_path
    lines = [
        clean(line, MAX_LINE) for text in texts.values() for line in text.split("\n")
    ]
    text = "".join(
        unified_diff(path, before.get(path, b""), after.encode(errors="replace"))
        for path, after in texts.items()
    )
    return list(_marked(text)), lines, ""


def _marked(diff: str) -> Iterator[DiffLine]:
    for line in diff.split("\n"):
        is_name = line.startswith(("+++", "---"))
        tag = {"+": "ins", "-": "del"}.get(line[:1], "span")
        yield DiffLine(clean(line, MAX_LINE), "span" if is_name else tag)
