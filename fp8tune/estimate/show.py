"""An estimate for people, at 80 columns, and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from fp8tune.estimate.grid import Cell, Saving
from fp8tune.estimate.predict import Prediction
from fp8tune.lint.wording import plain

WIDTH = 80
FIT = {"fits": "", "tight": "?", "out-of-memory": "x", "unknown": " "}
"""Marks behind a memory figure of the grid."""

_NEEDED = {
    "gpu": "the GPU: add --gpu h100",
    "world_size": "the number of GPUs: add --world-size 16",
}


def as_json(
    said: Prediction,
    cells: list[Cell],
    rows: list[dict[str, Any]],
    best: Cell | None,
    freed: list[Saving],
) -> dict[str, Any]:
    """One object; figures that are unknown are null."""
    return {
        "version": 1,
        "memory": {
            "peak_gib": said.peak_gib,
            "low_gib": said.low_gib,
            "high_gib": said.high_gib,
            "at": said.peak_at,
            "breakdown_gib": said.breakdown_gib,
        },
        "speed": {
            "tokens_per_second": said.tokens_per_second,
            "low": said.tokens_low,
            "high": said.tokens_high,
            "fp8_gain": said.fp8_gain,
            "fp8_gain_low": said.fp8_gain_low,
            "fp8_gain_high": said.fp8_gain_high,
            "fp8_flop_share": said.fp8_flop_share,
        },
        "fit": said.fit,
        "fp8_pays": said.pays,
        "reasons": said.reasons,
        "missing": said.missing,
        "gemms": rows,
        "grid": [_cell(cell) for cell in cells],
        "start": _cell(best) if best else None,
        "savings": [saving._asdict() for saving in freed],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    said = cell.prediction
    return {
        "micro_batch": cell.micro_batch,
        "grad_accum": cell.grad_accum,
        "ac": cell.ac,
        "precision": cell.precision,
        "peak_gib": said.peak_gib,
        "fit": said.fit,
        "tokens_per_second": said.tokens_per_second,
    }


def text(
    path: str,
    said: Prediction,
    cells: list[Cell],
    rows: list[dict[str, Any]],
    best: Cell | None,
    freed: list[Saving],
) -> Iterator[str]:
    """The estimate in lines."""
    yield plain(path)
    yield ""
    yield from _memory(said)
    yield from _speed(said)
    yield from _pays(said)
    yield from _missing(said)
    yield from _gemms(rows)
    yield from _grid(cells)
    yield from _advice(best, freed)


def _memory(said: Prediction) -> Iterator[str]:
    if said.peak_gib is None:
        yield "memory: not covered"
        return
    band = f"{said.low_gib:.1f} to {said.high_gib:.1f}"
    yield f"memory: {said.peak_gib:.1f} GiB per GPU ({band}), at the {said.peak_at}"
    parts = [f"{name} {gib:.1f}" for name, gib in said.breakdown_gib.items() if gib]
    yield from _wrapped(", ".join(parts), "  ")
    yield f"fit: {said.fit}"


def _speed(said: Prediction) -> Iterator[str]:
    if said.tokens_per_second is None:
        yield "speed: not covered"
        return
    band = f"{said.tokens_low:,.0f} to {said.tokens_high:,.0f}"
    yield f"speed: {said.tokens_per_second:,.0f} tokens/s over all GPUs ({band})"


def _pays(said: Prediction) -> Iterator[str]:
    gain = ""
    if said.fp8_gain is not None:
        band = f"{said.fp8_gain_low:.2f} to {said.fp8_gain_high:.2f}"
        gain = f": {said.fp8_gain:.2f} times bf16 ({band})"
    yield f"does FP8 pay here? {said.pays}{gain}"
    for reason in said.reasons:
        yield from _wrapped(reason, "  - ", "    ")


def _missing(said: Prediction) -> Iterator[str]:
    needed = dict.fromkeys(_NEEDED.get(name) for name in said.missing.values())
    for words in filter(None, needed):
        yield f"unknown without {words}"


def _gemms(rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{'GEMM':<12}{'M':>8}{'K':>8}{'N':>8}{'count':>7}{'FLOPs':>8}  FP8"
    for row in rows:
        sizes = "".join(f"{row[key] or '':>8}" for key in ("m", "k", "n"))
        share = f"{row['flop_share']:.1%}"
        gain = f"{row['speedup']:.2f} x" if row["speedup"] else "no"
        yield f"{row['name']:<12}{sizes}{row['count'] or '':>7}{share:>8}  {gain}"


def _grid(cells: list[Cell]) -> Iterator[str]:
    if not any(cell.prediction.peak_gib is not None for cell in cells):
        return
    batches = list(dict.fromkeys(cell.micro_batch for cell in cells))
    yield ""
    yield "GiB per GPU (? tight, x out of memory) and thousand tokens/s by micro-batch"
    yield f"{'':<16}" + "".join(f"{batch:>8}" for batch in batches)
    for precision, ac in dict.fromkeys((cell.precision, cell.ac) for cell in cells):
        mine = [c for c in cells if (c.precision, c.ac) == (precision, ac)]
        memory = "".join(f"{_gib(cell):>8}" for cell in mine)
        yield f"{precision:<5}{ac:<11}{memory}"
        if any(cell.tokens for cell in mine):
            yield f"{'':<16}" + "".join(f"{_thousands(cell):>8}" for cell in mine)


def _gib(cell: Cell) -> str:
    said = cell.prediction
    return "-" if said.peak_gib is None else f"{said.peak_gib:.0f}{FIT[said.fit]}"


def _thousands(cell: Cell) -> str:
    return f"{cell.tokens / 1e3:.1f}" if cell.tokens else "-"


def _advice(best: Cell | None, freed: list[Saving]) -> Iterator[str]:
    if best is not None:
        yield ""
        yield (
            f"start with micro-batch {best.micro_batch}, accumulation "
            f"{best.grad_accum}, AC {best.ac}: {best.prediction.peak_gib:.0f} GiB, "
            f"{best.tokens:,.0f} tokens/s"
        )
    if freed:
        yield ""
        yield "what frees memory:"
        for saving in freed:
            yield f"  {saving.freed_gib:5.1f} GiB  {saving.change}"


def _wrapped(words: str, first: str, rest: str = "  ") -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=first, subsequent_indent=rest)
