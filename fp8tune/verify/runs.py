"""Read the loss curve of a run: logs, event files, tables, folders."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
import os
import re
import statistics
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fp8tune.verify import (
    event_files,
    log,
    tables,
    tags,
)
from fp8tune.verify.evidence import QUANTITIES, Curve, Log
from fp8tune.verify.inputs import NoRun, files_below
from fp8tune.verify.lines import Unreadable
from fp8tune.verify.scalars import Scalars
from fp8tune.verify.shapes import Text

MAX_FILES = 200
"""Most files of one kind that are read below a folder."""
LOGS = re.compile(r"(?i)\.(?:log|out|err|txt)$|^(?:stdout|stderr|log)$")
"""Names of logs in a folder."""
MAX_LOSS = 1e6
"""Losses above this, or below its negative, count as infinite."""
COARSE_S = 0.25
"""Step time [s] below which tokens/s times step time is too inexact for the tokens of a
step: KempnerForge prints step times with two decimals."""
WARM_UP = 0.1
"""Share of the logged steps, at the start, that do not count for the speed: they
compile, and fill the first buffers."""


NAN_STEPS = Text(
    "nan-step",
    re.compile(r"NaN/Inf loss at step (?P<step>\d{1,12})"),
    (b"NaN/Inf loss at step",),
)
"""KempnerForge's line for a step with a loss of NaN, which has no line of a step.

