"""The strategy of a search: the setting that promises most, among those that fit.

A model of memory says what fits, one of speed what is fast, and each trial goes where
the expected improvement is largest. The more trials ran out of memory, the surer a
setting has to be. Optuna's TPE in place of the model of speed does worse, see
benchmarks/search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fp8tune.search.capacity import Memory
from fp8tune.search.earlier import NOTHING, Earlier
from fp8tune.search.line import Guess
from fp8tune.search.normal import Mask
from fp8tune.search.outlook import SHOWN, Known, Outlook, outlook
from fp8tune.search.prior import Prior, completed, flat
from fp8tune.search.strategy import Proposal
from fp8tune.search.works import closed, works
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

ENOUGH = 0.003
"""Expected gain of all further trials together below which the search ends."""
ENOUGH_SHOWN = 0.01
"""The same where an earlier study tells of this one: it has looked for the rest."""
LITTLE = 0.01
"""Expected gain from which even what hardly fits is tried before the search ends."""
SURE = (0.3, 0.5, 0.75, 0.9, 0.95)
"""How sure it must be that a setting fits, by how many trials ran out of memory."""
CAREFUL = 0.5
"""Share of the expected gain that settings which surely fit have to have; where they
have less, a trial that tells whether the better ones fit comes first."""
RISKS, RISK = 5, 0.25
"""Trials that may run out of memory before no setting is tried that may not fit, and
how likely it must be to."""
VAGUE = 0.03
"""Deviation of a setting's memory from which another trial of its cell tells more."""
FEW, FEW_BEFORE_SAME = 3, 8
"""Settings left that are all tried, since a model of the few that ran may be wrong of
them; and before the given one is called the best. That costs no more than a
confirmation does. One of twelve settings that alone gains 2 % was found in 71 of 100
simulated searches by the first (seeds 5000 and up), in 95 by both
(benchmarks/results/verdicts_aa.md)."""
LEVELS = 8
"""Most values of a knob whose every value is to be seen once."""


class Guided:
    """Proposes by models of memory and speed, and ends where little is to be gained."""

    def __init__(
        self,
        space: Space,
        given: Point,
        prior: Prior = flat,
        card_gib: float = 0.0,
        sure: Sequence[float] = SURE,
        earlier: Earlier = NOTHING,
    ) -> None:
        self.space = space
        self.given = given
        self._card_gib = card_gib
        self._sure = sure
        self.earlier = earlier
        self._points = list(space.points(given))
        points = dict.fromkeys([*self._points, given, space.twin(given) or given])
        self._expected = completed(space, {point: prior(point) for point in points})
        self._peaks = [
            Guess(point, e.peak_gib, e.error)
            for point, e in self._expected.items()
            if e.peak_gib
        ]

    def propose(self, trials: Sequence[Trial]) -> Proposal | None:
        """The next trial; ``None`` where further ones promise next to nothing.

        Or where what they promise is likely to run out of memory, as many did.
        """
        known, points = self._known(trials)
        if not points:
            return None
        if not any(record.ok for _, record in known.runs):
            return _anything(known, points)
        ooms = sum(record.outcome == "oom" for _, record in known.runs)
        ahead = outlook(known, points)
        sure = ahead.fits >= self._surely(known)
        found = _promising(known, ahead, sure, ooms)
        return found or _uncovered(known, ahead, sure) or _left(ahead, sure, FEW)

    def left(self, trials: Sequence[Trial]) -> Proposal | None:
        """The best of the settings left, where they are few and it surely fits."""
        known, points = self._known(trials)
        if not points or not any(record.ok for _, record in known.runs):
            return None
        ahead = outlook(known, points)
        return _left(ahead, ahead.fits >= self._surely(known), FEW_BEFORE_SAME)

    def _surely(self, known: Known) -> float:
        """How sure it must be that a setting fits."""
        ooms = sum(record.outcome == "oom" for _, record in known.runs)
        return self._sure[min(ooms, len(self._sure) - 1)]

    def leaves(self, trials: Sequence[Trial]) -> bool:
        """Whether what it does not propose promises more than little."""
        known, points = self._known(trials)
        if not points or not any(record.ok for _, record in known.runs):
            return False
        ahead = outlook(known, points)
        return ahead.total(_every(ahead)) >= LITTLE

    def _known(self, trials: Sequence[Trial]) -> tuple[Known, list[Point]]:
        """What the trials tell, and the points that may be tried."""
        runs = [(self.space.point(t.record.knobs), t.record) for t in trials]
        memory = Memory(self.space, runs, self._card_gib, self._peaks)
        shut = closed(self.space, runs, memory.usable_gib)
        known = Known(
            self.space, self.given, self._expected, runs, memory, self.earlier
        )
        return known, [point for point in self._points if not shut(point)]


