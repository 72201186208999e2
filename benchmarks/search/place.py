"""A place to search: what each setting does there, generated or recorded.

``Place`` is what every way of tuning is run on. Its settings differ in speed and cost,
and some are wrong: they fail, run in bf16 where FP8 is asked, or learn something else.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.on_gpu import records as recordings
from fp8tune.runners.replay import Replay
from fp8tune.search.losses.compare import LossCurve, LossVerdict
from fp8tune.search.losses.findings import loss_key, stability_by_setting
from fp8tune.search.losses.loss_runs import Conditions, conditions_for_replay
from fp8tune.search.prior import Prior, card_gib, prior_of_job
from fp8tune.search.recorded import plan_for_records
from fp8tune.trials.record import FULL, LossRun, Record
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

NO_FP8 = "FP8 was requested, but no FP8 matmul ran"

CanRun = Callable[[dict[str, Any], LossRun], bool]
"""Whether a loss run of a setting is possible."""
Train = Callable[[str, LossRun], LossCurve]
"""Trains in a precision to compare losses."""


@dataclass(frozen=True)
class Place:
    """The settings of one config, what trials of each show, and what each truly does.

    ``speeds`` are the true tokens/s of the settings that run. ``wrong`` says why a
    setting that runs must not be chosen. ``trains`` has the losses by the part of a
    setting that changes them, ``loss_records`` those that were recorded; ``conditions``
    says how a search compares them.
    """

    name: str
    space: Space
    given: Point
    records: Mapping[Point, Sequence[Record]]
    speeds: Mapping[Point, float]
    wrong: Mapping[Point, str]
    capacity_gib: float
    prior: Prior | None = None
    trains: Mapping[Point, Train] | None = None
    loss_records: Sequence[Record] = ()
    conditions: Callable[[CanRun], Conditions | None] = lambda _can_run: None

    @cached_property
    def best(self) -> float:
        """Tokens/s of the fastest correct setting that leaves memory free, or given."""
        return max(
            self.speeds[point]
            for point in self.space.points(self.given)
            if self.is_correct(point)
            and (point == self.given or not self.nearly_full(point))
        )

    def nearly_full(self, point: Point) -> bool:
        """Return whether a setting reserves more memory than a long run can rely on."""
        limit = FULL * self.capacity_gib
        return bool(limit) and any(r.reserved_gib > limit for r in self.records[point])

    def is_correct(self, point: Point) -> bool:
        """Return whether a setting runs, in the precision it asks for, and learns."""
        return not self.why_wrong(point)

    def why_wrong(self, point: Point) -> str:
        """Return why a setting must not be chosen; ``""`` if it may."""
        if point not in self.speeds:
            own = self.records.get(point, ())
            return own[0].outcome if own else "not recorded"
        return self.wrong.get(point, "")

    def share(self, point: Point) -> float:
        """Return a setting's speed over that of the best correct one; 0 if wrong."""
        if not self.is_correct(point):
            return 0.0
        return min(1.0, self.speeds[point] / self.best)

    def same(self, point: Point) -> Point:
        """Return the setting without what has no effect: FP8's own knobs in bf16."""
        precision = self.space.value(point, "precision")
        return self.space.in_precision(point, precision) or point

    def runner(self) -> Trials:
        """Return a runner that replays the trials of this place."""
        return Trials(self)


