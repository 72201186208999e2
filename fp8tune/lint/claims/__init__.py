"""What the comments of a config say about the run, where that has one meaning.

A claim is a figure with a unit that names one quantity of the job (``256 seqs``,
``1.6M tokens/step``, ``TP=4``), or a word that names a mode (``full AC``). ``prose``
finds the comments, ``speech`` decides which sentences count, ``quantities`` and
``modes`` read the claims, ``contradiction`` compares them with the keys.
"""

# no future annotations: as text, those of a NamedTuple double what it costs to import
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.document import Span
from fp8tune.lint.claims.prose import Line

BESIDE = ""
"""The name of a claim about the key on its line."""

_SCALES = " KMBT"


class Figure(NamedTuple):
    """A number as written.

    ``digits`` may hold commas and a point, ``scale`` is a letter from K to T or empty.
    A number ``about`` a value may be off by one in its last place that is not a
    trailing zero, another by half of that, and an ``exact`` one counts something:
    it is never rounded. ``bases`` are what K, M, B and T may be powers of.
    """

    digits: str
    scale: str = ""
    about: bool = False
    exact: bool = False
    bases: tuple[int, ...] = (1000, 1024)

    @property
    def value(self) -> float:
        """The number in front of the scale."""
        return float(self.digits.replace(",", ""))

    def bounds(self) -> Iterator[tuple[float, float]]:
        """The values that are written so, a range for each base."""
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
        """Whether a value would be written so."""
        return any(low <= value <= high for low, high in self.bounds())

    def below(self, value: float) -> bool:
        """Whether every value that is written so is smaller."""
        return all(high < value for _, high in self.bounds())

    def restyled(self, value: float) -> str:
        """A value in the style of this figure."""
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
    """One statement: the kind of finding it may lead to, and what it is about.

    ``name`` is a name of the job, or what stands before ``=``. The value must be what
    ``figure`` means, or one of ``words``; ``number`` is the figure's span. ``within``
    is among how many paragraphs of the header it must stand, 0 for anywhere, and
    ``first`` whether in the first sentence.
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
        """The same claim of the same comment where that stands now."""
        by = line.start - self.line.start
        span, number = (
            (start + by, end + by) if end else (0, 0)
            for start, end in (self.span, self.number)
        )
        return self._replace(line=line, span=span, number=number)
