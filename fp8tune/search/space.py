"""What a search may change: knobs with their values, and the points they span."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Point = tuple[tuple[str, Any], ...]
"""One setting of all knobs, in the space's order: hashable."""


class Knob(NamedTuple):
    """A config key and the values to try, in their natural order.

    ``role`` names what it is (``micro_batch``, ``ac``, ``compile``, ``precision``,
    ``""``); ``frozen`` knobs keep their given value: they change what is learned.
    """

    key: str
    values: tuple[Any, ...]
    role: str = ""
    frozen: bool = False


class Space(NamedTuple):
    """All knobs of a search, and the points that exist (replay holds no others)."""

    knobs: tuple[Knob, ...]
    only: frozenset[Point] = frozenset()

    def point(self, values: dict[str, Any]) -> Point:
        """The point of these values; keys that are no knobs are left out."""
        return tuple((knob.key, values[knob.key]) for knob in self.knobs)

    def points(self, given: Point) -> Iterator[Point]:
        """Every point that keeps the frozen knobs as given."""
        kept = dict(given)
        choices = [
            [(knob.key, value) for value in _values(knob, kept)] for knob in self.knobs
        ]
        for point in itertools.product(*choices):
            if not self.only or point in self.only:
                yield point

    def knob(self, role: str) -> Knob | None:
        """The knob of that role, if there is one."""
        return next((knob for knob in self.knobs if knob.role == role), None)

    def twin(self, point: Point) -> Point | None:
        """The same point in bf16; ``None`` where it is that already, or unknown."""
        knob = self.knob("precision")
        if knob is None or "bf16" not in knob.values:
            return None
        twin = tuple((k, "bf16" if k == knob.key else v) for k, v in point)
        known = not self.only or twin in self.only
        return twin if twin != point and known else None

    def allows(self, point: Point, given: Point) -> bool:
        """Whether a point keeps the frozen knobs as given."""
        frozen = {knob.key for knob in self.knobs if knob.frozen}
        return all(a == b for a, b in zip(point, given, strict=True) if a[0] in frozen)

    def cell(self, point: Point) -> Point:
        """The point without its micro-batch: what shares one memory line."""
        batch = self.knob("micro_batch")
        return tuple(part for part in point if batch is None or part[0] != batch.key)


def _values(knob: Knob, kept: dict[str, Any]) -> Iterable[Any]:
    return (kept[knob.key],) if knob.frozen else knob.values
