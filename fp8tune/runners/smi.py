"""Read the GPU and its state from nvidia-smi, if NVML gives no answer.

The CSV is read by its header, so that order and units do not matter. Fields are those
of ``nvidia-smi --help-query-gpu``; a field that a driver lacks or a container hides is
unknown.
"""

from __future__ import annotations

import contextlib
import csv
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fp8tune.runners.gpu import Gpu, Process, Sample
from fp8tune.runners.visible import listed_gpus, visible_gpus

LONGEST = 200
"""Longest error text that is kept [characters]."""

STATE = (
    "timestamp",
    "clocks.current.sm",
    "power.draw",
    "temperature.gpu",
    "memory.used",
    "utilization.gpu",
    "clocks_event_reasons.active",
)
OLD_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
"""Names before driver 535."""
ABOUT = ("name", "driver_version", "memory.total", "compute_cap")

Row = Mapping[str, str]


class Answer(NamedTuple):
    """The output of a command, ``None`` if it failed, and how it ``failed``."""

    text: str | None
    failed: str = ""


class Smi:
    """``nvidia-smi`` of this machine, for the first GPU that torch sees.

    ``failed`` is its own message on why it shows no GPU; ``""`` if it is not
    ``installed``, or if there is no GPU.
    """

    def __init__(self, deadline: float) -> None:
        self.installed = shutil.which("nvidia-smi") is not None
        listing = self._run(["-L"], deadline)
        self.failed = _failure(listing)
        self.seen = visible_gpus(listed_gpus(listing.text or ""))
        self.visible = next(iter(self.seen), None)
        self.gpu = self._gpu(deadline) if self.visible else Gpu()

    def _gpu(self, deadline: float) -> Gpu:
        answer = self.ask("gpu", ABOUT, deadline)
        self.failed = _failure(answer)
        row = next(iter(rows(answer.text or "")), {})
        if not row.get("name"):
            return Gpu()
        whole = Gpu(
            row["name"],
            row.get("driver_version", ""),
            (_number(row.get("memory.total")) or 0.0) / 1024,
            row.get("compute_cap", ""),
            "nvidia-smi",
            len(self.seen),
        )
        if not self.sliced:
            return whole
        profile = self.visible.profile if self.visible else ""
        return whole._replace(name=f"{whole.name} MIG {profile}", memory_gib=0.0)

    @property
    def sliced(self) -> bool:
        """Whether torch sees a slice (MIG), whose state nvidia-smi does not show."""
        return bool(self.visible and self.visible.profile)

    def stream(self, every_ms: int, deadline: float) -> list[str]:
        """Return the command that prints the GPU's state periodically, as CSV."""
        names = list(STATE)
        if self.ask("gpu", names, deadline).text is None:
            names = [OLD_NAMES.get(name, name) for name in names]
        return [*self._line("gpu", names), "-lms", str(every_ms)]

    def processes(self, deadline: float) -> tuple[Process, ...]:
        """Return the processes on the GPU that nvidia-smi shows."""
        fields = ("pid", "process_name", "used_gpu_memory")
        text = self.ask("compute-apps", fields, deadline).text or ""
        return tuple(one for row in rows(text) for one in _process(row))

    def ask(self, query: str, fields: Sequence[str], deadline: float) -> Answer:
        """Run ``nvidia-smi --query-gpu`` or ``--query-compute-apps``."""
        return self._run(self._line(query, fields)[1:], deadline)

    def _line(self, query: str, fields: Sequence[str]) -> list[str]:
        name = self.visible.name if self.visible else "0"
        what = f"--query-{query}={','.join(fields)}"
        return ["nvidia-smi", "-i", name, what, "--format=csv,nounits"]

    def _run(self, arguments: Sequence[str], deadline: float) -> Answer:
        program = shutil.which("nvidia-smi")
        return _output([program, *arguments], deadline) if program else Answer(None)


class Reader:
    """Parses the lines of ``Smi.stream``; the first is the header."""

    def __init__(self) -> None:
        self._header = ""

    def __call__(self, line: str) -> Sample | None:
        """Return the sample in a line; ``None`` if it holds none."""
        if not self._header:
            self._header = line
            return None
        row = next(iter(rows(f"{self._header}\n{line}")), None)
        return sample(row) if row else None


def _output(line: Sequence[str], deadline: float) -> Answer:
    """Return the output of a command; kill one that hangs."""
    try:
        process = subprocess.Popen(  # noqa: S603, no word of a user's but the GPU's
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return Answer(None, str(error.strerror))
    try:
        text, wrong = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        end(process)
        return Answer(None, f"no answer in {deadline:g} s")
    if process.returncode == 0:
        return Answer(text)
    words = " ".join(f"{text} {wrong}".split())[:LONGEST]
    return Answer(None, words or f"exit code {process.returncode}")


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process; wait only briefly, since a driver may block it forever."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def _failure(answer: Answer) -> str:
    """Return how a command failed; no GPU is not a failure."""
    how = answer.failed
    return "" if how.lower().startswith("no devices") else how


def rows(text: str) -> list[dict[str, str]]:
    """Parse CSV with a header: values by field name, without units."""
    lines = [line for line in text.splitlines() if line.strip()]
    header, *others = csv.reader(lines, skipinitialspace=True) if lines else [[]]
    names = [name.partition(" [")[0] for name in header]
    return [
        dict(zip(names, map(str.strip, values), strict=True))
        for values in others
        if len(values) == len(names)
    ]


def sample(row: Row) -> Sample:
    """Return the sample in a row with the fields ``STATE``."""
    used, busy = (_number(row.get(k)) for k in ("memory.used", "utilization.gpu"))
    return Sample(
        _time(row.get("timestamp", "")),
        _number(row.get("clocks.current.sm")),
        _number(row.get("power.draw")),
        _number(row.get("temperature.gpu")),
        None if used is None else used / 1024,
        _bits(row),
        None if busy is None else busy / 100,
    )


def _process(row: Row) -> list[Process]:
    pid, mib = row.get("pid", ""), _number(row.get("used_gpu_memory"))
    if not pid.isdigit():
        return []
    gib = None if mib is None else mib / 1024
    return [Process(int(pid), row.get("process_name", "?"), gib)]


def _number(text: str | None) -> float | None:
    """Parse a number with or without unit; ``None`` for ``[N/A]`` and the like."""
    try:
        return float((text or "").split(" ")[0])
    except ValueError:
        return None


def _bits(row: Row) -> int | None:
    for name in (STATE[-1], OLD_NAMES[STATE[-1]]):
        try:
            return int(row.get(name, ""), 16)
        except ValueError:
            continue
    return None


def _time(text: str) -> float | None:
    """Parse the driver's local time as seconds since 1970."""
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").timestamp()
    except ValueError:
        return None
