"""Show a search in a terminal as a live table of its trials.

The figures come from the study and from the output of the running trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fp8tune.lint.wording import counted, plain
from fp8tune.search.budget import show_duration
from fp8tune.search.coordinator import Event
from fp8tune.search.history import History
from fp8tune.search.objective import SPEED, UNITS, show_value
from fp8tune.search.outcome import failure_code
from fp8tune.search.output import trial_result
from fp8tune.search.plan import Plan
from fp8tune.search.statistics import ratio, speed, verdict
from fp8tune.search.study import Study
from fp8tune.search.wording import FAILURES, describe, percent
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial, trials_that_count

AROUND = 7
"""Lines of a terminal that are not rows of trials."""
CHANGE = "vs baseline"
COLORS = {"faster": "green", "slower": "red", "same": "", "inconclusive": "yellow"}


class Board:
    """A live table of a search; draw it with ``print`` or ``Live``."""

    def __init__(
        self,
        plan: Plan,
        study: Study,
        now: Callable[[], float] = time.monotonic,
        objective: str = SPEED,
    ) -> None:
        self.plan = plan
        self.study = study
        self._now = now
        self._objective = objective
        self._running: dict[int, tuple[Event, float]] = {}
        self._heard_at = now()
        self._left: float | None = None
        self._doing = ""

    def take(self, event: Event) -> None:
        """Receive an event: a trial starts or has ended."""
        self._heard_at, self._left = self._now(), event.left
        if event.trial is None and not event.lost:
            self._running[event.number] = event, self._heard_at
        else:
            self._running.pop(event.number, None)
        self._doing = ""

    def hear(self, line: dict[str, Any]) -> None:
        """Receive a line of output of the running trial's worker."""
        if "stage" in line:
            self._doing = str(line["stage"]).replace("_", " ")
        elif "step" in line:
            self._doing = f"step {line['step']}"

    def __rich_console__(self, console: Console, _options: Any) -> Iterator[Any]:
        """Yield the table as it is now, as high as the terminal."""
        yield Group(*self._parts(console))

    def _parts(self, console: Console) -> Iterator[RenderableType]:
        table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
        for name in ("", "setting", UNITS[self._objective], "memory", CHANGE, "time"):
            side: Literal["left", "right"] = "right"
            if name in ("setting", CHANGE):
                side = "left"
            # in a narrow terminal only the setting is cut off, never a figure
            share = 1 if name == "setting" else None
            table.add_column(name, justify=side, no_wrap=True, ratio=share)
        rows = max(1, console.size.height - AROUND - max(0, len(self._running) - 1))
        history = self._history(self.study.trials)
        trials = zip(self.study.trials, history.trials, strict=True)
        for measured, trial in list(trials)[-rows:]:
            row = self._row(measured, trial, history)
            table.add_row(str(trial.number), *row)
        for event, since in self._running.values():
            table.add_row(*self._waiting(event, since))
        yield table
        yield Text(plain(self._best(history)))
        yield Text(plain(self._time()), style="dim")

    def _history(self, trials: Sequence[Trial]) -> History:
        """Return the history of some trials in the objective."""
        plan = self.plan
        return History(plan.space, plan.baseline, trials).by(self._objective)

    def _row(
        self, measured: Trial, trial: Trial, history: History
    ) -> list[RenderableType]:
        """Return a row of the table without the trial's number."""
        record, point = trial.record, self.plan.space.point(trial.record.knobs)
        name = describe(self.plan, point)
        name += {"confirm": " (confirm)", "stability": " (losses)"}.get(trial.stage, "")
        cost = show_duration(record.cost_s)
        if not record.ok:
            word = (
                "watts unknown" if measured.record.ok else FAILURES[failure_code(trial)]
            )
            how = Text(word, style="" if trial.cut_off else "red")
            return [plain(name), "", "", how, cost]
        if trial.stage == "stability":
            loss = Text(trial_result(trial).rpartition(",")[0])
            return [plain(name), "", "", loss, cost]
        mark = "~" if record.extrapolated else ""
        rate = f"{mark}{show_value(record.tokens_per_second, self._objective)}"
        change = self._change(trial, history)
        return [plain(name), rate, _memory(record), change, cost]

    def _change(self, trial: Trial, history: History) -> Text:
        """Return how a trial compares with the baseline; one run gives no verdict.

        A rehearsal does not compare FP8 with bf16.
        """
        space, point = self.plan.space, self.plan.space.point(trial.record.knobs)
        if trial.stage == "baseline":
            return Text("baseline")
        values = {
            space.value(each, "precision") for each in (point, self.plan.baseline)
        }
        confirmed = trial.stage == "confirm"
        speeds = history.confirmed_speeds if confirmed else history.searched_speeds
        mine = speeds.get(self.plan.baseline)
        own = speed([trial.record])
        if not mine or not own or (trial.record.rehearsal and len(values) > 1):
            return Text("")
        gain = ratio(own, mine)
        likely = verdict(gain, history.noise.same)
        return Text(percent(gain.value), style=COLORS[likely])

    def _waiting(self, event: Event, since: float) -> list[RenderableType]:
        """Return the row of a running trial; of one alone, also what it does."""
        point = event.proposal.point
        took = show_duration(self._now() - since)
        name = plain(describe(self.plan, point))
        doing = self._doing if len(self._running) == 1 else ""
        return [str(event.number), name, "", "", doing, took]

    def _best(self, history: History) -> str:
        counting = trials_that_count(self.study.trials, self.study.process)
        best, baseline = self._history(counting).ranked, self.plan.baseline
        found = history.speeds(best[0], baseline)[0] if best else None
        if found is None:
            return "best so far: none yet"
        over = history.gap(best[0], baseline)
        gain = f", {percent(over.value)}" if over else ""
        name = describe(self.plan, best[0])
        rate = f"{show_value(found.value, self._objective)} {UNITS[self._objective]}"
        return f"best so far: {name}, {rate}{gain}"

    def _time(self) -> str:
        if self._left is None:
            return f"waiting; {counted(len(self.study.trials), 'trial')} so far"
        left = max(0.0, self._left - (self._now() - self._heard_at))
        count = len(self._running)
        why = f"; {count} trials are running" if count > 1 else ""
        for event, _ in self._running.values() if count == 1 else ():
            why = f"; trying: {event.proposal.reason}"
        return f"{show_duration(left)} left{why}"


def live(board: Board, out: TextIO) -> Live:
    """Return a live table on a terminal, drawn twice a second."""
    console = Console(file=out)
    return Live(
        board, console=console, refresh_per_second=2, vertical_overflow="visible"
    )


def _memory(record: Record) -> str:
    if not record.peak_gib:
        return ""
    capacity = record.capacity_gib
    of = f"/{capacity:.0f}" if capacity else ""
    return f"{record.peak_gib:.1f}{of} GiB"
