"""An estimate for people, at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from fp8tune.estimate.gaps import why
from fp8tune.estimate.grid import Cell
from fp8tune.estimate.predict import Prediction
from fp8tune.estimate.whole import Estimate
from fp8tune.facts.calibration import Band
from fp8tune.lint.wording import plain

WIDTH = 80
FIT = {"fits": "", "tight": "?", "out-of-memory": "x", "unknown": ""}
"""Marks behind a memory figure of the grid."""

SMALL = 10
"""Below so many GiB figures have a decimal."""


def text(path: str, found: Estimate) -> Iterator[str]:
    """The estimate in lines."""
    said = found.said
    yield plain(path)
    yield ""
    yield from _memory(said)
    yield from _elsewhere(found)
    yield from _speed(said)
    yield from _pays(said)
    yield from _gemms(found)
    yield from _grid(found.cells)
    yield from _advice(found)


def _memory(said: Prediction) -> Iterator[str]:
    memory = said.memory
    if memory is None:
        yield from _wrapped(f"memory: unknown{why(said.missing, 'memory.peak_gib')}")
        return
    band = f"{memory.low:.1f} to {memory.high:.1f}"
    yield f"memory: {memory.value:.1f} GiB per GPU ({band}), at the {said.peak_at}"
    parts = [f"{name} {gib:.1f}" for name, gib in said.breakdown_gib.items() if gib]
    yield from _wrapped(", ".join(parts), "  ", "  ")
    yield from _by_runs(memory)
    reason = why(said.missing, "memory.fit") if said.fit == "unknown" else ""
    if said.usable_gib is not None and not reason:
        reason = f" ({said.usable_gib:.0f} GiB of the GPU are usable)"
    yield from _wrapped(f"fit: {said.fit}{reason}")


def _by_runs(band: Band) -> Iterator[str]:
    if band.runs:
        runs = "1 measured run" if band.runs == 1 else f"{band.runs} measured runs"
        yield f"  (times {band.factor:.3f}, by {runs} of configs like this one)"


def _elsewhere(found: Estimate) -> Iterator[str]:
    """What is known of other targets where the config's own is not said."""
    if found.world_sizes:
        yield "  GPUs      " + "".join(f"{size:>8}" for size in found.world_sizes)
        small = _small(found.world_sizes.values())
        cells = (_gib(said, small) for said in found.world_sizes.values())
        yield "  GiB each  " + "".join(f"{cell:>8}" for cell in cells)
    for verdict, names in found.gpus.items():
        yield from _wrapped(f"{verdict}: {', '.join(names)}", "  ", "    ")


def _speed(said: Prediction) -> Iterator[str]:
    speed = said.speed
    if speed is None:
        reason = why(said.missing, "speed.tokens_per_second")
        yield from _wrapped(f"speed: unknown{reason}")
        return
    band = f"{speed.low:,.0f} to {speed.high:,.0f}"
    yield f"speed: {speed.value:,.0f} tokens/s over all GPUs ({band})"
    yield from _by_runs(speed)


def _pays(said: Prediction) -> Iterator[str]:
    gain = ""
    if said.fp8_gain is not None and said.pays != "no":
        band = f"{said.fp8_gain_low:.2f} to {said.fp8_gain_high:.2f}"
        gain = f": {said.fp8_gain:.2f} times bf16 ({band})"
    elif said.pays == "unknown":
        gain = why(said.missing, "speed.fp8_gain")
    yield from _wrapped(f"does FP8 pay here? {said.pays}{gain}")
    for reason in said.reasons:
        yield from _wrapped(reason, "  - ", "    ")


def _gemms(found: Estimate) -> Iterator[str]:
    if not found.gemms:
        return
    yield ""
    yield f"{'GEMM':<12}{'M':>8}{'K':>8}{'N':>8}{'count':>7}{'FLOPs':>8}  FP8 gain"
    for row in found.gemms:
        sizes = "".join(f"{row[key] or '':>8}" for key in ("m", "k", "n"))
        share = f"{row['flop_share']:.1%}"
        gain = f"{row['speedup']:.2f} x" if row["speedup"] else "stays bf16"
        yield f"{row['name']:<12}{sizes}{row['count'] or '':>7}{share:>8}  {gain}"


def _grid(cells: list[Cell]) -> Iterator[str]:
    if not any(cell.prediction.memory for cell in cells):
        return
    batches = list(dict.fromkeys(cell.micro_batch for cell in cells))
    small = _small(cell.prediction for cell in cells)
    yield ""
    yield f"{'micro-batch':<16}" + "".join(f"{batch:>8}" for batch in batches)
    for precision, ac in dict.fromkeys((cell.precision, cell.ac) for cell in cells):
        mine = [c for c in cells if (c.precision, c.ac) == (precision, ac)]
        memory = "".join(f"{_gib(cell.prediction, small):>8}" for cell in mine)
        yield f"{precision:<5}{ac:<11}{memory}"
        if any(cell.tokens for cell in mine):
            yield f"{'':<16}" + "".join(f"{_thousands(cell):>8}" for cell in mine)
    yield from _wrapped(_legend(cells))


def _legend(cells: list[Cell]) -> str:
    """What the figures and marks of the grid mean, of those that occur."""
    said = [cell.prediction for cell in cells]
    marks = {
        "GiB per GPU": True,
        "below it thousand tokens/s": any(cell.tokens for cell in cells),
        "? tight": any(one.fit == "tight" for one in said),
        "x out of memory": any(one.fit == "out-of-memory" for one in said),
        "- not covered": any(one.memory is None for one in said),
        "! suspiciously fast": any(map(_too_fast, cells)),
    }
    return ", ".join(words for words, there in marks.items() if there)


def _small(said: Iterable[Prediction]) -> bool:
    """Whether all peaks are so small that figures need a decimal."""
    peaks = [one.memory.value for one in said if one.memory]
    return max(peaks, default=0) < SMALL


def _gib(said: Prediction, small: bool) -> str:
    if said.memory is None:
        return "-"
    return f"{said.memory.value:.{int(small)}f}{FIT[said.fit]}"


def _thousands(cell: Cell) -> str:
    if not cell.tokens:
        return "-"
    return f"{cell.tokens / 1e3:.1f}{'!' if _too_fast(cell) else ''}"


def _too_fast(cell: Cell) -> bool:
    return cell.precision == "fp8" and bool(cell.tokens) and cell.prediction.suspicious


def _advice(found: Estimate) -> Iterator[str]:
    best = found.start
    if best is not None and best.prediction.memory:
        setting = (
            f"micro-batch {best.micro_batch}, accumulation {best.grad_accum}, "
            f"AC {best.ac}: {best.prediction.memory.value:.0f} GiB"
        )
        yield ""
        if best.tokens:
            speed = f"{best.tokens:,.0f} tokens/s"
            yield from _wrapped(f"start with {setting}, {speed}")
        else:
            yield from _wrapped(f"the most that fits is {setting} (speed unknown)")
    if found.savings:
        yield ""
        yield "what frees memory:"
        for saving in found.savings:
            yield f"  {saving.freed_gib:5.1f} GiB  {saving.change}"


def _wrapped(words: str, first: str = "", rest: str = "  ") -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=first, subsequent_indent=rest)
