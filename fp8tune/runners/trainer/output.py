"""Read what the trainer prints while it runs, and decide when a trial has enough.

The lines are those of ``fp8tune verify``. The time of a step is taken from the most
precise of what the trainer prints: KempnerForge's ``step_time`` has two decimals, its
tokens per second have all that a step of 4 ms needs.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any

from fp8tune.runners import process
from fp8tune.runners.sampling import Sampling, Steps
from fp8tune.runners.trainer.recipe import Profile
from fp8tune.verify import patterns
from fp8tune.verify.cause import texts
from fp8tune.verify.evidence import Curve, Log
from fp8tune.verify.figures import first_nan_step
from fp8tune.verify.lines import Unreadable, clean
from fp8tune.verify.log import UNREAD, Reader

SILENCE_S = {
    "start": 900.0,
    "build": 1800.0,
    "compile": 1800.0,
    "first_step": 1800.0,
    "steady": 600.0,
}
"""Longest silence by stage [s]. A trainer imports torch and opens its data before its
first line, and compiles before its first step. The search's deadline is shorter."""
SLACK = 2.0
"""How many times its last step's time each following step may take."""
EXACT = 0.0025
"""Resolution of a step's time, relative, from which the printed time is used: half of
the precision that a trial asks for."""
LINES_S = 0.002
"""Resolution of the time between two lines [s]: the pipe, and this process's turn."""
EVERY_S = 0.2
"""How often to ask whether many short steps suffice [s]."""
MANY = 100
"""Steps from which that is not asked after each one."""
PATIENCE = 3
"""Steps to wait for a profile that should have been written."""
LONGEST = 4096
"""Bytes at the end of the output in which the last line is looked for."""
FEW = 3
"""Steps without a finite loss in a row that are no gap in what is logged."""


@dataclass
class Wanted:
    """What a trial wants of the trainer.

    ``tokens`` is the number of tokens in a step over all ``ranks``. ``profile`` is set
    if it has to be waited for, and ``is_written`` tells whether it is there. With
    ``losses`` > 0 the trial wants the losses of so many steps, and no speed.
    ``compiles``: the config asks for torch.compile.
    """

    trainer: str
    ranks: int
    tokens: float
    sampling: Sampling
    deadline_s: float
    stepping_s: float = 0.0
    profile: Profile | None = None
    is_written: Callable[[], bool] = lambda: False
    losses: int = 0
    compiles: bool = False


@dataclass
class Times:
    """The steps that no profiler slowed: numbers, times [ms], and where they are from.

    ``source`` is ``tokens_per_second`` or ``step_s`` as printed, or ``lines``: the time
    between the lines, whose median ``between_ms`` is.
    """

    index: list[int] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    source: str = ""
    between_ms: float = 0.0


