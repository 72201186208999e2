"""Evaluate the trials of a search by setting: speed, noise, memory, failures."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from fp8tune.search.losses.findings import Stability, loss_key, stability_by_setting
from fp8tune.search.objective import by_objective
from fp8tune.search.statistics import (
    FAR,
    ON_CPU,
    ON_GPU,
    Noise,
    Speed,
    communication_error,
    in_line,
    paired,
    paired_spread,
    speed,
    spread,
    steps_spread,
    wider,
)
from fp8tune.trials.record import Record
from fp8tune.trials.space import FP8, Point, Space
from fp8tune.trials.trial import Trial, timed

ENOUGH = 4
"""Pairs of runs that tell by themselves how much pairs differ."""
NEAR = 5
"""Trials that neighbours may be apart: as many as one turn of a confirmation has."""
DRIFTED = 0.03
"""Change of speed between search and confirmation from which it counts as one."""


class Runs(tuple[Trial, ...]):
    """The timed trials of one setting, in order."""

    __slots__ = ()

    @property
    def succeeded(self) -> list[Record]:
        """The records of those that ran."""
        return [trial.record for trial in self if trial.record.ok]

    @property
    def ran(self) -> bool:
        """Whether one of them succeeded."""
        return bool(self.succeeded)

    @property
    def failed(self) -> bool:
        """Whether one of them failed permanently."""
        return any(trial.record.meaning.unfit for trial in self)

    @property
    def failed_later(self) -> str:
        """How a setting that ran later failed permanently, else ``""``."""
        bad = (t.record.outcome for t in self if t.record.meaning.unfit)
        return next(bad, "") if self.ran else ""

    @property
    def failed_always(self) -> str:
        """The outcome of the last trial if none succeeded, else ``""``."""
        own = [trial.record for trial in self if not trial.cut_off]
        return own[-1].outcome if own and not self.ran else ""

    @property
    def memory_shortage(self) -> str:
        """Why the setting leaves too little memory for a long run; ``""`` if not."""
        return next(
            (why for trial in self if (why := trial.record.memory_shortage)), ""
        )

    @property
    def is_unfit(self) -> bool:
        """Whether the setting failed permanently, or leaves too little memory."""
        return self.failed or bool(self.memory_shortage)

    @property
    def confirmed(self) -> list[Record]:
        """The records of successful confirmation runs."""
        return records_of(self.confirmed_trials)

    @property
    def confirmed_trials(self) -> list[Trial]:
        """The successful confirmation runs."""
        return [t for t in self if t.stage == "confirm" and t.record.ok]

    @property
    def confirmations(self) -> int:
        """The number of confirmation runs, failed ones included."""
        return sum(trial.stage == "confirm" for trial in self)

    @property
    def telling(self) -> list[Trial]:
        """The trials that give the setting's speed: confirmation runs, if any."""
        return self.confirmed_trials or list(self)


