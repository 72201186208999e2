"""Read unambiguous statements about the run from a config's comments.

A claim is a figure with a unit that names one quantity of the job (``256 seqs``, ``1.6M
tokens/step``, ``TP=4``), or a word that names a mode (``full AC``). ``prose`` finds the
comments, ``speech`` decides which sentences count, ``quantities`` and ``modes`` read
the claims, and ``contradiction`` compares them with the keys.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.formats.document import Span
from fp8tune.lint.claims.prose import Line

BESIDE = ""
"""The name of a claim about the key on its line."""

_SCALES = " KMBT"


class Figure(NamedTuple):
    """A number as written.

    ``digits`` may have commas and a point; ``scale`` is a letter from K to T or empty.
    An ``about`` figure may be off by one in its last digit that is not a trailing zero,
    other figures by half of that. An ``exact`` figure counts something and is never
    rounded. ``bases`` are what K, M, B and T may be powers of.
    """

    digits: str
    scale: str = ""
    about: bool = False
    exact: bool = False
    bases: tuple[int, ...] = (1000, 1024)

    @property
    def value(self) -> float:
        """The number before the scale."""
        return float(self.digits.replace(",", ""))

    def bounds(self) -> Iterator[tuple[float, float]]:
        """Yield the range of values that are written like this, for each base."""
        whole, _, decimals = self.digits.replace(",", "").partition(".")
        zeros = len(whole) - len(whole.rstrip("0") or whole)
        place = 10.0 ** (-len(decimals) if decimals else zeros)
        slack = place if self.about else place / 2
        if self.exact and not self.scale and not self.about:
            slack = 0.0
        for base in self.bases:
            size = base**self._power
            yield (self.value - slack) * size, (self.value + slack) * size

    def means(self, value: float) -> bool:
        """Return whether a value would be written like this."""
        return any(low <= value <= high for low, high in self.bounds())

    def below(self, value: float) -> bool:
        """Return whether every value that is written like this is smaller."""
        return all(high < value for _, high in self.bounds())

    def restyled(self, value: float) -> str:
        """Return a value in the style of this figure."""
        power = self._power
        while power and value < 1000**power:
            power -= 1
        decimals = len(self.digits.partition(".")[2]) if power else 0
        scale = self.scale if power == self._power else _SCALES[power].strip()
        comma = "," if "," in self.digits or (self.scale and not power) else ""
        return f"{value / 1000**power:{comma}.{decimals}f}{scale}"

    @property
    def _power(self) -> int:
        return _SCALES.index(self.scale.upper() or " ")


class Claim(NamedTuple):
    """One statement: the kind of finding it may cause, and what it is about.

    ``name`` is a name of the job, or the text before ``=``. The value must be what
    ``figure`` means, or one of ``words``; ``number`` is the figure's span. It must be
    in the first ``within`` paragraphs of the header (0: anywhere), and with ``first``
    in the first sentence.
    """

    kind: str
    name: str
    line: Line
    span: Span
    number: Span = (0, 0)
    figure: Figure | None = None
    words: tuple[str, ...] = ()
    within: int = 0
    first: bool = False

    def moved(self, line: Line) -> "Claim":
        """Return the same claim for the same comment at another line."""
        by = line.start - self.line.start
        span, number = (
            (start + by, end + by) if end else (0, 0)
            for start, end in (self.span, self.number)
        )
        return self._replace(line=line, span=span, number=number)
