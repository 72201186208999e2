"""The answer of a search in lines, as a terminal shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fp8tune.search.answer import LARGER_BUDGET, SAME_COMMAND, Answer, Beside
from fp8tune.search.benefit import benefits, reached
from fp8tune.search.budget import show_duration
from fp8tune.search.caveats import caveats, learning
from fp8tune.search.extrapolation import sentence
from fp8tune.search.failed import WORDS, failed
from fp8tune.search.objective import ENERGY, SPEED, UNITS, show_value, verdict_word
from fp8tune.search.output import describe
from fp8tune.search.plan import Plan
from fp8tune.search.retries import last_process, retries_all
from fp8tune.search.runs import ENOUGH
from fp8tune.search.stability import findings as stability
from fp8tune.search.statistics import SAME, Speed
from fp8tune.trials.record import Record
from fp8tune.trials.space import Space
from fp8tune.trials.trial import Trial

_UNCONFIRMED = {
    SAME_COMMAND: "the search was stopped before it measured the best settings again",
    LARGER_BUDGET: "the budget was too short to measure the best settings again",
}


def closing(found: Answer, plan: Plan, output: str) -> Iterator[str]:
    """The answer in lines."""
    first = (
        stability.warning(found.learns),
        _rejected(found),
        no_gain(found, plan.space),
    )
    yield from filter(None, first)
    yield from _chosen(found, plan)
    yield from caveats(found, plan)
    for beside, aim in benefits(found):
        if beside.twin is not None:
            gain = f": FP8 gains {change(beside.fp8)}" if beside.fp8 else ""
            unit = f" {UNITS[aim]}" if gain and found.aim == ENERGY else ""
            of = _reference(beside, plan, at_best=aim == found.aim)
            yield f"{of} {_interval(beside.twin, aim)}{gain}{unit}"
    yield from _other_figure(found, plan)
    if said := sentence(found.record):
        yield said
    yield from learning(found, plan)
    if said := _allocator(found.record):
        yield f"measured with {said}: set it for the run too"
    count = f"{found.trials} trial{'s' * (found.trials != 1)}"
    yield f"{count}, {short_of_memory(found)}, {show_duration(found.seconds)}"
    if output:
        yield f"wrote {output}"


def _allocator(record: Record | None) -> str:
    """What the environment told torch's allocator in a trial; ``""`` for nothing."""
    said = record.versions.get("allocator", "") if record else ""
    return "" if said == "default" else said[:200]


def _rejected(found: Answer) -> str:
    """That FP8 was rejected, where something else was chosen; else ``""``."""
    if not found.rejected or found.chosen is None:
        return ""
    return "FP8 is rejected: it diverges where bf16 does not; the best of what is left"


def short_of_memory(found: Answer) -> str:
    """How many trials and settings had too little memory."""
    full = len(found.unfit)
    left = f", {full} setting{'s' * (full != 1)} with too little memory left"
    return f"{found.oom_trials} out of memory{left * bool(full)}"


def no_gain(found: Answer, space: Space) -> str:
    """That FP8 does not pay, or may not; ``""`` where it does or nothing is known."""
    _, _, _, _, gain, pair = reached(found)
    if gain is None or pair is None:
        return ""
    chosen = found.chosen and space.with_precision(found.chosen, "fp8")
    if chosen in (None, pair.fp8):
        return _no_gain(gain, found.aim, "here")
    said = _no_gain(gain, found.aim, "at your config's setting")
    return said and f"{said}; at the chosen one that was not measured"


def _no_gain(gain: Speed, aim: str, here: str) -> str:
    share, alike, better, whose = _percent(gain), "fast", "faster", "speed"
    if aim == ENERGY:
        alike, better, whose = "efficient", "more efficient", "tokens per joule"
    if abs(gain.value - 1) <= SAME and gain.half <= 2 * SAME:
        return f"FP8 does not pay {here}: as {alike} as bf16, {change(gain)}"
    if gain.high < 1:
        said = f"bf16 is {better}: FP8 does not pay {here}"
        return f"{said}, it reaches {share} of its {whose}"
    if gain.value < 1:
        return f"FP8 may not pay {here}: it reaches {share} of bf16's {whose}"
    return ""


