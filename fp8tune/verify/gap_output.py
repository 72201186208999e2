"""Print a comparison of runs, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fp8tune.verify.gap import Comparison, Interval, Verdict, speed_ratio
from fp8tune.verify.gap_findings import amount, between, findings, percent, relative
from fp8tune.verify.runs import Run
from fp8tune.words import aligned, column_widths, plain, wrapped

EXIT_CODES = {
    Verdict.SAME: 0,
    Verdict.BETTER: 0,
    Verdict.WORSE: 1,
    Verdict.DIVERGED: 1,
    Verdict.INCONCLUSIVE: 3,
}
ABSENT = "-"
Row = tuple[str, str, str, str]


def text(result: Comparison, width: int = 0) -> Iterator[str]:
    """Yield the comparison in lines, of at most ``width`` unless that is 0."""
    first, *others = findings(result)
    yield f"verdict: {result.verdict}"
    yield from _lines(first.message, width)
    for table in (
        [("", "source", "steps", "tokens"), *run_rows(result)],
        [("at the end", "FP8", "bf16", "FP8 / bf16"), *figures(result)],
    ):
        yield ""
        widths = column_widths(table, width)
        for row in table:
            yield from aligned(row, widths, wraps=bool(width))
    yield ""
    for finding in others:
        yield from _lines(finding.message, width)


def _lines(message: str, width: int) -> list[str]:
    return wrapped(message, width) if width else [message]


def figures(result: Comparison) -> list[Row]:
    """Return the figures of both sides, and FP8's over bf16's."""
    rows: list[Row] = []
    gap, norms, equal = result.gap, result.norms, result.equal
    if gap:
        share = relative(gap, gap.total)
        ratio = f"{percent(share.value)} ({between(share)})"
        rows.append(("loss", f"{gap.fp8:.4f}", f"{gap.bf16:.4f}", ratio))
    if norms:
        ratio = f"{norms.fp8 / norms.bf16:.3f}" if norms.bf16 else ABSENT
        rows.append(("gradient norm", f"{norms.fp8:.3g}", f"{norms.bf16:.3g}", ratio))
        spikes = tuple(map(str, norms.spikes))
        rows.append(("gradient spikes", spikes[0], spikes[1], ABSENT))
    sides = [_speeds(runs) for runs in (result.fp8, result.bf16)]
    ratio_of_speeds = speed_ratio(result.fp8, result.bf16)
    speed = f"{ratio_of_speeds:.3f}" if ratio_of_speeds else ABSENT
    if ABSENT not in sides:
        rows.append(("tokens/s", sides[0], sides[1], speed))
    if equal and result.verdict != Verdict.DIVERGED:
        rows.append(("tokens to equal loss", "", "", _times(equal.tokens)))
        if equal.time:
            rows.append(("time to equal loss", "", "", _times(equal.time)))
    return rows


def _times(value: Interval) -> str:
    return f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})"


def _speeds(runs: tuple[Run, ...]) -> str:
    values = [run.tokens_per_second for run in runs if run.tokens_per_second]
    return f"{sum(values) / len(values):,.0f}" if values else ABSENT


def run_rows(result: Comparison) -> list[Row]:
    """Return a row for each run: its name, source, steps and tokens."""
    return list(map(_run, _named(result)))


def _named(result: Comparison) -> list[tuple[str, Run]]:
    return [
        *(("FP8", run) for run in result.fp8),
        *(("bf16", run) for run in result.bf16),
    ]


def _run(named: tuple[str, Run]) -> Row:
    name, run = named
    steps = f"{run.curve.step[0]:,.0f} to {run.curve.step[-1]:,.0f}"
    size = run.tokens_per_step
    tokens = amount(run.curve.step[-1] * size) if size else "unknown"
    return f"{name}: {plain(run.path)}", run.source, steps, tokens


def as_json(result: Comparison) -> dict[str, Any]:
    """Return the comparison as one object."""
    gap, equal, norms = result.gap, result.equal, result.norms
    return {
        "version": 1,
        "verdict": str(result.verdict),
        "why": result.reason,
        "runs": [
            {
                "path": run.path,
                "precision": name.lower(),
                "source": run.source,
                "files": run.files,
                "steps": len(run.curve),
                "last_step": run.curve.step[-1],
                "tokens_per_step": run.tokens_per_step,
                "tokens_per_second": run.tokens_per_second,
                "step_s": run.step_s,
                "starts": run.starts,
            }
            for name, run in _named(result)
        ],
        "aligned_by": result.aligned.unit,
        "same_data": result.aligned.same_data,
        "loss": gap
        and {
            "fp8": gap.fp8,
            "bf16": gap.bf16,
            "gap": _interval(relative(gap, gap.total)),
            "gap_of_these_runs": _interval(relative(gap, gap.steps)),
            "seed_spread": gap.spread / gap.bf16,
            "seed_spread_assumed": gap.assumed,
            "visible_gap": _finite(gap.visible / gap.bf16),
        },
        "tokens_to_equal_loss": equal and _interval(equal.tokens),
        "time_to_equal_loss": equal and equal.time and _interval(equal.time),
        "speed": speed_ratio(result.fp8, result.bf16),
        "gradient_norm": norms
        and {"fp8": norms.fp8, "bf16": norms.bf16, "spikes": list(norms.spikes)},
        "diverged_at": result.diverged_at,
        "findings": [
            {"code": one.code, "message": one.message, **one.numbers}
            for one in findings(result)
        ],
    }


def _interval(value: Interval) -> dict[str, float | None]:
    return {name: _finite(part) for name, part in value._asdict().items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
