"""Show a search while it runs: a line for each event, or a live table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

from fp8tune.search.answer.wording import trial_result
from fp8tune.search.budget import show_duration
from fp8tune.search.labels import describe
from fp8tune.search.loop import Event
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


class Watch(NamedTuple):
    """A listener to a search: to its events, and to the output of the running trial.

    ``stopping`` gets the note that the search was interrupted.
    """

    event: Callable[[Event], None]
    line: Callable[[dict[str, Any]], None]
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

        yield Watch(printed, lambda _line: None, say_at_once)
        return
    from fp8tune.search.live import live

    def drawn(event: Event) -> None:
        board.take(event)
        notes(event)

    with live(board, out):
        try:  # the table shows every trial of the study
            yield Watch(drawn, board.hear, board.stop)
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
        return f"  trial {event.number}: lost with its worker; it does not count"
    record = event.trial.record
    joules = record.tokens_per_joule if objective == ENERGY else 0.0
    more = f", {show_value(joules, objective)} {UNITS[objective]}" if joules else ""
    if count_without_value(objective, [record]):
        more = ", does not count: watts unknown"
    by = f"trial {event.number} on {worker}: " if (worker := event.trial.worker) else ""
    return f"  {by}{trial_result(event.trial)}{more}"
