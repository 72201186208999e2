"""Write the grid of an estimate as lines, and figures of memory."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from fp8tune.estimate.grid import Cell
from fp8tune.estimate.predict import Prediction
from fp8tune.facts.gaps import why
from fp8tune.facts.memory.verdict import FITS, MAY_NOT_FIT, OUT, PROBABLY_OUT

WIDTH = 80
FIT = {FITS: "", MAY_NOT_FIT: "?", PROBABLY_OUT: "x?", OUT: "x", "unknown": ""}
"""Marks behind a memory figure of the grid."""

AT_LEAST = ">"
"""Mark before a memory figure that is a lower bound."""

MARK = 25
"""Longest words of a mark that stand on one line."""

SMALL, TINY = 10, 0.05
"""Below so many GiB figures of the grid have a decimal, those of the peak four."""


def grid_lines(cells: list[Cell]) -> Iterator[str]:
    """Yield the grid, if there are cells to show."""
    if not cells:
        return
    batches = list(dict.fromkeys(cell.micro_batch for cell in cells))
    few = small(cell.prediction for cell in cells)
    yield ""
    yield f"{'micro-batch':<16}" + "".join(f"{batch:>8}" for batch in batches)
    accumulated = {cell.micro_batch: cell.grad_accum for cell in cells}
    if max(accumulated.values()) > 1:
        counts = "".join(f"{accumulated[batch]:>8}" for batch in batches)
        yield f"{'accumulation':<16}{counts}"
    never: dict[str, str] = {}
    shown: list[Cell] = []
    for precision, ac in dict.fromkeys((cell.precision, cell.ac) for cell in cells):
        mine = [c for c in cells if (c.precision, c.ac) == (precision, ac)]
        if all(cell.prediction.impossible for cell in mine):
            refused = mine[0].prediction.refused
            never[precision] = next(one.message for one in refused if one.voids)
            continue
        shown += mine
        memory = "".join(f"{gib_mark(cell.prediction, few):>8}" for cell in mine)
        yield f"{precision:<5}{ac:<11}{memory}"
        if any(cell.tokens for cell in mine):
            tokens = "".join(f"{_thousands(cell):>8}" for cell in mine)
            yield f"{'':<16}{tokens}".rstrip()
    for precision, message in never.items():
        yield from wrapped(f"{precision} cannot run: {message}")
    yield from (line.replace("\0", " ") for line in wrapped(_legend(shown)))


def _legend(cells: list[Cell]) -> str:
    """Explain the figures and marks that occur in the grid.

    NUL is a space at which no line is broken: a mark stays with its words.
    """
    said = [cell.prediction for cell in cells]
    voids = [r.message for one in said for r in one.refused if r.voids]
    marks = {
        "GiB per GPU at the same tokens per step": True,
        "below it thousand tokens/s": any(cell.tokens for cell in cells),
        **{
            f"{mark} {fit.replace('-', ' ')}": any(one.fit == fit for one in said)
            for fit, mark in FIT.items()
            if mark
        },
        f"{AT_LEAST} at least": any(one.least_gib for one in said),
        "unmarked: fit unknown": any(
            one.memory and one.fit == "unknown" for one in said
        ),
        **{f"- {gap}": True for gap in _gaps(said)},
        "! suspiciously fast": any(map(_too_fast, cells)),
        **{f"no: cannot run: {message}": True for message in voids[:1]},
    }
    known = (words for words, there in marks.items() if there)
    return ", ".join(w if len(w) > MARK else w.replace(" ", "\0") for w in known)


def _gaps(said: list[Prediction]) -> Iterator[str]:
    """Yield why some settings have no figure for memory."""
    for one in said:
        if not one.has_memory and not one.impossible:
            yield why(one.missing, "memory.peak_gib", "").removeprefix(": ")


def small(said: Iterable[Prediction]) -> bool:
    """Return whether all peaks are so small that figures need a decimal."""
    peaks = [one.memory.value if one.memory else one.least_gib or 0 for one in said]
    return max(peaks, default=0) < SMALL


def gib_mark(said: Prediction, few: bool) -> str:
    """Return a peak with its mark, or why there is none."""
    if said.memory:
        return f"{said.memory.value:.{int(few)}f}{FIT[said.fit]}"
    if said.least_gib:
        return f"{AT_LEAST}{said.least_gib:.{int(few)}f}{FIT[said.fit]}"
    return "no" if said.impossible else "-"


def _thousands(cell: Cell) -> str:
    if not cell.tokens:
        return "" if cell.prediction.too_much else "-"
    return f"{cell.tokens / 1e3:.1f}{'!' if _too_fast(cell) else ''}"


def _too_fast(cell: Cell) -> bool:
    return cell.precision == "fp8" and bool(cell.tokens) and cell.prediction.suspicious


def figure(gib: float) -> str:
    """Return GiB as text, small figures with a decimal."""
    return f"{gib:.{int(gib < SMALL)}f}"


def wrapped(words: str, first: str = "", rest: str = "  ") -> list[str]:
    """Wrap words to the terminal's width."""
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
