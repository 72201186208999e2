"""Rules on two files: wrong only because of another config of the same run.

Such a rule has ``same`` and ``differs`` in addition to its condition. It fires in two
files that both meet the condition, have the same value of ``same`` and different values
of ``differs``: two models that share a checkpoint folder, for instance.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache

from fp8tune.lint.diagnostic import Report


def conflicts(reports: Iterable[Report]) -> dict[str, dict[str, str]]:
    """Return, by path, the rules on two files that fire there, with the other path."""
    groups: dict[tuple[str, str, str], dict[str, int]] = {}
    for report in reports:
        for rule, (same, differs) in report.compared.items():
            place = _place(same, report.path)
            groups.setdefault((rule, same, place), {})[report.path] = differs
    found: dict[str, dict[str, str]] = {}
    for (rule, _, _), files in groups.items():
        for path, value in files.items():
            other = next((o for o, said in files.items() if said != value), "")
            if other:
                found.setdefault(path, {})[rule] = other
    return found


def _place(same: str, path: str) -> str:
    """Return where a value has one meaning: a relative path, within one folder.

    ``same`` is the ``repr`` of a value; one that begins with a slash is absolute.
    """
    absolute = same.strip("['\"").startswith("/")
    return "" if absolute else _absolute(os.path.dirname(path))


@cache
def _absolute(folder: str) -> str:
    return os.path.abspath(folder)


def merged(reports: list[Report], again: Iterable[Report]) -> Iterator[Report]:
    """Yield the reports, with findings of rules on two files from a second check."""
    found = {report.path: report for report in again}
    for report in reports:
        more = found.get(report.path)
        if more is None:
            yield report
            continue
        diagnostics = [*report.diagnostics, *more.diagnostics]
        yield report._replace(
            diagnostics=sorted(diagnostics, key=lambda d: (d.region, d.code)),
            lines={**report.lines, **more.lines},
            suppressed=(*report.suppressed, *more.suppressed),
        )
