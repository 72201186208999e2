"""The report of a study's folder, written to files."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from fp8tune import atomic
from fp8tune.lint.wording import plain
from fp8tune.search.extrapolation import extrapolation
from fp8tune.search.report.data import Case, case
from fp8tune.search.saved import load_study
from fp8tune.search.storage import BadStudy
from fp8tune.search.tuned_config import CannotPut, check_apart, check_place, is_same

NAME = "report.html"
START = b"<!DOCTYPE html>"
"""How a page begins."""


def write(
    folder: str, output: str = "", *, plots: bool = False, url: str = ""
) -> list[str]:
    """Write the report; the paths that were written.

    Beside it, with ``plots``, each plot as PNG and SVG. Nothing else in the study's
    folder changes, and no link in it is followed. Raises ``BadStudy``, ``CannotPut``,
    ``OSError``; ``ModuleNotFoundError`` without matplotlib.
    """
    from fp8tune.search.report.figures.canvas import Figure, files
    from fp8tune.search.report.page import figures, page

    study = load_study(folder, url)
    path = output or os.path.join(folder, NAME)
    if output:
        check_place(output)
        check_apart(output, {study.plan.config.path: "the config"}, NAME)
        if not _is_within(output, folder):
            _check_page(output)
    told = case(study)
    drawn = figures(told)
    written = {path: page(told, drawn).encode(errors="backslashreplace")}
    stem = os.path.splitext(path)[0]
    for figure in drawn:
        if plots and isinstance(figure, Figure):
            for kind, data in files(figure, _mark(told)).items():
                written[f"{stem}-{figure.name}.{kind}"] = data
    for place, data in written.items():
        atomic.write(place, data, through=not _is_within(place, folder))
    return list(written)


def _is_within(path: str, folder: str) -> bool:
    return is_same(os.path.dirname(path) or ".", folder)


def _check_page(path: str) -> None:
    """Raise ``CannotPut`` where something else lies: a tuned config, records."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        start = file.read(len(START))
    if start not in (START, b""):
        lost = "a file that is no page"
        raise CannotPut(f"{path}: this would replace {lost}; try --output {NAME}")


def _mark(told: Case) -> str:
    """What the figures are no measurement of; ``""`` where they are one."""
    marks = [
        "Rehearsal on a CPU" * told.rehearsal,
        "Replay of recorded trials" * told.replay,
        "Extrapolated" * any(extrapolation(t.record) for t in told.trials),
    ]
    return ", ".join(filter(None, marks))


def write_at_end(folder: str, out: TextIO, url: str = "") -> None:
    """Write the report of a search that has ended, and say where it is.

    The search has its answer by now, so that no failure here counts.
    """
    try:
        (path,) = write(folder, url=url)
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        print(f"note: no report: it needs {error.name}: {hint}", file=sys.stderr)
    except BadStudy as error:
        print(f"note: no report: {plain(str(error))}", file=sys.stderr)
    except OSError as error:
        place = error.filename2 or error.filename or NAME
        print(
            f"note: no report: {plain(place)}: {error.strerror or error}",
            file=sys.stderr,
        )
    else:
        print(f"report {plain(path)}", file=out)
