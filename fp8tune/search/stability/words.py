"""What a comparison says, in sentences: the verdict, the warmup, and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fp8tune.search.stability.compare import (
    DIVERGED,
    INCONCLUSIVE,
    INSIDE,
    MOST_SEEDS,
    OUTSIDE,
    SEEDS,
    Compared,
)
from fp8tune.search.stability.finding import Finding

LIMITS = (
    "so short a run can show that FP8 goes wrong, not that it converges: FP8 was seen "
    "to diverge only after about 200B tokens (arXiv 2409.12517)"
)
PUBLISHED = "published FP8 runs warm up over 200 to 2000 steps"
"""torchtitan's Llama 3 configs with float8 sections (v0.2.2): 200 for 8B and 70B, 600
for 405B. DeepSeek-V3 (arXiv 2412.19437): 2000. See rules/stability/no-warmup.toml."""


def sentences(found: Finding, key: str) -> Iterator[str]:
    """The lines at a search's end; ``key`` is the config's name of the warmup."""
    yield f"stability: {verdict(found)}"
    yield from warmup(found, key)
    data = " of made-up text" if found.made_up else ""
    seen = f"; each run saw {_tokens(found.tokens)}{data}" if found.tokens else ""
    yield f"{LIMITS}{seen}"


def verdict(found: Finding) -> str:
    """One line: how FP8 learns beside bf16, and by what evidence."""
    tested = found.decisive
    if tested is found.start:
        where = f"the config's first {tested.steps} steps, warmup {found.given_warmup}"
        return f"FP8 diverged in {_lost(tested)} ({where})"
    where = f"{tested.steps} steps, warmup {tested.warmup_steps}"
    if found.harsher:
        where += f" (a run holds no more; the config's is {found.given_warmup})"
    seeds = _count(tested.seeds, "seed")
    if tested.verdict == DIVERGED and not found.harsher:
        return f"FP8 diverged in {_lost(tested)} ({where})"
    if any(tested.diverged):
        lost = f"inconclusive: FP8 diverged in {_lost(tested)} ({where})"
        return (
            f"{lost}; {_begin(found)}" if found.harsher else f"{lost}: {_why(tested)}"
        )
    return f"{_held(tested)}: {evidence(tested)} ({where}, {seeds})"


def _held(tested: Compared) -> str:
    """FP8 beside the spread of bf16 seeds, where nothing diverged."""
    high = tested.interval[1] if tested.interval else math.inf
    told = f" as far as {tested.seeds} tell" * (high > tested.spread)
    return {
        INSIDE: f"FP8 stays inside the spread of bf16 seeds{told}",
        OUTSIDE: "FP8 is outside the spread of bf16 seeds",
        INCONCLUSIVE: f"inconclusive: {_why_unsure(tested)}",
    }[tested.verdict]


def _lost(tested: Compared) -> str:
    fp8, bf16 = tested.diverged
    return f"{fp8} of {_count(tested.seeds, 'seed')}, bf16 in {bf16}"


def _begin(found: Finding) -> str:
    """What came of the config's own first steps."""
    start = found.start
    if start is None:
        return "the config's own first steps were not run"
    where = f"in the config's first {start.steps} steps"
    if any(start.diverged):
        return f"{where} in {_lost(start)}"
    seeds = _count(start.seeds, "seed")
    return f"{where} {_held(start)}: {evidence(start)} ({seeds})"


def _why(tested: Compared) -> str:
    """Why runs that diverged tell nothing of FP8."""
    fp8, bf16 = tested.diverged
    if fp8 and bf16:
        return "the learning rate may be too high for both"
    if bf16:
        return "nothing against FP8, the learning rate may be too high for bf16"
    return f"{_count(fp8, 'run')} may be chance"


def doubt(found: Finding | None) -> str:
    """That FP8 may diverge where no run can tell, and what to do; else ``""``."""
    if found is None or not found.doubtful:
        return ""
    tested, given = found.tested, found.given_warmup
    if tested.verdict != DIVERGED:
        return (
            f"FP8 may diverge: it did in {_lost(tested)}, which may be chance: before "
            "a long run train both once more with other seeds, and compare the losses"
        )
    return (
        f"FP8 may diverge: with a warmup of {tested.warmup_steps} steps it did in "
        f"{_lost(tested)}; yours, {given}, is longer than a trial holds: before a long "
        f"run train past step {max(given, tested.steps)} in FP8 and in bf16, and "
        "compare the losses"
    )


