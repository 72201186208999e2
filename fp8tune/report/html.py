"""Render the report of a study as one HTML page, with what to type next; write it."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import shlex
import sys
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from jinja2 import Environment, PackageLoader, StrictUndefined

from fp8tune import __version__, atomic
from fp8tune.formats.edits import unified_diff
from fp8tune.lint.wording import plain
from fp8tune.report.data import Report, headline, read_report, sentences, warnings
from fp8tune.report.knobs_plot import knobs_plot
from fp8tune.report.loss_plot import loss_plot
from fp8tune.report.memory_plot import memory_plot
from fp8tune.report.plots import NARROW, Plot, to_files, to_svg
from fp8tune.report.prediction_plot import prediction_plot
from fp8tune.report.steps_plot import steps_plot
from fp8tune.report.tables import environment, trial_table
from fp8tune.report.text import clean
from fp8tune.search import CannotSearch
from fp8tune.search.budget import show_duration, typed
from fp8tune.search.database import HIDDEN
from fp8tune.search.options import tuned
from fp8tune.search.saved_study import load_study
from fp8tune.search.storage import BadStudy
from fp8tune.search.tuned_config import check_apart, check_place, is_same, tuned_bytes
from fp8tune.search.writeback import CannotWrite
from fp8tune.studies import FOLDER, make_folder

NAME = "report.html"
START = b"<!DOCTYPE html>"
"""How a page begins."""
MAX_ROWS = 1000
"""Rows of a table that are shown."""
MAX_LINES = 400
"""Lines of the diff that are shown."""
SCRIPT = "report.js"
"""The page's script; its digest in the page lets a browser run it and no other."""
ON_CPU = ("device", "workers", "heartbeat")
"""Options of a rehearsal that a search on a GPU does not take over: as many workers of
this machine need as many GPUs."""
MAX_LINE = 500
"""Longest line of a config that is shown [characters]."""
MAX_TEXT = 4000
"""Longest text that is inserted into the page [characters]."""


class DiffLine(NamedTuple):
    """A line of the diff, and the HTML element that marks it."""

    text: str
    tag: str


def write_report(
    folder: str, output: str = "", *, plots: bool = False, url: str = ""
) -> list[str]:
    """Write the report of a study's folder; return the paths that were written.

    ``plots`` adds each plot as PNG and SVG beside the page. Nothing else in the study's
    folder changes, and no link in it is followed. Raises ``CannotSearch``, ``OSError``.
    """
    study = load_study(folder, url)
    path = output or os.path.join(folder, NAME)
    if output:
        check_place(output)
        check_apart(output, {study.plan.config.path: "the config"}, NAME)
        if not _is_within(output, folder):
            _check_is_page(output)
    report = read_report(study)
    figures = draw_plots(report)
    files = {path: render(report, figures).encode(errors="backslashreplace")}
    stem = os.path.splitext(path)[0]
    for plot in figures:
        if plots and plot.draw:
            for kind, data in to_files(plot, _mark(report)).items():
                files[f"{stem}-{plot.name}.{kind}"] = data
    if not output:
        make_folder(folder)  # of a study that only the storage has
    for place, data in files.items():
        atomic.write(place, data, through=not _is_within(place, folder))
    return list(files)


def write_at_end(folder: str, out: TextIO, url: str = "") -> None:
    """Write the report of a search that has ended, and print where it is.

    The search has its answer by now: a failure here is only a note on stderr.
    """
    try:
        (path,) = write_report(folder, url=url)
    except BadStudy as error:
        print(f"note: no report: {plain(str(error))}", file=sys.stderr)
    except OSError as error:
        place = plain(error.filename2 or error.filename or NAME)
        why = error.strerror or error
        print(f"note: no report: {place}: {why}", file=sys.stderr)
    else:
        print(f"report {plain(path)}", file=out)


def draw_plots(report: Report) -> list[Plot]:
    """Return every plot of a report, the most important first."""
    every = (memory_plot, knobs_plot, prediction_plot, loss_plot, steps_plot)
    return [plot(report) for plot in every]


