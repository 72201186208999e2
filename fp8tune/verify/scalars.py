"""Scalars that a run logged, by tag and step, before their meaning is known."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

MAX_TAGS = 5000
"""Most tags that are kept of a run."""
MAX_VALUES = 5_000_000
"""Most values that are kept of a run, over all tags; 24 bytes each."""
MAX_TAG = 200
"""Longest tag [characters]."""


class TooMuch(Exception):
    """A run has more tags or values than are read."""


@dataclass
class Points:
    """The values of one tag in the order of the file.

    ``time`` is when each was written [s since 1970], NaN if the file does not say.
    """

    step: array[float] = field(default_factory=lambda: array("d"))
    value: array[float] = field(default_factory=lambda: array("d"))
    time: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Scalars:
    """All scalars of a file or of several, and what could not be read of them."""

    points: dict[str, Points] = field(default_factory=dict)
    values: int = 0
    cut: str = ""
    """Why a file could not be read to its end, ``""`` if it was."""

    def add(self, tag: str, step: float, value: float, time: float) -> None:
        """Append a value; raises ``TooMuch``."""
        name = tag[:MAX_TAG]
        points = self.points.get(name)
        if points is None:
            if len(self.points) == MAX_TAGS:
                raise TooMuch(f"more than {MAX_TAGS:,} tags")
            points = self.points[name] = Points()
        self.values += 1
        if self.values > MAX_VALUES:
            raise TooMuch(f"more than {MAX_VALUES:,} values")
        points.step.append(step)
        points.value.append(value)
        points.time.append(time)
