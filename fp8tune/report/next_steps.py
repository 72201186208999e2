"""The commands that a report proposes to type next."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator

from fp8tune.facts.gpus import UnknownGpu, resolve
from fp8tune.job import Target
from fp8tune.report.data import Report
from fp8tune.report.text import clean
from fp8tune.search.objective import SPEED
from fp8tune.search.options import tuned
from fp8tune.search.plan import CannotPlan, read_config
from fp8tune.search.tuned_config import is_same

STUDIES = ".fp8tune"
"""The folder of all studies if no other one is named."""


def next_commands(report: Report) -> Iterator[str]:
    """Yield the commands that go on from a study, one a line."""
    if report.is_running:
        yield f"fp8tune report {_study(report)}  # again: the search still runs"
        return
    config, output = report.plan.config.path, report.output
    path, is_live = _quoted(config), not report.is_replay
    first = f"fp8tune search {path} --budget {_budget()}{_options(report)}"
    again = (
        f"fp8tune search {path} --budget {_budget(report.seconds)}{_options(report)}"
    )
    overrides = report.plan.config.overrides
    behind = f" -- {' '.join(map(_quoted, overrides))}" if overrides else ""
    changed = report.chosen not in (None, report.plan.baseline)
    if report.is_rehearsal:
        if is_live and report.goes_on:
            yield f"{again} --device cpu{behind}  # goes on from here"
        yield f"{first}{behind}  # on a GPU"
    elif is_live and report.goes_on:
        yield f"{again}{behind}  # goes on from here"
    elif is_live and report.bf16_wins and "precision" not in _allowed(report):
        yield f"{first} --allow precision{behind}"
    elif output and not is_same(output, config):
        yield f"diff {path} {_quoted(output)}"
        yield f"fp8tune lint {_quoted(output)}"
    elif is_live and changed and output == "":
        yield f"{again}{behind}  # writes it"
    else:
        yield f"fp8tune lint {path}{behind}"


def _quoted(text: str) -> str:
    return shlex.quote(clean(text))


def _study(report: Report) -> str:
    """Return the study as ``fp8tune report`` takes it."""
    folder = report.study.folder
    parent = os.path.basename(os.path.dirname(os.path.abspath(folder)))
    is_default = parent == STUDIES
    return _quoted(report.study.name if is_default else os.path.relpath(folder))


def _budget(spent: float = 0.0) -> str:
    """Return a budget with at least an hour more than was spent [s]."""
    return f"{max(2, math.ceil(spent / 3600 + 1))}h"


def _options(report: Report) -> str:
    """Return the options that make a command continue this search and no other."""
    config, output = report.plan.config, report.output
    options = [*_environment(report), *(("allow", key) for key in _allowed(report))]
    if report.objective != SPEED:
        options.append(("objective", report.objective))
    if config.job.target.world_size > 1:
        options.append(("world-size", str(config.job.target.world_size)))
    in_place = bool(output and is_same(output, config.path))
    if output and not in_place and not is_same(output, tuned(config.path)):
        options.append(("output", output))
    if start := report.study.about.get("start_from"):
        options.append(("start-from", str(start)))
    return " --in-place" * in_place + "".join(
        f" --{name} {_quoted(value)}" for name, value in options
    )


def _environment(report: Report) -> Iterator[tuple[str, str]]:
    """Yield where the study lies, and what config and machine do not say of the job."""
    studies = os.path.dirname(os.path.abspath(report.study.folder))
    if os.path.basename(studies) != STUDIES:
        yield "studies", os.path.relpath(studies)
    config, machine = report.plan.config, report.study.about.get("machine")
    gpu = config.job.target.gpu
    try:
        alone = read_config(config.path, config.data, Target())
    except CannotPlan:
        alone = None
    if alone is None or alone.trainer.name != config.trainer.name:
        yield "trainer", config.trainer.name
    if report.is_rehearsal:
        known = alone.job.target.gpu if alone else ""
    else:
        known = _resolved(machine) if isinstance(machine, str) else gpu
    if gpu != known:
        yield "gpu", gpu


def _resolved(machine: str) -> str:
    try:
        return resolve(machine)
    except UnknownGpu:
        return ""


def _allowed(report: Report) -> list[str]:
    allowed = report.study.about.get("allow")
    return [str(name) for name in allowed] if isinstance(allowed, list) else []
