"""The logged steps of a run, from the lines of one rank, in bounded memory."""

from __future__ import annotations

import math

from fp8tune.verify.evidence import QUANTITIES, Curve

KEEP = 200_000
"""Steps of a curve; where there are more, every second one is dropped."""

STARTS = 200
"""Starts of a run that have a curve of their own; further ones continue the last."""


class Steps:
    """Collects the steps that one trainer logs.

    The curve is that of the lowest rank: where a lower one begins, it begins anew. A
    step at most two log intervals behind the last one is taken for the same one of
    another rank and dropped; one further behind, or after ``restart``, is a new start.
    ``every`` is how many lines of steps stand for one that is needed.
    """

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.rank: int | None = None
        self.every = 1
        self._fresh = True

    def restart(self) -> None:
        """Begin a new curve with the next step."""
        self._fresh = True

    def add(self, line: int, rank: int | None, values: dict[str, float]) -> None:
        """Append a logged step."""
        if rank is not None and (self.rank is None or rank < self.rank):
            if self.rank is not None:
                self.curves, self._fresh = [], True
            self.rank = rank
        if rank is not None and rank != self.rank:
            return
        if self._fresh or self._is_new(values):
            if self._is_repeated(values) and not self._fresh:
                return
            if len(self.curves) < STARTS:
                self.curves.append(Curve(line=line))
            self._fresh = False
        curve = self.curves[-1]
        curve.add(**values)
        if len(curve) > KEEP:
            _halve(curve)
            self.every = curve.every

    def _is_new(self, values: dict[str, float]) -> bool:
        """Whether the step is not behind the last one of this start."""
        last = self.curves[-1].step
        return bool(last) and values.get("step", math.inf) <= last[-1]

    def _is_repeated(self, values: dict[str, float]) -> bool:
        """Whether the step is so little behind that another rank logged it."""
        last = self.curves[-1].step if self.curves else ()
        if not last:
            return False
        interval = last[-1] - last[-2] if len(last) > 1 else 1
        return last[-1] - values.get("step", math.inf) <= 2 * interval


def _halve(curve: Curve) -> None:
    """Drop every second step that is neither extreme nor without a finite loss."""
    count = len(curve)
    keep = set(range(0, count, 2)) | {count - 1}
    odd = [n for n in range(count) if not math.isfinite(curve.loss[n])]
    keep.update(odd[: KEEP // 8])
    for name in ("loss", "grad_norm"):
        column = getattr(curve, name)
        finite = [n for n in range(count) if math.isfinite(column[n])]
        if finite:
            keep |= {min(finite, key=column.__getitem__)}
            keep |= {max(finite, key=column.__getitem__)}
    order = sorted(keep)
    for name in QUANTITIES:
        column = getattr(curve, name)
        setattr(curve, name, type(column)("d", [column[n] for n in order]))
    curve.every *= 2
