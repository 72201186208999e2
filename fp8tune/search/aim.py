"""What a search maximises: tokens per second, or tokens per joule.

Everything that chooses reads a record's ``tokens_per_second``; for another aim it gets
records in which that field holds the aim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fp8tune.runners.driver import current
from fp8tune.search.plan import CannotPlan
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

SPEED, ENERGY = "tokens-per-second", "tokens-per-joule"
AIMS = (SPEED, ENERGY)
UNITS = {SPEED: "tokens/s", ENERGY: "tokens/J"}


WATTS = 1.0, 1e9
"""What all GPUs of a run may take."""
LEAST_GPUS = 0.5
"""So many times one GPU's watts all GPUs take at least."""


def aimed(trials: Sequence[Trial], aim: str) -> Sequence[Trial]:
    """The trials with the aim in place of tokens/s.

    A trial whose watts are not known did not measure: another one may. Runs for their
    losses stay: their speed tells nothing.
    """
    if aim == SPEED:
        return trials
    return [
        trial
        if trial.stage == "stability"
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
    return 0.0 if _is_nonsense(record) else record.tokens_per_joule


def _is_nonsense(record: Record) -> bool:
    """Whether its tokens per joule contradict its tokens/s and its watts.

    The two tell the watts of all GPUs: as many times one GPU's as there are GPUs.
    """
    each = record.tokens_per_joule
    aimed_already = record.tokens_per_second == each
    if not each or not record.ok or aimed_already:
        return False
    watts = record.tokens_per_second / each
    gpus = watts / record.power_w if record.power_w else 1.0
    return not (WATTS[0] <= watts <= WATTS[1] and gpus >= LEAST_GPUS)


def nonsense(aim: str, records: Iterable[Record]) -> str:
    """The first record whose energy cannot be, in words; ``""`` where none is so."""
    wrong = (r for r in records if aim == ENERGY and r.ok and _is_nonsense(r))
    return next(
        (
            f"{r.tokens_per_joule:g} `tokens_per_joule` at "
            f"{r.tokens_per_second:,.0f} tokens/s"
            + (f" and {r.power_w:g} `power_w`" if r.power_w else "")
            for r in wrong
        ),
        "",
    )


def figure(value: float, aim: str) -> str:
    """A value of the aim, as precise as it is read; its unit stands elsewhere."""
    return f"{value:,.0f}" if aim == SPEED else f"{value:#.3g}"


def lacking(objective: str, records: Iterable[Record]) -> int:
    """Count the records that ran and do not hold the objective."""
    ran = [r for r in records if r.ok and objective == ENERGY and not r.loss_run]
    return sum(not tokens_per_joule(record) for record in ran)


def check_records(aim: str, records: Iterable[Record]) -> None:
    """Raise ``CannotPlan`` where records cannot tell the aim."""
    records = list(records)
    if wrong := nonsense(aim, records):
        raise CannotPlan(
            f"--objective {aim}: a record says {wrong}, which cannot be; "
            f"leave it out, or search for tokens/s without --objective"
        )
    if count := lacking(aim, records):
        trials = f"{count} trial{'s' * (count != 1)}"
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
