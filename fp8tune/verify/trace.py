"""What a profiler trace shows: the GEMMs by precision and pass, and where time went."""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from fp8tune.verify.events import Events
from fp8tune.verify.evidence import Calls, Trace
from fp8tune.verify.gemms import Tally, decide, shape_of
from fp8tune.verify.kernels import FP8, GEMMS, LONGEST_NAME, Pattern, Source, find
from fp8tune.verify.timeline import (
    ROUNDING_US,
    Gemm,
    Meaning,
    Nested,
    Nesting,
    Rows,
    Shape,
    busy,
)
from fp8tune.verify.unpack import LIMIT, Text

CATEGORIES: dict[str, Source] = {
    "kernel": "kernel",
    "gpu_memcpy": "kernel",
    "gpu_memset": "kernel",
    "cpu_op": "operator",
    "user_annotation": "operator",
    "cuda_runtime": "call",
    "cuda_driver": "call",
}
"""Categories of events."""
RECOMPILED = re.compile(r"^Torch-Compiled Region: \d+/(\d{1,9})$")
NODE = "autograd::engine::evaluate_function: "
MOST_ROWS = 3_000_000
"""Events that are kept, with 28 bytes each."""
MOST_THREADS, MOST_NAMES, MOST_SHAPES = 10_000, 10_000, 20_000
LONGEST_SHOWN = 300


class _TooMuch(Exception):
    """The trace has more of something than is kept; the message says of what."""


def read(path: str | os.PathLike[str], limit: int = LIMIT) -> Trace:
    """Return what a trace in Chrome's JSON shows, packed or not.

    Whatever is damaged or too large ends the reading, and ``cut`` says why; ``limit``
    is in unpacked bytes. Raises ``OSError`` if the file cannot be opened.
    """
    collector = _Collector()
    cut = ""
    with open(path, "rb") as file:
        events = Events(Text(file, limit), collector.wanted)
        try:
            for event in events:
                collector.add(event)
        except _TooMuch as error:
            cut = str(error)
    trace = Trace(os.fspath(path), events=events.read, cut=cut or events.cut)
    _header(events.header, trace)
    return collector.finish(trace)


def _header(header: dict[str, Any], trace: Trace) -> None:
    """Fill in what stands beside the events: rank and GPU."""
    where = header.get("distributedInfo")
    if isinstance(where, dict):
        rank, size = where.get("rank"), where.get("world_size")
        trace.rank = rank if type(rank) is int else None
        trace.world_size = size if type(size) is int else None
    devices = header.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict):
        trace.gpu = str(devices[0].get("name", ""))[:LONGEST_SHOWN]


