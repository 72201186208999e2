"""Evaluate the loss runs at an FP8 setting: verdict, warmup to propose, sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fp8tune.search.losses.compare import (
    MAX_SEEDS,
    SEEDS,
    Comparison,
    CurvePair,
    LossCurve,
    LossVerdict,
    compare,
    loss_curve,
)
from fp8tune.trials.space import Point, Space
from fp8tune.trials.trial import Trial
from fp8tune.words import counted

WARMUP_PAIRS = 2
"""Pairs of runs at a warmup other than the config's, where FP8 does not diverge."""
WORDS = {
    LossVerdict.INSIDE: "inside the spread",
    LossVerdict.INCONCLUSIVE: "inconclusive",
    LossVerdict.OUTSIDE: "outside the spread",
    LossVerdict.DIVERGED: "diverged",
}
"""A verdict on a warmup in words."""
LIMITS = (
    "a run this short can show that FP8 fails, not that it converges: FP8 has been "
    "seen to diverge only after about 200B tokens (arXiv 2409.12517)"
)
PUBLISHED = "published FP8 runs warm up over 200 to 2000 steps"
"""torchtitan's Llama 3 configs with float8 sections (v0.2.2): 200 for 8B and 70B, 600
for 405B. DeepSeek-V3 (arXiv 2412.19437): 2000. See rules/stability/no-warmup.toml."""


class Stability(NamedTuple):
    """The comparison of losses at an FP8 setting, from all its loss runs.

    ``tested`` is at the config's warmup, or at the longest one that fits in a run. In
    the latter case, if a run diverged, ``first_steps`` is over the config's own first
    steps. ``others`` are other warmups; ``proposed_warmup`` is the shortest of all that
    stays inside the spread, ``None`` if none does. ``tokens`` is the number of tokens
    of one run. ``is_of_search`` says that the search changed numerics: the setting is
    not the config's own.
    """

    tested: Comparison
    first_steps: Comparison | None
    config_warmup: int
    may_change_warmup: bool
    others: tuple[Comparison, ...] = ()
    proposed_warmup: int | None = None
    tokens: int = 0
    synthetic_data: bool = False
    is_of_search: bool = False

    @property
    def verdict(self) -> LossVerdict:
        """The verdict on FP8 as the config would run it."""
        return LossVerdict.INCONCLUSIVE if self.may_diverge else self.decisive.verdict

    @property
    def decisive(self) -> Comparison:
        """The comparison that gives the verdict."""
        first = self.first_steps
        return first if first and first.verdict == LossVerdict.DIVERGED else self.tested

    @property
    def is_cut(self) -> bool:
        """Whether runs had a shorter warmup because the config's did not fit."""
        return self.tested.warmup_steps < self.config_warmup

    @property
    def pairs_needed(self) -> int:
        """The number of pairs that another warmup needs: at least all that diverged."""
        diverged = self.tested.verdict == LossVerdict.DIVERGED
        return self.tested.seeds if diverged else WARMUP_PAIRS

    @property
    def may_diverge(self) -> bool:
        """Whether FP8 diverged, but in too few runs or only with a shorter warmup."""
        result = self.decisive
        if result.verdict == LossVerdict.DIVERGED:
            return result.warmup_steps < self.config_warmup
        fp8, bf16 = result.diverged
        return result.verdict == LossVerdict.INCONCLUSIVE and fp8 > 0 == bf16

    @property
    def rejects(self) -> bool:
        """Whether the setting must not be chosen: FP8 diverges.

        Numerics that the search changed must not leave the spread either.
        """
        if self.verdict == LossVerdict.OUTSIDE:
            return self.is_of_search
        return self.verdict == LossVerdict.DIVERGED and self.warmup_to_write is None

    @property
    def loss_gap(self) -> float:
        """FP8's loss beyond the spread of bf16 seeds, relative; 1 if it diverged.

        At most 0 if the runs do not show that FP8 is outside the spread.
        """
        gap = self.decisive.gap - self.decisive.spread
        if self.verdict == LossVerdict.DIVERGED:
            return 1.0
        return gap if self.verdict == LossVerdict.OUTSIDE else min(gap, 0.0)

    @property
    def warmup_to_write(self) -> int | None:
        """The proposed warmup (it may be the config's own) if it may be written."""
        may_write = self.may_change_warmup and not self.is_cut
        return self.proposed_warmup if may_write else None


