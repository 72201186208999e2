"""The time budget of a search: parsing, what is left, how long a trial may take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from fp8tune.search import CannotSearch
from fp8tune.search.history import History
from fp8tune.trials.record import BROKEN
from fp8tune.trials.runner import TrialLimits
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial

LONGEST_S, PART = 900.0, 1 / 8
"""The first trial gets so many seconds, or that part of the time left; twice as long
after each trial that ran into it."""
SHORT_S = 300.0
"""The first trial gets at least this [s], whatever the budget."""
SLACK = 3.0
"""A trial gets so many times what the longest one like it took."""
LEAST_S = 60.0
"""Every trial gets at least this [s]."""
WRITE_S = 2.0
"""The part of a budget that is kept for the answer [s]."""
TRIES = 4
"""After so many trials in a row that built no model, none is expected to start."""
MAX_S = 30 * 24 * 3600.0
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``30m``, ``2h`` or ``1h30m``.

    Raises ``CannotSearch``.
    """
    match = _FORM.fullmatch(text.strip().replace(" ", ""))
    if match is None or not any(match.groups()):
        raise CannotSearch(f"{text!r} is not a duration; write 90s, 30m, 2h or 1h30m")
    parts = zip(match.groups(), UNITS_S.values(), strict=True)
    seconds = sum(float(number) * unit for number, unit in parts if number)
    if not 0 < seconds <= MAX_S:
        raise CannotSearch(f"{text!r}: must be more than 0 and at most 30 days")
    return seconds


def whole_budget(seconds: float) -> float:
    """Return a budget of at least ``seconds``: whole minutes, from 10 in steps of 5."""
    minutes = math.ceil(seconds / 60)
    return 60.0 * (minutes if minutes < 10 else 5 * math.ceil(minutes / 5))


def show_duration(seconds: float) -> str:
    """Return a duration for people: ``45 s``, ``12 min``, ``1 h 30 min``."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def typed(seconds: float) -> str:
    """Return whole minutes as an option takes them: ``45m``, ``2h``, ``2h30m``."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h" * bool(hours) + f"{minutes}m" * bool(minutes or not hours)


class Budget:
    """The wall time of a search [s]: how much is left, and how much is reserved.

    ``seconds`` is the whole budget. ``reserve`` is kept for comparing the losses of FP8
    and bf16. ``uncharged`` is the time of earlier processes in which no setting ran.
    The search sets both after each trial. Time is read from the runner's clock.
    """

    def __init__(
        self, seconds: float, now: Callable[[], float], spent: float = 0.0
    ) -> None:
        self.seconds = seconds
        self.reserve = 0.0
        self.uncharged = 0.0
        self._now = now
        self._begun = now() - spent

    def at_least(self, spent: float) -> None:
        """Set the clock to what another process has spent, if it is behind [s]."""
        self._begun -= max(0.0, spent - self.spent)

    @property
    def spent(self) -> float:
        """Time that trials took [s]."""
        return self._now() - self._begun - self.uncharged

    @property
    def left(self) -> float:
        """Time left for trials [s]; a little is kept for writing the answer."""
        return self.seconds - WRITE_S - self.spent

    @property
    def left_for_speed(self) -> float:
        """Time left for trials that measure speed [s]."""
        return self.left - self.reserve


def trial_limits(history: History, point: Point, left: float) -> TrialLimits:
    """Return the limits of a trial of a setting, when ``left`` seconds are left.

    Until a trial has succeeded, one may continue as long as it makes steps: a large
    model is slow, but does not hang.
    """
    has_run = any(trial.record.ok for trial in history.timed)
    return TrialLimits(
        trial_deadline(history, point, left),
        stepping_s=0.0 if has_run else left,
        matmuls=_counted_matmuls(history, point),
    )


def trial_deadline(history: History, point: Point, left: float) -> float:
    """Return the time limit of a trial of a setting [s], at most ``left``.

    The limit follows from the trials that are compiled as this one is. Before the first
    of these, a trial gets a third of the time left, and half if none has run at all:
    without the baseline there is nothing to compare with.
    """
    trials = history.timed
    like = _costs(history, point)
    every = [trial.record.cost_s for trial in trials if trial.record.ok]
    if like:
        allowed = max(LEAST_S, SLACK * max(like))
    elif every:
        allowed = max(left / 3, SLACK * max(every))
        allowed = min(allowed, max(LONGEST_S / 2, 2 * SLACK * max(every)))
    else:
        hung = sum(trial.record.outcome == "hang" for trial in trials)
        patience = max(LONGEST_S, PART * left) * 2**hung
        allowed = min(max(left / 2, SHORT_S), patience)
    return min(left, allowed)


def budget_for_longer_trial(history: History, point: Point) -> float:
    """Return a budget [s] that gives a first trial twice as long as any trial had.

    For a search in which no trial has ended, so that the time of one is unknown. 0 if
    no budget is enough.
    """
    fresh = History(history.space, history.baseline, ())
    longest = max(trial.record.cost_s for trial in history.trials)
    budgets = [t.budget_s for t in history.trials if t.is_of_budget]
    budget = whole_budget(max(budgets, default=0.0) + 1)
    while trial_deadline(fresh, point, budget - WRITE_S) < 2 * longest:
        budget = whole_budget(budget + 1)
    return budget if budget <= MAX_S else 0.0


def typical_cost(history: History, point: Point) -> float:
    """Return the expected time of a trial of a setting [s]; 0 if unknown.

    The setting's last run tells it best: repeats find their compiled code in torch's
    cache, and confirmation runs make more steps than others.
    """
    runs = history.runs(point).succeeded
    if runs:
        return runs[-1].cost_s
    every = [t.record.cost_s for t in history.timed if t.record.ok]
    return max(_costs(history, point) or every or [0.0])


def _costs(history: History, point: Point) -> list[float]:
    """Return the times of the trials that are compiled as this setting is [s]."""
    place = history.space.place("compile")
    return [
        trial.record.cost_s
        for trial in history.timed
        if trial.record.ok
        and (place is None or history.point_of(trial)[place] == point[place])
    ]


def _counted_matmuls(history: History, point: Point) -> int:
    """Return the FP8 matmuls that a setting's last trial counted; 0 if none did."""
    own = reversed(history.runs(point).succeeded)
    return next(filter(None, (record.float8_matmuls for record in own)), 0)


def time_to_model(trials: Iterable[Trial]) -> float:
    """Return the time that a trial needs before it builds its model [s]; 0 if unknown.

    That is the shortest import of torch, or the longest of those that did not end.
    """
    known = list(trials)
    imports = [t.record.import_s for t in known if t.record.import_s]
    lost = [t.record.cost_s for t in known if t.cut_off and t.record.never_began]
    return min(imports) if imports else max(lost, default=0.0)


def never_begins(trials: Sequence[Trial]) -> bool:
    """Return whether the last trials show that none starts, as on a broken GPU.

    One suffices where what is missing does not come by itself.
    """
    if trials and all(trial.record.error in BROKEN for trial in trials):
        return True
    last = [trial.record.never_began for trial in trials[-TRIES:]]
    return len(last) == TRIES and all(last)
