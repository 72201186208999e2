"""Say what a comparison of runs found, as findings with codes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from fp8tune.verify.gap import (
    FEWEST,
    PROVEN_TOKENS,
    SEEDS,
    SPIKES_UNLIKELY,
    TOLERANCE,
    Comparison,
    Gap,
    Interval,
    Verdict,
)
from fp8tune.verify.runs import Run
from fp8tune.words import plain

FP8_RANGE = 4.0
"""Range of the losses of FP8 runs from which they count as different, in standard
deviations between bf16 seeds, or in the margin of ``same`` if that is larger."""
MOST_TIMES = 100
"""Most times as many steps that are advised."""
SAME_SPEED = 0.005
"""Difference of the speeds, relative to bf16's, that is not told."""
MIN_SHARE = 0.98
"""Share of the longest run that the others must have for nothing to be said of it."""
SHOWN_SCALES = 5


class Statement(NamedTuple):
    """One statement of the answer: its code, its sentence, its numbers."""

    code: str
    message: str
    numbers: dict[str, Any] = {}


def findings(result: Comparison) -> Iterator[Statement]:
    """Yield every statement, the verdict first."""
    yield _verdict(result)
    yield from _settles(result)
    if result.verdict != Verdict.DIVERGED:
        yield from _equal(result)
    yield from _norms(result)
    yield from _support(result)
    yield from _alignment(result)
    for run in result.runs:
        yield from _run(run)
    for run in result.bf16:
        if run.says_fp8:
            yield Statement(
                "bf16-run-says-fp8",
                f"{plain(run.path)}: compared as bf16, but its log says "
                f"`{plain(run.says_fp8)}`.",
                {"path": run.path},
            )
    yield from _scales(result)


def percent(value: float) -> str:
    """Return a share with its sign: ``+0.58 %``."""
    return f"{100 * value:+.2f} %"


def between(share: Interval) -> str:
    """Return the ends of the interval of a share."""
    if not math.isfinite(share.high):
        return "interval not known"
    return f"{percent(share.low)} to {percent(share.high)}"


def amount(value: float) -> str:
    """Return a number of tokens or steps: ``3.3M``, ``12,000``, ``200B``."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}"


def place(result: Comparison, value: float) -> str:
    """Return a place of the alignment in words: ``step 20 (20,480 tokens)``."""
    size = result.aligned.tokens_per_step
    if result.aligned.unit == "steps" or not size:
        return f"step {value:,.0f}"
    return f"step {value / size:,.0f} ({amount(value)} tokens)"


def relative(gap: Gap, interval: Interval) -> Interval:
    """Return a gap relative to bf16's loss."""
    return Interval(*(value / gap.bf16 for value in interval))


def _verdict(result: Comparison) -> Statement:
    gap, verdict = result.gap, result.verdict
    if verdict == Verdict.DIVERGED:
        assert result.diverged_at is not None
        where = place(result, result.diverged_at)
        how = (
            f"FP8's loss is NaN or infinite from {where} on"
            if result.reason == "nan"
            else f"FP8's loss leaves bf16's for good after {where}"
        )
        return Statement(
            verdict,
            f"FP8 diverged: {how}. bf16 did not.",
            {"why": result.reason, "at": result.diverged_at},
        )
    if failed := result.diverged_bf16:
        names = ", ".join(plain(run.path) for run in failed)
        rest = len(result.bf16) - len(failed)
        advice = f" Compare without {'it' if len(failed) == 1 else 'them'}."
        return Statement(
            verdict,
            f"Inconclusive: bf16 diverged ({names}).{advice * bool(rest)}",
            {"why": result.reason, "paths": [run.path for run in failed]},
        )
    if gap is None:
        return Statement(verdict, f"Inconclusive: {_WHY[result.reason]}.")
    share = relative(gap, gap.total)
    numbers = {"why": result.reason, "gap": share.value}
    side = "above" if share.value > 0 else "below"
    size = (
        f"FP8's loss is {abs(100 * share.value):.2f} % {side} bf16's"
        if round(abs(share.value), 4)
        else "FP8's loss equals bf16's"
    )
    size += f" ({between(share)})"
    if verdict == Verdict.SAME:
        what = (
            "the share that DeepSeek-V3 reports as acceptable"
            if gap.margin <= TOLERANCE * gap.bf16
            else "the standard deviation between bf16's seeds"
        )
        within = f"within {100 * gap.margin / gap.bf16:.2f} %, {what}"
        return Statement(verdict, f"The same: {size}, {within}.", numbers)
    if verdict == Verdict.INCONCLUSIVE:
        return Statement(
            verdict, f"Inconclusive: {size}. {_why(result, gap)}.", numbers
        )
    word = "worse" if verdict == Verdict.WORSE else "better"
    seeds = f"bf16's seeds differ by {100 * gap.spread / gap.bf16:.2f} %"
    if gap.assumed:
        seeds += " (assumed)"
    return Statement(verdict, f"FP8 is {word}: {size}; {seeds}.", numbers)