def stability_by_setting(
    space: Space, trials: Sequence[Trial], baseline: Point = ()
) -> dict[Point, Stability]:
    """Return the comparison at each FP8 setting, in the order of the first runs."""
    results = {}
    for point, curves in curves_by_setting(space, trials).items():
        if result := assess(curves):
            last = loss_trials(space, trials, point)[-1].record
            results[point] = result._replace(
                tokens=last.tokens_per_step * curves[0].loss_run.steps,
                synthetic_data=last.synthetic_data is True,
                is_of_search=bool(baseline)
                and loss_key(space, point) != loss_key(space, baseline),
            )
    return results


def curves_by_setting(
    space: Space, trials: Sequence[Trial]
) -> dict[Point, list[LossCurve]]:
    """Return the complete loss runs, by the FP8 setting that they compare.

    Runs in bf16 belong to every FP8 setting that differs from them in FP8 alone.
    """
    found = {
        point: curves_at(space, trials, point) for point in compared(space, trials)
    }
    return {point: curves for point, curves in found.items() if curves}


def compared(space: Space, trials: Sequence[Trial]) -> list[Point]:
    """Return the FP8 settings of loss runs, in the order of their first runs."""
    ran = [space.point(t.record.knobs) for t in trials if t.stage == "stability"]
    in_fp8 = (point for point in ran if space.value(point, "precision") == "fp8")
    return [*dict.fromkeys(in_fp8)]


def loss_trials(space: Space, trials: Sequence[Trial], point: Point) -> list[Trial]:
    """Return the loss runs at an FP8 setting, and those of its bf16 counterpart."""
    both = point, space.in_precision(point, "bf16")
    every = (trial for trial in trials if trial.stage == "stability")
    return [trial for trial in every if space.point(trial.record.knobs) in both]


def curves_at(space: Space, trials: Sequence[Trial], point: Point) -> list[LossCurve]:
    """Return the complete loss runs that compare an FP8 setting with bf16."""
    found = []
    for trial in loss_trials(space, trials, point):
        precision = str(space.value(space.point(trial.record.knobs), "precision"))
        if curve := loss_curve(trial.record, precision):
            found.append(curve)
    return found


def loss_key(space: Space, point: Point) -> Point:
    """Return the part of a setting that changes losses."""
    pairs = zip(space.knobs, point, strict=True)
    return tuple(index for knob, index in pairs if not knob.traits.learns_alike)


def assess(curves: Sequence[LossCurve]) -> Stability | None:
    """Return the comparison of one setting's runs; ``None`` without a pair."""
    by_warmup = pairs_by_warmup(curves)
    run = curves[0].loss_run if curves else None
    if run is None or run.warmup_steps not in by_warmup:
        return None
    pairs = by_warmup.pop(run.warmup_steps)
    first = by_warmup.pop(run.config_warmup_steps, ())
    start = compare(first) if first else None
    config = run.config_warmup_steps, run.may_change
    result = Stability(compare(pairs), start, *config)
    seeds = [bf16 for _, bf16 in pairs]
    others = tuple(
        _other_warmup(own, seeds, result.pairs_needed) for own in by_warmup.values()
    )
    every = (result.tested, *others)
    inside = [c.warmup_steps for c in every if c.verdict == LossVerdict.INSIDE]
    return result._replace(others=others, proposed_warmup=min(inside, default=None))


def _other_warmup(
    pairs: Sequence[CurvePair], bf16_seeds: Sequence[LossCurve], needed: int
) -> Comparison:
    """Compare at another warmup, which must not make bf16 itself worse."""
    result = compare(pairs, bf16_seeds, needed)
    by_seed = {curve.loss_run.seed: curve for curve in bf16_seeds}
    both = [(bf16, by_seed.get(bf16.loss_run.seed)) for _, bf16 in pairs]
    known = [(other, own) for other, own in both if own]
    if result.verdict != LossVerdict.INSIDE or not known:
        return result
    if compare(known, bf16_seeds, needed).verdict == LossVerdict.INSIDE:
        return result
    return result._replace(verdict=LossVerdict.INCONCLUSIVE)