class Trials(Replay):
    """Replays the trials of a place as fp8tune's own runners would report them.

    A run that was to be in FP8 and was not has failed. Loss runs of any length are
    generated where the place can train.
    """

    def __init__(self, place: Place) -> None:
        every = (record for own in place.records.values() for record in own)
        space, card = place.space, place.capacity_gib
        super().__init__(every, space, place.loss_records, card)
        self._place = place

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Return the next record of a setting."""
        record = super().run(knobs, limits)
        point = self.space.point(knobs)
        is_fp8 = self.space.value(point, "precision") == "fp8"
        if record.ok and is_fp8 and record.float8_matmuls == 0:
            return Record(knobs, "user", cost_s=record.cost_s, message=NO_FP8)
        return record

    def offers(self, knobs: dict[str, Any], how: LossRun) -> bool:
        """Return whether such a loss run is possible."""
        return self._place.trains is not None or super().offers(knobs, how)

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Return the record of a loss run."""
        place, point = self._place, self.space.point(knobs)
        if place.trains is None:
            return super().train_for_losses(knobs, loss_run, deadline_s)
        like = place.records[point][-1]
        if not like.ok:
            return like._replace(loss_run=loss_run)
        cost = like.cost_s - _stepping_s(like)
        cost += loss_run.steps * statistics.median(like.step_ms) / 1e3
        if cost > deadline_s:
            self._now += deadline_s
            return Record(knobs, "hang", cost_s=deadline_s, loss_run=loss_run)
        precision = str(self.space.value(point, "precision"))
        key = loss_key(self.space, self.space.in_precision(point, "fp8") or point)
        curve = place.trains[key](precision, loss_run)
        self._now += cost
        return Record(
            knobs,
            "nan" if curve.nan else "ok",
            like.tokens_per_second,
            cost_s=cost,
            losses=curve.losses,
            grad_norms=curve.grad_norms,
            loss_run=loss_run,
        )


def _stepping_s(record: Record) -> float:
    """Return how long a trial's steps took [s]."""
    return sum(record.all_step_ms or record.step_ms) / 1e3


def in_process_s(record: Record, steps: int = 3) -> float:
    """Return what a trial takes that needs no new process and only some steps [s]."""
    cost = record.cost_s - record.import_s
    if not record.step_ms:
        return cost
    return cost - _stepping_s(record) + steps * statistics.median(record.step_ms) / 1e3


def recorded(path: Path) -> Place:
    """Return the place that a file of recorded trials shows (``on_gpu/records.py``).

    Speeds are medians. A setting is wrong whose FP8 linears ran no FP8 matmul, or whose
    recorded losses leave bf16's.
    """
    rows = list(recordings.read(path))
    config = rows[0].config
    timed = [row.record for row in rows if not row.record.loss_run]
    learned = [row.record for row in rows if row.record.loss_run]
    keys = list(dict.fromkeys(key for record in timed for key in record.knobs))
    plan, timed = plan_for_records(config, timed, keys)
    space = plan.space
    own: dict[Point, list[Record]] = defaultdict(list)
    for record in timed:
        own[space.point(record.knobs)].append(record)
    speeds = {
        point: statistics.median(record.tokens_per_second for record in some)
        for point, some in own.items()
        if all(record.ok for record in some)
    }
    return Place(
        name=path.stem,
        space=space,
        given=plan.baseline,
        records=own,
        speeds=speeds,
        wrong=_wrong(space, plan.baseline, own, learned),
        capacity_gib=card_gib(config.job),
        prior=prior_of_job(space, config.job),
        loss_records=learned,
        conditions=lambda can_run: conditions_for_replay(
            config, learned, keys, can_run
        ),
    )


def _wrong(
    space: Space,
    given: Point,
    own: Mapping[Point, Sequence[Record]],
    learned: Iterable[Record],
) -> dict[Point, str]:
    """Return why settings that ran are wrong."""
    runs = [Trial(n, "stability", record) for n, record in enumerate(learned)]
    verdicts = {
        loss_key(space, point): found.verdict
        for point, found in stability_by_setting(space, runs, given).items()
    }
    bad = (LossVerdict.OUTSIDE, LossVerdict.DIVERGED)
    wrong = {}
    for point, some in own.items():
        verdict = verdicts.get(loss_key(space, point))
        if space.value(point, "precision") == "fp8" and any(
            record.float8_matmuls == 0 for record in some
        ):
            wrong[point] = NO_FP8
        elif verdict in bad:
            wrong[point] = f"losses: {verdict}"
    return wrong
