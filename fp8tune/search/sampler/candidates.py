"""The candidate settings, as tuples of indices into each knob's values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Point = tuple[int, ...]
"""A setting: the position of each knob's value, in the order of the space's keys.

Positions and not values, because to Python 1, 1.0 and True are equal.
"""
Params = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]] | Sequence[Params]
"""The values of each knob, or a list of the allowed settings."""


class NamedKeys(NamedTuple):
    """The keys of the knobs that the models know; ``None``: no such knob.

    ``batch``: sequences per GPU and forward pass. ``ac``: activation checkpointing,
    with the values ``none``, ``selective``, ``full``. ``compile``: true or false.
    """

    batch: str | None = None
    ac: str | None = None
    compile: str | None = None


class CandidateSpace:
    """The candidates of a search, and other values that its trials have.

    A trial may have a value that the search does not try, such as bf16 in a search for
    the best FP8 setting. The models learn from such a trial, but its value is never
    proposed.
    """

    def __init__(
        self,
        candidates: Sequence[Params],
        named: NamedKeys,
        tried: Iterable[Params] = (),
    ) -> None:
        self.keys = tuple(candidates[0])
        self.named = named
        self._positions: list[dict[tuple[type, Any], int]] = [{} for _ in self.keys]
        self.candidates = [self._added(params) for params in candidates]
        self.tried = [self._added(params) for params in tried if self._has(params)]
        self.values = [[value for _, value in known] for known in self._positions]
        """Each knob's values, in the order of the keys."""
        cells = (self.cell(point) for point in (*self.candidates, *self.tried))
        self.cells = {cell: i for i, cell in enumerate(dict.fromkeys(cells))}
        batches = [self.batch(point) for point in (*self.candidates, *self.tried)]
        self.has_batches = min(batches) > 0

    def _has(self, params: Params) -> bool:
        return all(key in params for key in self.keys)

    def _added(self, params: Params) -> Point:
        return tuple(
            known.setdefault((type(params[key]), params[key]), len(known))
            for key, known in zip(self.keys, self._positions, strict=True)
        )

    def point(self, params: Params) -> Point | None:
        """Return the point of a setting; ``None`` if it has an unknown value."""
        found = []
        for key, known in zip(self.keys, self._positions, strict=True):
            value = params.get(key)
            position = known.get((type(value), value))
            if position is None:
                return None
            found.append(position)
        return tuple(found)

    def params(self, point: Point) -> dict[str, Any]:
        """Return each knob's value by its key."""
        chosen = zip(self.keys, self.values, point, strict=True)
        return {key: values[position] for key, values, position in chosen}

    def place(self, key: str | None) -> int | None:
        """Return the index of a knob in a point; ``None`` if there is no such knob."""
        return self.keys.index(key) if key in self.keys else None

    def cell(self, point: Point) -> Point:
        """Return the point without its batch: a cell shares one memory model."""
        place = self.place(self.named.batch)
        return point if place is None else (*point[:place], *point[place + 1 :])

    def batch(self, point: Point) -> float:
        """Return the batch of a point; 0 if there is none or it is not a number."""
        place = self.place(self.named.batch)
        value = None if place is None else self.values[place][point[place]]
        return float(value) if is_count(value) else 0.0

    def is_smooth(self, place: int) -> bool:
        """Return whether a knob's values are numbers (compared by their logarithms)."""
        values = self.values[place]
        return len(values) > 2 and all(map(is_count, values))

    def coordinate(self, place: int, value: Any) -> float:
        """Return the position of a numeric knob's value, from 0 (smallest) to 1."""
        low, high = (math.log(end(self.values[place])) for end in (min, max))
        return (math.log(value) - low) / (high - low)

    def coordinates(self, points: Sequence[Point]) -> Array:
        """Return a row per point: coordinates of numeric knobs, indices of others."""
        columns = [
            [self.coordinate(place, value) for value in values]
            if self.is_smooth(place)
            else list(map(float, range(len(values))))
            for place, values in enumerate(self.values)
        ]
        positions = np.array(points, dtype=int).reshape(-1, len(columns))
        chosen = [np.array(c)[positions[:, i]] for i, c in enumerate(columns)]
        return np.stack(chosen, axis=1)


def settings(grid: Grid) -> list[dict[str, Any]]:
    """Return every setting of a grid; raises ``ValueError`` if there is none."""
    if isinstance(grid, Mapping):
        combined = itertools.product(*grid.values())
        found = [dict(zip(grid, values, strict=True)) for values in combined]
    else:
        found = [dict(params) for params in grid]
    if not found or not found[0]:
        raise ValueError("the grid holds no setting: give each knob at least one value")
    if any(params.keys() != found[0].keys() for params in found):
        raise ValueError("all settings of a grid have the same keys")
    return found


def is_count(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number above 0."""
    return _is_number(value) and value > 0


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
