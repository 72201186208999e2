"""Compare configs, GPU types and numbers of GPUs in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from fp8tune.estimate.compare import Side
from fp8tune.estimate.table import WIDTH
from fp8tune.estimate.whole import memory_json, speed_json
from fp8tune.job import Unknown
from fp8tune.words import plain, wrapped

HEAD = (
    *("GPU", "GPUs", "GiB per GPU", "fit", "tokens/s", "per GPU"),
    *("FP8/bf16", "ktok/step"),
)
WORDS = ("GPU", "fit")
"""Columns of words, which stand to the left."""

SPARE = ("per GPU", "ktok/step", "FP8/bf16")
"""Columns that are left out, in this order, where a table is wider than 80."""


class Line(NamedTuple):
    """One config on one target."""

    path: str
    gpu: str
    world_size: int
    side: Side


def text(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the table, config by config."""
    tables = [(path, list(group)) for path, group in groupby(lines, _path)]
    cells = {path: [_cells(line) for line in group] for path, group in tables}
    every = [HEAD, *(row for rows in cells.values() for row in rows)]
    widths = {name: max(len(row[n]) for row in every) for n, name in enumerate(HEAD)}
    for name in SPARE:
        if sum(width + 2 for width in widths.values()) > WIDTH:
            del widths[name]
    for path, group in tables:
        yield plain(path)
        yield _row(HEAD, widths)
        yield from (_row(row, widths) for row in cells[path])
        for reason in dict.fromkeys(_reasons(group)):
            yield from wrapped(f"  {plain(reason)}", WIDTH)
        yield ""
    legend = "ktok/step: thousand tokens of an optimizer step. " * (
        "ktok/step" in widths
    )
    more = "fp8tune estimate CONFIG has the range of every figure, and other settings"
    yield from wrapped(f"{legend}{more} that fit.", WIDTH)


def as_json(lines: Iterable[Line]) -> dict[str, Any]:
    """Return the table as one object."""
    return {
        "version": 1,
        "estimates": [
            {
                "path": line.path,
                "gpu": line.gpu or None,
                "world_size": line.world_size or None,
                "memory": memory_json(line.side.predicted),
                "speed": speed_json(line.side.predicted),
                "fit": line.side.predicted.fit,
                "tokens_per_step": _step(line.side),
                "refused": [one.rule for one in line.side.predicted.refused],
            }
            for line in lines
        ],
    }


def _path(line: Line) -> str:
    return line.path


def _reasons(group: list[Line]) -> Iterator[str]:
    for line in group:
        for one in line.side.predicted.refused:
            yield f"{one.lead}: {one.message} ({one.rule})"
        for one in line.side.variants.fp8_off:
            yield f"FP8 is off: {one.message} ({one.rule})"


def _cells(line: Line) -> tuple[str, ...]:
    said, size = line.side.predicted, line.world_size
    memory, speed, gain = said.memory, said.speed, said.fp8_gain
    step = _step(line.side)
    return (
        line.gpu or "?",
        str(size or "?"),
        f"{memory.value:.0f} ({memory.low:.0f} to {memory.high:.0f})"
        if memory
        else "-",
        "cannot run" if said.impossible else said.fit.replace("-", " "),
        f"{speed.value:,.0f}" if speed else "-",
        f"{speed.value / size:,.0f}" if speed and size else "-",
        f"{gain:.2f}" if gain else "-",
        f"{step / 1000:,.0f}" if step else "-",
    )


def _row(cells: tuple[str, ...], widths: dict[str, int]) -> str:
    """Return one line: words to the left, numbers to the right."""
    aligned = {
        name: f"{cell:{widths[name]}}" if name in WORDS else f"{cell:>{widths[name]}}"
        for name, cell in zip(HEAD, cells, strict=True)
        if name in widths
    }
    return "  " + "  ".join(aligned.values())


def _step(side: Side) -> int | None:
    try:
        return int(side.variants.job["step.tokens"])
    except Unknown:
        return None
