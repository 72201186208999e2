"""Print a search: lines while it runs, its answer, and the answer as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

from fp8tune.lint.wording import counted
from fp8tune.search.answer.answer import (
    Answer,
    Estimate,
    Measured,
    failure_code,
    is_untied,
)
from fp8tune.search.answer.wording import FAILURES, UNTIED, describe, gib, mark, message
from fp8tune.search.budget import show_duration
from fp8tune.search.coordinator import Event
from fp8tune.search.losses import findings as stability
from fp8tune.search.objective import (
    ENERGY,
    SPEED,
    UNITS,
    count_without_value,
    show_value,
)
from fp8tune.search.plan import Plan
from fp8tune.search.say import note, say
from fp8tune.search.stop import say_at_once
from fp8tune.search.study import Study
from fp8tune.trials.record import process_names
from fp8tune.trials.trial import Trial


class Watch(NamedTuple):
    """A listener to a search: to its events, and to the output of the running trial.

    ``trial`` gets the trials that another process planned, ``stopping`` the note that
    the search was interrupted.
    """

    event: Callable[[Event], None]
    line: Callable[[dict[str, Any]], None]
    trial: Callable[[Trial], None]
    stopping: Callable[[str], None]


@contextmanager
def display(
    plan: Plan, study: Study, out: TextIO, objective: str = SPEED
) -> Iterator[Watch]:
    """Show a search on ``out``: a live table in a terminal, plain lines elsewhere."""
    notes = _notes()
    board = _board(plan, study, out, objective)
    if board is None:

        def printed(event: Event) -> None:
            say(progress(event, plan, objective), out)
            notes(event)

        def printed_trial(trial: Trial) -> None:
            say(planned_elsewhere(trial, plan), out)

        yield Watch(printed, lambda _line: None, printed_trial, say_at_once)
        return
    from fp8tune.search.live import live

    def drawn(event: Event) -> None:
        board.take(event)
        notes(event)

    with live(board, out):
        try:  # the table shows every trial of the study
            yield Watch(drawn, board.hear, lambda _trial: None, board.stop)
        finally:
            board.end()


def _board(plan: Plan, study: Study, out: TextIO, objective: str) -> Any:
    """Return the live table, if there is a terminal for it."""
    if not out.isatty() or os.environ.get("TERM") in ("dumb", None):
        return None
    from fp8tune.search.live import Board

    return Board(plan, study, objective=objective)


def _notes() -> Callable[[Event], None]:
    """Return a function that prints notes on the GPU to stderr, each once."""
    known: set[str] = set()

    def notes(event: Event) -> None:
        if event.trial is None:
            return
        record = event.trial.record
        if others := process_names(record.others):
            write(f"on the GPU besides: {others}; figures may be low")
        if why := record.unwatched:
            lost = "clocks, watts and other processes are unknown"
            write(f"the GPU is not watched: {why}: {lost}")

    def write(what: str) -> None:
        if what not in known:
            known.add(what)
            note(what)

    return notes


def progress(event: Event, plan: Plan, objective: str = SPEED) -> str:
    """Return one line for an event: a trial starts or has ended."""
    what = f"trial {event.number}: {describe(plan, event.proposal.point)}"
    if event.trial is None and not event.lost:
        left = show_duration(max(0.0, event.left))
        return f"{what} ({event.proposal.reason}; {left} left)"
    if event.trial is None:
        return f"  trial {event.number}: lost with its worker; it is given back"
    record = event.trial.record
    joules = record.tokens_per_joule if objective == ENERGY else 0.0
    more = f", {show_value(joules, objective)} {UNITS[objective]}" if joules else ""
    if count_without_value(objective, [record]):
        more = ", does not count: watts unknown"
    by = f"trial {event.number} on {worker}: " if (worker := event.trial.worker) else ""
    return f"  {by}{trial_result(event.trial)}{more}"


def planned_elsewhere(trial: Trial, plan: Plan) -> str:
    """Return one line for a trial that another process planned and that has ended."""
    name = describe(plan, plan.space.point(trial.record.knobs))
    on = f" on {trial.worker}" if trial.worker else ""
    return f"trial {trial.number}{on}: {name}: {trial_result(trial)}"


def trial_result(trial: Trial) -> str:
    """Return how a trial ended, in a few words."""
    record = trial.record
    if record.ok and record.loss_run:
        loss = f"{record.losses[-1]:.4g}" if record.losses else "unknown"
        return f"loss {loss}, {show_duration(record.cost_s)}"
    if not record.ok:
        why = f": {record.message}" if record.message else ""
        return (
            f"{FAILURES[failure_code(trial)]} after {show_duration(record.cost_s)}{why}"
        )
    peak = f", peak {gib(record.peak_gib)} GiB" if record.peak_gib else ""
    why = f"; may not be chosen: {why}" if (why := record.memory_shortage) else ""
    error = mark(record.extrapolation_error) if record.extrapolated else ""
    rate = f"{record.tokens_per_second:,.0f} tokens/s{error}"
    return f"{rate}{peak}, {show_duration(record.cost_s)}{why}"


def closing(outcome: Answer, plan: Plan, output: str) -> Iterator[str]:
    """Yield the answer in lines: the findings, the setting, and the counts."""
    for finding in outcome.findings:
        yield message(finding)
        if finding.code in (
            outcome.verdict,
            "baseline-failed",
            "baseline-not-measured",
        ):
            assert outcome.chosen is not None
            yield f"chosen: {describe(plan, outcome.chosen)}"
    yield counts(outcome)
    if output:
        yield f"wrote {output}"


def counts(outcome: Answer) -> str:
    """Return the number of trials and the time that they took."""
    trials = f"{counted(outcome.trials, 'trial')}, {outcome.oom_trials} out of memory"
    return f"{trials}, {show_duration(outcome.seconds)}"


def as_json(outcome: Answer, plan: Plan, output: str, study: str) -> dict[str, Any]:
    """Return the outcome as one JSON object.

    ``docs/reference/json.md`` describes its fields.
    """
    space, measured = plan.space, outcome.measured
    pair = measured.pair
    return {
        "version": 2,
        "knobs": None if outcome.chosen is None else space.values(outcome.chosen),
        "verdict": outcome.verdict,
        "tokens_per_second": _figures(outcome.speed),
        "gain": _estimate(measured.gain),
        "fp8_gain": measured.fp8_gain and measured.fp8_gain.value,
        "fp8_gain_interval": _estimate(measured.fp8_gain),
        "fp8_gain_of": pair and {n: space.values(p) for n, p in pair._asdict().items()},
        "trials": outcome.trials,
        "chosen_trials": list(outcome.numbers),
        "oom_trials": outcome.oom_trials,
        "seconds": round(outcome.seconds, 3),
        "output": output or None,
        "study": study,
        "findings": [
            {"code": each.code, "message": message(each), **each.data()}
            for each in outcome.findings
        ],
        "pairs": outcome.pairs,
        "settings": {"tried": outcome.tried, "untried": outcome.untried},
        "runner_up": outcome.runner_up
        and {
            "knobs": space.values(outcome.runner_up),
            "gain": _estimate(outcome.runner_up_gain),
        },
        "objective": outcome.objective,
        "tokens_per_joule": _figures(outcome.energy),
        "memory": outcome.record
        and {
            "peak_gib": outcome.record.peak_gib or None,
            "reserved_gib": outcome.record.reserved_gib or None,
            "capacity_gib": outcome.record.capacity_gib or None,
        },
        "memory_shortage": [
            {"knobs": space.values(point), "why": why}
            for point, why in outcome.memory_shortage.items()
        ],
        "extrapolated": outcome.record.extrapolation if outcome.record else None,
        "synthetic_data": outcome.record and outcome.record.synthetic_data,
        "stability": stability.as_json(
            outcome.learns or next(iter(outcome.rejected.values()), None),
            outcome.ending.unchecked,
            UNTIED * is_untied(outcome, plan),
        ),
        "starts_from": None,
        "world_size": plan.config.job.target.world_size or None,
    }


def _figures(measured: Measured) -> dict[str, Any]:
    return {
        "chosen": _estimate(measured.chosen),
        "baseline": _estimate(measured.baseline),
        "bf16_baseline": _estimate(measured.bf16_baseline),
    }


def _estimate(value: Estimate | None) -> dict[str, float | None] | None:
    return value and value._asdict()