class _Collector:
    """Keeps the events that matter, in columns."""

    def __init__(self) -> None:
        self.meanings: list[Meaning] = []
        self.numbers: dict[tuple[Source, str], int] = {}
        self.shapes: list[Shape | None] = [None]
        self.shape_numbers: dict[Shape | None, int] = {None: 0}
        self.threads: dict[Any, Rows] = {}
        self.kernels, self.data = Rows(), Rows()
        self.waits: dict[Any, Rows] = {}
        self.reads: dict[Any, Rows] = {}
        self.steps: list[tuple[float, float]] = []
        self.rows = 0
        self.casts = self.copies = 0
        self.operators = False
        self.compiled = False
        self.recompiles = 0

    def wanted(self, category: str, name: str) -> bool:
        """Return whether an event matters, by its category and name."""
        source = CATEGORIES.get(category)
        if source == "operator" and category != "user_annotation":
            self.operators = True
        return source == "kernel" or (
            source is not None and find(source, name) is not None
        )

    def add(self, event: dict[str, Any]) -> None:
        """Keep what matters of an event; one of unexpected types does not."""
        name, category = event.get("name"), event.get("cat")
        if not isinstance(name, str) or not isinstance(category, str):
            return
        if event.get("ph") != "X" or not self.wanted(category, name):
            return
        start, us = _number(event.get("ts")), _number(event.get("dur", 0.0))
        if start is None or us is None:
            return
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        us = max(us, 0.0)
        source = CATEGORIES[category]
        meaning = self._meaning(source, name)
        if source == "kernel":
            self._keep(self.kernels, start, us, meaning, _correlation(arguments))
            return
        thread = (event.get("pid"), event.get("tid"))
        if source == "call":
            self._call(start, us, meaning, arguments, thread)
        else:
            self._operator(start, us, meaning, arguments, thread)

    def _call(
        self, start: float, us: float, meaning: int, arguments: Any, thread: Any
    ) -> None:
        if self.meanings[meaning].kind == "wait":
            self._keep(self._of(self.waits, thread), start, us, meaning)
        else:
            correlation = _correlation(arguments)
            rows = self._of(self.threads, thread)
            self._keep(rows, start, us, meaning, correlation)

    def _operator(
        self, start: float, us: float, meaning: int, arguments: Any, thread: Any
    ) -> None:
        name, pattern = self.meanings[meaning]
        assert pattern is not None
        match pattern.kind:
            case "step":
                self.steps.append((start, start + us))
                self._count()
            case "cast":
                self.casts += 1
            case "copy":
                self.copies += _casts(arguments)
            case "wait":
                self._keep(self._of(self.reads, thread), start, us, meaning)
            case "data":
                self._keep(self.data, start, us, meaning)
            case "compiled":
                self.compiled = True
                if times := RECOMPILED.search(name):
                    self.recompiles = max(self.recompiles, int(times[1]))
            case _:
                shape = self._shape(pattern, arguments) if pattern.operands else 0
                rows = self._of(self.threads, thread)
                self._keep(rows, start, us, meaning, shape)

    def _keep(
        self, rows: Rows, start: float, us: float, meaning: int, key: int = 0
    ) -> None:
        self._count()
        rows.add(start, us, meaning, key)

    def _count(self) -> None:
        self.rows += 1
        if self.rows > MOST_ROWS:
            raise _TooMuch(f"more than {MOST_ROWS:,} events that matter")

    def _meaning(self, source: Source, name: str) -> int:
        number = self.numbers.get((source, name[:LONGEST_NAME]))
        if number is None:
            number = len(self.meanings)
            if number >= MOST_NAMES:
                raise _TooMuch(f"more than {MOST_NAMES:,} names")
            short = name if len(name) <= LONGEST_SHOWN else name[:LONGEST_SHOWN] + "..."
            self.meanings.append(Meaning(short, find(source, name)))
            self.numbers[source, name[:LONGEST_NAME]] = number
        return number

    def _shape(self, pattern: Pattern, arguments: dict[str, Any]) -> int:
        shape = shape_of(pattern, arguments)
        number = self.shape_numbers.get(shape)
        if number is None:
            number = len(self.shapes)
            if number >= MOST_SHAPES:
                return 0
            self.shapes.append(shape)
            self.shape_numbers[shape] = number
        return number

    def _of(self, threads: dict[Any, Rows], thread: tuple[Any, Any]) -> Rows:
        """Return the rows of a thread."""
        key = thread if all(type(part) in (int, str) for part in thread) else None
        rows = threads.get(key)
        if rows is None:
            if len(threads) >= MOST_THREADS:
                raise _TooMuch(f"more than {MOST_THREADS:,} threads")
            rows = threads[key] = Rows()
        return rows

    def finish(self, trace: Trace) -> Trace:
        """Return the trace with all that follows from the kept events."""
        nested = self._nested()
        self._gemms(trace, nested)
        self._times(trace)
        casting = sum(self._kind(i) == "cast" for i in self.kernels.meaning)
        trace.casts = max(casting, self.casts or self.copies)
        trace.recompiles = self.recompiles
        if len(self.kernels):
            trace.device = "cuda"
        elif self.operators:
            trace.device = "cpu"
        generated = any(
            meaning.pattern is not None and meaning.pattern.compiled
            for meaning in self.meanings
        )
        known = self.operators or generated
        trace.compiled = (self.compiled or generated) if known else None
        return trace

    def _kind(self, meaning: int) -> str:
        return self.meanings[meaning].kind

    def _nested(self) -> Nested:
        nodes = {
            meaning.name.removeprefix(NODE)
            for meaning in self.meanings
            if meaning.kind == "backward"
        }
        kernels = self.kernels
        rows = zip(kernels.meaning, kernels.key, strict=True)
        correlations = {key for meaning, key in rows if self._kind(meaning) in GEMMS}
        nested = Nested()
        nesting = Nesting(
            self.meanings,
            outside="forward" if self.operators else "",
            nodes=nodes,
            correlations=correlations,
            into=nested,
        )
        for thread in self.threads.values():
            nesting.of_thread(thread)
        return nested

    def _gemms(self, trace: Trace, nested: Nested) -> None:
        """Fill in the GEMMs: of kernels where there are any, else of operators."""
        tally = Tally(trace, self.meanings, self.shapes)
        if not self._kernels(tally, nested):
            for gemm, (calls, us) in nested.gemms.items():
                pattern = self.meanings[gemm.meaning].pattern
                assert pattern is not None
                tally.add(
                    pattern.kind,
                    pattern.engine,
                    gemm,
                    phase=gemm.phase,
                    us=us,
                    calls=calls,
                )
        tally.finish()
        kinds = {meaning.kind for meaning in self.meanings}
        if "backward" in kinds:
            trace.trains = True
        elif self.operators and not trace.cut:
            trace.trains = False
        elif trace.backward or "optimizer" in kinds:
            trace.trains = True

    def _kernels(self, tally: Tally, nested: Nested) -> bool:
        """Count the kernels of GEMMs; return whether there are any."""
        kernels = self.kernels
        unknown: dict[Gemm, float] = {}
        served: set[Gemm] = set()
        any_gemm = False
        for row, meaning in enumerate(kernels.meaning):
            name, pattern = self.meanings[meaning]
            inside = nested.launches.get(kernels.key[row], "")
            gemm = None if isinstance(inside, str) else inside
            phase = inside if isinstance(inside, str) else inside.phase
            us = kernels.end[row] - kernels.start[row]
            if phase == "compiling":  # torch.compile tries kernels out
                continue
            if pattern is None or pattern.kind not in GEMMS:
                if gemm is not None:
                    unknown[gemm] = unknown.get(gemm, 0.0) + us
                continue
            any_gemm = True
            kind = pattern.kind
            if gemm is not None:
                served.add(gemm)
                kind = decide(kind, self._kind(gemm.meaning))
            if not phase and pattern.backward:
                phase = "backward"
            tally.add(kind, pattern.engine, gemm, phase=phase, us=us, kernel=name)
        for gemm, us in unknown.items():
            if gemm in nested.gemms and gemm not in served:
                any_gemm = True
                calls, _ = nested.gemms[gemm]
                kind = self._kind(gemm.meaning)
                tally.add(kind, "unknown", gemm, phase=gemm.phase, us=us, calls=calls)
        if any_gemm and not tally.any_fp8:
            self._unseen(tally, nested)
        return any_gemm

    def _unseen(self, tally: Tally, nested: Nested) -> None:
        """Count FP8 operators as unclear where the trace links no kernel to them."""
        for gemm, (calls, _) in nested.gemms.items():
            if self._kind(gemm.meaning) in FP8:
                phase = gemm.phase
                tally.add("unclear-gemm", "", gemm, phase=phase, us=0.0, calls=calls)

    def _times(self, trace: Trace) -> None:
        """Fill in where time went."""
        kernels = self.kernels
        for row, meaning in enumerate(kernels.meaning):
            us = kernels.end[row] - kernels.start[row]
            kind = self._kind(meaning)
            trace.kinds[kind] = trace.kinds.get(kind, 0.0) + us
        trace.kernels = len(kernels)
        trace.gpu_us = math.fsum(trace.kinds.values())
        trace.nccl_us = trace.kinds.get("collective", 0.0)
        windows = _apart(self.steps)
        trace.steps = len(windows)
        span = self._span(windows)
        trace.span_us = span[1] - span[0]
        collectives = {
            number
            for number, meaning in enumerate(self.meanings)
            if meaning.kind == "collective"
        }
        trace.busy_us = busy(kernels, span)
        beside = busy(kernels, span, without=collectives)
        trace.nccl_alone_us = trace.busy_us - beside
        for thread, rows in (self.waits if len(kernels) else self.reads).items():
            for row in _inside(rows, windows):
                name = self._name_of_wait(thread, rows, row)
                calls = trace.waits.setdefault(name, Calls())
                calls.add(rows.end[row] - rows.start[row])
        for row in _inside(self.data, windows):
            trace.data.add(self.data.end[row] - self.data.start[row])

    def _name_of_wait(self, thread: Any, rows: Rows, row: int) -> str:
        """Return the name of a wait, and the operator that it is inside of."""
        name = self.meanings[rows.meaning[row]].name
        reads = self.reads.get(thread)
        if reads is None or reads is rows:
            return name
        begin, end = rows.start[row], rows.end[row] - ROUNDING_US
        at = bisect_right(reads.start, begin) - 1
        if at < 0 or not (reads.start[at] <= begin and end <= reads.end[at]):
            return name
        return f"{name} in {self.meanings[reads.meaning[at]].name}"

    def _span(self, windows: list[tuple[float, float]]) -> tuple[float, float]:
        if windows:
            return windows[0][0], windows[-1][1]
        everything = [self.kernels, *self.threads.values()]
        starts = [min(rows.start) for rows in everything if len(rows)]
        ends = [max(rows.end) for rows in everything if len(rows)]
        return (min(starts), max(ends)) if starts else (0.0, 0.0)


