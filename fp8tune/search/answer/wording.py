"""The sentence of each finding, for terminal, JSON, comments and report."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from fp8tune.search.answer.answer import (
    LARGER_BUDGET,
    SAME_COMMAND,
    Answer,
    Estimate,
    Finding,
    failure_code,
)
from fp8tune.search.budget import show_duration, typed
from fp8tune.search.labels import describe, setting
from fp8tune.search.objective import ENERGY, UNITS, show_value
from fp8tune.search.plan import Plan
from fp8tune.trials.record import OUTCOMES
from fp8tune.trials.space import shown as value_shown
from fp8tune.trials.trial import Trial
from fp8tune.words import counted

FAILURES = {
    **{name: outcome.words for name, outcome in OUTCOMES.items() if name != "ok"},
    "cut-off": "cut off by the end of the budget",
    "does-not-count": "does not count",
    "died-in-its-steps": "died in its steps",
    "wrong-data": "the data of the config does not suit it",
}
"""How a trial failed."""
VERDICTS = {"faster": "more efficient", "slower": "less efficient"}
"""What verdicts are called where the objective is tokens per joule."""
UNTIED = (
    "FP8 unties the embeddings that this config ties, so its losses are not of the "
    "same model as bf16's (fp8tune explain fp8-unties-embeddings)"
)
OPTIONS = {
    "smaller-micro-batch": "a smaller micro-batch",
    "full-checkpointing": "full activation checkpointing",
    "more-gpus": "more GPUs or a smaller model",
}

Facts = Mapping[str, Any]


def _ahead(gain: Estimate | None) -> str:
    """Return how much faster a setting is, without a claim of how certain that is."""
    return f", which ran at {percent(gain.value)}" if gain else ""


def _expected(knob: Facts) -> str:
    """Return a value that was not tried, and what the estimate expects of it."""
    parts = []
    if knob["speed"] is not None:
        parts.append(f"{percent(knob['speed'])} tokens/s")
    if knob["memory"] is not None:
        parts.append(f"{knob['memory']:+.1f} GiB")
    said = f"the estimate expects {', '.join(parts)}" if parts else "no estimate"
    return f"{knob['key']} = {value_shown(knob['value'])} ({said})"


def message(finding: Finding) -> str:
    """Return the finding as a sentence without its full stop."""
    sentence = MESSAGES[finding.code]
    return sentence(finding.facts) if callable(sentence) else sentence


def gib(value: float) -> str:
    """Return a memory size [GiB], or a dash if it is unknown."""
    return "-" if not value else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def verdict_word(verdict: str, objective: str) -> str:
    """Return a verdict in the words of the objective."""
    return VERDICTS.get(verdict, verdict) if objective == ENERGY else verdict


def unit(objective: str) -> str:
    """Return the objective's unit in words."""
    return "tokens per joule" if objective == ENERGY else UNITS[objective]


def percent(ratio: float) -> str:
    """Return a ratio as a change: ``+4.1 %``."""
    return f"{100 * (ratio - 1):+,.1f} %"


def change(gain: Estimate, what: str = "") -> str:
    """Return a ratio as ``+4.1 % tokens/s (+3.0 to +5.2)``."""
    value = f"{percent(gain.value)} {what}".rstrip()
    if gain.low is None or gain.high is None:
        return value
    return f"{value} ({_interval(gain.low, gain.high)})"


def _interval(low: float, high: float) -> str:
    return f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f}"


def rate(measured: Estimate | None, objective: str) -> str:
    """Return a measured value with its unit, and its interval if it has one."""
    if measured is None:
        return "not measured"
    value = f"{show_value(measured.value, objective)} {UNITS[objective]}"
    if measured.low is None or measured.high is None:
        return value
    low, high = measured.low, measured.high
    return f"{value} ({show_value(low, objective)} to {show_value(high, objective)})"