class Output:
    """Listens to a trainer; ``hear`` gets the stages and steps as they come."""

    def __init__(self, wanted: Wanted, hear: Callable[[dict[str, Any]], None]) -> None:
        self.wanted = wanted
        self.hear = hear
        self.stage = "start"
        self.arrived: list[float] = []
        """When the line of each step was read [s since 1970]."""
        self._reader = Reader("", wanted.trainer, texts())
        self._reader.log.settings["world_size"] = str(wanted.ranks)
        self._begun = process._now()
        self._end = self._begun + wanted.deadline_s
        self._silent_since = self._begun
        self._recompiles = 0
        self._events: dict[int, str] = {}
        self._asked = -math.inf
        self._tail: list[bytes] = [b""]
        self._curve: Curve | None = None
        self._log: Log | None = None

    @property
    def log(self) -> Log:
        """What the trainer has printed so far."""
        return self._reader.log

    @property
    def curve(self) -> Curve:
        """The steps of its last start."""
        return self.log.starts[-1] if self.log.starts else Curve()

    def due(self) -> float:
        """Return until when to wait for more output."""
        return min(self._end, self._silent_since + SILENCE_S[self.stage])

    def finished(self) -> bool:
        """Return False: a trial ends when it has enough."""
        return False

    def feed(self, data: bytes) -> str:
        """Read on; return why the trial is to end, ``""`` to go on.

        ``enough``, ``nan``, ``unreadable``, or ``unread`` where no pattern fits.
        """
        self._tail = [*self._tail[-1:], data]
        try:
            self._reader.feed(data)
        except Unreadable:
            return "unreadable"
        self._find_stage()
        new = self._new_steps()
        for index in new:
            self._step(index)
        if new or self.stage != "steady":  # other output is no sign of progress then
            self._silent_since = process._now()
        if self.is_nan:
            return "nan"
        if len(self.unread_steps) == UNREAD:
            return "unread"
        return "enough" if new and self._has_enough() else ""

    @property
    def unread_steps(self) -> Sequence[str]:
        """The last lines that look like steps, if none of them could be read."""
        return () if any(map(len, self.log.starts)) else self._reader.unread

    def _new_steps(self) -> range:
        """Return the steps since the last call; all of them after a new start."""
        curve = self.curve
        if curve is not self._curve:
            self.arrived, self._events, self._curve = [], {}, curve
        return range(len(self.arrived), len(curve))

    def close(self) -> Log:
        """Return all that a trainer has printed that ended by itself.

        Its last line may lack an end, and the reader adds what the lines imply.
        """
        if self._log is None:
            self._log = self._reader.finish()
        return self._log

    @property
    def last_line(self) -> str:
        """The last line with any text, without colours."""
        ends = reversed(b"".join(self._tail)[-LONGEST:].splitlines())
        shown = (clean(line)[0].strip() for line in ends)
        return next(filter(None, shown), "")

    @property
    def is_nan(self) -> bool:
        """Whether losses are no longer finite."""
        if self.log.sign_counts.get("nan-loss"):
            return True
        losses = self.curve.loss[-FEW:]
        if not self.prints_loss or len(losses) < FEW or any(map(isfinite, losses)):
            return False
        if any(map(isfinite, self.curve.loss)):
            return first_nan_step(self.log) is not None
        return b"nan" in self._tail[-1].lower()

    @cached_property
    def prints_loss(self) -> bool:
        """Whether the trainer's lines of steps have a loss."""
        lines = patterns.known()[self.wanted.trainer].lines
        return any(
            "loss" in line.pattern.groupindex or "loss" in line.fields
            for line in lines
            if line.kind == "step"
        )

    def _find_stage(self) -> None:
        log = self.log
        stage = "start"
        if len(self.curve):
            stage = "steady"
        elif self.wanted.compiles and "compile" in log.events:
            stage = "compile"
        elif log.began:
            stage = "first_step"
        elif self._reader.any_seen:
            stage = "build"
        if stage != self.stage:
            self.stage = stage
            self.hear({"stage": stage, "at": time.time()})

    def _step(self, index: int) -> None:
        """Take a step that was logged."""
        now = time.time()
        self.arrived.append(now)
        recompiles = self.log.events["recompile"]
        if index and recompiles > self._recompiles:
            self._events[index] = "recompile"
        self._recompiles = recompiles
        ms = self._last_ms(index)
        left = self._most_steps - index
        self._extend(SLACK * max(0, left) * ms / 1e3)
        curve = self.curve
        self.hear(
            {
                "step": index,
                "at": now,
                "ms": ms,
                "step_ms": ms,
                "loss": curve.loss[index],
                "grad_norm": curve.grad_norm[index],
            }
        )

    @property
    def _most_steps(self) -> int:
        rule = self.wanted.sampling
        more = self.wanted.profile.last if self.wanted.profile else 0
        return self.wanted.losses or rule.warm_steps + rule.max_steps + 2 + more

    def _extend(self, seconds: float) -> None:
        """Move the deadline for the steps that are left, at most to ``stepping_s``."""
        left = self._begun + self.wanted.stepping_s - process._now()
        self._end = max(self._end, process._now() + min(seconds, left))

    def _last_ms(self, index: int) -> float:
        """Return the time of the last step, to set deadlines and to show it [ms]."""
        speed, seconds = self.curve.tokens_per_second[index], self.curve.step_s[index]
        if speed > 0:
            return self.wanted.tokens / speed * 1e3
        if seconds > 0:
            return seconds * 1e3
        return self._between(index) * 1e3 if index else 0.0

    def _printed(self, name: str) -> list[float]:
        """Return the times of all steps by one printed quantity [s]; [] if absent."""
        values = getattr(self.curve, name)
        if not any(isfinite(value) and value > 0 for value in values):
            return []
        if name == "step_s":
            return list(values)
        return [self.wanted.tokens / v if v > 0 else math.nan for v in values]

    def _between(self, index: int) -> float:
        """Return the time from one step's line to the next, by step [s]."""
        steps = self.curve.step[index] - self.curve.step[index - 1]
        seconds = self.arrived[index] - self.arrived[index - 1]
        return seconds / steps if steps > 0 else math.nan

    def times(self) -> Times:
        """Return the times of the steps that the profiler did not slow."""
        profile, curve = self.wanted.profile, self.curve
        every = range(len(self.arrived))
        index = [
            i
            for i in every
            if not (profile and profile.slows(curve.step[i])) and curve.step[i] > 0
        ]
        seconds, source = self._seconds()
        kept = [i for i in index if isfinite(seconds[i])]
        between = [self._between(i) for i in kept if i]
        known = [value * 1e3 for value in between if isfinite(value)]
        middle = statistics.median(known) if known else 0.0
        return Times(kept, [seconds[i] * 1e3 for i in kept], source, middle)

    def _seconds(self) -> tuple[list[float], str]:
        """Return the times of all steps by the most precise source [s], and that."""
        lines = [math.nan, *map(self._between, range(1, len(self.arrived)))]
        best, source, least = lines, "lines", math.inf
        for name in ("step_s", "tokens_per_second"):
            seconds = self._printed(name)
            coarse = resolution(getattr(self.curve, name))
            if seconds and coarse < least:
                best, source, least = seconds, name, coarse
        known = [value for value in lines[1:] if isfinite(value) and value > 0]
        if known and max(EXACT, LINES_S / statistics.median(known)) < least:
            return [best[0], *lines[1:]], "lines"
        return best, source

    def steps(self) -> tuple[Times, Steps]:
        """Return the counted times, and the rule applied to them."""
        times = self.times()
        steps = Steps(self.wanted.sampling)
        for number, (index, ms) in enumerate(zip(times.index, times.ms, strict=True)):
            since = times.index[number - 1] + 1 if number else 0
            event = [
                self._events[i] for i in range(since, index + 1) if i in self._events
            ]
            steps.add(ms, ms, event[0] if event else "")
        return times, steps

    def events(self) -> list[dict[str, Any]]:
        """Return when each step that no profiler slowed ended, as a worker tells it."""
        times = self.times()
        pairs = enumerate(zip(times.index, times.ms, strict=True))
        return [
            {"step": number, "at": self.arrived[index], "ms": ms}
            for number, (index, ms) in pairs
        ]

    def _has_enough(self) -> bool:
        if self.wanted.losses:
            return len(self.curve) >= self.wanted.losses
        if len(self.arrived) > MANY and process._now() - self._asked < EVERY_S:
            return False
        self._asked = process._now()
        return self._has_proof() and self._suffices()

    def _has_proof(self) -> bool:
        """Whether the profile is there, or is not to be waited for any longer."""
        profile, last = self.wanted.profile, self.curve.step[-1]
        if profile is None:
            return True
        if not profile.is_written(last):
            return False
        return self.wanted.is_written() or profile.is_written(last - PATIENCE)

    def _suffices(self) -> bool:
        times, steps = self.steps()
        return len(times.ms) > 1 and steps.suffice()


def resolution(values: Sequence[float]) -> float:
    """Return half the last decimal of printed numbers, relative to their median.

    Infinity without numbers. Trailing zeros do not show, so the most decimals count.
    """
    finite = [value for value in values if isfinite(value) and value > 0]
    if not finite:
        return math.inf
    shown = (f"{value:.9f}".rstrip("0") for value in finite)
    decimals = max(len(text.partition(".")[2]) for text in shown)
    return float(0.5 * 10**-decimals / statistics.median(finite))
