"""What nvidia-smi tells of the GPU that trials run on; nothing where it cannot.

Its CSV is read by its header, so that neither order nor units matter. Fields are those
of ``nvidia-smi --help-query-gpu``; a driver that lacks one, or a container that hides
it, leaves it unknown.
"""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from fp8tune.runners.visible import Visible, found

DEADLINE_S = 10.0
"""An answer of a driver that hangs is not waited for [s]."""
LONGEST = 200
"""Of a driver's complaint [characters]."""

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

REASONS = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of the reasons for lower clocks (NVML, nvmlClocksEventReasons)."""
HARMFUL = 0x08 | 0x20 | 0x40 | 0x80
"""Those that tell of a GPU that is too hot or badly fed; a power cap is usual."""

Row = Mapping[str, str]


class Sample(NamedTuple):
    """The GPU at one moment; what is unknown is ``None``.

    ``busy`` is the share of the last moments in which something computed.
    """

    time: float | None = None
    sm_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    used_gib: float | None = None
    reasons: int | None = None
    busy: float | None = None


class Process(NamedTuple):
    """A process that computes on the GPU; ``gib`` is ``None`` where it is hidden."""

    pid: int
    name: str
    gib: float | None


def device(environment: Mapping[str, str] = os.environ) -> Visible:
    """The GPU that torch takes as its first, or the slice of one."""
    wanted = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    return found(wanted or "0", _listing(environment.get("PATH", "")).text or "")


class Said(NamedTuple):
    """What a command printed, ``None`` where it failed, and how it ``failed``."""

    text: str | None
    failed: str = ""


def failure() -> str:
    """Why nvidia-smi tells of no GPU, in its own words; ``""`` if it just has none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    listed = _listing(os.environ.get("PATH", ""))
    how = listed.failed or _output(command(program, "gpu", ("name",))).failed
    return "" if how.lower().startswith("no devices") else how


@cache
def _listing(_path: str) -> Said:
    """What ``nvidia-smi -L`` prints, asked once for each ``PATH``."""
    program = shutil.which("nvidia-smi")
    return Said(None) if program is None else _output([program, "-L"])


def ask(query: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """The rows of ``--query-gpu`` or ``--query-compute-apps``; none on any failure."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    said = _output(command(program, query, fields)).text
    old = [OLD_NAMES.get(field, field) for field in fields]
    if said is None and list(fields) != old:
        said = _output(command(program, query, old)).text
    return rows(said or "")


def _output(line: Sequence[str]) -> Said:
    """What a command prints; ``""`` where it hangs."""
    try:
        process = subprocess.Popen(  # noqa: S603, no word of a user's but the GPU's
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return Said(None, str(error.strerror))
    try:
        said, wrong = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        end(process)
        return Said("", f"no answer in {DEADLINE_S:g} s")
    if process.returncode == 0:
        return Said(said)
    words = " ".join(f"{said} {wrong}".split())[:LONGEST]
    return Said(None, words or f"exit code {process.returncode}")


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process; a driver may hold it for ever, so it is not waited for long."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def command(program: str, query: str, fields: Sequence[str]) -> list[str]:
    """The command line of a query."""
    wanted = f"--query-{query}={','.join(fields)}"
    return [program, "-i", device().name, wanted, "--format=csv,nounits"]


def rows(text: str) -> list[dict[str, str]]:
    """CSV with its header: values by the fields' names, without their units."""
    lines = [line for line in text.splitlines() if line.strip()]
    header, *others = csv.reader(lines, skipinitialspace=True) if lines else [[]]
    names = [name.partition(" [")[0] for name in header]
    return [
        dict(zip(names, map(str.strip, values), strict=True))
        for values in others
        if len(values) == len(names)
    ]


def sample(row: Row) -> Sample:
    """A row of ``STATE``."""
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


def processes() -> list[Process]:
    """The processes that compute on the GPU, as far as they are shown.

    None of a slice: they may be on others.
    """
    if device().profile:
        return []
    fields = ("pid", "process_name", "used_gpu_memory")
    return [one for row in ask("compute-apps", fields) for one in _process(row)]


def name() -> str:
    """The GPU's name, with the profile of a slice; ``""`` where there is none."""
    said = ask("gpu", ("name",))
    profile = device().profile
    whole = said[0].get("name", "") if said else ""
    return f"{whole} MIG {profile}" if whole and profile else whole


def driver() -> str:
    """The version of the driver; ``""`` where it is unknown."""
    said = ask("gpu", ("driver_version",))
    return said[0].get("driver_version", "") if said else ""


def state() -> Sample:
    """The GPU now; nothing of a slice, because it would be of the whole GPU."""
    said = ask("gpu", STATE) if not device().profile else []
    return sample(said[0]) if said else Sample()


def named_reasons(bits: int) -> list[str]:
    """The reasons that are set."""
    return [name for bit, name in REASONS.items() if bits & bit]


def _process(row: Row) -> list[Process]:
    pid, mib = row.get("pid", ""), _number(row.get("used_gpu_memory"))
    if not pid.isdigit():
        return []
    gib = None if mib is None else mib / 1024
    return [Process(int(pid), row.get("process_name", "?"), gib)]


def _number(text: str | None) -> float | None:
    """A number without its unit; ``[N/A]`` and ``[Not Supported]`` are none."""
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
    """Seconds since 1970 of the driver's local time."""
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").timestamp()
    except ValueError:
        return None
