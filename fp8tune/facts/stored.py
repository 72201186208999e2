"""Store measured runs as JSON lines; the file is untrusted when read."""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
from collections.abc import Iterable

from fp8tune import atomic, studies
from fp8tune.facts.calibration import WIDTHS
from fp8tune.facts.runs import OUT, BadCalibration, Run, is_plausible

MAX_BYTES = 1 << 20
"""Largest file that is read or added to."""

KEPT = MAX_BYTES // 2
"""Largest file that is written."""


def read(path: str) -> list[Run]:
    """The runs of a file, none if it does not exist; raises ``BadCalibration``.

    A last line without line ending counts if it is complete; an incomplete one is
    ignored.
    """
    *lines, last = _bytes(path).decode(errors="replace").split("\n")
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(last)
        lines.append(last)
    return [parse(path, number, line) for number, line in enumerate(lines, 1)]


def _bytes(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadCalibration(f"{path}: not a regular file")
    except FileNotFoundError:
        return b""
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadCalibration(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    return data


def add(path: str, runs: Iterable[Run]) -> None:
    """Add runs to a file, except those that it has; raises ``BadCalibration``.

    The file is replaced atomically, and writers wait for each other. If it grows too
    large, the oldest runs are dropped.
    """
    read(path)
    studies.make_folder(os.path.dirname(path) or ".")
    with open(f"{path}.lock", "a", opener=atomic.no_link) as lock:
        with contextlib.suppress(ImportError, OSError):  # systems without file locks
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        known = read(path)
        every = known + [run for run in runs if run not in known]
        lines = [json.dumps(run._asdict()) + "\n" for run in every]
        while sum(map(len, lines)) > KEPT:
            del lines[: 1 + len(lines) // 10]
        if len(every) > len(known):
            atomic.write(path, "".join(lines).encode())


def parse(path: str, number: int, line: str) -> Run:
    """The run of a line of that file; raises ``BadCalibration``."""
    try:
        run = Run(**json.loads(line))
        sound = _is_sound(run)
    except (ValueError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise BadCalibration(f"{path}:{number}: not a measured run")
    return run


def _is_sound(run: Run) -> bool:
    """Whether all fields are valid: anybody may have written them."""
    words = (run.gpu, run.family, run.config, *run.versions, *run.versions.values())
    numbers = (run.predicted, run.measured)
    return (
        run.quantity in (*WIDTHS, OUT)
        and type(run.exact) in (int, float)
        and 0 <= run.exact <= run.predicted
        and all(type(word) is str for word in words)
        and all(type(n) in (int, float) and 0 < n < math.inf for n in numbers)
        and is_plausible(run)
    )