def _number(value: Any) -> float | None:
    """Return a finite number of a trace, None for anything else."""
    if type(value) not in (int, float):
        return None
    return float(value) if -1e18 < value < 1e18 else None


def _correlation(arguments: dict[str, Any]) -> int:
    """Return the id that a launch and its kernel share, -1 for none."""
    value = arguments.get("correlation")
    return value if type(value) is int and 0 <= value < 1 << 62 else -1


def _casts(arguments: dict[str, Any]) -> bool:
    """Return whether a copy is one into a tensor of FP8 from another type."""
    types = arguments.get("Input type")
    if not isinstance(types, list) or len(types) < 2:
        return False
    into, out = str(types[0])[:LONGEST_SHOWN], str(types[1])[:LONGEST_SHOWN]
    return "Float8" in into and "Float8" not in out


def _apart(steps: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return steps in order; of those that overlap the first."""
    apart: list[tuple[float, float]] = []
    for step in sorted(steps):
        if not apart or step[0] >= apart[-1][1] - 1.0:
            apart.append(step)
    return apart


def _inside(rows: Rows, windows: list[tuple[float, float]]) -> Iterable[int]:
    """Yield the rows that begin inside a window; all, if there is no window."""
    begins = [begin for begin, _ in windows]
    for row, start in enumerate(rows.start):
        at = bisect_right(begins, start) - 1
        if not windows or (at >= 0 and start < windows[at][1]):
            yield row
