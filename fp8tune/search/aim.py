"""What a search maximises: tokens per second, or tokens per joule.

Everything that chooses reads a record's ``tokens_per_second``; for another aim it gets
records in which that field holds the aim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fp8tune.runners import smi
from fp8tune.search.plan import CannotPlan
from fp8tune.search.record import Record
from fp8tune.search.study import Trial

SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"
AIMS = (SPEED, ENERGY)
UNITS = {SPEED: "tokens/s", ENERGY: "tokens/J"}


NAMES = {"faster": "more efficient", "slower": "less efficient"}
"""What verdicts are called where tokens per joule are aimed at."""


def named(verdict: str, aim: str) -> str:
    """A verdict in the words of the aim."""
    return NAMES.get(verdict, verdict) if aim == ENERGY else verdict


def aimed(trials: Sequence[Trial], aim: str) -> Sequence[Trial]:
    """The trials with the aim in place of tokens/s.

    A trial whose watts are not known did not measure: another one may.
    """
    if aim == SPEED:
        return trials
    return [trial._replace(record=_efficient(trial.record)) for trial in trials]


def _efficient(record: Record) -> Record:
    value = tokens_per_joule(record)
    if record.ok and not value:
        return record._replace(outcome="launch", tokens_per_second=0.0)
    return record._replace(tokens_per_second=value)


def tokens_per_joule(record: Record) -> float:
    """What a record tells of it; 0 where it is unknown."""
    value: Any = record.more.get("tokens_per_joule")
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and 0 < value < 1e15 else 0.0


def figure(value: float, aim: str) -> str:
    """A value of the aim, as precise as it is read; its unit stands elsewhere."""
    return f"{value:,.0f}" if aim == SPEED else f"{value:.3g}"


def lacking(aim: str, records: Iterable[Record]) -> str:
    """How many records that ran cannot tell the aim; ``""`` where all can."""
    ran = [record for record in records if record.ok and aim == ENERGY]
    count = sum(not tokens_per_joule(record) for record in ran)
    return f"{count} trial{'s' * (count != 1)}" if count else ""


def check_records(aim: str, records: Iterable[Record]) -> None:
    """Raise ``CannotPlan`` where records cannot tell the aim."""
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
    if smi.state().power_w is None:
        raise CannotPlan(
            f"--objective {aim}: nvidia-smi does not tell this GPU's watts; "
            "see `nvidia-smi --query-gpu=power.draw --format=csv`"
        )
