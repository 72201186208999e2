"""What an exported table of a profiler shows: totals by name, without an order.

Two kinds are read: the text of ``key_averages().table()``, and the Markdown table "Top
CUDA Kernels" of KempnerForge's ``summary.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.verify.evidence import Gemms, Left, Trace
from fp8tune.verify.kernels import FP8, GEMMS, Pattern, find
from fp8tune.verify.unpack import Text

LONGEST_TABLE = 16 << 20
"""Characters of a table that are read."""
LONGEST_LINE = 20_000
LONGEST_SHOWN = 300
EAGER = "matmul_with_hp_or_float8_args"
"""torchao's linears when they are not compiled: each FP8 GEMM is inside an aten::mm."""
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(us|ms|s)")
_COUNT = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_CELLS = re.compile(r"\s{2,}")


class _Row(NamedTuple):
    """A name, its calls, its own time [us], and whether that is of a GPU."""

    name: str
    calls: int
    us: float


def read(path: str, text: Text) -> Trace:
    """Return what a table shows; ``cut`` says if the text has none."""
    trace = Trace(path, table=True)
    size, blocks = 0, []
    for block in text:
        size += len(block)
        if size > LONGEST_TABLE:
            trace.cut = f"only the first {LONGEST_TABLE >> 20} MiB of a table are read"
            break
        blocks.append(block)
    lines = [line for line in "".join(blocks).splitlines() if len(line) < LONGEST_LINE]
    rows, on_gpu, of_trainer = _rows(lines)
    trace.events = len(rows)
    trace.cut = trace.cut or text.cut
    if not rows:
        trace.cut = trace.cut or "neither a trace in JSON nor a profiler's table"
        return trace
    trace.device = "cuda" if on_gpu else "cpu"
    _fill(trace, rows, on_gpu=on_gpu)
    trace.trains = trace.trains or of_trainer or None
    return trace


def _rows(lines: list[str]) -> tuple[list[_Row], bool, bool]:
    """Return the rows, and whether they are of a GPU and of a trainer that trains."""
    rows: list[_Row] = []
    on_gpu = of_trainer = False
    columns: dict[str, int] = {}
    for line in lines:
        cells = _split(line)
        if "Name" in cells and "# of Calls" in cells:
            columns = {name: at for at, name in enumerate(cells)}
            on_gpu = on_gpu or "Self CUDA" in columns
        elif "Kernel" in cells and "Calls" in cells and "CUDA (ms)" in cells:
            columns = {name: at for at, name in enumerate(cells)}
            on_gpu = of_trainer = True
        elif columns and len(cells) == len(columns):
            rows += _row(cells, columns)
    return rows, on_gpu, of_trainer


def _split(line: str) -> list[str]:
    if line.lstrip().startswith("|"):
        return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
    return _CELLS.split(line.strip())


def _row(cells: list[str], columns: dict[str, int]) -> Iterator[_Row]:
    if "Kernel" in columns:
        name, calls = cells[columns["Kernel"]], cells[columns["Calls"]]
        time = _COUNT.fullmatch(cells[columns["CUDA (ms)"]].replace(",", ""))
        us = float(time[0]) * 1e3 if time else math.nan
    else:
        name, calls = cells[columns["Name"]], cells[columns["# of Calls"]]
        cell = cells[columns.get("Self CUDA", columns.get("Self CPU", 0))]
        time = _TIME.fullmatch(cell)
        us = float(time[1]) * _UNITS[time[2]] if time else math.nan
    count = _COUNT.fullmatch(calls.replace(",", ""))
    if count and math.isfinite(us):
        yield _Row(name, int(float(count[0])), us)


def _fill(trace: Trace, rows: list[_Row], *, on_gpu: bool) -> None:
    """Fill in GEMMs, casts and steps: of kernels if there are any, else operators."""
    kernels: list[tuple[_Row, Pattern]] = []
    operators: list[tuple[_Row, Pattern]] = []
    for row in rows:
        operator, kernel = find("operator", row.name), find("kernel", row.name)
        if operator is not None and operator.kind != "function":
            operators.append((row, operator))
        elif kernel is not None:
            kernels.append((row, kernel))
        if row.name == "ProfilerStep*":
            trace.steps = max(trace.steps, row.calls)
    calls = _calls(operators)
    scaled = sum(calls.get(kind, 0) for kind in FP8)
    gemms = _gemms(kernels, scaled)
    grouped = any(row.name == "aten::_grouped_mm" for row, _ in operators)
    for row, pattern in gemms or operators:
        if pattern.kind in GEMMS:
            sure = pattern.kind == "unclear-gemm" and scaled > 0 and not grouped
            _add(trace, row, "fp8-gemm" if sure else pattern.kind, pattern.engine)
    if not gemms:
        eager = any(row.name == EAGER for row in rows)
        inside = scaled * (eager + (not on_gpu))
        trace.other.calls = max(0, trace.other.calls - inside)
        trace.left.clear()
    backward = any(pattern.backward for _, pattern in gemms)
    trace.forward = True if trace.fp8.calls else None
    trace.backward = True if backward else None
    kinds = {pattern.kind for _, pattern in operators}
    kinds |= {pattern.kind for _, pattern in kernels}
    trace.trains = True if backward or kinds & {"backward", "optimizer"} else None
    trace.casts = _calls(kernels).get("cast", 0) or calls.get("cast", 0)
    generated = any(pattern.compiled for _, pattern in kernels)
    trace.compiled = True if generated or "compiled" in kinds else None
    if on_gpu:
        _times(trace, kernels)


def _gemms(
    kernels: list[tuple[_Row, Pattern]], scaled: int
) -> list[tuple[_Row, Pattern]]:
    """Return the kernels of GEMMs; none if they hide the ``scaled`` FP8 operators.

    Then their names are misread, and the operators count instead.
    """
    gemms = [(row, pattern) for row, pattern in kernels if pattern.kind in GEMMS]
    shown = any(pattern.kind in FP8 | {"unclear-gemm"} for _, pattern in gemms)
    return [] if scaled and not shown else gemms


def _times(trace: Trace, kernels: list[tuple[_Row, Pattern]]) -> None:
    for row, pattern in kernels:
        trace.kinds[pattern.kind] = trace.kinds.get(pattern.kind, 0.0) + row.us
        trace.kernels += row.calls
    trace.gpu_us = math.fsum(trace.kinds.values())
    trace.nccl_us = trace.kinds.get("collective", 0.0)


def _calls(rows: list[tuple[_Row, Pattern]]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for row, pattern in rows:
        calls[pattern.kind] = calls.get(pattern.kind, 0) + row.calls
    return calls


def _add(trace: Trace, row: _Row, kind: str, engine: str) -> None:
    totals: list[Gemms] = []
    if kind in FP8:
        totals.append(trace.fp8)
        trace.engines[engine] = trace.engines.get(engine, 0) + row.calls
        if kind == "fp8-grouped":
            totals.append(trace.grouped)
    elif kind == "unclear-gemm":
        totals.append(trace.unclear)
    else:
        totals.append(trace.batched if kind == "batched-gemm" else trace.other)
    for total in totals:
        total.calls += row.calls
        total.us += row.us
    if kind != "unclear-gemm":
        into = trace.ran if kind in FP8 else trace.left
        into.append(Left(row.name[:LONGEST_SHOWN], None, row.calls, row.us))
