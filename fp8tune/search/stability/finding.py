"""What the runs at one setting say of it: the verdict, and the shortest warmup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fp8tune.search.stability.compare import (
    DIVERGED,
    INCONCLUSIVE,
    INSIDE,
    SEEDS,
    Compared,
    Pair,
    compare,
)
from fp8tune.search.stability.curve import Curve, curve
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial

RUNG = 2
"""Pairs that a warmup other than the config's needs, where FP8 does not diverge."""
EXECUTION = ("micro_batch", "ac", "compile")
"""Roles of knobs that leave what is learned as it is."""


class Finding(NamedTuple):
    """FP8 beside bf16 at the config's warmup, or at the nearest one that a run holds.

    ``start`` is the same in the config's own first steps, where its warmup is too long
    for a run and the shorter one diverged. ``others`` are the warmups tried besides;
    ``proposed`` is the shortest of all that stays inside the spread, ``None`` where
    none does. ``tokens`` are those of one run, and ``made_up`` says that they are none
    of the config's data.
    """

    tested: Compared
    others: tuple[Compared, ...]
    proposed: int | None
    given_warmup: int
    free: bool
    tokens: int = 0
    made_up: bool = False
    start: Compared | None = None

    @property
    def verdict(self) -> str:
        """What is known of FP8 as it would be run."""
        return INCONCLUSIVE if self.doubtful else self.decisive.verdict

    @property
    def decisive(self) -> Compared:
        """The comparison that the verdict is of."""
        start = self.start
        return start if start and start.verdict == DIVERGED else self.tested

    @property
    def harsher(self) -> bool:
        """Whether the config's warmup is too long for a run, and a shorter stood in."""
        return self.tested.warmup_steps < self.given_warmup

    @property
    def needed(self) -> int:
        """Pairs that another warmup needs: those that diverged are among them."""
        return self.tested.seeds if self.tested.verdict == DIVERGED else RUNG

    @property
    def doubtful(self) -> bool:
        """Whether FP8 diverged, and it is not known whether it would as it is run.

        It did under a harsher warmup than the config's, or in too few runs to tell.
        """
        found = self.decisive
        if found.verdict == DIVERGED:
            return found.warmup_steps < self.given_warmup
        return (
            found.verdict == INCONCLUSIVE and found.diverged[0] > 0 == found.diverged[1]
        )

    @property
    def rejects(self) -> bool:
        """Whether the setting must not be chosen: it diverges as it would be run."""
        mended = self.free and self.proposed is not None and not self.harsher
        return self.verdict == DIVERGED and not mended


def curves(space: Space, trials: Sequence[Trial]) -> dict[Point, list[Curve]]:
    """The runs that compared losses, by the FP8 setting that they belong to."""
    found: dict[Point, list[Curve]] = {}
    for trial in trials:
        point = belongs(space, trial) if trial.stage == "stability" else None
        if point is None:
            continue
        precision = str(space.value(space.point(trial.record.knobs), "precision"))
        if made := curve(trial.record, precision):
            found.setdefault(point, []).append(made)
    return found


def belongs(space: Space, trial: Trial) -> Point | None:
    """The FP8 setting that a run was made for."""
    return in_precision(space, space.point(trial.record.knobs), "fp8")


def in_precision(space: Space, point: Point, name: str) -> Point | None:
    """The same setting in another precision, tried or not; ``None`` if unknown."""
    place = space.place("precision")
    if place is None or name not in space.knobs[place].values:
        return None
    return (*point[:place], space.knobs[place].place(name), *point[place + 1 :])


def findings(space: Space, trials: Sequence[Trial]) -> dict[Point, Finding]:
    """What is known of each setting that was compared, in the order of the runs."""
    seen = {
        belongs(space, trial): _seen(trial)
        for trial in trials
        if trial.stage == "stability"
    }
    every = curves(space, trials)
    made = ((point, finding(runs)) for point, runs in every.items())
    return {
        point: found._replace(**seen.get(point, {}))
        for point, found in made
        if found is not None
    }


def _seen(trial: Trial) -> dict[str, Any]:
    """The data of a run: how many tokens, and whether they are made up."""
    record = trial.record
    tokens = record.tokens_per_step * record.loss_run.steps if record.loss_run else 0
    return {"tokens": tokens, "made_up": record.synthetic_data is True}


def rejected(space: Space, trials: Sequence[Trial]) -> set[Point]:
    """What settings must not learn as: see ``lesson``."""
    told = findings(space, trials).items()
    return {lesson(space, point) for point, found in told if found.rejects}


def lesson(space: Space, point: Point) -> Point:
    """A setting without the knobs that leave what is learned as it is."""
    pairs = zip(space.knobs, point, strict=True)
    return tuple(index for knob, index in pairs if knob.role not in EXECUTION)


def finding(runs: Sequence[Curve]) -> Finding | None:
    """What runs of one setting say; ``None`` while no pair is there."""
    if not runs:
        return None
    how = runs[0].how
    by_warmup = paired(runs)
    tested = how.warmup_steps
    if not by_warmup.get(tested):
        return None
    pairs = by_warmup.pop(tested)
    first, start = _against(pairs), None
    if tested < how.config_warmup_steps and (
        own := by_warmup.pop(how.config_warmup_steps, [])
    ):
        start = _against(own)
    seeds = [bf16 for _, bf16 in pairs]
    made = Finding(
        first, (), None, how.config_warmup_steps, how.may_change, start=start
    )
    others = tuple(
        _rung(both, seeds, made.needed) for _, both in sorted(by_warmup.items()) if both
    )
    inside = [c.warmup_steps for c in (first, *others) if c.verdict == INSIDE]
    return made._replace(others=others, proposed=min(inside, default=None))


def _against(pairs: Sequence[Pair]) -> Compared:
    """FP8 beside bf16, by how these seeds of bf16 differ."""
    return compare(pairs, [bf16 for _, bf16 in pairs], SEEDS)


def _rung(pairs: Sequence[Pair], seeds: Sequence[Curve], needed: int) -> Compared:
    """Another warmup: FP8 must stay beside bf16, and bf16 must not suffer by it."""
    found = compare(pairs, seeds, needed)
    mine = {seed.how.seed: seed for seed in seeds}
    both = [(bf16, mine[bf16.how.seed]) for _, bf16 in pairs if _known(bf16, mine)]
    if found.verdict != INSIDE or not both:
        return found
    shorter = compare(both, seeds, needed)
    return (
        found if shorter.verdict == INSIDE else found._replace(verdict="inconclusive")
    )


def _known(run: Curve, by_seed: Mapping[int, Curve]) -> bool:
    return run.how.seed in by_seed


def paired(runs: Sequence[Curve]) -> dict[int, list[Pair]]:
    """FP8 and bf16 of the same warmup and seed, by warmup, in the seeds' order."""
    told: dict[tuple[int, int], dict[str, Curve]] = {}
    for run in runs:
        key = run.how.warmup_steps, run.how.seed
        told.setdefault(key, {})[run.precision] = run
    found: dict[int, list[Pair]] = {}
    for (warmup, _), both in sorted(told.items(), key=lambda item: item[0]):
        pairs = found.setdefault(warmup, [])
        if "fp8" in both and "bf16" in both:
            pairs.append((both["fp8"], both["bf16"]))
    return found
