"""The objective of a search: tokens per second, or tokens per joule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.search import CannotSearch
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial
from fp8tune.words import counted

SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"
UNITS = {SPEED: "tokens/s", ENERGY: "tokens/J"}


def by_objective(trials: Sequence[Trial], objective: str) -> Sequence[Trial]:
    """Return the trials with the objective in the field ``tokens_per_second``.

    All comparisons of settings read that field. Apply this once: the trials it returns
    have no watts and no tokens per joule. A trial with unknown watts counts as one that
    did not start. Loss runs stay as they are, because their speed is not used.
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
    value = record.tokens_per_joule
    outcome = "launch" if record.ok and not value else record.outcome
    return record._replace(
        outcome=outcome, tokens_per_second=value, tokens_per_joule=0.0
    )


def show_value(value: float, objective: str) -> str:
    """Return a value of the objective, rounded for people, without unit."""
    return f"{value:,.0f}" if objective == SPEED else f"{value:#.3g}"


def count_without_value(objective: str, records: Iterable[Record]) -> int:
    """Count the records that ran without measuring the objective."""
    ran = [r for r in records if r.ok and objective == ENERGY and not r.loss_run]
    return sum(not record.tokens_per_joule for record in ran)


def check_records(objective: str, records: Sequence[Record]) -> None:
    """Raise ``CannotSearch`` if records lack the objective."""
    if count := count_without_value(objective, records):
        raise CannotSearch(
            f"--objective {objective}: {counted(count, 'trial')} of the records lack "
            "`tokens_per_joule`; leave these out, or search for tokens/s without "
            "--objective"
        )
