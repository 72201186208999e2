"""What a search maximises: tokens per second, or tokens per joule.

Everything that chooses reads a record's ``tokens_per_second``; for another aim it gets
records in which that field holds the aim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fp8tune.runners.driver import current
from fp8tune.search.plan import CannotPlan
from fp8tune.search.record import Record
from fp8tune.search.stability.course import STAGE, course
from fp8tune.search.study import Trial

SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"
AIMS = (SPEED, ENERGY)
UNITS = {SPEED: "tokens/s", ENERGY: "tokens/J"}


WATTS = 1.0, 1e9
"""What all GPUs of a run may take."""
LEAST_GPUS = 0.5
"""So many times one GPU's watts all GPUs take at least."""
NAMES = {"faster": "more efficient", "slower": "less efficient"}
"""What verdicts are called where tokens per joule are aimed at."""


def named(verdict: str, aim: str) -> str:
    """A verdict in the words of the aim."""
    return NAMES.get(verdict, verdict) if aim == ENERGY else verdict


def aimed(trials: Sequence[Trial], aim: str) -> Sequence[Trial]:
    """The trials with the aim in place of tokens/s.

    A trial whose watts are not known did not measure: another one may. Runs for their
    losses stay: their speed tells nothing.
    """
    if aim == SPEED:
        return trials
    return [
        trial
        if trial.stage == STAGE
        else trial._replace(record=_efficient(trial.record))
        for trial in trials
    ]


def _efficient(record: Record) -> Record:
    value = tokens_per_joule(record)
    if record.ok and not value:
        return record._replace(outcome="launch", tokens_per_second=0.0)
    return record._replace(tokens_per_second=value)


def tokens_per_joule(record: Record) -> float:
    """What a record tells of it; 0 where it is unknown, or cannot be."""
    value = _told(record, "tokens_per_joule")
    return value if value and not _is_nonsense(record) else 0.0


def _told(record: Record, name: str) -> float:
    """A number above 0 that a record tells; 0 where it does not."""
    value: Any = record.more.get(name)
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and 0 < value < 1e300 else 0.0


def _is_nonsense(record: Record) -> bool:
    """Whether its tokens per joule contradict its tokens/s and its watts.

    The two tell the watts of all GPUs: as many times one GPU's as there are GPUs.
    """
    each = _told(record, "tokens_per_joule")
    aimed_already = record.tokens_per_second == each
    if not each or not record.measured or aimed_already:
        return False
    watts, power = record.tokens_per_second / each, _told(record, "power_w")
    gpus = watts / power if power else 1.0
    return not (WATTS[0] <= watts <= WATTS[1] and gpus >= LEAST_GPUS)


def nonsense(aim: str, records: Iterable[Record]) -> str:
    """The first record whose energy cannot be, in words; ``""`` where none is so."""
    wrong = (r for r in records if aim == ENERGY and r.ok and _is_nonsense(r))
    return next(
        (
            f"{r.more['tokens_per_joule']:g} `tokens_per_joule` at "
            f"{r.tokens_per_second:,.0f} tokens/s"
            + (f" and {power:g} `power_w`" if (power := _told(r, "power_w")) else "")
            for r in wrong
        ),
        "",
    )


def figure(value: float, aim: str) -> str:
    """A value of the aim, as precise as it is read; its unit stands elsewhere."""
    return f"{value:,.0f}" if aim == SPEED else f"{value:#.3g}"


def lacking(aim: str, records: Iterable[Record]) -> str:
    """How many records that ran cannot tell the aim; ``""`` where all can."""
    ran = [r for r in records if r.ok and aim == ENERGY and not course(r)]
    count = sum(not tokens_per_joule(record) for record in ran)
    return f"{count} trial{'s' * (count != 1)}" if count else ""


def check_records(aim: str, records: Iterable[Record]) -> None:
    """Raise ``CannotPlan`` where records cannot tell the aim."""
    records = list(records)
    if wrong := nonsense(aim, records):
        raise CannotPlan(
            f"--objective {aim}: a record says {wrong}, which cannot be; "
            f"leave it out, or search for tokens/s without --objective"
        )
    if trials := lacking(aim, records):
        raise CannotPlan(
            f"--objective {aim}: {trials} of the records say no `tokens_per_joule`; "
            f"leave these out, or search for tokens/s without --objective"
        )


def check_machine(aim: str, device: str) -> None:
    """Raise ``CannotPlan`` where trials on this machine cannot tell the aim."""
    if aim == SPEED:
        return
    if device == "cpu":
        raise CannotPlan(f"--objective {aim}: a rehearsal on the CPU knows no watts")
    seen = current().look()
    if seen.power_w is None and seen.energy_j is None:
        raise CannotPlan(
            f"--objective {aim}: the driver does not tell this GPU's watts; "
            "see `nvidia-smi --query-gpu=power.draw --format=csv`"
        )