def listed(what: str, numbers: Sequence[int]) -> str:
    """Return ``trial 3``, ``trials 3 and 7``, ``trials 3, 7 and 8``."""
    return f"{what}{'s' * (len(numbers) > 1)} {joined(list(map(str, numbers)))}"


def capital(text: str) -> str:
    """Return a text with a capital first letter, except ``bf16``."""
    return text if text.startswith("bf16") else f"{text[:1].upper()}{text[1:]}"


def counts(trials: int, oom_trials: int, seconds: float) -> str:
    """Return the number of trials and the time that they took."""
    ran = f"{counted(trials, 'trial')}, {oom_trials} out of memory"
    return f"{ran}, {show_duration(seconds)}"


def joined(parts: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _pairs(facts: Facts) -> str:
    pairs = facts["pairs"]
    return f"{pairs or 'no'} pair{'s' * (pairs > 1)} of runs"


def _speeds(facts: Facts) -> str:
    ends = facts["baseline"], facts["chosen"]
    return " -> ".join(show_value(each.value, facts["objective"]) for each in ends)


def _compared(facts: Facts, verdict: str) -> str:
    word = verdict_word(verdict, facts["objective"])
    gain = change(facts["gain"], unit(facts["objective"]))
    return f"{word}: {gain}, {_speeds(facts)}{_mark(facts)}, {_pairs(facts)}"


def _inconclusive(facts: Facts) -> str:
    rates = f"{_speeds(facts)} {unit(facts['objective'])}{_mark(facts)}"
    return f"inconclusive ({_pairs(facts)}): {rates}"


def _chosen(facts: Facts) -> str:
    return f"{rate(facts['chosen'], facts['objective'])}{_mark(facts)}"


def mark(error: float | None) -> str:
    """Return the mark of a speed that was extrapolated with that relative error."""
    within = "error unknown" if error is None else f"+-{100 * error:.1f} %"
    return f" (extrapolated, {within})"


def _mark(facts: Facts) -> str:
    return mark(facts["extrapolation_error"]) if "extrapolation_error" in facts else ""


def _next(facts: Facts, does: str = "should settle it") -> str:
    """Return which budget would find more; ``""`` if none would."""
    if seconds := facts.get("budget_s"):
        return f"; --budget {typed(seconds)} {does}"
    if facts.get("next_step") == LARGER_BUDGET:
        return f"; a larger --budget {does}"
    goes_on = facts.get("next_step") == SAME_COMMAND
    return "; the same command continues" if goes_on else ""


def _among(facts: Facts) -> str:
    tried, every = facts["tried"], facts["settings"]
    return f" among the {tried} settings tried (of {every})" if tried < every else ""


def _baseline_best(facts: Facts) -> str:
    if within := facts.get("within"):
        alike = "efficient" if facts["objective"] == ENERGY else "fast"
        best = f"as {alike} as can be measured (within {100 * within:.1f} %)"
    else:
        best = "already the best"
    return f"your config is {best}{_among(facts)}: {_chosen(facts)}"


def _baseline_kept(facts: Facts) -> str:
    others, better = facts["others"], verdict_word("faster", facts["objective"])
    why = f"none of the {others} other settings that ran is clearly {better}"
    if others < 2:
        one = f"the other setting that ran is not clearly {better}"
        why = one if others else "no other setting ran"
    return f"inconclusive: {why}: your config stays, {_chosen(facts)}"


def _few_pairs(facts: Facts) -> str:
    needed = (
        f"a verdict takes {facts['needed']} pairs of neighbouring confirmation runs"
    )
    return f"{needed}{_next(facts)}"


def _fp8_at(facts: Facts) -> str:
    return " at your config's setting" if facts["at"] == "baseline" else ""


def _fp8_compared(facts: Facts, verdict: str = "FP8 vs bf16") -> str:
    """Return FP8's gain over bf16, and the bf16 setting if other knobs differ."""
    differs = facts["bf16_differs"]
    own = f" with {setting(differs)}" if differs else ""
    gain = change(facts["gain"], unit(facts["objective"]))
    speed = show_value(facts["bf16_baseline"].value, facts["objective"])
    return f"{verdict}{_fp8_at(facts)}: {gain}, bf16 reaches {speed}{own}"


def _fp8_alike(facts: Facts) -> str:
    alike = "efficient" if facts["objective"] == ENERGY else "fast"
    return _fp8_compared(facts, f"FP8 does not pay, it is as {alike} as bf16")


def _fp8_inconclusive(facts: Facts) -> str:
    return f"FP8 vs bf16{_fp8_at(facts)}: inconclusive ({_pairs(facts)}){_next(facts)}"


def _otherwise(facts: Facts) -> str:
    if "gain" not in facts:
        return _chosen(facts)
    return f"{change(facts['gain'], unit(facts['objective']))}, {_speeds(facts)}"


def _extrapolated(facts: Facts) -> str:
    error = facts["error"]
    within = "error unknown" if error is None else f"+-{100 * error:.1f} % tokens/s"
    return f"extrapolated ({within}): {facts['how']}"


def _no_trial_ended(facts: Facts) -> str:
    ended = f"no trial ended within {show_duration(facts['within_s'])}"
    small = "; or rehearse a model of the size of configs/rehearsal_cpu.toml"
    longer = _next(facts, "gives a trial at least twice as long")
    return f"{ended}{longer}{small if facts['rehearsal'] else ''}"


def _pairs_left_out(facts: Facts) -> str:
    of = " against ".join(map(setting, facts["settings"]))
    left_out = f"{facts['outliers']} of {counted(facts['pairs'], 'pair')} of runs"
    far = "more than 3 standard deviations from their median"
    return f"not counted: {left_out}, {far} ({of})"


def _too_little_memory(facts: Facts) -> str:
    settings = facts["settings"]
    shown = [f"{setting(each['setting'])} ({each['why']})" for each in settings[:3]]
    more = [f"and {len(settings) - 3} more"] * (len(settings) > 3)
    return f"too little memory: {'; '.join(shown + more)}"


def _runner_up(facts: Facts) -> str:
    chosen = "your config" if facts["chosen_is_baseline"] else "the chosen setting"
    return f"runner-up: {chosen} with {setting(facts['differs'])}: {behind(facts)}"


def behind(facts: Facts) -> str:
    """Return by how much the runner-up is slower, and how certain that is."""
    gain, pairs, objective = facts["gain"], facts["pairs"], facts["objective"]
    slower, faster = (verdict_word(w, objective) for w in ("slower", "faster"))
    by = f"{abs(100 * (gain.value - 1)):.1f} % {faster if gain.value > 1 else slower}"
    if gain.low is not None and gain.high is not None:
        return f"{by} ({_interval(gain.low, gain.high)} %)"
    if gain.value > 1:  # too few pairs to contradict the choice
        by = f"not clearly {faster} or {slower}"
    return (
        f"{by} ({counted(pairs, 'pair')} of runs)" if pairs else f"{by}, not confirmed"
    )


def _options(facts: Facts) -> str:
    return "try " + " or ".join(OPTIONS[name] for name in facts["options"])


def _not_recorded(facts: Facts) -> str:
    notes = f"{facts['text']}; " * bool(facts["text"])
    return f"{notes}no record has the frozen values; --allow precision frees precision"


def _shown_settings(facts: Facts) -> str:
    return f" ({setting(facts['settings'])})" if facts["settings"] else ""


def _text(facts: Facts) -> str:
    return str(facts["text"])


ONE_SETTING = "there is no other setting to compare"
NONE_RAN = "no other setting ran and left enough memory"


MESSAGES: dict[str, str | Callable[[Facts], str]] = {
    # the answer
    "faster": lambda facts: _compared(facts, "faster"),
    "slower": lambda facts: _compared(facts, "slower"),
    "same": lambda facts: _compared(facts, "same"),
    "inconclusive": _inconclusive,
    "baseline-failed": lambda facts: (
        f"your config failed: {FAILURES[facts['outcome']]}; the chosen setting "
        f"reaches {_chosen(facts)}"
    ),
    "baseline-not-measured": lambda facts: (
        f"your config did not run; the chosen setting reaches {_chosen(facts)}"
    ),
    "baseline-best": _baseline_best,
    "baseline-kept": _baseline_kept,
    "no-other-setting-ran": lambda facts: (
        f"{ONE_SETTING if facts['settings'] == 1 else NONE_RAN}: your config stays, "
        f"{_chosen(facts)}"
    ),
    "fp8-diverges-everywhere": (
        "no setting is proposed: FP8 diverges where bf16 does not"
    ),
    "no-setting-leaves-memory": "none of the settings that ran leaves enough memory",
    "no-setting-ran-each-time": "every setting that ran failed in another trial",
    "no-trial-succeeded": "no trial succeeded",
    # why it is inconclusive
    "not-confirmed": _few_pairs,
    "one-pair-only": _few_pairs,
    "more-pairs-needed": lambda facts: (
        f"{counted(facts['pairs'], 'pair')} of neighbouring confirmation runs do not "
        f"settle it{_next(facts)}"
    ),
    "communication-decides": lambda facts: (
        "communication time is predicted, not measured, and its error decides here "
        f"(within +-{100 * facts['within']:.1f} %): only runs on all GPUs can settle it"
    ),
    "untested-settings": lambda facts: (
        f"not all settings were tried{_next(facts, 'tries more')}"
    ),
    "untested-memory": (
        "other settings may be faster, but were not tried: they probably run out of "
        "memory"
    ),
    "pairs-left-out": _pairs_left_out,
    # other evidence for or against a setting
    "wrong-data": lambda facts: (
        f"ended, as no trial can train on the data of the config: {facts['why']}"
    ),
    "coarse-on-cpu": lambda facts: (
        f"up to {100 * facts['within']:.0f} % counts as the same: a CPU shows no less"
    ),
    "memory-shortage": lambda facts: (
        f"your config leaves too little memory for a long run: {facts['why']}"
    ),
    "too-little-memory": _too_little_memory,
    "baseline-unreliable": lambda facts: (
        f"your config ran once and failed in another run: {FAILURES[facts['outcome']]}"
    ),
    "runner-up": _runner_up,
    "may-end-in-nan": (
        "the config's loss ended in NaN; this setting trains alike, so watch its loss"
    ),
    "other-tokens-per-step": lambda facts: (
        f"each optimizer step has {facts['after']:,} {facts['unit']}, not "
        f"{facts['before']:,}: the learning rate and its schedule were set for those"
    ),
    # FP8 against bf16
    "fp8-faster-than-bf16": _fp8_compared,
    "fp8-as-fast-as-bf16": _fp8_alike,
    "fp8-slower-than-bf16": lambda facts: _fp8_compared(facts, "FP8 does not pay"),
    "fp8-inconclusive": _fp8_inconclusive,
    "fp8-not-compared": lambda facts: (
        f"bf16 baseline: {rate(facts['bf16_baseline'], facts['objective'])}; not "
        "compared with FP8, as no stage ran both"
    ),
    "bf16-not-measured": lambda facts: (
        "FP8 vs bf16: not compared, as the chosen setting did not run in bf16"
        f"{_next(facts)}"
    ),
    "fp8-may-diverge": _text,
    "fp8-rejected": (
        "FP8 is rejected: it does not learn as bf16 does; the best other setting"
    ),
    "setting-rejected": lambda facts: (
        f"rejected: {setting(facts['setting'])}: {facts['text']}"
    ),
    "warmup": _text,
    "allow-precision": (
        "no FP8 setting is proposed; --allow precision lets bf16 be chosen"
    ),
    "stability-inside": _text,
    "stability-outside": _text,
    "stability-inconclusive": _text,
    "stability-diverged": _text,
    "stability-not-checked": lambda facts: (
        f"stability {'only partly' if facts.get('begun') else 'not'} checked: "
        f"{facts['why']}{_next(facts, 'is enough for it')}"
    ),
    "fp8-unties-embeddings": UNTIED,
    "losses-not-compared": lambda facts: (
        f"the losses of {setting(facts['setting'])} were not compared with bf16's"
    ),
    "unproven": lambda facts: (
        f"not chosen: {setting(facts['setting'])}"
        f"{_ahead(facts['gain'])}: its losses were not compared with bf16's yet"
    ),
    "fp8-kept": lambda facts: (
        f"not tried: {'; '.join(map(_expected, facts['expected']))}; --allow fp8 tries "
        "them"
    ),
    "knob-kept": lambda facts: f"{facts['knob']} was not varied: {facts['why']}",
    # how it was measured
    "several-workers": lambda facts: (
        f"up to {facts['trials']} trials ran at the same time"
        f"{', and shared the CPU' * facts['rehearsal']}"
    ),
    "other-objective": _otherwise,
    "rehearsal": (
        "rehearsal on a CPU: its speeds say nothing about a GPU, nor whether FP8 pays"
    ),
    "extrapolated": _extrapolated,
    "synthetic-data": "trained on synthetic data, not on yours",
    "samples-may-be-shorter": lambda facts: (
        f"each sample counts as {facts['tokens']:,} tokens ({facts['key']}): where "
        "samples are shorter, tokens/s are an upper bound, and batches of longer "
        "samples than the trials had need more memory"
    ),
    "allocator": lambda facts: (
        f"measured with {facts['setting']}: set it for the run too"
    ),
    # why nothing succeeded, and what to do
    "failed-trials": lambda facts: (
        f"{counted(facts['count'], 'trial')}: {FAILURES[facts['how']]}"
    ),
    "config-loses-its-loss": lambda facts: (
        "your config loses its loss before anything is changed: look at its learning "
        f"rate and warmup first{_shown_settings(facts)}, then run the same command"
    ),
    "frozen-knobs-not-recorded": _not_recorded,
    "no-trial-ended": _no_trial_ended,
    "try-less-memory": _options,
    "watts-unknown": lambda facts: (
        f"{counted(facts['count'], 'trial')}: watts unknown; without --objective they "
        "count"
    ),
    "run-doctor": lambda facts: (
        f"fp8tune doctor{' --device cpu' * facts['on_cpu']} says what is missing on "
        "this machine"
    ),
    "repair-and-retry": (
        "after you fix the machine, run the same command again: it retries your config"
    ),
    "failed-before": lambda facts: (
        f"{counted(facts['count'], 'setting')} failed before"
        f"{_next(facts, 'may retry them') or '; a larger --budget may retry them'}"
    ),
}
"""The sentence of each code, or a function from the finding's facts to it."""


def messages(findings: Iterable[Finding], *codes: str) -> Iterator[str]:
    """Yield the sentences of the findings, or of those with these codes."""
    for finding in findings:
        if not codes or finding.code in codes:
            yield message(finding)


def closing(outcome: Answer, plan: Plan, outputs: Sequence[str]) -> Iterator[str]:
    """Yield the answer in lines: the findings, the setting, and the counts."""
    for finding in outcome.findings:
        yield message(finding)
        is_answer, chosen = finding.code == outcome.answered_by, outcome.chosen
        if is_answer and chosen is not None and chosen != plan.baseline:
            yield f"chosen: {describe(plan, chosen)}"
    yield counts(outcome.trials, outcome.oom_trials, outcome.seconds)
    for output in outputs:
        yield f"wrote {output}"


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
