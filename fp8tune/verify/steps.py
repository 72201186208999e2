"""The logged steps of a run, from the lines of one rank, in bounded memory."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Callable

from fp8tune.verify import lines, patterns
from fp8tune.verify.evidence import QUANTITIES, Curve, Log

KEEP = 100_000
"""Steps of a curve; where there are more, every second one is dropped."""

MOST = 1e15
"""No step has a number as high."""

STARTS = 200
"""Starts of a run that have a curve of their own; further ones continue the last."""


class Steps:
    """Collects the steps that one trainer logs.

    The curve is that of the lowest rank: if a lower one appears, its steps replace
    those before.
    Steps that have an epoch and no number are kept by it until ``number`` is called.
    ``every`` is how many lines of steps stand for one that is kept.
    """

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.rank: int | None = None
        self.every = 1
        self.by_epoch = False
        self._restarted = False

    def restart(self) -> None:
        """Note that the log says that a run starts.

        The ranks of one run all say so, perhaps when the first step is logged already.
        """
        self._restarted = bool(self.curves) and len(self.curves[-1]) > 2

    def add(self, line: int, rank: int | None, values: dict[str, float]) -> None:
        """Append a logged step.

        A step that is at most two log intervals behind the last one is taken for the
        same one, of another rank or in another line; one further behind for a restart.
        """
        if not self._is_of_rank(rank):
            return
        if "step" not in values and "epoch" in values:
            values["step"], self.by_epoch = values["epoch"], True
        step = values.get("step", math.inf)
        last = self.curves[-1].step if self.curves else array("d")
        behind = bool(last) and step <= last[-1]
        if behind and not self._restarted:
            interval = last[-1] - last[-2] if len(last) > 1 else 1.0
            if step == last[-1]:
                self._complete(values)
            if last[-1] - step <= 2 * interval:
                return
        if not self.curves or behind or self._restarted:
            if len(self.curves) < STARTS:
                self.curves.append(Curve(line=line, every=self.every))
            self._restarted = False
        curve = self.curves[-1]
        curve.add(**values)
        if len(curve) > KEEP:
            _halve(curve)
            self.every = max(self.every, curve.every)

    def number(self, steps_per_epoch: float) -> None:
        """Turn epochs into numbers of steps; NaN if it is not known how many."""
        for curve in self.curves if self.by_epoch else ():
            for index, epoch in enumerate(curve.step):
                number = epoch * steps_per_epoch
                curve.step[index] = round(number) if abs(number) < MOST else math.nan
        self.by_epoch = False

    def _is_of_rank(self, rank: int | None) -> bool:
        """Whether the curve is of this rank; it is, if there is no lower one yet."""
        if rank is not None and (self.rank is None or rank < self.rank):
            if self.rank is not None:
                self.curves.clear()
            self.rank = rank
        return rank == self.rank or rank is None

    def _complete(self, values: dict[str, float]) -> None:
        """Add what a second line says of the last step."""
        for name in QUANTITIES:
            column = getattr(self.curves[-1], name)
            if math.isnan(column[-1]):
                column[-1] = values.get(name, math.nan)


def _halve(curve: Curve) -> None:
    """Drop every second step that is neither extreme nor without a finite loss."""
    count = len(curve)
    odd = (n for n, loss in enumerate(curve.loss) if not math.isfinite(loss))
    keep = {0, count - 1, *itertools.islice(odd, KEEP // 8)}
    for column in (curve.loss, curve.grad_norm):
        finite = [value for value in column if math.isfinite(value)]
        keep.update(column.index(pick(finite)) for pick in (min, max) if finite)
    order = sorted(keep.union(range(0, count, 2)))
    for name in QUANTITIES:
        column = getattr(curve, name)
        setattr(curve, name, array("d", map(column.__getitem__, order)))
    curve.every *= 2


def quantities(
    line: patterns.Line, text: str, match: re.Match[str]
) -> dict[str, float]:
    """Return the quantities of a logged step, in the units of the log."""
    values = {
        name: lines.number(value) for name, value in match.groupdict().items() if value
    }
    for name, field in line.fields.items():
        if hit := field.search(text):
            values[name] = lines.number(hit[1])
    return values


def fill(log: Log, trainer: patterns.Trainer) -> None:
    """Add tokens, times and speeds that follow from what the log prints."""

    def product(names: tuple[str, ...]) -> float:
        return math.prod(lines.number(log.settings.get(name, "")) for name in names)

    if not trainer.tokens:
        return
    per_step = product(trainer.tokens) / (product(trainer.tokens_over) or math.nan)
    if math.isnan(per_step):
        return
    for curve in log.starts:
        _fill_column(curve, "tokens", lambda step: step * per_step, "step")
        if not log.per_gpu:
            speed = "tokens_per_second"
            _fill_column(curve, "step_s", lambda rate: per_step / rate, speed)
            _fill_column(curve, speed, lambda time: per_step / time, "step_s")


def _fill_column(
    curve: Curve, name: str, value: Callable[[float], float], source: str
) -> None:
    column = getattr(curve, name)
    for index, known in enumerate(getattr(curve, source)):
        if math.isnan(column[index]) and known:
            column[index] = value(known)
