"""What to type after reading a report."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator

from fp8tune.facts.gpus import UnknownGpu, resolve
from fp8tune.job import Target
from fp8tune.search.benefit import reached
from fp8tune.search.objective import SPEED
from fp8tune.search.options import tuned
from fp8tune.search.plan import CannotPlan, read_config
from fp8tune.search.report.data import Case
from fp8tune.search.report.words import clean
from fp8tune.search.tuned_config import is_same

STUDIES = ".fp8tune"
"""The folder of all studies where none is named."""


def commands(case: Case) -> Iterator[str]:
    """The commands that go on from a study, a line each."""
    if case.running:
        yield f"fp8tune report {_folder(case)}  # again: the search still runs"
        return
    path = shlex.quote(clean(case.plan.config.path))
    found, search, options = case.found, f"fp8tune search {path}", _options(case)
    again = f"{search} --budget {_budget(found.seconds)}{options}"
    diverges = found.chosen is None and bool(found.rejected)
    gain = reached(case.found).fp8
    bf16_wins = diverges or (gain is not None and gain.high < 1)
    output, live = case.output, not case.replay
    inconclusive = found.verdict == "inconclusive" and found.chosen in (
        None,
        case.plan.baseline,
    )
    goes_on = live and not diverges and (inconclusive or not case.ended) and found.more
    if case.rehearsal:
        if goes_on:
            yield f"{again} --device cpu  # goes on from here"
        yield f"{search} --budget {_budget()}{options}  # on a GPU"
    elif goes_on:
        yield f"{again}  # goes on from here"
    elif bf16_wins and live and "precision" not in _allowed(case):
        yield f"{search} --budget {_budget()}{options} --allow precision"
    elif output and not is_same(output, case.plan.config.path):
        yield f"diff {path} {shlex.quote(clean(output))}"
        yield f"fp8tune lint {shlex.quote(clean(output))}"
    elif output == "" and found.chosen not in (None, case.plan.baseline) and live:
        yield f"{again}  # writes it"
    else:
        yield f"fp8tune lint {path}"


def _folder(case: Case) -> str:
    """The study, as a command is told of it."""
    where = os.path.dirname(os.path.abspath(case.folder))
    at_home = os.path.basename(where) == STUDIES
    return shlex.quote(clean(case.name if at_home else os.path.relpath(case.folder)))


def _budget(spent: float = 0.0) -> str:
    """A budget that leaves time beside what was spent [s]."""
    return f"{max(2, math.ceil(spent / 3600 + 1))}h"


def _options(case: Case) -> str:
    """What the search was told that makes it this one and no other."""
    target = case.plan.config.job.target
    told = [*_named(case), *(("allow", name) for name in _allowed(case))]
    told += [("objective", case.found.aim)] * (case.found.aim != SPEED)
    told += [("world-size", str(target.world_size))] * (target.world_size > 1)
    output, path = case.output, case.plan.config.path
    if output and not is_same(output, path) and not is_same(output, tuned(path)):
        told.append(("output", output))
    if asked := case.about.get("start_from"):
        told.append(("start-from", str(asked)))
    inside = " --in-place" * bool(output and is_same(output, path))
    return inside + "".join(
        f" --{name} {shlex.quote(clean(said))}" for name, said in told
    )


def _named(case: Case) -> Iterator[tuple[str, str]]:
    """Where it lies, and what of its job nobody would know who is not told."""
    studies = os.path.dirname(os.path.abspath(case.folder))
    if os.path.basename(studies) != STUDIES:
        yield "studies", os.path.relpath(studies)
    config, machine = case.plan.config, case.about.get("machine")
    gpu = config.job.target.gpu
    try:
        alone = read_config(config.path, config.data, Target())
    except CannotPlan:
        alone = None
    if alone is None or alone.trainer.name != config.trainer.name:
        yield "trainer", config.trainer.name
    if case.rehearsal:
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


def _allowed(case: Case) -> list[str]:
    allowed = case.about.get("allow")
    return [str(name) for name in allowed] if isinstance(allowed, list) else []
