"""What a search maximises: tokens per second, or tokens per joule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.lint.wording import counted
from fp8tune.search import CannotSearch
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"
UNITS = {SPEED: "tokens/s", ENERGY: "tokens/J"}
WATTS = 1.0, 1e9
"""Fewest and most watts that all GPUs of a run may take."""
LEAST_GPUS = 0.5
"""All GPUs take at least so many times the watts of one."""


def by_objective(trials: Sequence[Trial], objective: str) -> Sequence[Trial]:
    """Return the trials with the objective in the field ``tokens_per_second``.

    Everything that compares settings reads that field. Apply it once, where a search
    hands its trials on: what it returns no longer tells watts or tokens per joule. A
    trial with unknown watts counts as one that did not start. Runs for their losses
    stay as they are: their speed means nothing.
    """
    if objective == SPEED:
        return trials
    return [
        trial
        if trial.stage == "stability"
        else trial._replace(record=_by_energy(trial.record))
        for trial in trials
    ]


def _by_energy(record: Record) -> Record:
    value = tokens_per_joule(record)
    outcome = "launch" if record.ok and not value else record.outcome
    return record._replace(
        outcome=outcome, tokens_per_second=value, tokens_per_joule=0.0
    )


def tokens_per_joule(record: Record) -> float:
    """Return a record's tokens per joule; 0 if unknown or impossible."""
    return 0.0 if _is_impossible(record) else record.tokens_per_joule


def _is_impossible(record: Record) -> bool:
    """Whether a record's tokens per joule contradict its tokens/s and its watts.

    The first two give the watts of all GPUs, which are some times those of one.
    """
    if not record.tokens_per_joule or not record.ok:
        return False
    watts = record.tokens_per_second / record.tokens_per_joule
    gpus = watts / record.power_w if record.power_w else 1.0
    return not (WATTS[0] <= watts <= WATTS[1] and gpus >= LEAST_GPUS)


def show_value(value: float, objective: str) -> str:
    """Return a value of the objective as precise as people read it, without unit."""
    return f"{value:,.0f}" if objective == SPEED else f"{value:#.3g}"


def count_without_value(objective: str, records: Iterable[Record]) -> int:
    """Count the records that ran and do not tell the objective."""
    ran = [r for r in records if r.ok and objective == ENERGY and not r.loss_run]
    return sum(not tokens_per_joule(record) for record in ran)


def check_records(objective: str, records: Sequence[Record]) -> None:
    """Raise ``CannotSearch`` where records cannot tell the objective."""
    hint = "or search for tokens/s without --objective"
    for record in records:
        if objective == ENERGY and _is_impossible(record):
            power = f" and {record.power_w:g} `power_w`" if record.power_w else ""
            raise CannotSearch(
                f"--objective {objective}: a record says {record.tokens_per_joule:g} "
                f"`tokens_per_joule` at {record.tokens_per_second:,.0f} tokens/s"
                f"{power}, which cannot be; leave it out, {hint}"
            )
    if count := count_without_value(objective, records):
        raise CannotSearch(
            f"--objective {objective}: {counted(count, 'trial')} of the records say no "
            f"`tokens_per_joule`; leave these out, {hint}"
        )