_WHY = {
    "no-overlap": "the runs have no tokens or steps in common",
    "bf16-diverged": "bf16 diverged",
    "few-steps": "too few logged steps",
    "no-cross-entropy": "bf16's loss is not above 0, so it is no cross-entropy",
}


def _why(result: Comparison, gap: Gap) -> str:
    """Return why the verdict is inconclusive."""
    if result.reason == "noise":
        return "The loss varies too much from step to step for runs this short"
    if result.reason == "seeds":
        runs = "one run" if len(result.bf16) == 1 else f"{len(result.bf16)} runs"
        return f"With {runs} of bf16 a difference between seeds cannot be ruled out"
    if result.reason == "more-seeds":
        share = 100 * gap.spread / gap.bf16
        count = len(result.bf16)
        return f"{count} seeds of bf16 differ by {share:.2f} %: it may be the seed"
    steps = f"{gap.places} logged step{'s' * (gap.places > 1)}"
    return f"The last quarter has only {steps}; {FEWEST} are needed"


def _equal(result: Comparison) -> Iterator[Statement]:
    equal = result.equal
    if equal is None:
        if result.verdict == Verdict.WORSE:
            yield Statement(
                "equal-loss-unknown",
                "Tokens to equal loss are not known: more than twice those of bf16, or "
                "bf16's loss no longer falls.",
            )
        return
    tokens = equal.tokens
    message = (
        f"For equal loss FP8 needs {tokens.value:.3f} times the tokens "
        f"({tokens.low:.3f} to {tokens.high:.3f}"
        f"{'' if equal.with_seeds else '; another seed may differ more'})"
    )
    if equal.time is None or equal.speed is None:
        yield Statement(
            "tokens-to-equal-loss",
            f"{message}. Time to equal loss is not known: a run does not log "
            "its speed.",
            {"tokens": tokens._asdict()},
        )
        return
    time = equal.time
    speed = _more(equal.speed).replace("less", "fewer")
    became = (
        "FP8 and bf16 have the same tokens/s, so the time follows the tokens"
        if abs(equal.speed - 1) < SAME_SPEED
        else f"{speed} tokens/s became {_more(time.value)} time to equal loss "
        f"({_more(time.low)} to {_more(time.high)})"
    )
    yield Statement(
        "time-to-equal-loss",
        f"{became}. {message}.",
        {"tokens": tokens._asdict(), "time": time._asdict(), "speed": equal.speed},
    )


def _more(ratio: float) -> str:
    """Return a ratio as ``5.0 % more`` or ``5.0 % less``."""
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio >= 1 else 'less'}"


def _norms(result: Comparison) -> Iterator[Statement]:
    norms = result.norms
    if norms is None and len(result.aligned):
        yield Statement("no-gradient-norms", "Not all runs log gradient norms.")
    elif norms is not None and norms.chance <= SPIKES_UNLIKELY:
        yield Statement(
            "more-spikes",
            f"FP8's gradient norm spikes {norms.spikes[0]} times, bf16's "
            f"{norms.spikes[1]} times in {len(result.bf16)} run"
            f"{'s' * (len(result.bf16) > 1)}.",
            {"fp8": norms.spikes[0], "bf16": norms.spikes[1], "chance": norms.chance},
        )


def _support(result: Comparison) -> Iterator[Statement]:
    """Say what the length of the runs can support."""
    gap = result.gap
    if result.verdict in (Verdict.DIVERGED, Verdict.WORSE) or result.reason in _WHY:
        return
    if gap is not None and math.isfinite(gap.visible):
        share = gap.visible / gap.bf16
        yield Statement(
            "visible-gap",
            f"A gap below {100 * share:.2f} % of the loss would often be missed here.",
            {"relative": share},
        )
    tokens = result.tokens
    if tokens is None or tokens < PROVEN_TOKENS:
        steps = min(run.curve.step[-1] for run in result.runs)
        length = f"{amount(tokens)} tokens" if tokens else f"{steps:,.0f} steps"
        yield Statement(
            "short-runs",
            f"Equal loss over {length} does not prove convergence: FP8 was seen to "
            "diverge after 200B tokens (arXiv 2409.12517).",
            {"tokens": tokens, "steps": steps},
        )


