"""Show a search in a terminal as a live table of its trials.

The figures come from the study and from the output of the running trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fp8tune.search.answer.answer import Estimate, failure_code
from fp8tune.search.answer.decide import answer_so_far
from fp8tune.search.answer.wording import FAILURES, gib, percent, trial_result
from fp8tune.search.budget import show_duration
from fp8tune.search.history import History
from fp8tune.search.labels import short_label
from fp8tune.search.loop import Event
from fp8tune.search.objective import SPEED, UNITS, show_value
from fp8tune.search.plan import Plan
from fp8tune.search.statistics import ratio, speed, verdict
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point
from fp8tune.trials.trial import Trial
from fp8tune.words import counted, plain

SPARE = 2
"""Lines of a terminal that the table leaves free."""
NARROW = 72
"""Columns below which memory and time are left out."""
COLORS = {"faster": "green", "slower": "red", "same": "", "inconclusive": "yellow"}


class Row(NamedTuple):
    """A row of the table: a trial, or a setting of the answer so far."""

    number: str
    setting: str
    rate: str = ""
    memory: str = ""
    change: RenderableType = ""
    time: str = ""

    def cells(self, *, is_narrow: bool) -> list[RenderableType]:
        """Return the cells that are shown, in order."""
        first = [self.number, plain(self.setting), self.rate]
        if is_narrow:
            return [*first, self.change]
        return [*first, self.memory, self.change, self.time]


class Board:
    """A live table of a search; draw it with ``print`` or ``Live``.

    A row never changes: its trial is compared with the last run of the baseline before
    it. The rows below are of the answer so far, by all runs that count.
    """

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
        self._note = ""
        self._has_ended = False
        self._drawn: tuple[Sequence[Trial], list[Row], list[Row]] = [], [], []

    def take(self, event: Event) -> None:
        """Receive an event: a trial starts or has ended."""
        self._heard_at, self._left = self._now(), event.left
        if event.trial is None and not event.lost:
            self._running[event.number] = event, self._heard_at
        else:
            self._running.pop(event.number, None)
        self._doing = ""

    def stop(self, note: str) -> None:
        """Show that the search was interrupted."""
        self._note = note

    def end(self) -> None:
        """Show that the search has ended, with the trials that did."""
        self._running.clear()
        self._has_ended = True

    def hear(self, line: dict[str, Any]) -> None:
        """Receive a line of output of the running trial's worker."""
        if "stage" in line:
            self._doing = str(line["stage"]).replace("_", " ")
        elif "step" in line:
            self._doing = f"step {line['step']}"

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Any]:
        """Yield the table as it is now, at most as high as the terminal."""
        trials = self.study.trials
        if self._drawn[0] is not trials:
            self._drawn = trials, list(self._rows(trials)), list(self._answer(trials))
        _, rows, answer = self._drawn
        waiting = [self._waiting(*running) for running in self._running.values()]
        below = [*waiting, Row("", ""), *(answer or [Row("best", "none yet")])]
        room = console.size.height - SPARE
        rows = rows[-max(1, room) :]
        while True:
            table = self._table([*rows, *below], options.max_width)
            group = Group(table, Text(plain(self._time()), style="dim"))
            over = len(console.render_lines(group, options)) - room
            if over <= 0 or not rows:
                break
            rows = rows[over:]
        yield group

    def _table(self, rows: Sequence[Row], width: int) -> Table:
        """Return a table of rows, in which words are wrapped and figures are not."""
        is_narrow = width < NARROW
        table = Table(box=None, pad_edge=False, expand=True, header_style="bold")
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("setting", ratio=1, overflow="fold")
        table.add_column(UNITS[self._objective], justify="right", no_wrap=True)
        if not is_narrow:
            table.add_column("peak GiB", justify="right", no_wrap=True)
        most = 12 if is_narrow else 13
        table.add_column("vs baseline", max_width=most, overflow="fold")
        if not is_narrow:
            table.add_column("time", justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row.cells(is_narrow=is_narrow))
        return table

    def _rows(self, trials: Sequence[Trial]) -> Iterator[Row]:
        """Yield the row of each trial."""
        history = self._history(trials)
        baselines = [trial for trial in history.timed if self._is_baseline(trial)]
        for measured, trial in zip(trials, history.trials, strict=True):
            before = [t for t in baselines if t.position < trial.position]
            yield self._row(measured, trial, before[-1:] or baselines[:1])

    def _history(self, trials: Sequence[Trial]) -> History:
        """Return the history of some trials in the objective."""
        plan = self.plan
        return History(plan.space, plan.baseline, trials).by(self._objective)

    def _is_baseline(self, trial: Trial) -> bool:
        """Return whether a trial measured the user's config."""
        return trial.record.ok and self._point(trial) == self.plan.baseline

    def _point(self, trial: Trial) -> Point:
        return self.plan.space.point(trial.record.knobs)

    def _row(self, measured: Trial, trial: Trial, baseline: Sequence[Trial]) -> Row:
        """Return the row of a trial; ``baseline`` has the run to compare it with."""
        record = trial.record
        name = short_label(self.plan, self._point(trial))
        name += {"confirm": " (confirm)", "stability": " (losses)"}.get(trial.stage, "")
        row = Row(str(trial.number), name, time=show_duration(record.cost_s))
        if not record.ok:
            ran = measured.record.ok
            how = "watts unknown" if ran else FAILURES[failure_code(trial)]
            return row._replace(change=Text(how, style="" if trial.cut_off else "red"))
        if trial.stage == "stability":
            return row._replace(change=trial_result(trial).rpartition(",")[0])
        mark = "~" if record.extrapolated else ""
        return row._replace(
            rate=f"{mark}{show_value(record.tokens_per_second, self._objective)}",
            memory=_memory(record),
            change=self._change(trial, baseline),
        )

    def _change(self, trial: Trial, baseline: Sequence[Trial]) -> Text:
        """Return how a trial compares with a run of the baseline.

        A rehearsal does not compare FP8 with bf16.
        """
        if self._is_baseline(trial):
            return Text("baseline")
        space = self.plan.space
        precisions = {
            space.value(each, "precision")
            for each in (self._point(trial), self.plan.baseline)
        }
        measured, theirs = speed([trial.record]), speed([t.record for t in baseline])
        if (
            not measured
            or not theirs
            or (trial.record.rehearsal and len(precisions) > 1)
        ):
            return Text("")
        gain = ratio(measured, theirs)
        likely = verdict(gain, self._history([trial]).noise.same)
        return Text(percent(gain.value), style=COLORS[likely])

    def _answer(self, trials: Sequence[Trial]) -> Iterator[Row]:
        """Yield the chosen setting, and the one that it is compared with.

        Their figures are those of the answer, if the search ended now.
        """
        plan = self.plan
        compares = self.study.about.compares_losses
        answer = answer_so_far(plan, trials, self._objective, compares_losses=compares)
        stays = answer.chosen == plan.baseline
        other = answer.runner_up if stays else plan.baseline
        for number, point in (("best", answer.chosen), ("next" * stays, other)):
            setting = answer.settings.get(point) if point else None
            if setting is None or setting.value is None:
                continue
            is_best = point == answer.chosen
            yield Row(
                number,
                short_label(plan, setting.point),
                show_value(setting.value.value, self._objective),
                _memory(answer.record) if is_best and answer.record else "",
                "baseline"
                if point == plan.baseline
                else _gain(setting.vs_baseline, "same" if stays else answer.verdict),
            )

    def _waiting(self, event: Event, since: float) -> Row:
        """Return the row of a running trial; of one alone, also what it does."""
        took = show_duration(self._now() - since)
        name = short_label(self.plan, event.proposal.point)
        doing = self._doing if len(self._running) == 1 else ""
        return Row(str(event.number), name, change=doing, time=took)

    def _time(self) -> str:
        if self._left is None:
            count = counted(len(self.study.trials), "trial")
            return f"ended; {count}" if self._has_ended else f"waiting; {count} so far"
        left = max(0.0, self._left - (self._now() - self._heard_at))
        if self._has_ended:
            return f"ended with {show_duration(left)} left"
        if self._note:
            return self._note
        running = len(self._running)
        why = f"; {running} trials are running" if running > 1 else ""
        for event, _ in self._running.values() if running == 1 else ():
            why = f"; trying: {event.proposal.reason}"
        return f"{show_duration(left)} left{why}"


def live(board: Board, out: TextIO) -> Live:
    """Return a live table on a terminal, drawn twice a second."""
    console = Console(file=out)
    return Live(
        board, console=console, refresh_per_second=2, vertical_overflow="visible"
    )


def _gain(gain: Estimate | None, how: str) -> Text:
    """Return the gain of the answer, which takes enough pairs of runs."""
    if gain is None:
        return Text("")
    is_enough = gain.low is not None and how != "inconclusive"
    return Text(percent(gain.value) if is_enough else "inconclusive", COLORS[how])


def _memory(record: Record) -> str:
    if not record.peak_gib:
        return ""
    of = f"/{record.capacity_gib:.0f}" if record.capacity_gib else ""
    return f"{gib(record.peak_gib)}{of}"