def pairs_by_warmup(curves: Sequence[LossCurve]) -> dict[int, list[CurvePair]]:
    """Return FP8 and bf16 of the same seed, by warmup; both in ascending order."""
    fp8, bf16 = (
        {
            (c.loss_run.warmup_steps, c.loss_run.seed): c
            for c in curves
            if c.precision == p
        }
        for p in ("fp8", "bf16")
    )
    pairs: dict[int, list[CurvePair]] = {}
    for warmup, seed in sorted(fp8.keys() & bf16.keys()):
        pair = fp8[warmup, seed], bf16[warmup, seed]
        pairs.setdefault(warmup, []).append(pair)
    return pairs


def lines(result: Stability) -> Iterator[str]:
    """Yield the lines at the end of a search."""
    yield f"stability: {verdict_line(result)}"
    yield from warmup_lines(result)
    data = " of synthetic data" * result.synthetic_data
    seen = f"; each run saw {_tokens(result.tokens)}{data}" if result.tokens else ""
    yield f"{LIMITS}{seen}"


def verdict_line(result: Stability) -> str:
    """Return the verdict and its evidence in one line."""
    tested, first = result.decisive, result.first_steps
    where = f"{tested.steps} steps, warmup {tested.warmup_steps}"
    if tested is first:
        where = f"the config's first {where}"
    elif result.is_cut:
        where += f" of the config's {result.config_warmup}"
    text = f"{_outcome(tested)} ({where})"
    if not any(tested.diverged) or result.verdict == LossVerdict.DIVERGED:
        return text
    why = _cause(*tested.diverged)
    if result.is_cut:
        why = "the config's own first steps were not run"
        if first:
            why = f"in the config's first {first.steps} steps {_outcome(first)}"
    return f"inconclusive: {text}; {why}"


def _outcome(tested: Comparison) -> str:
    """Return the result of one comparison in words."""
    if any(tested.diverged):
        return f"FP8 diverged in {_diverged(tested)}"
    if tested.verdict == LossVerdict.OUTSIDE:
        text = "FP8 is outside the spread of bf16 seeds"
    elif tested.verdict == LossVerdict.INSIDE:
        high = tested.interval[1] if tested.interval else math.inf
        weak = f", as far as {tested.seeds} seeds can show" * (high > tested.spread)
        text = f"FP8 stays inside the spread of bf16 seeds{weak}"
    elif tested.seeds < SEEDS:
        text = f"inconclusive: only {tested.seeds} of {SEEDS} seeds were run"
    else:
        most = f" of at most {MAX_SEEDS}" * (tested.seeds < MAX_SEEDS)
        text = f"inconclusive: {tested.seeds}{most} seeds are too few to tell"
    return f"{text}: {evidence(tested)}"


def evidence(tested: Comparison) -> str:
    """Return loss gap, spread, gradient spikes and number of seeds."""
    parts = [f"loss {100 * tested.gap:+.2f} %"]
    if tested.interval:
        low, high = (100 * share for share in tested.interval)
        parts[0] += f" ({low:+.2f} to {high:+.2f})"
    if tested.spread:
        parts.append(f"bf16 seeds differ by {100 * tested.spread:.2f} %")
    if tested.spikes is not None:
        fp8, bf16 = tested.spikes
        spikes = f"{counted(fp8, 'gradient spike')}, {bf16} in bf16"
        parts.append(spikes if fp8 or bf16 else "no gradient spike")
    return f"{', '.join(parts)}, {counted(tested.seeds, 'seed')}"


def _cause(fp8: int, bf16: int) -> str:
    """Return why this many diverged runs do not prove a fault of FP8."""
    if not bf16:
        return f"{counted(fp8, 'run')} may be chance"
    if not fp8:
        return "the learning rate may be too high for bf16: no evidence about FP8"
    return "the learning rate may be too high for both"