def _settles(result: Comparison) -> Iterator[Statement]:
    """Say what would settle an inconclusive comparison."""
    gap = result.gap
    if result.verdict != Verdict.INCONCLUSIVE:
        return
    if result.reason == "seeds":
        count = SEEDS - len(result.bf16)
        yield Statement(
            "run-more-seeds",
            f"{count} more bf16 run{'s' * (count > 1)} with other seeds would show how "
            "far seeds differ; `--seed-spread` gives it if you know it.",
            {"bf16_runs": count},
        )
    elif result.reason == "more-seeds":
        yield Statement(
            "run-more-seeds",
            "More runs with other seeds would settle it, of FP8 too "
            "(`--label fp8` for each).",
        )
    elif result.reason == "noise" and gap is not None:
        half = gap.steps.high - gap.steps.value
        factor = (half / gap.margin) ** 2
        same = (
            ""
            if result.aligned.same_data
            else " Runs on the same data in the same order differ less."
        )
        yield Statement(
            "run-longer",
            f"{_times_as_many(factor)} as many logged steps would settle it.{same}",
            {"times": factor},
        )
    elif result.reason in ("few-steps", "no-overlap"):
        yield Statement(
            "log-more-often",
            "Log the loss more often, or train both runs longer, over the same steps.",
        )


def _times_as_many(factor: float) -> str:
    """Return how many times as many steps in words; large numbers are no advice."""
    if factor > MOST_TIMES:
        return f"More than {MOST_TIMES} times"
    return f"About {max(2, math.ceil(factor))} times"


def _alignment(result: Comparison) -> Iterator[Statement]:
    aligned = result.aligned
    if aligned.unit == "steps":
        yield Statement(
            "aligned-by-steps",
            "Not every run shows its tokens per step: aligned by steps, which is right "
            "only if all have the same batch.",
        )
    if (gap := result.gap) and gap.fp8_range > FP8_RANGE * max(gap.spread, gap.margin):
        share = gap.fp8_range / gap.bf16
        yield Statement(
            "fp8-runs-differ",
            f"The FP8 runs differ by {100 * share:.2f} %, which the interval does not "
            "count. Compare each with bf16 by itself.",
            {"relative": share},
        )
    if aligned.other_batch:
        sizes = [run.tokens_per_step or 0.0 for run in result.runs]
        yield Statement(
            "other-batch",
            f"Tokens per step differ, from {min(sizes):,.0f} to {max(sizes):,.0f}: "
            "aligned by tokens, but another batch learns differently.",
            {"tokens_per_step": sizes},
        )
    if aligned.same_data is False:
        yield Statement(
            "other-data",
            "The losses do not go up and down together: FP8 and bf16 saw other data or "
            "another order of it.",
        )
    ends = [run.curve.step[-1] * (run.tokens_per_step or 1) for run in result.runs]
    if len(aligned) and aligned.unit == "tokens" and min(ends) < MIN_SHARE * max(ends):
        yield Statement(
            "other-length",
            f"Compared up to {amount(aligned.places[-1])} tokens; the longest run has "
            f"{amount(max(ends))}.",
            {"compared": aligned.places[-1], "longest": max(ends)},
        )


def _run(run: Run) -> Iterator[Statement]:
    """Say what is special of one run."""
    path = plain(run.path)
    if run.starts > 1:
        yield Statement(
            "restarts",
            f"{path}: {run.starts} starts; {run.repeated} logged steps were repeated, "
            "the later ones count.",
            {"path": run.path, "starts": run.starts, "repeated": run.repeated},
        )
    if bad := run.not_finite:
        yield Statement(
            "not-finite",
            f"{path}: {len(bad)} logged step{'s' * (len(bad) > 1)} with a loss of NaN "
            f"or infinity, the first at step {bad[0]:,.0f}.",
            {"path": run.path, "steps": len(bad), "first": bad[0]},
        )
    if run.ended is False:
        yield Statement("not-ended", f"{path}: the run stopped before its end.")
    if run.cut:
        yield Statement("cut", f"{path}: not read to its end: {plain(run.cut)}.")


def _scales(result: Comparison) -> Iterator[Statement]:
    """Say what is known of values lost in FP8."""
    scales = [scale for run in result.fp8 for scale in run.scales]
    if not scales:
        yield Statement(
            "no-fp8-statistics",
            "No FP8 run here logs overflow or underflow: torchao logs none, "
            "Transformer Engine does with its debug tools.",
        )
    worst = sorted(scales, key=lambda scale: -scale.value)[:SHOWN_SCALES]
    for scale in worst:
        yield Statement(
            "fp8-statistics",
            f"{plain(scale.layer)}, {scale.tensor}: {scale.statistic} "
            f"{scale.value:.3g} (highest {scale.highest:.3g}).",
            scale._asdict(),
        )
