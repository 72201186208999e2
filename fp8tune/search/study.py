"""A study on disk: every trial as a line, so that nothing is lost and all resumes.

``trials.jsonl`` is the truth, appended and synced trial by trial; ``study.json`` says
what is searched, so that the same command finds its own study again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune import atomic
from fp8tune.search.record import BadRecord, Record, parse

MAX_BYTES = 1 << 28
PROCESS = "process"
STAGES = ("given", "twin", "search", "confirm", "stability")


class BadStudy(Exception):
    """A study's folder cannot be used: says which file and why."""


class Trial(NamedTuple):
    """A record with its place in the study.

    ``stage`` is why it was run: the user's config, its bf16 twin, the search itself,
    the confirmation at the end, or to compare what FP8 and bf16 learn. ``process``
    counts those whose trials were in the study when the trial's own took it up.
    """

    number: int
    stage: str
    record: Record
    process: int = 0


def timed(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that tell how fast a setting is: all but those that compare losses."""
    return [trial for trial in trials if trial.stage != "stability"]


class Study:
    """The folder of one search; without a folder it is kept in memory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.trials: list[Trial] = []
        self.process = 0

    @property
    def name(self) -> str:
        """The folder's own name."""
        return os.path.basename(self.folder)

    @property
    def spent(self) -> float:
        """Seconds that its trials took."""
        return sum(trial.record.cost_s for trial in self.trials)

    def open(self, about: dict[str, Any]) -> None:
        """Make the folder, or take up what is in it; raises ``BadStudy``.

        ``about`` is what makes two searches the same; it is kept in ``study.json``, and
        what an earlier run has noted there at its end is of the past.
        """
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            place = os.path.join(self.folder, "study.json")
            text = json.dumps(about, indent=2, sort_keys=True)
            atomic.write(place, f"{text}\n".encode(), through=False)
            self.trials = _read(os.path.join(self.folder, "trials.jsonl"))
        except OSError as error:
            hint = "--studies DIR is another place"
            raise BadStudy(f"{error.filename}: {error.strerror}; {hint}") from None

    def take_up(self) -> None:
        """Tell trials from now on from those so far: the machine may have changed."""
        self.process = 1 + max((trial.process for trial in self.trials), default=-1)

    def note(self, **more: Any) -> None:
        """Keep in ``study.json`` how the search ended; raises ``OSError``."""
        place = os.path.join(self.folder, "study.json")
        with open(place, "rb") as file:
            about = json.load(file)
        text = json.dumps({**about, **more}, indent=2, sort_keys=True)
        atomic.write(place, f"{text}\n".encode(), through=False)

    def add(self, stage: str, record: Record) -> Trial:
        """Append a trial and see it onto the disk; raises ``BadStudy``."""
        trial = Trial(len(self.trials), stage, record, self.process)
        if self.folder:
            self._append(trial)
        self.trials.append(trial)
        return trial

    def _append(self, trial: Trial) -> None:
        record = trial.record
        more = {**record.more, "trial": trial.number, "stage": trial.stage}
        if trial.process:
            more[PROCESS] = trial.process
        line = record._replace(more=more).line()
        path = os.path.join(self.folder, "trials.jsonl")
        try:
            _append_line(path, f"{line}\n".encode())
        except OSError as error:
            hint = "the trials before are kept: the same command goes on with them"
            if not os.path.isdir(self.folder):
                hint = "the study was removed while it was searched, its trials with it"
            raise BadStudy(f"{path}: {error.strerror}; {hint}") from None


def _append_line(path: str, line: bytes) -> None:
    """Append a line whole or not at all: half of one would spoil the next."""
    with open(path, "ab", buffering=0, opener=atomic.no_link) as file:
        size = file.tell()
        try:
            written = file.write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise


def _read(path: str) -> list[Trial]:
    """The trials of a file.

    What was cut off at its end, or is no record there, is removed and kept aside: the
    process, or the machine, died while it was written.
    """
    trials, data, whole = _whole(path)
    if whole != data:
        atomic.write(f"{path}.bak", data, through=False)
        atomic.write(path, whole, through=False)
    return trials


def look(folder: str) -> tuple[dict[str, Any], list[Trial]]:
    """What ``study.json`` says and the trials so far; nothing is written.

    A search may be at work in the folder. Raises ``BadStudy``.
    """
    place = os.path.join(folder, "study.json")
    try:
        with open(place, "rb") as file:
            about = json.loads(file.read(MAX_BYTES))
        trials, _, _ = _whole(os.path.join(folder, "trials.jsonl"))
    except OSError as error:
        raise BadStudy(f"{error.filename}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadStudy(f"{place}: no JSON") from None
    if not isinstance(about, dict):
        raise BadStudy(f"{place}: no JSON object")
    return about, trials


def _whole(path: str) -> tuple[list[Trial], bytes, bytes]:
    """The trials of a file, its bytes, and those of them that are whole trials."""
    if not os.path.exists(path):
        return [], b"", b""
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadStudy(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    lines = data.split(b"\n")[:-1]
    trials = []
    for number, line in enumerate(lines):
        try:
            trials.append(_trial(number, line.decode(errors="replace")))
        except BadRecord as error:
            if number < len(lines) - 1:
                raise BadStudy(f"{path}:{number + 1}: {error}") from None
            lines.pop()
    return trials, data, b"".join(line + b"\n" for line in lines)


def _trial(number: int, line: str) -> Trial:
    record = parse(line)
    stage = record.more.pop("stage", "search")
    record.more.pop("trial", None)
    if stage not in STAGES:
        raise BadRecord(f"no stage {stage!r}")
    process = process_of(record)
    record.more.pop(PROCESS, None)
    return Trial(number, stage, record, process)


def process_of(record: Record) -> int:
    """The process that a line of a study names."""
    process = record.more.get(PROCESS)
    return process if type(process) is int and process > 0 else 0