def warning(result: Stability | None) -> str:
    """Return a warning that FP8 may diverge, and how to find out; else ``""``."""
    if result is None or not result.may_diverge:
        return ""
    tested, warmup = result.tested, result.config_warmup
    why, train = "which may be chance", "with other seeds"
    if tested.verdict == LossVerdict.DIVERGED:
        steps = tested.warmup_steps
        why = f"with a warmup of {steps} steps (runs are too short for your {warmup})"
        train = f"past step {max(warmup, tested.steps)}"
    return (
        f"FP8 may diverge: it did in {_diverged(tested)}, {why}; before a long run "
        f"train {train} in FP8 and in bf16, and compare the losses"
    )


def warmup_lines(result: Stability) -> Iterator[str]:
    """Yield the results of other warmups, and which warmup is proposed."""
    best, warmup = result.proposed_warmup, result.config_warmup
    others = result.others
    tried = ", ".join(f"{c.warmup_steps} steps {WORDS[c.verdict]}" for c in others)
    if result.verdict == LossVerdict.INCONCLUSIVE or best == 0 == warmup:
        return
    if result.is_cut:
        if result.verdict != LossVerdict.DIVERGED:
            steps = result.tested.steps
            yield f"warmup: runs of {steps} steps are too short to test {warmup}"
    elif best is None:
        more = f" ({tried})" if tried else ""
        yield f"warmup: none tried stays inside the spread{more}"
    elif best == warmup:
        shorter = any(c.warmup_steps < best for c in result.others)
        why = f"stayed inside the spread ({tried})" if shorter else "was tried"
        yield f"warmup: {best} steps, as in your config: no shorter one {why}"
    else:
        free = result.may_change_warmup
        how = "proposed and written" if free else "proposed, not written"
        typed = "" if free else "; --allow warmup writes it"
        short = f"; {PUBLISHED}" if best < min(200, warmup) else ""
        seen = f" (tried: {tried})" if tried else ""
        yield f"warmup: {best} steps {how}{seen}{typed}{short}"


def change(result: Stability) -> tuple[int, str] | None:
    """Return the warmup to write and why; ``None`` to keep the config's."""
    best, warmup = result.warmup_to_write, result.config_warmup
    if best is None or best == warmup:
        return None
    why = "the shortest tried in which FP8 stays inside the bf16 spread"
    return best, f"{warmup} -> {best}: {why}"


def as_json(
    result: Stability | None, not_checked: str, two_models: str = ""
) -> dict[str, Any] | None:
    """Return the comparison as JSON.

    ``not_checked`` says why it is missing or unfinished, ``two_models`` that FP8 and
    bf16 are different models.
    """
    if result is None:
        return {"verdict": None, "why": not_checked} if not_checked else None
    first = result.first_steps
    return {
        **_as_json(result.tested),
        "verdict": result.verdict,
        "why": not_checked or verdict_line(result),
        "evidence": verdict_line(result),
        "compared_warmup_steps": result.decisive.warmup_steps,
        "config_warmup_steps": result.config_warmup,
        "proposed_warmup_steps": None if result.is_cut else result.proposed_warmup,
        "other_warmups": [_as_json(other) for other in result.others],
        "first_steps": _as_json(first) if first else None,
        "tokens": result.tokens,
        "synthetic_data": result.synthetic_data,
        "limits": f"{LIMITS}; {two_models}" if two_models else LIMITS,
    }


def _as_json(tested: Comparison) -> dict[str, Any]:
    low, high = tested.interval or (0.0, 0.0)
    interval = {"low": round(low, 6), "high": round(high, 6)}
    return {
        "verdict": tested.verdict,
        "warmup_steps": tested.warmup_steps,
        "steps": tested.steps,
        "seeds": tested.seeds,
        "loss_gap": round(tested.gap, 6),
        "loss_gap_interval": interval if tested.interval else None,
        "seed_spread": round(tested.spread, 6),
        "spikes": tested.spikes
        and dict(zip(("fp8", "bf16"), tested.spikes, strict=True)),
        "diverged": dict(zip(("fp8", "bf16"), tested.diverged, strict=True)),
    }


def _diverged(tested: Comparison) -> str:
    fp8, bf16 = tested.diverged
    return f"{fp8} of {counted(tested.seeds, 'seed')}, bf16 in {bf16}"


def _tokens(count: int) -> str:
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.3g}{name} tokens"
    return f"{count} tokens"