def _chosen(found: Answer, plan: Plan) -> Iterator[str]:
    """What was chosen, and how it does beside the given setting."""
    best, given, _, gain, *_ = reached(found)
    aim = found.aim
    if found.chosen is None:
        yield _none_chosen(found)
    elif best and given and gain and found.chosen != plan.baseline:
        yield f"{verdict_word(found.verdict, aim)}: {describe(plan, found.chosen)}"
        yield f"{_interval(given, aim)} -> {_interval(best, aim)}"
        told = " tokens per joule" * (aim == ENERGY)
        yield f"{change(gain)}{told}{of_pairs(found)}"
    elif found.chosen == plan.baseline and found.verdict == "inconclusive":
        yield f"inconclusive: {unfinished(found)}: yours stays, {_maybe(best, aim)}"
        yield from _second(found, plan)
        if found.more == LARGER_BUDGET:
            yield f"give {found.more} to learn more"
    elif found.chosen == plan.baseline and found.runner_up is None:
        yield f"{nothing_else(found)}: yours stays, {_maybe(best, aim)}"
    elif found.chosen == plan.baseline:
        yield f"{standing(found)}: {_maybe(best, aim)}"
        yield from _second(found, plan)
    else:
        yield f"best: {describe(plan, found.chosen)}, {_maybe(best, aim)}"
        how = WORDS.get(found.given_outcome)
        said = f"failed ({how})" if how else "did not run beside it"
        yield f"your config {said}: no gain can be told"
        if not found.whole and found.more == LARGER_BUDGET:
            yield f"not all settings were tried: give {found.more} to learn more"


def standing(found: Answer) -> str:
    """That nothing is faster than the given setting: how sure, and of how many."""
    (*_, ran, left), tried = found.evidence, ""
    if left:
        tried = f" among the {ran} settings tried (of {ran + left})"
    if found.behind and found.behind.high > 1 + found.alike:
        alike = "efficient" if found.aim == ENERGY else "fast"
        within = f"within {100 * (found.behind.high - 1):.1f} %"
        return f"your config is as {alike} as can be told ({within}){tried}"
    return f"your config is already the best{tried}"


def _second(found: Answer, plan: Plan) -> Iterator[str]:
    """The best of the others beside the given setting, which is chosen."""
    if found.runner_up and found.behind:
        second = describe(plan, found.runner_up)
        yield f"next best: {second}: {change(found.behind)}"


def unfinished(found: Answer) -> str:
    """Why it is not known whether the given setting is the best."""
    if not found.others:
        return f"no other setting ran{' yet' * bool(found.more)}"
    many, better = len(found.others) != 1, verdict_word("faster", found.aim)
    said = (
        f"none of the {len(found.others)} other settings that ran is surely {better}"
        if many
        else f"the other setting that ran is not surely {better}"
    )
    if not found.whole:
        risky = "others may be, but are likely to run out of memory, as many did"
        return f"{said}, but not all were tried" if found.more else f"{said}; {risky}"
    if not found.confirmed:
        return f"{said}, but that was not measured again"
    if found.unmeasured:
        return said
    return f"{said}, and it takes more runs to tell"


def _none_chosen(found: Answer) -> str:
    if found.rejected:
        return "no setting is proposed: FP8 diverges where bf16 does not"
    if found.unfit or "oom" in found.broken.values():
        return "no setting that ran leaves enough memory"
    return "no setting ran each time" if found.broken else "no trial succeeded"


def nothing_else(found: Answer) -> str:
    """Why there is no second best beside the given setting."""
    if not found.others:
        return "no other setting ran"
    wrong = dict.fromkeys(found.unfit, "oom") | dict(found.broken)
    how = {wrong.get(point, "slow") for point in found.others}
    if how == {"oom"}:
        return "no other setting that ran leaves enough memory"
    alike = f"is as {'efficient' if found.aim == ENERGY else 'fast'}"
    return f"no other setting {alike if 'slow' in how else 'ran each time'}"


def _other_figure(found: Answer, plan: Plan) -> Iterator[str]:
    """What is not aimed at: tokens per joule, else tokens/s."""
    aim = SPEED if found.aim == ENERGY else ENERGY
    best, given, _, gain, *_ = reached(found, aimed_at=False)
    if best and given and gain and found.chosen != plan.baseline:
        both = f"{_interval(given, aim)} -> {_interval(best, aim)}"
        yield f"beside that {both}, {change(gain)}"
    elif best:
        yield f"beside that {_interval(best, aim)}"


