"""The answer of a search in sentences, and what must be known before it is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.search import drift
from fp8tune.search.extrapolation import extrapolation
from fp8tune.search.outcome import DOES_NOT_PAY, Finding, gain_of, machine_findings
from fp8tune.search.output import counts
from fp8tune.search.report.commands import commands
from fp8tune.search.report.data import Case
from fp8tune.search.report.words import clean, gib, rate
from fp8tune.search.runs import by_point, neighbours
from fp8tune.search.stability import words as stability
from fp8tune.search.stability.compare import OUTSIDE
from fp8tune.search.wording import change, describe, message, messages

MOST = 1000
"""Longest sentence [characters]."""
_STATE = {
    True: "still runs",
    False: "was cut off before it told its end",
    None: "still runs, or was cut off",
}


class Story(NamedTuple):
    """``warnings`` come first; ``commands`` are what to type next."""

    warnings: tuple[str, ...]
    headline: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...]


def story(case: Case) -> Story:
    """What a study says, the most important first."""
    return Story(
        tuple(_warnings(case)),
        _headline(case),
        tuple(_sentences(case)),
        tuple(commands(case)),
    )


def _warnings(case: Case) -> Iterator[str]:
    if case.rehearsal:
        yield (
            "A rehearsal on a CPU. The trials are real FP8 training, but nothing here "
            "tells how fast a GPU is, nor whether FP8 pays."
        )
    if case.replay:
        yield (
            "A replay of recorded trials under simulated time. Nothing was measured "
            "for this report."
        )
    told = Counter(
        found["how"] for trial in case.trials if (found := extrapolation(trial.record))
    )
    if told:
        how = clean(told.most_common(1)[0][0])
        count = f"{told.total()} of {len(case.trials)} trials"
        yield f"Extrapolated, not measured whole ({count}): {how}."
    if changed := drift.told(by_point(case.plan.space, case.trials)):
        yield changed
    yield from map(_sentence, messages(case.found.findings, *SEEN_FIRST))
    learns = case.found.learns
    if learns and learns.verdict == OUTSIDE:
        yield f"More tokens may not be worth it: {stability.verdict(learns)}."
    if case.output is None:
        yield f"The search {_STATE[case.running]}. The answer may change."
    elif not case.ended:
        yield "The search ended before its last comparisons. The answer may change."


SEEN_FIRST = ("fp8-may-diverge", "setting-rejected")
"""Findings that warn before anything else."""


def _headline(case: Case) -> str:
    if not case.trials:
        return "No trial has ended yet"
    if case.found.find("fp8-may-diverge"):
        return "Inconclusive: FP8 may diverge"
    yet = " yet" * (case.output is None and case.found.chosen is None)
    return f"{_capital(clean(message(_first(case)), MOST))}{yet}"


def _first(case: Case) -> Finding:
    """The finding that is the answer: that FP8 does not pay, else the verdict."""
    skipped = ("fp8-rejected", *SEEN_FIRST)
    negative = case.found.find(*DOES_NOT_PAY)
    return negative or next(f for f in case.found.findings if f.code not in skipped)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _sentences(case: Case) -> Iterator[str]:
    found = case.found
    if found.chosen not in (None, case.plan.given):
        yield f"Chosen: {_changes(case)}."
    shown_above = _first(case)
    for finding in found.findings:
        if finding != shown_above and finding.code not in SEEN_FIRST:
            yield _sentence(message(finding))
    if found.chosen is None and not case.replay:
        on_cpu = case.about.get("device") == "cpu"
        advice = machine_findings(case.trials, on_cpu=on_cpu)
        yield from map(_sentence, messages(advice))
    yield from _memory(case)
    yield from _runner_up(case)
    yield from _start(case)
    spread = "Intervals are 95 % and count the spread between fresh runs."
    yield f"{counts(found)}. {spread}"


def _changes(case: Case) -> str:
    point = case.found.chosen
    return clean(describe(case.plan, point)) if point is not None else ""


def _memory(case: Case) -> Iterator[str]:
    chosen = case.of_role("chosen")
    if chosen is None or not chosen.peak_gib:
        return
    if case.rehearsal:
        yield f"Peak memory of the process {gib(chosen.peak_gib)} GiB."
        return
    of = f" of {case.capacity_gib:.1f}" if case.capacity_gib else ""
    yield (
        f"Peak memory {gib(chosen.peak_gib)}{of} GiB allocated"
        + (f", {gib(chosen.reserved_gib)} reserved." if chosen.reserved_gib else ".")
    )


def _sentence(line: str) -> str:
    """A line of the terminal as a sentence."""
    return f"{_capital(clean(line, MOST))}."


def _runner_up(case: Case) -> Iterator[str]:
    """The second best beside the chosen one, both at the same time."""
    other, chosen = case.of_role("runner-up"), case.found.chosen
    behind = other and gain_of(case.goals, other.point, chosen)
    if not other or not chosen or not behind:
        return
    again = bool(neighbours(case.goals, other.point, chosen))
    when = "" if again else ", by the trials before the confirmation"
    once = when if other.point in case.again else ", not measured again" + when
    speed = (case.again if again else case.before)[other.point]
    yield (
        f"Runner-up: {other.label}, {rate(speed.value)} {case.unit}: "
        f"{change(behind)} beside the chosen one{once}."
    )


def _start(case: Case) -> Iterator[str]:
    """Which earlier study the search started from, if any."""
    start = case.about.get("start")
    if isinstance(start, dict) and start.get("study"):
        said = clean(str(start.get("said")), 300)
        yield f"The search {said}. None of that study's trials is counted here."