def _why_unsure(tested: Compared) -> str:
    if tested.seeds < SEEDS:
        return f"only {tested.seeds} of {SEEDS} seeds were run"
    more = f" of at most {MOST_SEEDS}" * (tested.seeds < MOST_SEEDS)
    return f"{tested.seeds}{more} seeds do not tell"


def evidence(tested: Compared) -> str:
    """Gap, spread and spikes.

    Such as ``loss +0.12 % (-0.05 to +0.29), bf16 seeds differ by 0.30 %, no gradient
    spike``.
    """
    fp8, bf16 = tested.spikes
    spikes = f"{_count(fp8, 'gradient spike')}, {bf16} in bf16" if fp8 or bf16 else ""
    spread = (
        f", bf16 seeds differ by {100 * tested.spread:.2f} %" if tested.spread else ""
    )
    low, high = (100 * share for share in tested.interval or (0.0, 0.0))
    known = f" ({low:+.2f} to {high:+.2f})" if tested.interval else ""
    gap = f"loss {_percent(tested.gap)}"
    return f"{gap}{known}{spread}, {spikes or 'no gradient spike'}"


def warmup(found: Finding, key: str) -> Iterator[str]:
    """What other warmups did, and which is proposed."""
    if found.verdict == INCONCLUSIVE:
        return
    if found.harsher and found.verdict == DIVERGED:
        return
    if found.harsher:
        steps = found.tested.steps
        yield f"warmup: runs of {steps} steps tell nothing of {found.given_warmup}"
        return
    tried = ", ".join(f"{c.warmup_steps} {c.verdict}" for c in found.others)
    best = found.proposed
    if best is None:
        more = f" ({tried})" if tried else ""
        yield f"warmup: none that was tried stays inside the spread{more}"
    elif best == found.given_warmup:
        shorter = any(other.warmup_steps < best for other in found.others)
        said = f"seen to stay inside ({tried})" if shorter else "tried"
        if best:  # without a warmup there is no shorter one
            yield f"warmup: {best} steps, the config's, stays: no shorter was {said}"
    else:
        how = "proposed and written" if found.free else "proposed, not written"
        typed = "" if found.free else "; --allow warmup writes it"
        short = f"; {PUBLISHED}" if best < min(200, found.given_warmup) else ""
        yield f"warmup: {key} = {best} {how} ({tried}){typed}{short}"


def change(found: Finding) -> tuple[int, str] | None:
    """The warmup to write, if one was asked for and differs, and why."""
    best = found.proposed
    if not found.free or found.harsher or best in (None, found.given_warmup):
        return None
    assert best is not None
    why = "the shortest tried in which FP8 stays inside the bf16 spread"
    return best, f"{found.given_warmup} -> {best}: {why}"


def as_json(found: Finding | None, why: str, untied: str = "") -> dict[str, Any] | None:
    """The comparison for programs; ``why`` says why there is none.

    ``untied`` says that it is of different models, if it is.
    """
    if found is None:
        return {"verdict": None, "why": why} if why else None
    return {
        "verdict": found.verdict,
        "why": why or verdict(found),
        **_plain(found.tested),
        "config_warmup_steps": found.given_warmup,
        "proposed_warmup_steps": None if found.harsher else found.proposed,
        "other_warmups": [
            {"verdict": other.verdict, **_plain(other)} for other in found.others
        ],
        "first_steps": found.start
        and {"verdict": found.start.verdict, **_plain(found.start)},
        "tokens": found.tokens,
        "synthetic_data": found.made_up,
        "limits": "; ".join(filter(None, (LIMITS, untied))),
    }


def _plain(tested: Compared) -> Mapping[str, Any]:
    return {
        "warmup_steps": tested.warmup_steps,
        "steps": tested.steps,
        "seeds": tested.seeds,
        "loss_gap": round(tested.gap, 6),
        "loss_gap_interval": tested.interval and _rounded(tested.interval),
        "seed_spread": round(tested.spread, 6),
        "spikes": dict(zip(("fp8", "bf16"), tested.spikes, strict=True)),
        "diverged": dict(zip(("fp8", "bf16"), tested.diverged, strict=True)),
    }


def _rounded(interval: tuple[float, float]) -> Mapping[str, float]:
    return {"low": round(interval[0], 6), "high": round(interval[1], 6)}


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _tokens(count: int) -> str:
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.3g}{name} tokens"
    return f"{count} tokens"