def _reference(beside: Beside, plan: Plan, *, at_best: bool) -> str:
    """Which bf16 it is that FP8 is held against."""
    if beside.pair is None:
        return "bf16 twin"
    fp8, bf16 = beside.pair
    space = plan.space
    if bf16 == space.with_precision(fp8, "bf16"):
        mine = fp8 == space.with_precision(plan.baseline, "fp8")
        return f"bf16 twin of {'your config' if mine else 'this setting'}"
    alike = plan._replace(baseline=space.with_precision(fp8, "bf16") or fp8)
    return f"bf16{' at its best' * at_best}, {describe(alike, bf16)},"


def of_pairs(found: Answer) -> str:
    """Of how few pairs of runs a gain is, and how many it leaves out."""
    return f"{_by_few(found)}{_without(found)}"


def _by_few(found: Answer) -> str:
    """Of how few pairs of runs a gain is; ``""`` where they are enough."""
    few = (
        found.verdict in ("faster", "inconclusive")
        and 0 < found.evidence.pairs < ENOUGH
    )
    return (
        f", by {found.evidence.pairs} pair{'s' * (found.evidence.pairs != 1)} of runs"
        if few
        else ""
    )


def _without(found: Answer) -> str:
    """How many pairs of runs a gain leaves out; ``""`` where all count."""
    every = found.evidence.pairs + found.evidence.far_off
    out = f", {found.evidence.far_off} of {every} pairs of runs left out as far off"
    return out * bool(found.evidence.far_off)


def change(gain: Speed) -> str:
    """A ratio as what it gains: ``+4.1 % (+3.0 to +5.2)``."""
    value, low, high = (100 * (x - 1) for x in gain)
    return f"{value:+.1f} % ({low:+.1f} to {high:+.1f})"


def _percent(share: Speed) -> str:
    value, low, high = (100 * x for x in share)
    return f"{value:.1f} % ({low:.1f} to {high:.1f})"


def unsettled(found: Answer) -> str:
    """What a search that ended did not come to."""
    if found.confirmed:
        return "The search ended before it had measured all that it wanted"
    why = _UNCONFIRMED.get(found.more, "the best settings ran once")
    return f"Not all is confirmed: {why}"


def advice(plan: Plan, trials: Sequence[Trial], budget: float) -> Iterator[str]:
    """Why nothing succeeded, and what to do."""
    failures = [trial for trial in trials if not trial.record.ok]
    now = last_process(trials)
    for how, count in Counter(map(failed, failures)).most_common():
        yield f"{count} trial{'s' * (count > 1)}: {how}"
    if not any(True for _ in plan.space.points(plan.baseline)):
        yield from plan.notes
        yield "no record keeps the config's frozen knobs; --allow precision frees that"
    elif all(t.is_of_budget for t in trials if t.process == now):
        yield f"no trial ended within {show_duration(budget)}; give a larger --budget"
    elif any(trial.record.outcome == "oom" for trial in failures):
        yield f"try {_smaller(plan)}"


def _smaller(plan: Plan) -> str:
    """What takes less memory, of what the config does not have yet."""
    job = plan.config.job
    options = (
        "a smaller micro-batch" if job["micro_batch"] > 1 else "",
        "full activation checkpointing" if job["ac"] != "full" else "",
        "more GPUs or a smaller model",
    )
    return " or ".join(filter(None, options))


def mending(trials: Sequence[Trial], *, rehearsed: bool) -> Iterator[str]:
    """What to do where real trials failed of what the machine may have caused."""
    if retries_all(trials, last_process(trials) + 1):
        if all(trial.record.never_began for trial in trials):
            command = f"fp8tune doctor{' --device cpu' * rehearsed}"
            yield f"{command} says what is missing on this machine"
        yield "once that is mended, the same command tries your config anew"


def _interval(measured: Speed, aim: str) -> str:
    low, high = (show_value(value, aim) for value in measured[1:])
    return f"{show_value(measured.value, aim)} {UNITS[aim]} ({low} to {high})"


def _maybe(measured: Speed | None, aim: str) -> str:
    return _interval(measured, aim) if measured else "not measured"
