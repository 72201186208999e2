"""Where a search starts: from the estimate, what corrects it, and an earlier study.

Chosen once and kept in the study, so that a search that was killed goes on
from the same start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from fp8tune.facts.runs import BadCalibration, Run
from fp8tune.facts.stored import parse
from fp8tune.search.aim import aimed
from fp8tune.search.calibrate import measured, stored
from fp8tune.search.earlier import earlier_trials
from fp8tune.search.near import VERSIONS, Found, found_in, nearest
from fp8tune.search.plan import CannotPlan, Plan
from fp8tune.search.prior import card_gib, completed, from_job
from fp8tune.search.retries import counting, latest
from fp8tune.search.sampled import Sampled
from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.study import Study, described
from fp8tune.trials.record import Record
from fp8tune.trials.trial import timed

NONE = "none"
"""What is said for no earlier study."""


class Start(NamedTuple):
    """Where a search starts, as its study has it.

    ``study`` is the folder of an earlier study, or ``""``, and ``trials`` how many of
    its trials count; ``said`` tells the user; ``runs`` correct the estimate.
    """

    study: str = ""
    trials: int = 0
    said: str = ""
    runs: tuple[Run, ...] = ()

    def about(self) -> dict[str, Any]:
        """The same for JSON."""
        return {**self._asdict(), "runs": [run._asdict() for run in self.runs]}


def start(
    plan: Plan,
    about: Mapping[str, Any],
    folder: str,
    studies: str,
    asked: str,
    url: str = "",
) -> Start:
    """Where a search starts that has this folder, and its study at ``url``.

    ``asked`` is a study, ``none``, or ``""`` for the nearest. Raises ``CannotPlan``
    where the one that is asked for cannot be started from, and ``BadStudy``.
    """
    if (known := described(folder, url)) is not None:
        return _written(known)
    found, said = _chosen(plan, about, folder, studies, asked)
    runs: list[Run] = []
    if about.get("device") == "cuda":
        here = {name: str(about[name]) for name in VERSIONS if about.get(name)}
        try:
            runs += stored(studies, str(about["gpu"]), here)
        except BadCalibration as error:
            said += f"{'; ' * bool(said)}the estimate is not corrected: {error}"
    if found is None:
        return Start(said=said, runs=tuple(runs))
    records = [trial.record for trial in timed(found.study.trials)]
    own = measured(found.study.plan.config.job, records)
    runs += [run for run in own if run not in runs]
    return Start(found.folder, len(records), said, tuple(runs))


def _chosen(
    plan: Plan, about: Mapping[str, Any], folder: str, studies: str, asked: str
) -> tuple[Found | None, str]:
    """The earlier study, and a line about it."""
    replayed = "records" in about
    if asked == NONE or (replayed and not asked):
        return None, ""
    if asked:
        place = asked if os.path.isdir(asked) else os.path.join(studies, asked)
        found = found_in(place, plan, about)
        if found is None:
            raise CannotPlan(f"--start-from {asked}: no study of a search")
        if found.wrong:
            raise CannotPlan(f"--start-from {asked}: {found.wrong}")
    else:
        near = nearest(plan, about, studies, folder)
        if not near:
            return None, ""
        found = near[0]
        if found.wrong:
            return None, f"{found.study.name} is not used: {found.wrong}"
    machine = "CPU" if about.get("device") == "cpu" else "GPU"
    where = "another replay" if replayed else f"same {machine} and versions"
    return found, f"starts from {found.study.name}: {where}; {found.differs}"


def _written(about: Mapping[str, Any]) -> Start:
    """Where a search started that goes on; anybody may have written the study."""
    try:
        said = about["start"]
        lines = (json.dumps(run) for run in said["runs"])
        runs = tuple(parse("start", n, line) for n, line in enumerate(lines, 1))
        found = Start(str(said["study"]), int(said["trials"]), str(said["said"]), runs)
    except (ValueError, LookupError, TypeError, BadCalibration):
        return Start()
    return found


def strategy(
    plan: Plan,
    about: Mapping[str, Any],
    begun: Start,
    aim: str,
    study: Study,
    sampler: str = "auto",
) -> Sampled:
    """The strategy of a search that starts there; raises ``CannotPlan``."""
    prior = from_job(plan.space, plan.config.job, begun.runs)
    card = card_gib(plan.config.job)
    past = _earlier(plan, about, begun, aim)
    try:
        return Sampled(study, plan.given, prior, card, past, sampler)
    except ImportError as error:
        raise CannotPlan(f"--sampler {sampler}: {error}") from None


def _earlier(
    plan: Plan, about: Mapping[str, Any], begun: Start, aim: str
) -> list[EarlierTrial]:
    """The trials of the study that a search starts from, if it is what it was."""
    found = found_in(begun.study, plan, about) if begun.study else None
    if found is None or found.wrong:
        return []
    job, other = plan.config.job, found.study.plan
    every = timed(found.study.trials)[: begun.trials]
    trials = counting(every, latest(every))
    pairs = zip(trials, aimed(trials, aim), strict=True)
    known = (own for raw, own in pairs if own.record.ok or not raw.record.ok)
    records = [trial.record for trial in known]
    points = {other.space.point(record.knobs) for record in records}
    prior = from_job(other.space, other.config.job, begun.runs)
    expected = completed(other.space, {point: prior(point) for point in sorted(points)})

    def expect(record: Record) -> Expected:
        return expected[other.space.point(record.knobs)]

    scale = other.config.job["seq_len"] / job["seq_len"]
    card = card_gib(other.config.job)
    return list(earlier_trials(plan.space, records, expect, scale, card))
