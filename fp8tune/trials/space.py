"""What a search may change: knobs with their values, and the points they span."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fp8tune.trials.record import positive

Point = tuple[int, ...]
"""One setting of all knobs: which of its values each has, in the space's order.

Numbers and not the values, because to Python 1, 1.0 and True are one value.
"""


class Role(NamedTuple):
    """What the search may take for granted of the knobs of one role.

    The defaults hold for a role that is not in ``ROLES``: they assume nothing.
    ``label`` names the knob in the report, else its key does. ``learns_alike``: its
    values do not change what a run learns. ``always_accepted``: the trainer takes its
    values in every combination, so that a recorded one needs no lint. ``may_differ``:
    the configs of similar studies may have other values of it. ``frozen_on``: the
    devices on which a search keeps the config's value, unless ``--allow`` frees it.
    """

    label: str = ""
    learns_alike: bool = False
    always_accepted: bool = False
    may_differ: bool = False
    frozen_on: tuple[str, ...] = ("cuda", "cpu")


ROLES: Mapping[str, Role] = {
    "micro_batch": Role(
        "batch",
        learns_alike=True,
        always_accepted=True,
        may_differ=True,
        frozen_on=(),
    ),
    "ac": Role(
        "AC",
        learns_alike=True,
        always_accepted=True,
        may_differ=True,
        frozen_on=(),
    ),
    "compile": Role(
        learns_alike=True,
        always_accepted=True,
        may_differ=True,
        frozen_on=("cpu",),  # takes a minute of a core, and tells nothing of a GPU
    ),
    "precision": Role(always_accepted=True),
    "grad_accum": Role(may_differ=True),
}
"""The roles whose knobs are known to be harmless in some way."""


def traits_of(role: str) -> Role:
    """Return what the search may take for granted of the knobs of a role."""
    return ROLES.get(role, Role())


class Knob(NamedTuple):
    """A config key and the values to try, in their natural order.

    ``role`` is the job's field that it sets, such as ``micro_batch``, or ``""``.
    ``frozen`` knobs keep the baseline's value, as they change what is learned or say
    nothing of a GPU.
    The value ``None`` is that of a key that is not set.
    """

    key: str
    values: tuple[Any, ...]
    role: str = ""
    frozen: bool = False

    @property
    def traits(self) -> Role:
        """What the search may take for granted of it."""
        return traits_of(self.role)

    def place(self, value: Any) -> int:
        """Which value this is, of the same type; ``ValueError`` for none of them."""
        for index, known in enumerate(self.values):
            if type(known) is type(value) and known == value:
                return index
        raise ValueError(f"`{self.key}`: no value {value!r}")


class Space:
    """All knobs of a search.

    ``only`` holds the points that exist, where not all do: replay has no others.
    """

    def __init__(self, knobs: Iterable[Knob], only: Iterable[Point] = ()) -> None:
        self.knobs = tuple(knobs)
        self.only = frozenset(only)
        self._index = [
            {(type(value), value): i for i, value in enumerate(knob.values)}
            for knob in self.knobs
        ]

    def point(self, values: dict[str, Any]) -> Point:
        """The point of these values; keys that are no knobs are left out.

        Raises ``KeyError`` where a knob is missing or has a value of its own.
        """
        found = []
        for knob, index in zip(self.knobs, self._index, strict=True):
            value = values.get(knob.key)
            if (type(value), value) not in index:
                raise KeyError(knob.key)
            found.append(index[type(value), value])
        return tuple(found)

    def values(self, point: Point) -> dict[str, Any]:
        """Each knob's value at a point, by its key; without those that are not set."""
        values = self.params(point)
        return {key: value for key, value in values.items() if value is not None}

    def params(self, point: Point) -> dict[str, Any]:
        """Each knob's value at a point, by its key; ``None`` where it is not set."""
        pairs = zip(self.knobs, point, strict=True)
        return {knob.key: knob.values[index] for knob, index in pairs}

    def has(self, point: Point) -> bool:
        """Whether the point can be tried."""
        return not self.only or point in self.only

    def points(self, baseline: Point) -> Iterator[Point]:
        """Yield the points that can be tried, with the baseline's frozen knobs."""
        if self.only:
            yield from sorted(p for p in self.only if self.allows(p, baseline))
            return
        pairs = zip(self.knobs, baseline, strict=True)
        yield from itertools.product(
            *((kept,) if k.frozen else range(len(k.values)) for k, kept in pairs)
        )

    def place(self, role: str) -> int | None:
        """Where the knob of that role stands in a point, if there is one."""
        roles = (i for i, knob in enumerate(self.knobs) if knob.role == role)
        return next(roles, None)

    def knob(self, role: str) -> Knob | None:
        """The knob of that role, if there is one."""
        place = self.place(role)
        return None if place is None else self.knobs[place]

    def value(self, point: Point, role: str) -> Any:
        """The value of the knob of that role; ``None`` if there is no such knob."""
        place = self.place(role)
        return None if place is None else self.knobs[place].values[point[place]]

    def in_precision(self, point: Point, precision: str) -> Point | None:
        """The same point in another precision, whether or not it can be tried."""
        place = self.place("precision")
        if place is None or precision not in self.knobs[place].values:
            return None
        index = self.knobs[place].place(precision)
        return (*point[:place], index, *point[place + 1 :])

    def with_precision(self, point: Point, precision: str) -> Point | None:
        """The same point in another precision, where it can be tried."""
        other = self.in_precision(point, precision)
        return other if other and self.has(other) else None

    def in_bf16(self, point: Point) -> Point | None:
        """The same point in bf16; ``None`` where it is that already, or unknown."""
        other = self.with_precision(point, "bf16")
        return None if other == point else other

    def allows(self, point: Point, baseline: Point) -> bool:
        """Whether a point has the baseline's frozen knobs."""
        return all(
            a == b
            for knob, a, b in zip(self.knobs, point, baseline, strict=True)
            if knob.frozen
        )

    def cell(self, point: Point) -> Point:
        """The point without its micro-batch: what shares one memory line."""
        place = self.place("micro_batch")
        return point if place is None else (*point[:place], *point[place + 1 :])

    def batch(self, point: Point) -> float:
        """The micro-batch of a point; 0 where that is no knob, or no number above 0."""
        value = self.value(point, "micro_batch")
        return float(value) if positive(value) else 0.0


def shown(value: Any) -> str:
    """A knob's value as people write it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
