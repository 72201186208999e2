"""GEMMs of a trace, added up by precision, pass, operator and shape."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fp8tune.verify.evidence import Gemms, Left, Trace
from fp8tune.verify.kernels import FP8, Pattern
from fp8tune.verify.timeline import Gemm, Meaning, Shape

MOST_LEFT = 200
"""GEMMs by operator and shape that are reported."""
LONGEST_TYPE = 100


class Tally:
    """Adds up GEMMs by precision, pass, operator and shape."""

    def __init__(
        self, trace: Trace, meanings: list[Meaning], shapes: list[Shape | None]
    ) -> None:
        self._trace = trace
        self._meanings = meanings
        self._shapes = shapes
        self._phases: Counter[str] = Counter()
        self._each: dict[tuple[bool, str, int, str], list[Any]] = {}

    def add(
        self,
        kind: str,
        engine: str,
        gemm: Gemm | None,
        *,
        phase: str,
        us: float,
        calls: int = 1,
        kernel: str = "",
    ) -> None:
        """Add calls of one kind and pass, of an operator or of a kernel alone."""
        trace = self._trace
        is_fp8 = kind in FP8
        shape = self._shapes[gemm.shape] if gemm is not None else None
        if is_fp8:
            self._phases[phase] += calls
            trace.engines[engine] = trace.engines.get(engine, 0) + calls
        total = self._total(kind, phase)
        total.calls += calls
        total.us += us
        if shape is not None:
            total.flops += calls * shape.flops
            total.with_shapes += calls
        if kind == "unclear-gemm":
            return
        name = self._meanings[gemm.meaning].name if gemm is not None else kernel
        key = (is_fp8, name, gemm.shape if gemm is not None else 0, phase)
        entry = self._each.setdefault(key, [0, 0.0, kernel])
        entry[0] += calls
        entry[1] += us

    def _total(self, kind: str, phase: str) -> Gemms:
        trace = self._trace
        if kind in FP8:
            return trace.fp8
        if kind == "unclear-gemm":
            return trace.unclear
        if phase == "optimizer":
            return trace.optimizer
        return trace.batched if kind == "batched-gemm" else trace.other

    @property
    def any_fp8(self) -> bool:
        """Whether a GEMM in FP8 was added."""
        return bool(self._trace.fp8.calls)

    def finish(self) -> None:
        """Fill in the passes and the lists by operator and shape."""
        trace, phases = self._trace, self._phases
        trace.forward = self._ran("forward")
        trace.backward = self._ran("backward")
        if trace.fp8.calls and not phases["backward"] and trace.cut:
            trace.backward = None
        each = sorted(self._each.items(), key=lambda item: -item[1][1])
        for (is_fp8, name, number, phase), (calls, us, kernel) in each:
            into = trace.ran if is_fp8 else trace.left
            if len(into) < MOST_LEFT:
                shape = self._shapes[number]
                mkn, dtype = (shape.mkn, shape.dtype) if shape else (None, "")
                into.append(Left(name, mkn, calls, us, dtype, phase, kernel))

    def _ran(self, phase: str) -> bool | None:
        trace, phases = self._trace, self._phases
        gemms = trace.fp8.calls + trace.other.calls + trace.unclear.calls
        if not gemms or (trace.unclear.calls and not phases[phase]):
            return None
        return True if phases[phase] else None if phases[""] else False


def decide(kernel: str, parent: str) -> str:
    """Return the kind of a kernel, given that of the operator that launched it.

    An FP8 operator has no path in 16 bit, so it decides whatever the kernel's name is.
    """
    if parent in FP8 or kernel == "unclear-gemm":
        return parent
    if kernel == "gemm" and parent == "batched-gemm":
        return parent
    return kernel


def shape_of(pattern: Pattern, arguments: dict[str, Any]) -> Shape | None:
    """Return the shape of a GEMM from its operator's arguments, None without."""
    shapes = arguments.get("Input Dims")
    first, second = pattern.operands
    if not isinstance(shapes, list) or len(shapes) <= second:
        return None
    a, b = shapes[first], shapes[second]
    for matrix in (a, b):
        if not isinstance(matrix, list) or len(matrix) not in (2, 3):
            return None
        if not all(type(size) is int and 0 <= size < 1 << 40 for size in matrix):
            return None
    if a[-1] != b[-2]:
        return None
    types = arguments.get("Input type")
    listed = isinstance(types, list) and len(types) > first
    dtype = str(types[first])[:LONGEST_TYPE] if listed else ""  # type: ignore[index]
    batch = a[0] if len(a) == len(b) == 3 else 1
    return Shape((a[-2], a[-1], b[-1]), batch, dtype)
