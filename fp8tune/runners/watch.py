"""The GPU beside a trial: free before it, its clocks, watts and heat while it runs."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fp8tune.runners import smi
from fp8tune.runners.smi import Process, Sample
from fp8tune.search.record import Record

EVERY_MS = 250
WAIT_S = 20.0
"""How long to wait for a killed trial's memory [s]."""
SLACK_GIB = 0.5
"""Memory that may be in use beyond what was before the first trial."""
CROWDED_GIB = 2.0
"""Memory in use before a trial, more than a driver takes alone, from which running out
of it says nothing of the setting."""
BUSY = 0.25
"""Share of the time in which something computes, from which it slows a trial."""
LOOKS = 4
"""Times that a GPU is looked at until it is idle: the last trial may echo."""
SHARE = 0.1
"""Share of the steady time from which a harmful slowdown spoils a trial."""


class Guard:
    """Sees to it that trials have the GPU to themselves, or says who else is on it.

    ``look`` and ``others`` are what asks the driver.
    """

    def __init__(
        self,
        look: Callable[[], Sample] = smi.state,
        others: Callable[[], list[Process]] = smi.processes,
        wait: float = WAIT_S,
    ) -> None:
        self._look = look
        self._others = others
        self._wait = wait
        self._before = look().used_gib

    @property
    def sees(self) -> bool:
        """Whether the driver answers."""
        return self._before is not None

    def free(self, limit: float) -> dict[str, Any]:
        """Wait for memory of ended trials; what the record should say.

        Not longer than ``limit`` [s]; nothing where nothing is known.
        """
        if not self.sees:
            return {}
        until = time.monotonic() + min(self._wait, limit)
        used = self._look().used_gib
        while used is not None and used > (self._before or 0.0) + SLACK_GIB:
            if time.monotonic() >= until:
                break
            time.sleep(0.5)
            used = self._look().used_gib
        if used is None:  # it does not answer any more: ask no further
            self._before = None
            return {}
        return {"gpu_used_gib": round(used, 2), **self.beside({})}

    def beside(self, before: dict[str, Any]) -> dict[str, Any]:
        """The other processes now and what they do, and what ``before`` tells of them.

        Asked while no trial runs.
        """
        known = {other["pid"]: other for other in before.get("others", [])}
        if not self.sees:
            return {"others": list(known.values())} if known else {}
        known = {p.pid: p._asdict() for p in self._others()} | known
        busy = max(self._busy(), before.get("gpu_busy", 0.0))
        return {
            **({"others": list(known.values())} if known else {}),
            **({"gpu_busy": round(busy, 2)} if busy > BUSY else {}),
        }

    def _busy(self) -> float:
        """The share of the time in which others compute, while no trial runs."""
        least = 1.0
        for look in range(LOOKS):
            time.sleep(0.5 * bool(look))
            least = min(least, self._look().busy or 0.0)
            if least <= BUSY:
                break
        return least


def sharers(record_more: dict[str, Any]) -> str:
    """The other processes that a record names: ``python (pid 12, 3.0 GiB)``."""
    told: Any = record_more.get("others")
    return ", ".join(filter(None, map(_sharer, told if isinstance(told, list) else [])))


def _sharer(told: Any) -> str:
    """One of them; ``""`` where a record of somebody else's says something odd."""
    match told:
        case {"name": str(name), "pid": int(pid), "gib": int() | float() as gib}:
            return f"{name} (pid {pid}, {gib:.1f} GiB)"
        case {"name": str(name), "pid": int(pid)}:
            return f"{name} (pid {pid})"
    return ""


class Sampler:
    """Samples of the GPU while something runs; none where there is no nvidia-smi."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample until the end of the block."""
        program = shutil.which("nvidia-smi")
        if program is None:
            yield
            return
        fields = _fields()
        command = [*smi.command(program, "gpu", fields), "-lms", str(EVERY_MS)]
        # by a pipe, so that it ends by itself when nobody reads any more
        process = subprocess.Popen(  # noqa: S603, no word of a user's but the GPU's
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        try:
            yield
        finally:
            smi.end(process)
            reader.join(1.0)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            self._lines.extend(lines)

    def samples(self) -> list[Sample]:
        """What was sampled so far."""
        return [smi.sample(row) for row in smi.rows("".join(list(self._lines)))]


def _fields() -> Sequence[str]:
    """The names by which this driver knows the state's fields."""
    known = smi.ask("gpu", smi.STATE)
    names = known[0].keys() if known else smi.STATE
    return [
        name if name in names else smi.OLD_NAMES.get(name, name) for name in smi.STATE
    ]


def between(samples: Sequence[Sample], start: float, end: float) -> list[Sample]:
    """The samples of a stretch of time [s since 1970]."""
    return [s for s in samples if s.time is not None and start <= s.time <= end]


def slows(sample: Sample) -> bool:
    """Whether a sample tells of a harmful reason for lower clocks."""
    return sample.reasons is not None and bool(sample.reasons & smi.HARMFUL)


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """What a record says of the GPU in its steady time; what is unknown is left out.

    ``slowed`` is the share of the time with a harmful reason for lower clocks.
    """
    said: dict[str, Any] = {}
    if clocks := [s.sm_mhz for s in samples if s.sm_mhz is not None]:
        said["sm_mhz"] = statistics.median(clocks)
    if heat := [s.temperature_c for s in samples if s.temperature_c is not None]:
        said["temperature_c"] = max(heat)
    if reasons := [s.reasons for s in samples if s.reasons is not None]:
        slowed = sum(map(slows, samples)) / len(reasons)
        every = 0
        for bits in reasons:
            every |= bits
        said |= {"slowed": round(slowed, 3), "clock_reasons": smi.named_reasons(every)}
    return said


def beside(found: Record, before: dict[str, Any], steady: dict[str, Any]) -> Record:
    """A record with what was seen of the GPU, and what that makes of its outcome.

    Out of memory or short of it beside another process, and a figure of a GPU that
    slowed itself down or that others computed on, say nothing of the setting: all may
    pass.
    """
    more = {**found.more, **before, **steady}
    others = sharers(more)
    used = before.get("gpu_used_gib", 0.0)
    crowded = others or used > CROWDED_GIB
    taken = others or f"{used:.1f} GiB that were in use before"
    if found.outcome == "oom" and crowded:
        more["message"] = f"out of memory beside {taken}"
        return found._replace(outcome="launch", more=more)
    if found.ok and crowded and more.get("alloc_retries"):
        more["message"] = f"allocator retries beside {taken}"
        return found._replace(outcome="launch", more=more)
    if found.ok and (busy := before.get("gpu_busy", 0.0)):
        who = others or "a process that is not shown"
        more["message"] = f"{who} computes on the GPU, {100 * busy:.0f} % of the time"
        return found._replace(outcome="throttled", more=more)
    if found.ok and steady.get("slowed", 0.0) > SHARE:
        reasons = ", ".join(steady["clock_reasons"])
        more["message"] = f"{100 * steady['slowed']:.0f} % of the time: {reasons}"
        return found._replace(outcome="throttled", more=more)
    return found._replace(more=more)
