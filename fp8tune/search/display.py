"""How a search is watched: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

from fp8tune.lint.wording import plain
from fp8tune.search.coordinator import Event
from fp8tune.search.objective import SPEED
from fp8tune.search.output import progress
from fp8tune.search.plan import Plan
from fp8tune.search.study import Study
from fp8tune.trials.record import process_names


class Watch(NamedTuple):
    """Who hears of the search: its events, and the lines of the running trial."""

    event: Callable[[Event], None]
    line: Callable[[dict[str, Any]], None]


@contextmanager
def display(plan: Plan, study: Study, out: TextIO, aim: str = SPEED) -> Iterator[Watch]:
    """Show a search on ``out`` for as long as the block runs."""
    keep = _keeper()
    board = _board(plan, study, out, aim)
    if board is None:
        yield Watch(lambda event: _both(keep, _printer(plan, out, aim), event), _ignore)
        return
    from fp8tune.search.live import live

    with live(board, out):
        yield Watch(lambda event: _both(keep, board.take, event), board.hear)


def _board(plan: Plan, study: Study, out: TextIO, aim: str) -> Any:
    """The live table, where there is a terminal for it and rich is installed."""
    if not out.isatty() or os.environ.get("TERM") in ("dumb", None):
        return None
    try:
        from fp8tune.search.live import Board
    except ModuleNotFoundError:
        return None
    return Board(plan, study, aim=aim)


def _both(
    keep: Callable[[Event], None], show: Callable[[Event], None], event: Event
) -> None:
    show(event)
    keep(event)


def _printer(plan: Plan, out: TextIO, aim: str) -> Callable[[Event], None]:
    return lambda event: print(plain(progress(event, plan, aim)), file=out, flush=True)


def _keeper() -> Callable[[Event], None]:
    """Write notes on the GPU to stderr, each once."""
    told: set[str] = set()

    def keep(event: Event) -> None:
        if event.trial is None:
            return
        record = event.trial.record
        if others := process_names(record.others):
            note(f"on the GPU besides: {others}; figures may be low")
        if why := record.unwatched:
            lost = "clocks, watts and other processes are unknown"
            note(f"the GPU is not watched: {why}: {lost}")

    def note(what: str) -> None:
        if what not in told:
            told.add(what)
            print(plain(f"note: {what}"), file=sys.stderr)

    return keep


def _ignore(_line: dict[str, Any]) -> None:
    return None
