"""The findings of a search that need its config, its machine, or its failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fp8tune.search.answer.answer import (
    Answer,
    Finding,
    changes,
    failure_code,
    is_untied,
)
from fp8tune.search.budget import budget_for_longer_trial
from fp8tune.search.history import History
from fp8tune.search.losses import findings as losses
from fp8tune.search.objective import count_without_value
from fp8tune.search.plan import Plan, rows_per_step, tokens_per_step, warmup_key
from fp8tune.trials.trial import Trial, last_process, retries_all


def config_findings(outcome: Answer, plan: Plan) -> Iterator[Finding]:
    """Yield findings that need the config, and the comparison of losses."""
    chosen, space = outcome.chosen, plan.space
    if chosen is not None:
        same = space.value(chosen, "precision") == space.value(
            plan.baseline, "precision"
        )
        if same and outcome.baseline_outcome == "nan":
            yield Finding("may-end-in-nan")
        yield from _other_tokens(plan, space.values(chosen))
    yield from _learning(outcome, plan)


def _other_tokens(plan: Plan, knobs: dict[str, Any]) -> Iterator[Finding]:
    """Yield that a setting changes the tokens of a step; the GPUs may be unknown."""
    for unit, of_step in (
        ("tokens", tokens_per_step),
        ("sequences per rank", rows_per_step),
    ):
        before, after = of_step(plan.config.job, {}), of_step(plan.config.job, knobs)
        if before and after:
            if before != after:
                facts = {"before": before, "after": after, "unit": unit}
                yield Finding("other-tokens-per-step", facts)
            return


def _learning(outcome: Answer, plan: Plan) -> Iterator[Finding]:
    """Yield the comparison of losses in its own words."""
    key = warmup_key(plan.config.trainer)
    for point, wrong in outcome.rejected.items():
        facts = {"setting": changes(plan.space, plan.baseline, point)}
        yield Finding("setting-rejected", {**facts, "text": losses.verdict_line(wrong)})
        lines = losses.warmup_lines(wrong, key)
        yield from (Finding("warmup", {"text": line}) for line in lines)
    if outcome.rejected and outcome.chosen is None:
        yield Finding("allow-precision")
    if outcome.learns:
        code = f"stability-{outcome.learns.verdict}"
        for line in losses.lines(outcome.learns, key):
            yield Finding(code, {"text": line})
    if is_untied(outcome, plan):
        yield Finding("fp8-unties-embeddings")
    if why := outcome.ending.unchecked:
        enough = {"budget_s": outcome.ending.budget_s}
        known = enough if outcome.ending.checking_s else {}
        begun = {"begun": True} if outcome.learns else {}
        yield Finding("stability-not-checked", {"why": why, **begun, **known})


def failures(outcome: Answer, plan: Plan, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield how the trials failed, and what to do about it."""
    failed = [trial for trial in trials if not trial.record.ok]
    for how, count in Counter(map(failure_code, failed)).most_common():
        yield Finding("failed-trials", {"how": how, "count": count})
    process = last_process(trials)
    latest = [trial for trial in trials if trial.process == process]
    if not any(True for _ in plan.space.points(plan.baseline)):
        yield Finding("frozen-knobs-not-recorded", {"text": "; ".join(plan.notes)})
    elif all(trial.is_of_budget for trial in latest):
        yield Finding("no-trial-ended", _more_time(plan, latest))
    elif any(trial.record.outcome == "oom" for trial in failed):
        yield Finding("try-less-memory", {"options": _smaller(plan)})
    if count := count_without_value(
        outcome.objective, (trial.record for trial in trials)
    ):
        yield Finding("watts-unknown", {"count": count})


def _more_time(plan: Plan, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the time in which no trial ended, and a budget that gives one more [s]."""
    history = History(plan.space, plan.baseline, trials)
    return {
        "within_s": max(t.budget_s if t.cut_off else t.record.cost_s for t in trials),
        "budget_s": budget_for_longer_trial(history, plan.baseline),
        "rehearsal": history.is_rehearsal,
    }


def _smaller(plan: Plan) -> list[str]:
    """Return memory-saving options that the config does not use yet."""
    job = plan.config.job
    options = {
        "smaller-micro-batch": job["micro_batch"] > 1,
        "full-checkpointing": job["ac"] != "full",
        "more-gpus": True,
    }
    return [name for name, known in options.items() if known]


def machine_findings(trials: Sequence[Trial], *, on_cpu: bool) -> Iterator[Finding]:
    """Yield what to do if the machine may have caused all failures."""
    if retries_all(trials, last_process(trials) + 1):
        if all(trial.record.never_began for trial in trials):
            yield Finding("run-doctor", {"on_cpu": on_cpu})
        yield Finding("repair-and-retry")
