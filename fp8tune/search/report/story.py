"""The answer of a search in sentences, and what must be known before it is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fp8tune.search.answer import LARGER_BUDGET, Answer, Beside
from fp8tune.search.benefit import benefits, reached
from fp8tune.search.budget import show_duration
from fp8tune.search.caveats import caveats, learning
from fp8tune.search.closing import (
    change,
    mending,
    no_gain,
    nothing_else,
    of_pairs,
    short_of_memory,
    standing,
    unfinished,
    unsettled,
)
from fp8tune.search.extrapolation import extrapolation
from fp8tune.search.failed import WORDS, failed
from fp8tune.search.objective import UNITS, verdict_word
from fp8tune.search.output import describe
from fp8tune.search.report.commands import commands
from fp8tune.search.report.data import Case
from fp8tune.search.report.words import clean, gib, interval, percent, plural, rate
from fp8tune.search.runs import by_point, drift_warning, gap, neighbours
from fp8tune.search.stability import words as stability
from fp8tune.search.stability.compare import DIVERGED, OUTSIDE
from fp8tune.search.statistics import Speed

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
            "A rehearsal on a CPU. The trials are real FP8 training, but FP8 is slower "
            "than bf16 on a CPU: nothing here tells how fast a GPU is."
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
        count = f"{told.total()} of {plural(len(case.trials), 'trial')}"
        yield f"Extrapolated, not measured whole ({count}): {how}."
    if changed := drift_warning(by_point(case.plan.space, case.trials)):
        yield changed
    learns = case.found.learns
    if case.found.rejected and case.found.chosen is not None:
        wrong = next(iter(case.found.rejected.values()))
        yield f"FP8 is rejected: {stability.verdict(wrong)}."
    if said := stability.doubt(learns):
        yield f"{said}."
    if learns and learns.verdict == OUTSIDE:
        yield f"More tokens may not be worth it: {stability.verdict(learns)}."
    if case.output is None:
        yield f"The search {_STATE[case.running]}. The answer may change."
    elif not case.ended:
        yield f"{unsettled(case.found)}. The answer may change."


def _headline(case: Case) -> str:
    found = case.found
    if not case.trials:
        return "No trial has ended yet"
    if found.chosen is None and found.rejected:
        return "No setting is proposed: FP8 diverges where bf16 does not"
    if found.chosen is None:
        return f"No trial succeeded{' yet' * (case.output is None)}"
    if found.learns and found.learns.doubtful:
        harsh = found.learns.decisive.verdict == DIVERGED
        return f"Inconclusive: FP8 may diverge{' at the full learning rate' * harsh}"
    return _no_gain(case) or _verdict(case)


def _no_gain(case: Case) -> str:
    """That FP8 does not pay, which is said before how the settings compare."""
    said = no_gain(case.found, case.plan.space)
    return f"On this CPU {said}" if said and case.rehearsal else said


def _verdict(case: Case) -> str:
    """How the chosen setting does beside the given one."""
    found = case.found
    if found.chosen == case.plan.baseline:
        if found.verdict == "inconclusive":
            return f"Inconclusive: {unfinished(found)}: your config stays"
        if found.runner_up is None:
            return f"{_capital(nothing_else(found))}: your config stays"
        return _capital(standing(found))
    gained = reached(found).gain
    if gained is None:
        how = WORDS.get(found.given_outcome)
        wrong = f"failed ({how})" if how else "was not measured or did not run"
        return f"A setting that runs, where yours {wrong}"
    gain = f"{percent(gained.value)} {case.unit}"
    said = _capital(verdict_word(found.verdict, found.aim))
    more = {"faster": " over your config", "inconclusive": f", {_doubt(found)}"}
    return f"{said}: {gain}{more.get(found.verdict, '')}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _doubt(found: Answer) -> str:
    if found.unmeasured:
        return "and only runs on all GPUs tell"
    if not found.confirmed:
        return "and not both were measured again"
    return "and it takes more runs to tell"


def _sentences(case: Case) -> Iterator[str]:
    found = case.found
    if found.chosen is None:
        yield from map(_sentence, caveats(found, case.plan))
        yield from _learning(case)
        yield from _failures(case)
        return
    if _headline(case) == _no_gain(case):
        yield f"{_verdict(case)}."
    yield from _figures(case)
    mine = found.verdict == "inconclusive" and found.chosen == case.plan.baseline
    if mine and found.more == LARGER_BUDGET:
        yield f"Give {found.more} to learn more."
    yield from map(_sentence, caveats(found, case.plan))
    yield from _memory(case)
    yield from _beside_bf16(case)
    yield from _runner_up(case)
    yield from _learning(case)
    yield from _start(case)
    yield (
        f"{plural(found.trials, 'trial')} of {plural(len(case.settings), 'setting')}, "
        f"{short_of_memory(found)}, {show_duration(found.seconds)}. Intervals are 95 % "
        f"and count the spread between fresh runs."
    )


def _changes(case: Case) -> str:
    point = case.found.chosen
    return clean(describe(case.plan, point)) if point is not None else ""


def _figures(case: Case) -> Iterator[str]:
    """The chosen setting beside the given one, by the aim and by the other figure."""
    found = case.found
    mine = found.chosen == case.plan.baseline
    other = next(unit for unit in UNITS.values() if unit != case.unit)
    told = [
        _figure(best, None if mine else given, gain, unit)
        for (best, given, _, gain, *_), unit in (
            (reached(found), case.unit),
            (reached(found, aimed_at=False), other),
        )
        if best
    ]
    first, *rest = told
    counted = f"{first}{of_pairs(found)}"
    yield f"Your config does {first}." if mine else f"{_changes(case)}: {counted}."
    yield from (f"Beside that {line}." for line in rest)


def _figure(chosen: Speed, given: Speed | None, gain: Speed | None, unit: str) -> str:
    if given is None or gain is None:
        return f"{interval(chosen)} {unit}"
    return f"{interval(given)} -> {interval(chosen)} {unit}, {change(gain)}"


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


def _beside_bf16(case: Case) -> Iterator[str]:
    knob = case.plan.space.knob("precision")
    if knob is None or not any(beside.twin for beside, _ in benefits(case.found)):
        yield "No bf16 twin was measured: what FP8 gains is not known."
        return
    for beside, aim in benefits(case.found):
        if beside.twin:
            yield _benefit(case, beside, beside.twin, UNITS[aim])
    gain = reached(case.found).fp8
    if gain and gain.high < 1 and not case.rehearsal:
        name = knob.key.rpartition(".")[2]
        yield (
            f'Set {clean(name)} = "bf16", or let the search choose it with '
            "--allow precision."
        )


def _benefit(case: Case, beside: Beside, bf16: Speed, unit: str) -> str:
    point = beside.pair.bf16 if beside.pair else None
    marked = case.of_role("bf16-baseline") if point is None else case.of_point(point)
    where = f" ({marked.label})" if marked else ""
    if beside.fp8 is None:
        return f"bf16 does {interval(bf16)} {unit}{where}."
    does = f"bf16 does {interval(bf16)} {unit}"
    return f"FP8 against bf16{where}: {change(beside.fp8)} {unit}; {does}."


def _learning(case: Case) -> Iterator[str]:
    """Whether FP8 learns as bf16 does."""
    yield from map(_sentence, learning(case.found, case.plan))
    found, chosen = case.found, case.of_role("chosen")
    known = found.learns or found.unchecked or case.replay
    if not known and chosen and chosen.precision == "fp8":
        yield "Stability was not checked: no run compares FP8's losses with bf16's."


def _sentence(line: str) -> str:
    """A line of the terminal as a sentence."""
    return f"{_capital(clean(line, MOST))}."


def _runner_up(case: Case) -> Iterator[str]:
    """The second best beside the chosen one, both at the same time."""
    other, chosen = case.of_role("runner-up"), case.found.chosen
    behind = other and gap(case.goals, other.point, chosen)
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


def _failures(case: Case) -> Iterator[str]:
    failures = [trial for trial in case.trials if not trial.record.ok]
    for how, count in Counter(map(failed, failures)).most_common():
        yield f"{plural(count, 'trial')}: {how}."
    if len(failures) < len(case.trials):
        yield "Only settings that may not be chosen ran."
    if any(trial.record.outcome == "oom" for trial in failures):
        yield "Try a smaller micro-batch, full activation checkpointing or more GPUs."
    if not case.replay:
        on_cpu = case.about.get("device") == "cpu"
        yield from map(_sentence, mending(case.trials, rehearsed=on_cpu))
