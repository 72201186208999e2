"""The record of a trial: one JSON line, left by every trial and read by replay."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

OUTCOMES = ("ok", "oom", "hang", "compile", "nan", "launch", "throttled", "user")
"""How a trial can end; all but ``ok`` say what went wrong.

``launch``: it never reached its first step, or was ended in its steps by what may
pass; ``user``: the user's own code raised.
"""

MAX_LINE = 1 << 20
"""Longest line that is read [characters]."""
MAX_NUMBER = 1e18


class BadRecord(Exception):
    """A line is no record: says why."""


class Record(NamedTuple):
    """One trial.

    ``knobs`` maps config keys to the values tried; ``tokens_per_second`` is over all
    GPUs and steady steps, ``step_ms`` those steps' times [ms]; ``peak_gib`` and
    ``reserved_gib`` are allocated and reserved memory of the fullest GPU [GiB];
    ``cost_s`` is the trial's wall time with start and compile [s]. What was not
    measured is 0. ``more`` holds all further fields.
    """

    knobs: dict[str, Any]
    outcome: str
    tokens_per_second: float = 0.0
    step_ms: tuple[float, ...] = ()
    peak_gib: float = 0.0
    reserved_gib: float = 0.0
    cost_s: float = 0.0
    more: dict[str, Any] = {}

    @property
    def ok(self) -> bool:
        """Whether the setting ran."""
        return self.outcome == "ok"

    @property
    def measured(self) -> bool:
        """Whether its tokens/s are a figure.

        Those of a trial that was ended early for being slow are an upper bound.
        """
        return self.ok and self.more.get("censored") is not True

    @property
    def least(self) -> float:
        """What the steps of a trial that was ended early allow at least [tokens/s].

        0 where that is unknown; ``tokens_per_second`` is what they allow at most.
        """
        match self.more.get("median_step_ms_95"):
            case [int() | float() as low, int() | float() as high] if 0 < low <= high:
                return self.tokens_per_second * low / high
        return 0.0

    def line(self) -> str:
        """The record as one line of JSON, without its line ending."""
        fields = self._asdict()
        more = fields.pop("more")
        return json.dumps({**fields, **more}, allow_nan=False)


FULL = 0.92
"""Share of the GPU's memory that may be reserved: beyond it fragmentation, another
batch or an evaluation ends a long run."""


def capacity_gib(record: Record) -> float:
    """The memory of the GPU that a trial had; 0 where that is not told."""
    told = record.more.get("capacity_gib")
    return float(told) if positive(told) else 0.0


def tight(record: Record) -> str:
    """Why a trial that ran leaves too little memory for a long run; ``""`` if not.

    It reserved more than ``FULL`` of the GPU, or its allocator had to free what it
    kept and try again, which costs time in every step and fails one day.
    """
    if not record.ok:
        return ""
    retries, capacity = record.more.get("alloc_retries"), capacity_gib(record)
    if capacity and record.reserved_gib > FULL * capacity:
        share = 100 * record.reserved_gib / capacity
        return f"{share:.1f} % of the GPU's memory reserved, over {100 * FULL:.0f} %"
    if positive(retries):
        return f"{retries} allocator {'retry' if retries == 1 else 'retries'}"
    return ""


def positive(value: Any) -> TypeGuard[float]:
    """Whether a free field holds a number above 0."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and 0 < value < MAX_NUMBER


_NUMBERS = ("tokens_per_second", "peak_gib", "reserved_gib", "cost_s")


def parse(line: str) -> Record:
    """Read one line; raises ``BadRecord``."""
    if len(line) > MAX_LINE:
        raise BadRecord(f"a line of more than {MAX_LINE >> 20} MiB")
    try:
        data = json.loads(
            line, parse_constant=_no_number, parse_float=_finite, parse_int=_small
        )
    except (ValueError, RecursionError):
        raise BadRecord("no JSON") from None
    if not isinstance(data, dict):
        raise BadRecord("no JSON object")
    return _record(data)


def _no_number(_name: str) -> None:
    """NaN and infinities, which JSON does not have: nothing was measured."""


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _small(text: str) -> int | None:
    value = int(text)
    return value if _fits(value) else None


def _fits(value: int) -> bool:
    """Whether a TOML file could hold it."""
    return -(1 << 63) <= value < 1 << 63


def _record(data: dict[str, Any]) -> Record:
    knobs, outcome = data.pop("knobs", None), data.pop("outcome", None)
    if not isinstance(knobs, dict) or not all(map(_is_scalar, knobs.values())):
        raise BadRecord("`knobs` maps config keys to plain values")
    if outcome not in OUTCOMES:
        raise BadRecord(f"`outcome` is one of {', '.join(OUTCOMES)}")
    if outcome != "ok":  # null: not measured
        absent = [name for name in (*_NUMBERS, "step_ms") if data.get(name, 0) is None]
        for name in absent:
            del data[name]
    numbers = {name: _number(name, data.pop(name, 0.0)) for name in _NUMBERS}
    steps = data.pop("step_ms", [])
    if not isinstance(steps, list):
        raise BadRecord("`step_ms` is an array of numbers")
    step_ms = tuple(_number("step_ms", step) for step in steps)
    if outcome == "ok" and not numbers["tokens_per_second"]:
        raise BadRecord("an ok trial has `tokens_per_second`")
    return Record(knobs, outcome, step_ms=step_ms, more=data, **numbers)


def _is_scalar(value: Any) -> bool:
    """Whether a TOML file could hold it as a plain value."""
    small = not isinstance(value, int) or _fits(value)
    return small and isinstance(value, (str, bool, int, float))


def _number(name: str, value: Any) -> float:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not 0 <= value < MAX_NUMBER:
        raise BadRecord(f"`{name}` is a number of at least 0")
    return float(value)


def parse_all(lines: Iterator[str]) -> Iterator[Record]:
    """Read many lines; ``BadRecord`` names the line. Empty lines are passed over."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield parse(line)
            except BadRecord as error:
                raise BadRecord(f"line {number}: {error}") from None