def render(report: Report, plots: Sequence[Plot]) -> str:
    """Return the page: it loads nothing, and all text from outside is escaped."""
    pages = environment_of_pages()
    diff, tuned_text, why_no_diff = _diff(report)
    script, digest = script_of(pages)
    return pages.get_template(NAME).render(
        report=report,
        headline=headline(report),
        warnings=list(warnings(report)),
        sentences=list(sentences(report)),
        plots=plots,
        svg=to_svg,
        narrow=NARROW,
        commands=list(next_commands(report)),
        trials=trial_table(report),
        environment=environment(report),
        diff=diff,
        why_no_diff=why_no_diff,
        tuned=tuned_text,
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


def next_commands(report: Report) -> Iterator[str]:
    """Yield the commands that continue from a study, one per line."""
    config, output = report.plan.config.path, report.output
    path, is_live, options = _quoted(config), not report.is_replay, _options(report)
    if HIDDEN in (storage := str(_kept(report).get("storage"))):
        yield f"export FP8TUNE_STORAGE={_quoted(storage)}  # with its password"
    if report.is_running:
        again = f"fp8tune report {_study(report)}{_options(report, 'storage')}"
        yield f"{again}  # again: the search is still running"
        return
    enough = report.outcome.ending.budget_s
    longer = f"{max(2, math.ceil(report.seconds / 3600 + 1))}h"
    again = f"fp8tune search {path} --budget {typed(enough) if enough else longer}"
    first, spent = f"fp8tune search {path} --budget 2h", show_duration(report.seconds)
    allowed = report.study.about.get("allow") or ()
    overrides = report.plan.config.overrides
    behind = f" -- {' '.join(map(_quoted, overrides))}" if overrides else ""
    if report.is_rehearsal:
        if is_live and report.goes_on:
            yield f"{again}{options}{behind}  # continues: {spent} of it are spent"
        but = {*ON_CPU} - ({"workers"} if "slurm" in _kept(report) else set())
        yield f"{first}{_options(report, but=but)}{behind}  # on a GPU"
    elif is_live and report.goes_on:
        yield f"{again}{options}{behind}  # continues: {spent} of it are spent"
    elif is_live and report.bf16_wins and "precision" not in allowed:
        yield f"{first}{options} --allow precision{behind}"
    elif output and not is_same(output, config):
        yield f"diff {path} {_quoted(output)}"
        yield f"fp8tune lint {_quoted(output)}"
    elif is_live and report.chosen not in (None, report.plan.baseline) and not output:
        yield f"{again}{options}{behind}  # writes it"
    else:
        yield f"fp8tune lint {path}{behind}"


def _study(report: Report) -> str:
    """Return the study's name or path as ``fp8tune report`` takes it."""
    folder = os.path.relpath(report.study.folder)
    is_default = os.path.dirname(folder) == FOLDER
    return _quoted(report.study.name if is_default else folder)


def _options(report: Report, *only: str, but: Container[str] = ()) -> str:
    """Return the options of a study's last search, or ``only`` some of them.

    A storage with a password is left to FP8TUNE_STORAGE, as no file has the password.
    """
    words = [""]
    for name, value in _kept(report).items():
        hidden = name == "storage" and HIDDEN in str(value)
        if hidden or name in but or (only and name not in only):
            continue
        option = _quoted(f"--{name.replace('_', '-')}")
        for each in value if isinstance(value, list) else [value]:
            words += [option] if each is True else [option, _quoted(str(each))]
    return " ".join(words)


def _kept(report: Report) -> dict[str, Any]:
    kept = report.study.about.get("options")
    return kept if isinstance(kept, dict) else {}


def _quoted(text: str) -> str:
    return shlex.quote(clean(text))


def _finalize(value: Any) -> Any:
    """Make text harmless before it is escaped; what is HTML already stays as it is."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return clean(value, MAX_TEXT)
    return value


def _diff(report: Report) -> tuple[list[DiffLine], str, str]:
    """Return the diff of the config and its tuned text, or why there are none."""
    config, study = report.plan.config, report.study.name
    path = report.output or tuned(config.path)
    try:
        after = tuned_bytes(
            report.plan, report.outcome, study, path, is_replay=report.is_replay
        )
    except CannotWrite as error:
        return [], "", f"It cannot be written: {error}"
    if not after:
        return [], "", "Nothing: no other values are proposed."
    text = unified_diff(config.path, config.data, after)
    lines = after.decode(errors="replace").split("\n")
    return list(_marked(text)), "\n".join(clean(line, MAX_LINE) for line in lines), ""


def _marked(diff: str) -> Iterator[DiffLine]:
    for line in diff.split("\n"):
        is_name = line.startswith(("+++", "---"))
        tag = {"+": "ins", "-": "del"}.get(line[:1], "span")
        yield DiffLine(clean(line, MAX_LINE), "span" if is_name else tag)


def _is_within(path: str, folder: str) -> bool:
    return is_same(os.path.dirname(path) or ".", folder)


def _check_is_page(path: str) -> None:
    """Raise ``CannotSearch`` if the path is a file that is not a report."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        start = file.read(len(START))
    if start not in (START, b""):
        lost = "a file that is not a report"
        raise CannotSearch(f"{path}: this would replace {lost}; try --output {NAME}")


def _mark(report: Report) -> str:
    """Return the note on a plot's file if it shows no GPU measurement, else ``""``."""
    marks = [
        "Rehearsal on a CPU" * report.is_rehearsal,
        "Replay of recorded trials" * report.is_replay,
        "Extrapolated" * any(t.record.extrapolated for t in report.study.trials),
    ]
    return ", ".join(filter(None, marks))
