"""The record of a trial: one line of JSON, which replay can read (docs/records.md).

Input from workers and files is checked here, once. A known field of the wrong type
counts as missing; unknown fields are kept in ``extra``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard, get_type_hints


class TrialOutcome(NamedTuple):
    """What the outcome of a trial means for the search.

    ``words`` say it to people. ``unfit``: the setting must not be chosen. ``lasts``: it
    depends on the setting, so that any process would see the same; else it counts only
    in the process that ran the trial. ``retry_once``: the setting is tried once more at
    once, and other settings are judged as if the trial had not been. ``if_given_up``: a
    trial that is stopped at its deadline may end so. ``has_losses``: the losses of all
    its steps are right, whatever its speed.
    """

    words: str
    unfit: bool = False
    lasts: bool = False
    retry_once: bool = False
    if_given_up: bool = False
    has_losses: bool = False


OUTCOMES: Mapping[str, TrialOutcome] = {
    "ok": TrialOutcome("ran", lasts=True, has_losses=True),
    "oom": TrialOutcome("out of memory", unfit=True, lasts=True),
    "hang": TrialOutcome("hung", if_given_up=True),
    "compile": TrialOutcome("did not compile", unfit=True, if_given_up=True),
    "nan": TrialOutcome("lost its loss (NaN)", unfit=True, lasts=True, has_losses=True),
    # it made no step, or ended in its steps for a reason that may be gone
    "launch": TrialOutcome("did not start", retry_once=True, if_given_up=True),
    "throttled": TrialOutcome(
        "the GPU did not run at its full speed", retry_once=True, has_losses=True
    ),
    "shared": TrialOutcome(
        "was not alone on the GPU", retry_once=True, has_losses=True
    ),
    "user": TrialOutcome("ended with an error", unfit=True),
}
"""How a trial can end."""
BEFORE_BUILD = ("start", "import", "ranks", "gpu")
"""Stages of a trial before it builds its model: nothing in them depends on its setting.
"""
BROKEN = ("not-downloaded", "torchvision-of-another-torch")
"""Errors of a machine that stay until somebody repairs it, whatever the setting is."""
REFUSED = "config-refused"
"""Error of a trial whose config its trainer refused."""
FULL = 0.92
"""Share of the GPU's memory that may be reserved: beyond it fragmentation, another
batch or an evaluation ends a long run."""
MAX_LINE = 1 << 20
"""Longest line that is read [characters]."""
MAX_NUMBER = 1e18


class BadRecord(Exception):
    """A line is not a record; the message says why."""


class OtherProcess(NamedTuple):
    """Another process on a trial's GPU; ``gib`` is 0 if its memory is unknown."""

    name: str
    pid: int
    gib: float = 0.0


def process_names(others: Iterable[OtherProcess]) -> str:
    """Return processes in words: ``python (pid 12, 3.0 GiB)``."""
    return ", ".join(
        f"{name} (pid {pid}, {gib:.1f} GiB)" if gib else f"{name} (pid {pid})"
        for name, pid, gib in others
    )


class LossRun(NamedTuple):
    """How a loss run is trained: a run that compares the losses of FP8 and bf16.

    ``seed`` is the seed of the weights; all runs see the same data. The warmup is
    linear; ``config_warmup_steps`` is the config's own, and ``may_change`` says whether
    the search may write another one.
    """

    seed: int
    warmup_steps: int
    steps: int
    config_warmup_steps: int
    may_change: bool = False

    def training(self) -> dict[str, int]:
        """Return the fields of a worker's ``Spec`` that this sets."""
        return {"seed": self.seed, "steps": self.steps}


class Discarded(NamedTuple):
    """Steps that do not count (from 0, ``last`` included), and why."""

    first: int
    last: int
    why: str