``NaNDetector.check_loss`` in kempnerforge/resilience/health.py; the trainer skips the
step and goes on. The log reader keeps the first 40.
"""


class CannotRead(Exception):
    """A path holds no run that can be compared; the message says why."""


@dataclass
class Run:
    """The logged steps of one run.

    ``source`` says what was read (``log of kempnerforge``), ``files`` from where.
    ``curve`` has ascending steps: those after a restart replace the ones that they
    repeat; ``starts`` counts the starts, ``repeated`` the steps replaced.
    ``tokens_per_step`` and ``step_s`` are over all ranks, None if unknown;
    ``tokens_per_second`` is of one GPU if ``per_gpu``. ``scales`` are FP8 statistics.
    """

    path: str
    source: str
    files: list[str]
    curve: Curve
    starts: int = 1
    repeated: int = 0
    tokens_per_step: float | None = None
    step_s: float | None = None
    tokens_per_second: float | None = None
    per_gpu: bool = False
    ended: bool | None = None
    says_fp8: str = ""
    """The line of the log that says that FP8 was applied, if there is one."""
    scales: list[tags.Scale] = field(default_factory=list)
    cut: str = ""

    @property
    def not_finite(self) -> list[float]:
        """The steps whose loss is NaN or infinite."""
        pairs = zip(self.curve.step, self.curve.loss, strict=True)
        return [step for step, loss in pairs if not is_loss(loss)]


def is_loss(value: float) -> bool:
    """Return whether a logged loss is a number, neither NaN nor infinite."""
    return abs(value) < MAX_LOSS


def read(path: str, loss_tag: str = "") -> Run:
    """Return the run at a path; raises ``CannotRead``, ``OSError``.

    Of a folder the first kind of files that has a loss is taken: event files, the state
    of a Trainer, CSV, JSON lines, logs.
    """
    if not os.path.isdir(path):
        return _read([path], path, loss_tag)
    problems = []
    for files in _by_kind(path):
        try:
            return _read(files, path, loss_tag)
        except (CannotRead, OSError) as error:
            problems.append(str(error))
    raise CannotRead(
        problems[0]
        if len(problems) == 1
        else f"{path}: no event file, table or log with a loss below it"
    )


def _read(files: Sequence[str], path: str, loss_tag: str) -> Run:
    """Read files of one kind as one run."""
    if event_files.MARK in os.path.basename(files[0]):
        return _logged(path, files, event_files.read, "TensorBoard", loss_tag)
    if files[0].endswith(".wandb"):
        raise CannotRead(f"{path}: wandb's own file is not read; export the run as CSV")
    if files[0].lower().endswith((".csv", ".tsv")):
        return _logged(path, files, tables.read_csv, "CSV", loss_tag)
    if os.path.basename(files[0]) == tables.STATE:
        return _logged(path, files[-1:], tables.read_json, "state", loss_tag)
    if files[0].lower().endswith(".jsonl"):
        with contextlib.suppress(CannotRead):
            return _log(path, files)
        return _logged(path, files, tables.read_json, "JSON lines", loss_tag)
    return _log(path, files)


def _logged(
    path: str,
    files: Sequence[str],
    read_file: Callable[[str, Scalars], None],
    kind: str,
    loss_tag: str,
) -> Run:
    """Read files of tags and values."""
    starts: list[Curve] = []
    used: list[str] = []
    scales: list[tags.Scale] = []
    problem: Exception | None = None
    named, times, cut = tags.Named("", {}), [math.nan], ""
    for name in files:
        scalars = Scalars()
        try:
            read_file(name, scalars)
            named = tags.named(scalars, loss_tag)
        except (tables.NoRows, tags.NoLoss) as error:
            problem = problem or error
            continue
        finally:
            scales += tags.scales(scalars)
            cut = cut or scalars.cut
        found, times = tags.curves(scalars, named.tags)
        starts += found
        used.append(name)
    if not starts:
        raise CannotRead(f"{path}: {problem}")
    _check_is_one_run(path, used, starts)
    run = _joined(path, f"{kind} of {named.trainer}".removesuffix(" of "), used, starts)
    run.scales, run.cut = scales, cut
    if run.step_s is None and len(times) > 1:
        run.step_s = _positive(_per_step(starts[-1].step, times))
    return run


def _log(path: str, files: Sequence[str]) -> Run:
    """Read logs."""
    starts: list[Curve] = []
    used: list[str] = []
    last = Log(path)
    for name in files:
        try:
            read = log.read(name, causes=(NAN_STEPS,))
        except Unreadable as error:
            if len(files) == 1:
                raise CannotRead(f"{path}: {error}") from None
            continue
        if any(map(len, read.starts)):
            last = read
            starts += filter(len, read.starts)
            used.append(name)
    if not starts:
        raise CannotRead(
            f"{path}: no line of a training step of a known trainer in it; a run of any"
            " trainer can be a .csv with the columns step and loss"
        )
    _check_is_one_run(path, used, starts)
    run = _joined(path, f"log of {last.trainer}".removesuffix(" of "), used, starts)
    run.ended, run.cut, run.per_gpu = last.ended, last.cut, last.per_gpu
    run.says_fp8 = next(
        (one.text for one in last.mentions if one.says in ("claims", "proves")), ""
    )
    _add_nan_steps(run.curve, last)
    return run


def _add_nan_steps(curve: Curve, read: Log) -> None:
    """Add the steps whose loss was NaN and that have no line of a step.

    A single one at the end of a log is left out: the run may have gone on.
    """
    logged, last = set(curve.step), max(curve.step)
    steps = {float(sign.values["step"]) for sign in read.signs}
    late = {step for step in steps if step > last}
    steps -= late if len(late) == 1 else set()
    rows = [
        tuple(getattr(curve, name)[n] for name in QUANTITIES) for n in range(len(curve))
    ]
    rest = (math.nan,) * (len(QUANTITIES) - 1)
    rows += [(step, *rest) for step in steps - logged]
    for name, column in zip(QUANTITIES, zip(*sorted(rows), strict=True), strict=True):
        setattr(curve, name, array("d", column))


def _check_is_one_run(path: str, files: Sequence[str], starts: Sequence[Curve]) -> None:
    """Refuse files that begin at the same step: they are no restarts of one run."""
    first = [curve.step[0] for curve in starts]
    if len(files) > 1 and len(first) > 1 and first[1] <= first[0]:
        raise CannotRead(
            f"{path}: {os.path.relpath(files[0], path)} and "
            f"{os.path.relpath(files[1], path)} both begin at step {first[1]:.0f}: "
            "two runs, or two ranks of one; name the file to read"
        )


def _joined(
    path: str, source: str, files: Sequence[str], starts: Sequence[Curve]
) -> Run:
    """Join the starts of a run: later steps replace those that they repeat."""
    whole, repeated = Curve(), 0
    for curve in starts:
        kept = bisect.bisect_left(whole.step, curve.step[0])
        repeated += len(whole) - kept
        for name in QUANTITIES:
            column = getattr(whole, name)
            del column[kept:]
            column.extend(getattr(curve, name))
    run = Run(path, source, list(files), whole, len(starts), repeated)
    run.step_s = _usual(whole.step_s)
    run.tokens_per_second = _usual(whole.tokens_per_second)
    logged = [n for n, tokens in enumerate(whole.tokens) if math.isfinite(tokens)]
    if len(logged) > 1:
        steps, tokens = ([c[n] for n in logged] for c in (whole.step, whole.tokens))
        run.tokens_per_step = _positive(_per_step(steps, tokens))
    elif run.tokens_per_second and (run.step_s or 0.0) >= COARSE_S:
        products = [
            a * b for a, b in zip(whole.step_s, whole.tokens_per_second, strict=True)
        ]
        run.tokens_per_step = _usual(products)
    return run


def _usual(values: Sequence[float]) -> float | None:
    """Return the median after the warm-up, None if there are no values."""
    finite = [value for value in values if math.isfinite(value) and value > 0]
    return statistics.median(finite[int(WARM_UP * len(finite)) :]) if finite else None


def _per_step(steps: Sequence[float], values: Sequence[float]) -> float:
    """Return the median growth of a value per step, NaN if it is not known."""
    pairs = list(zip(steps, values, strict=True))
    growth = [
        (later[1] - one[1]) / (later[0] - one[0])
        for one, later in itertools.pairwise(pairs)
        if later[0] > one[0] and math.isfinite(later[1] - one[1])
    ]
    return statistics.median(growth) if growth else math.nan


def _positive(value: float) -> float | None:
    return value if value > 0 and math.isfinite(value) else None


def _by_kind(folder: str) -> Iterator[list[str]]:
    """Yield the files of each kind below a folder, oldest first by their names."""
    try:
        names = sorted(files_below(folder), key=_natural)
    except NoRun as error:
        raise CannotRead(str(error)) from None
    for wanted in (
        lambda name: event_files.MARK in name,
        lambda name: name == tables.STATE,
        lambda name: name.lower().endswith((".csv", ".tsv")),
        lambda name: name.endswith(".jsonl"),
        lambda name: bool(LOGS.search(name)),
    ):
        if files := [path for path in names if wanted(os.path.basename(path))]:
            yield files[:MAX_FILES]


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key by which `run-9.log` comes before `run-10.log`."""
    parts = re.split(r"(\d{1,18})", path)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