def _anything(known: Known, points: Sequence[Point]) -> Proposal:
    """Where nothing has run yet: what is most likely to."""
    fits = known.memory.fit(points).probability
    best = int(np.argmax(fits * works(known.space, points, known.runs)))
    return Proposal(points[best], "search", "nothing has run yet")


def _promising(known: Known, ahead: Outlook, sure: Mask, ooms: int) -> Proposal | None:
    """The trial with the largest expected gain, or one that tells whether it fits."""
    every, enough = _every(ahead), _enough(ahead)
    total = ahead.total(every)
    if total < enough:
        return None
    why = f"expected gain {100 * total:.1f} %"
    within = ahead.total(sure)
    if within > CAREFUL * total:
        return Proposal(ahead.points[ahead.best(sure)], "search", why)
    wanted = ahead.best(every)
    probe = _probe(known, ahead, sure, wanted)
    if probe is not None:
        return Proposal(probe, "search", "to learn what fits")
    may = (ahead.fits >= RISK) & (ooms < RISKS)
    if may[wanted]:
        return Proposal(ahead.points[wanted], "search", f"{why}, may not fit")
    if within >= enough:
        return Proposal(ahead.points[ahead.best(sure)], "search", why)
    for last, least in ((may, enough), (every & (ooms < RISKS), LITTLE)):
        if ahead.total(last) >= least:
            best = ahead.points[ahead.best(last)]
            return Proposal(best, "search", f"{why}, may not fit")
    return None


def _every(ahead: Outlook) -> Mask:
    return np.ones(len(ahead.points), dtype=bool)


def _enough(ahead: Outlook) -> float:
    """The expected gain below which a search ends."""
    return ENOUGH_SHOWN if _shown(ahead) else ENOUGH


def _probe(known: Known, ahead: Outlook, sure: Mask, wanted: int) -> Point | None:
    """The largest batch in a point's cell that surely fits, if the line is vague.

    A smaller one than has run tells nothing, unless it is the line's second point.
    Where trials do not tell their memory, the batch is doubled.
    """
    space, cell = known.space, known.space.cell(ahead.points[wanted])
    if ahead.vague[wanted] < VAGUE:
        return None
    ran = [(p, r) for p, r in known.runs if r.ok and space.cell(p) == cell]
    peaks = sum(record.peak_gib > 0 for _, record in ran)
    most = max((space.batch(p) for p, _ in ran), default=0.0)
    least = 0.0 if peaks == 1 else most
    reach = 2 * most if ran and not peaks else 0.0
    probes = [
        point
        for point, surely in zip(ahead.points, sure, strict=True)
        if space.cell(point) == cell
        and space.batch(point) > least
        and (surely or space.batch(point) <= reach)
    ]
    return max(probes, key=space.batch, default=None)


def _shown(ahead: Outlook) -> bool:
    """Whether an earlier study has shown the way so far."""
    return ahead.agreed > SHOWN


def _uncovered(known: Known, ahead: Outlook, sure: Mask) -> Proposal | None:
    """The best setting with a value that no trial has had yet, if one surely fits."""
    space = known.space
    tried = [point for point, _ in known.runs]
    tried += known.earlier.points if _shown(ahead) else []
    batch = space.place("micro_batch")
    for place, knob in enumerate(space.knobs):
        if place == batch or len(knob.values) > LEVELS:
            continue
        seen = {point[place] for point in tried}
        new = np.array([point[place] not in seen for point in ahead.points]) & sure
        if new.any():
            point = ahead.points[ahead.best(new)]
            value = str(knob.values[point[place]]).lower()
            return Proposal(point, "search", f"{knob.key} = {value} was not tried")
    return None


def _left(ahead: Outlook, sure: Mask, few: int) -> Proposal | None:
    """The best of the settings left, where these are few and it surely fits."""
    if _shown(ahead) or len(ahead.points) > few or not sure.any():
        return None
    return Proposal(ahead.points[ahead.best(sure)], "search", "few are left")