class Record(NamedTuple):
    """One trial.

    ``knobs`` maps config keys to the values tried. ``tokens_per_second`` is over all
    GPUs and counted steps, ``step_ms`` are these steps' times [ms]. ``peak_gib`` and
    ``reserved_gib`` are allocated and reserved memory of the fullest GPU [GiB].
    ``cost_s`` is the trial's wall time with start and compile [s]. Unknown values are 0
    or empty; ``float8_matmuls`` may be 0, so unknown is ``None``.

    How it ended: ``message``, the class of the ``error`` that ended it, and the stage
    that its process reached; ``import_s`` is how long it imported torch,
    and ``compile_s`` how long its first pass took, in which it compiled [s].

    Where it ran: ``capacity_gib`` is the memory of its GPU [GiB], ``environment`` names
    GPU and torch, ``versions`` the software, ``others`` the other processes on the GPU.
    ``unwatched`` says why the GPU's state is unknown. A ``rehearsal`` ran on a CPU.
    ``synthetic_data``: not the config's own data; ``None`` if unknown.

    How its steps went: ``all_step_ms`` has every step, ``discarded`` ones too. A step
    ran ``micro_batches`` of the ``grad_accum`` micro-batches, and its time is scaled to
    all of them (0: unknown). ``median_step_ms_95`` is the 95 % interval of the median.

    One GPU extrapolated to many: ``extrapolated`` says how, ``extrapolation_error`` is
    relative. ``communication_ms`` is predicted and added to each step;
    ``communication_ends_ms`` is its range.

    A loss run: ``loss_run`` is how it was trained, ``losses`` and ``grad_norms`` are by
    step.
    """

    knobs: dict[str, Any]
    outcome: str
    tokens_per_second: float = 0.0
    step_ms: tuple[float, ...] = ()
    peak_gib: float = 0.0
    reserved_gib: float = 0.0
    cost_s: float = 0.0
    message: str = ""
    error: str = ""
    stage_reached: str = ""
    import_s: float = 0.0
    compile_s: float = 0.0
    capacity_gib: float = 0.0
    alloc_retries: int = 0
    environment: str = ""
    versions: Mapping[str, str] = {}
    rehearsal: bool = False
    synthetic_data: bool | None = None
    others: tuple[OtherProcess, ...] = ()
    unwatched: str = ""
    sm_mhz: float = 0.0
    temperature_c: float = 0.0
    grad_accum: int = 0
    tokens_per_step: int = 0
    all_step_ms: tuple[float, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    micro_batches: int = 0
    median_step_ms_95: tuple[float, ...] = ()
    recompiles: int = 0
    float8_linears: int = 0
    float8_matmuls: int | None = None
    power_w: float = 0.0
    tokens_per_joule: float = 0.0
    extrapolated: str = ""
    extrapolation_error: float | None = None
    communication_ms: float = 0.0
    communication_ends_ms: tuple[float, ...] = ()
    loss_run: LossRun | None = None
    losses: tuple[float, ...] = ()
    grad_norms: tuple[float, ...] = ()
    extra: Mapping[str, Any] = {}

    @property
    def ok(self) -> bool:
        """Whether the setting ran."""
        return self.outcome == "ok"

    @property
    def meaning(self) -> TrialOutcome:
        """The meaning of its outcome."""
        return OUTCOMES[self.outcome]

    @property
    def never_began(self) -> bool:
        """Whether its setting is not why it failed.

        It built no model yet, or a package is missing, which some trainers import late.
        """
        return self.stage_reached in BEFORE_BUILD or self.error == "package-missing"

    @property
    def extrapolation(self) -> dict[str, Any] | None:
        """How its figures were extrapolated, and their relative error if known.

        ``None`` if they were measured directly.
        """
        if not self.extrapolated:
            return None
        return {"how": self.extrapolated, "error": self.extrapolation_error}

    @property
    def relative_error(self) -> float:
        """Half the 95 % interval of its log tokens/s, from its steps; 0: unknown."""
        match self.median_step_ms_95:
            case (low, high) if 0 < low <= high:
                return math.log(high / low) / 2
        return 0.0

    @property
    def memory_lack_gib(self) -> float:
        """Reserved memory beyond ``FULL`` of the GPU [GiB]; negative: what is left.

        Out of memory, it needed at least the whole GPU; if that is unknown, the lack is
        1 GiB. It is 0 if nothing is known.
        """
        ran_out = self.outcome == "oom"
        if not self.capacity_gib:
            return float(ran_out)
        needed = max(self.reserved_gib, self.capacity_gib * ran_out)
        return needed - FULL * self.capacity_gib if needed else 0.0

    @property
    def memory_shortage(self) -> str:
        """Why a trial that ran leaves too little memory for a long run; ``""`` if not.

        It reserved more than ``FULL`` of the GPU, or its allocator had to free cached
        memory and retry. Retries cost time in every step, and a long run may fail.
        """
        if not self.ok:
            return ""
        if self.memory_lack_gib > 0:
            share = 100 * self.reserved_gib / self.capacity_gib
            return (
                f"{share:.1f} % of the GPU's memory reserved, over {100 * FULL:.0f} %"
            )
        if count := self.alloc_retries:
            return f"{count} allocator {'retry' if count == 1 else 'retries'}"
        return ""

    def data(self) -> dict[str, Any]:
        """Return the record's JSON object, without optional fields that are empty."""
        fields = self._asdict()
        extra = fields.pop("extra")
        present = {
            name: value
            for name, value in fields.items()
            if name in CONTRACT or value != self._field_defaults[name]
        }
        if self.loss_run:
            present["loss_run"] = self.loss_run._asdict()
        for name, kind in (("others", OtherProcess), ("discarded", Discarded)):
            if name in present:
                present[name] = [kind._asdict(each) for each in present[name]]
        return {**present, **extra}

    def line(self) -> str:
        """Return the record as one line of JSON, without its line ending."""
        return json.dumps(self.data(), allow_nan=False)


CONTRACT = Record._fields[:7]
"""Fields that every record has."""
_NUMBERS = ("tokens_per_second", "peak_gib", "reserved_gib", "cost_s")


def positive(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number above 0."""
    return is_number(value) and 0 < value < MAX_NUMBER


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number that is not a bool."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and abs(value) < MAX_NUMBER


def parse(line: str) -> Record:
    """Parse one line; raises ``BadRecord``."""
    return from_data(load(line))


def load(line: str) -> dict[str, Any]:
    """Return the JSON object of one line; raises ``BadRecord``.

    NaN, infinities and integers that TOML cannot hold are read as null.
    """
    if len(line) > MAX_LINE:
        raise BadRecord(f"a line of more than {MAX_LINE >> 20} MiB")
    try:
        data = json.loads(
            line, parse_constant=_no_number, parse_float=_finite, parse_int=_small
        )
    except (ValueError, RecursionError):
        raise BadRecord("no JSON") from None
    if not isinstance(data, dict):
        raise BadRecord("not a JSON object")
    return data


def _no_number(_name: str) -> None:
    """Read NaN and infinities, which JSON does not have, as not measured."""


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _small(text: str) -> int | None:
    value = int(text)
    return value if _fits(value) else None


def _fits(value: int) -> bool:
    """Return whether a value can be written as TOML."""
    return -(1 << 63) <= value < 1 << 63


def from_data(fields: Mapping[str, Any]) -> Record:
    """Return the record in a JSON object; raises ``BadRecord``."""
    data = dict(fields)
    knobs, outcome = data.pop("knobs", None), data.pop("outcome", None)
    if not isinstance(knobs, dict) or not all(map(is_scalar, knobs.values())):
        raise BadRecord("`knobs` maps config keys to plain values")
    if outcome not in OUTCOMES:
        raise BadRecord(f"`outcome` is one of {', '.join(OUTCOMES)}")
    if outcome != "ok":  # null: not measured
        absent = [name for name in (*_NUMBERS, "step_ms") if data.get(name, 0) is None]
        for name in absent:
            del data[name]
    named: dict[str, Any] = {
        name: _number(name, data.pop(name, 0.0)) for name in _NUMBERS
    }
    steps = data.pop("step_ms", [])
    if not isinstance(steps, (list, tuple)):
        raise BadRecord("`step_ms` is an array of numbers")
    step_ms = tuple(_number("step_ms", step) for step in steps)
    if outcome == "ok" and not named["tokens_per_second"]:
        raise BadRecord("an ok trial has `tokens_per_second`")
    named |= {name: _READ[name](data.pop(name)) for name in _READ if name in data}
    return Record(knobs, outcome, step_ms=step_ms, **named, extra=data)


def is_scalar(value: Any) -> bool:
    """Return whether a value can be written as a plain TOML value."""
    small = not isinstance(value, int) or _fits(value)
    return small and isinstance(value, (str, bool, int, float))


def _number(name: str, value: Any) -> float:
    if not is_number(value) or value < 0:
        raise BadRecord(f"`{name}` is a number of at least 0")
    return float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: Any) -> bool:
    return value is True


def _known_flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < MAX_NUMBER else 0


def _known_count(value: Any) -> int | None:
    return 0 if value == 0 and type(value) is int else _count(value) or None


def _positive(value: Any) -> float:
    return float(value) if positive(value) else 0.0


def _error(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _texts(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}


def _series(value: Any) -> tuple[float, ...]:
    """Return the numbers before the first value that is not a number."""
    numbers: list[float] = []
    for each in value if isinstance(value, (list, tuple)) else ():
        if not is_number(each):
            break
        numbers.append(float(each))
    return tuple(numbers)


def _others(value: Any) -> tuple[OtherProcess, ...]:
    known = []
    for each in value if isinstance(value, (list, tuple)) else ():
        match each:
            case {"name": str(name), "pid": int(pid)}:
                known.append(OtherProcess(name, pid, _positive(each.get("gib"))))
    return tuple(known)


def _discarded(value: Any) -> tuple[Discarded, ...]:
    known = []
    for each in value if isinstance(value, (list, tuple)) else ():
        match each:
            case {"first": int(first), "last": int(last), "why": str(why)}:
                known.append(Discarded(first, last, why))
    return tuple(known)


def _loss_run(data: Any) -> LossRun | None:
    """Return the loss run in a record's JSON; ``None`` if it is not valid."""
    try:
        run = LossRun(**data)
    except TypeError:
        return None
    *counts, may_change = run
    valid = all(type(n) is int and 0 <= n < MAX_NUMBER for n in counts)
    valid = valid and run.steps > 0 and isinstance(may_change, bool)
    return run if valid else None


_READERS: dict[Any, Callable[[Any], Any]] = {
    str: _text,
    bool: _flag,
    bool | None: _known_flag,
    int: _count,
    int | None: _known_count,
    float: _positive,
    float | None: _error,
    tuple[float, ...]: _series,
    Mapping[str, str]: _texts,
    tuple[OtherProcess, ...]: _others,
    tuple[Discarded, ...]: _discarded,
    LossRun | None: _loss_run,
}
"""How an optional field is read, by its type."""
_READ = {
    name: _READERS[kind]
    for name, kind in get_type_hints(Record).items()
    if name not in (*CONTRACT, "extra")
}


def parse_all(lines: Iterable[str]) -> Iterator[Record]:
    """Parse many lines, skipping empty ones; ``BadRecord`` names the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield parse(line)
            except BadRecord as error:
                raise BadRecord(f"line {number}: {error}") from None