class History:
    """The trials of a search that count, and what follows from them.

    It is immutable, so that each figure is computed once; a search makes a new one
    after each trial. ``trials`` have the objective in the field ``tokens_per_second``
    (see ``by``). Confirmation runs are planned for ``worker``. With ``proven_only`` no
    setting may be chosen whose FP8 the search changed before losses were compared.
    """

    def __init__(
        self,
        space: Space,
        baseline: Point,
        trials: Sequence[Trial],
        worker: str = "",
        *,
        proven_only: bool = False,
    ) -> None:
        self.space = space
        self.baseline = baseline
        self.trials = trials
        self.worker = worker
        self.proven_only = proven_only

    def by(self, objective: str) -> History:
        """Return the history in an objective; this one is in tokens/s."""
        trials = by_objective(self.trials, objective)
        return self if trials is self.trials else self._of(trials)

    def _of(self, trials: Sequence[Trial]) -> History:
        known = self.space, self.baseline, trials, self.worker
        return History(*known, proven_only=self.proven_only)

    def choosing(self, *, proven_only: bool) -> History:
        """Return the same history, from which only proven settings may be chosen."""
        known = self.space, self.baseline, self.trials, self.worker
        return History(*known, proven_only=proven_only)

    @cached_property
    def timed(self) -> list[Trial]:
        """The trials that measure speed."""
        return timed(self.trials)

    @cached_property
    def before_confirmation(self) -> History:
        """The history without the confirmation."""
        return self._of([t for t in self.trials if t.stage != "confirm"])

    @cached_property
    def settings(self) -> Mapping[Point, Runs]:
        """The timed trials by setting, in the order of the first ones.

        Confirmation runs under a smaller budget ran at another time, so they count as
        search trials.
        """
        runs: dict[Point, list[Trial]] = defaultdict(list)
        old = {(trial.worker, trial.position) for trial in self._confirmed_earlier}
        for trial in self.timed:
            is_old = (trial.worker, trial.position) in old
            own = trial._replace(stage="search") if is_old else trial
            runs[self.point_of(trial)].append(own)
        return {point: Runs(own) for point, own in runs.items()}

    @cached_property
    def _confirmed_earlier(self) -> list[Trial]:
        """Confirmation runs with a smaller budget than the last ones had."""
        again = [trial for trial in self.trials if trial.stage == "confirm"]
        last = max((trial.budget_s for trial in again), default=0.0)
        return [trial for trial in again if trial.budget_s < last]

    def point_of(self, trial: Trial) -> Point:
        """Return the setting of a trial."""
        return self.space.point(trial.record.knobs)

    def runs(self, point: Point | None) -> Runs:
        """Return the trials of a setting; none where it was not tried."""
        return self.settings.get(point, Runs()) if point is not None else Runs()

    @cached_property
    def is_rehearsal(self) -> bool:
        """Whether trials ran on a CPU."""
        return any(trial.record.rehearsal for trial in self.timed)

    @property
    def noise(self) -> Noise:
        """The prior for noise on such a machine, and what counts as the same speed."""
        return ON_CPU if self.is_rehearsal else ON_GPU

    @cached_property
    def deviation(self) -> float:
        """The noise (relative standard deviation) of runs of one setting."""
        pooled: dict[tuple[Point, bool], list[Record]] = defaultdict(list)
        for point, own in self.settings.items():
            for trial in own:
                pooled[point, trial.stage == "confirm"].append(trial.record)
        return spread(pooled.values(), self.noise.spread)

    # What losses show about settings.

    @cached_property
    def stability(self) -> dict[Point, Stability]:
        """The comparison of FP8's losses with bf16's, by setting."""
        return stability_by_setting(self.space, self.trials, self.baseline)

    def is_rejected(self, point: Point) -> bool:
        """Return whether a setting must not be chosen for what FP8 learns there."""
        return loss_key(self.space, point) in self._rejected

    def is_unproven(self, point: Point | None) -> bool:
        """Return whether the search changed or added FP8, and no losses are known."""
        if point is None or self.space.value(point, "precision") not in (None, "fp8"):
            return False
        pairs = zip(self.space.knobs, point, self.baseline, strict=True)
        changed = any(k.traits.group == FP8 and new != old for k, new, old in pairs)
        return changed and loss_key(self.space, point) not in self._compared

    @cached_property
    def _compared(self) -> set[Point]:
        return {loss_key(self.space, point) for point in self.stability}

    @cached_property
    def _rejected(self) -> set[Point]:
        found = self.stability.items()
        return {loss_key(self.space, p) for p, result in found if result.rejects}

    # Speeds of settings, and how much faster one is than another.

    def speed(self, point: Point | None) -> Speed | None:
        """Return how fast a setting is, by its confirmation runs if there are any."""
        return self._speed(self.runs(point).telling)

    def _speed(self, trials: Sequence[Trial]) -> Speed | None:
        return speed(records_of(trials), self.deviation)

    @cached_property
    def confirmed_speeds(self) -> dict[Point, Speed]:
        """The speeds in the confirmation alone."""
        return self._speeds(confirmation=True)

    @cached_property
    def searched_speeds(self) -> dict[Point, Speed]:
        """The speeds before the confirmation."""
        return self._speeds(confirmation=False)

    def _speeds(self, *, confirmation: bool) -> dict[Point, Speed]:
        records = {
            point: [t.record for t in own if (t.stage == "confirm") == confirmation]
            for point, own in self.settings.items()
        }
        speeds = {point: speed(own, self.deviation) for point, own in records.items()}
        return {point: known for point, known in speeds.items() if known}

    def speeds(
        self, one: Point | None, other: Point | None
    ) -> tuple[Speed | None, Speed | None]:
        """Return how fast two settings are, if possible by neighbouring runs."""
        mine, theirs = self._runs_of_one_time(one, other)
        return self._speed(mine), self._speed(theirs)

    def numbers(self, one: Point | None, other: Point | None) -> tuple[int, ...]:
        """Return the numbers of the trials that give the first of ``speeds``."""
        return tuple(sorted(trial.number for trial in self.counted_runs(one, other)))

    def counted_runs(self, one: Point | None, other: Point | None) -> list[Trial]:
        """Return the trials that give the first of ``speeds``, without outliers."""
        ran = [t for t in self._runs_of_one_time(one, other)[0] if t.record.ok]
        if not ran:
            return []
        logs = [math.log(trial.record.tokens_per_second) for trial in ran]
        return list(itertools.compress(ran, in_line(logs, self.deviation)))

    def _runs_of_one_time(
        self, one: Point | None, other: Point | None
    ) -> tuple[Sequence[Trial], Sequence[Trial]]:
        """Return the trials by which the speeds of two settings compare.

        These are the neighbouring runs that give the gap, so that the speeds agree with
        it; else the runs before the confirmation, because the GPU may have become
        slower in between.
        """
        mine, theirs = self.runs(one), self.runs(other)
        if one != other:
            if pairs := self.pairs(one, other):
                return [a for a, _ in pairs], [b for _, b in pairs]
            before = [
                [t for t in own if t.stage != "confirm"] for own in (mine, theirs)
            ]
            if all(any(trial.record.ok for trial in own) for own in before):
                return before[0], before[1]
        return mine.telling, theirs.telling

    def gap(self, one: Point | None, other: Point | None) -> Speed | None:
        """Return how much faster one setting is than another, with all known errors.

        This is ``measured_gap``, widened by the error of predicted communication.
        """
        found = self.measured_gap(one, other)
        return found and wider(found, self.communication_error(one, other))

    def communication_error(self, one: Point | None, other: Point | None) -> float:
        """Return the error of a gap due to predicted communication (log)."""
        mine, theirs = self.runs(one).succeeded, self.runs(other).succeeded
        return communication_error(mine[0], theirs[0]) if mine and theirs else 0.0

    def measured_gap(self, one: Point | None, other: Point | None) -> Speed | None:
        """Return how much faster one setting ran than another, by neighbouring runs.

        Drift affects both runs of a pair, so that it neither causes nor hides a gain.
        The pairs are confirmation runs. Without any, the runs before the confirmation
        are compared; these are further apart, so the full noise between runs counts.
        """
        if one is None or other is None or one == other:
            return None
        if pairs := self.pairs(one, other):
            ratios = _ratios(pairs)
            least = self._pair_deviation(one, other)
            return paired(ratios, max(least, self._since_before(one, other, ratios)))
        before = self.searched_speeds
        if one not in before or other not in before:
            return None
        differ = max(self._steps_deviation(one, other), self._whole_deviation)
        return paired([before[one].value / before[other].value], differ)

    @cached_property
    def _whole_deviation(self) -> float:
        """The noise of runs of one setting, however far apart in time."""
        every = ([trial.record for trial in own] for own in self.settings.values())
        return spread(every, self.noise.spread, math.inf)

    def _since_before(self, one: Point, other: Point, ratios: Sequence[float]) -> float:
        """Return the noise of few pairs, with the ratio in the search as one more.

        A single pair cannot show that one of its runs is bad. Drift since the search
        affects both settings and cancels in the ratio.
        """
        before = self.searched_speeds
        if len(ratios) >= ENOUGH or one not in before or other not in before:
            return 0.0
        every = (*ratios, before[one].value / before[other].value)
        return statistics.stdev(map(math.log, every)) / math.sqrt(2)

    def _steps_deviation(self, one: Point, other: Point) -> float:
        return steps_spread(t.record for p in (one, other) for t in self.runs(p))

    def _pair_deviation(self, one: Point, other: Point) -> float:
        """Return a lower bound for the noise of a pair of settings."""
        return max(self._steps_deviation(one, other), self._paired_deviation)

    @cached_property
    def _paired_deviation(self) -> float:
        """The noise of neighbouring runs, by pairs with the most confirmed setting.

        Or the noise of all runs of a setting if that is smaller: it rests on more runs,
        but includes drift.
        """
        counts = {point: len(own.confirmed) for point, own in self.settings.items()}
        most = max(counts, key=lambda point: counts[point])
        found = (self.ratios(p, most) for p in self.settings if p != most)
        before = self.noise.spread
        apart = paired_spread((ratios for ratios in found if ratios), before)
        every = (own.confirmed for own in self.settings.values())
        return min(apart, spread(every, before))

    def ratios(self, one: Point, other: Point) -> list[float]:
        """Return how much faster one setting ran, each time that both were confirmed.

        Each run is compared with one close to it in time, the closest first.
        """
        return _ratios(self.every_pair(one, other))

    def pairs(
        self, one: Point | None, other: Point | None
    ) -> list[tuple[Trial, Trial]]:
        """Return the neighbouring runs of two settings without outliers.

        An outlier is a pair whose ratio is far from the others'.
        """
        pairs = self.every_pair(one, other)
        if not pairs or one is None or other is None:
            return []
        differ = math.sqrt(2) * self._pair_deviation(one, other)
        kept = in_line([math.log(ratio) for ratio in _ratios(pairs)], differ)
        return list(itertools.compress(pairs, kept))

    def every_pair(
        self, one: Point | None, other: Point | None, first: int = 0
    ) -> list[tuple[Trial, Trial]]:
        """Return the neighbouring runs of two settings, outliers included.

        Of ``worker``, trials before the position ``first`` do not count.
        """
        if one == other:
            return []
        runs = (self.runs(point).confirmed_trials for point in (one, other))
        return _neighbours(
            *(
                [t for t in own if t.position >= first or t.worker != self.worker]
                for own in runs
            )
        )

    # How the machine changed between search and confirmation.

    @cached_property
    def drift(self) -> float:
        """The median ratio of confirmed speed to search speed; 1 if unknown."""
        return statistics.median(self.changes or [1.0])

    @property
    def speed_changed(self) -> bool:
        """Whether the machine's speed differed between confirmation and search."""
        return self.changed_apart or abs(self.drift - 1) > DRIFTED

    @property
    def changed_apart(self) -> bool:
        """Whether speeds changed beyond noise, and differently between settings."""
        changes = self.changes or [1.0]
        apart = math.log(max(changes) / min(changes))
        return apart > max(DRIFTED, 2 * FAR * self.deviation)

    @cached_property
    def changes(self) -> list[float]:
        """The ratio of confirmed speed to search speed of each setting."""
        changes = []
        for own in self.settings.values():
            before = speed([trial.record for trial in own if trial.stage != "confirm"])
            after = speed(own.confirmed)
            if before and after:
                changes.append(after.value / before.value)
        return changes

    @cached_property
    def most_at_once(self) -> int:
        """How many trials ran at the same time, at most."""
        beside = ({t.worker for t in self._beside(trial)} for trial in self.trials)
        return max((1 + len(workers) for workers in beside), default=0)

    def _beside(self, trial: Trial) -> list[Trial]:
        """Return the trials that other workers ran when a trial began."""
        if trial.at_s is None:
            return []
        return [
            other
            for other in self.trials
            if other.worker != trial.worker
            and other.process == trial.process
            and other.at_s is not None
            and other.at_s <= trial.at_s < other.at_s + other.record.cost_s
        ]

    # Which settings may be chosen, and the best of them.

    @cached_property
    def eligible(self) -> list[Point]:
        """The settings with a trial that may be chosen.

        A rehearsal keeps the precision, as a CPU emulates FP8.
        """
        space = self.space
        precision = space.value(self.baseline, "precision")
        return [
            point
            for point, own in self.settings.items()
            if not own.failed
            and (point == self.baseline or not own.memory_shortage)
            and space.allows(point, self.baseline)
            and (not self.is_rehearsal or space.value(point, "precision") == precision)
            and not self.is_rejected(point)
            and not (self.proven_only and self.is_unproven(point))
        ]

    @cached_property
    def ranked(self) -> list[Point]:
        """The measured settings that may be chosen, the best first.

        Once a setting other than the baseline was confirmed, the confirmed ones come
        first: the others ran at another time, and the best of many single runs is
        overestimated. The baseline comes last if it leaves too little memory.
        """
        values: dict[Point, tuple[bool, bool, float]] = {}
        for point in self.eligible:
            own = self.settings[point]
            if found := speed(records_of(own.telling)):
                values[point] = not own.is_unfit, bool(own.confirmed), found.value
        others = [known for p, known in values.items() if p != self.baseline]
        if not any(fit and sure for fit, sure, _ in others):
            before = self.searched_speeds
            values = {
                point: (fit, False, before[point].value if point in before else value)
                for point, (fit, _, value) in values.items()
            }
        elif values.get(self.baseline, (False, False))[1]:
            gains = {point: self.gap(point, self.baseline) for point in values}
            values |= {
                point: (values[point][0], True, found.value * values[self.baseline][2])
                for point, found in gains.items()
                if found and values[point][1]
            }
        return sorted(values, key=lambda point: values[point], reverse=True)

    @property
    def others(self) -> list[Point]:
        """The settings of ``ranked`` without the baseline."""
        return [point for point in self.ranked if point != self.baseline]


def records_of(trials: Sequence[Trial]) -> list[Record]:
    """Return the records of some trials."""
    return [trial.record for trial in trials]


def _apart(pair: tuple[Trial, Trial]) -> int:
    """Return how many trials later one of two trials ran."""
    return abs(pair[0].position - pair[1].position)


def _neighbours(
    mine: Sequence[Trial], theirs: Sequence[Trial]
) -> list[tuple[Trial, Trial]]:
    """Return pairs of runs close in time and of one worker, the closest first."""
    pairs: list[tuple[Trial, Trial]] = []
    used: set[tuple[str, int]] = set()
    for a, b in sorted(itertools.product(mine, theirs), key=_apart):
        positions = {(a.worker, a.position), (b.worker, b.position)}
        near = _apart((a, b)) <= NEAR and a.worker == b.worker
        if near and used.isdisjoint(positions):
            used |= positions
            pairs.append((a, b))
    return pairs


def _ratios(pairs: Sequence[tuple[Trial, Trial]]) -> list[float]:
    speeds = [[trial.record.tokens_per_second for trial in pair] for pair in pairs]
    return [mine / theirs for mine, theirs in speeds]
