"""Fresh and started searches in numbers, and a page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks import machine
from benchmarks.search.head_start import Both, Outcome
from benchmarks.search.recording import interval, of_seeds

TUNED = range(60), range(30000, 30100)
"""Seeds that tuning used or saw, see ``NOTE``."""


def summary(found: dict[str, list[Both]], first: int) -> dict[str, Any]:
    """All figures, ready for JSON."""
    said: dict[str, Any] = {"first_seed": first, "cases": {}}
    for name, pairs in found.items():
        sides = {side: [getattr(p, side) for p in pairs] for side in Both._fields}
        chosen = [statistics.fmean(one.chosen for one in sides[s]) for s in sides]
        said["cases"][name] = {
            "landscapes": len(pairs),
            **{side: _means(outcomes) for side, outcomes in sides.items()},
            "chosen_ratio": round(chosen[1] / chosen[0], 4),
            "chosen_difference": _paired(pairs, "chosen"),
            "oom_difference": _paired(pairs, "oom"),
            "minutes_difference": _paired(pairs, "minutes"),
            "fraction_difference": _paired(pairs, "fraction"),
        }
    return said


def _means(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    columns = dict(zip(Outcome._fields, zip(*outcomes, strict=True), strict=True))
    return {
        name: {
            "mean": round(statistics.fmean(values), 4),
            "median": round(statistics.median(values), 4),
        }
        for name, values in columns.items()
    }


def _paired(pairs: Sequence[Both], name: str) -> tuple[float, float, float]:
    return interval([getattr(p.started, name) - getattr(p.fresh, name) for p in pairs])


HEAD = (
    "earlier study",
    "chosen by the search",
    "to 99 %",
    "all trials",
    "out of memory",
    "minutes",
    "fraction",
)


def markdown(said: dict[str, Any]) -> str:
    """The page."""
    cases = said["cases"]
    count = next(iter(cases.values()))["landscapes"]
    rows = [
        (name, *(_change(case, field) for field in Outcome._fields))
        for name, case in cases.items()
    ]
    gaps = [
        (
            name,
            f"{case['chosen_ratio']:.2f}",
            *(
                "{:+.3f} [{:+.3f}, {:+.3f}]".format(*case[f"{field}_difference"])
                for field in ("chosen", "oom", "minutes", "fraction")
            ),
        )
        for name, case in cases.items()
    ]
    lines = [
        "# Starting from an earlier study, on generated landscapes",
        "",
        f"{count} landscapes a row, {of_seeds(said['first_seed'], count, TUNED)}. "
        "Each is searched from nothing and from a finished study of "
        "another landscape: mean of both (median). `chosen by the search` leaves out "
        "the baseline, the bf16 baseline and the confirmation, which every search "
        "runs; `to 99 %` is how many of the chosen it took to measure 99 % of the "
        "optimum.",
        "",
        machine.table(rows, HEAD),
        "",
        "Ratio of the means of chosen trials, and differences, paired over landscapes, "
        "with 95 % bootstrap intervals:",
        "",
        machine.table(
            gaps,
            (
                "earlier study",
                "ratio",
                "chosen",
                "out of memory",
                "minutes",
                "fraction",
            ),
        ),
        "",
        NOTE,
    ]
    return "\n".join(lines)


def _change(case: dict[str, Any], field: str) -> str:
    digits = 3 if field == "fraction" else 1
    values = (case[side][field] for side in Both._fields)
    return " -> ".join(
        f"{one['mean']:.{digits}f} ({one['median']:.{digits}f})" for one in values
    )


NOTE = """\
A near landscape has half to twice the parameters, sequence length and GPUs, the effects
of AC, compile and FP8 within 1 %, and shares seven eighths of its estimate's error. A
misleading one has the same knobs and GPU, but another model, software and errors. Both
were written by the author of the strategy, and nothing here was measured on a GPU. On
seeds 0 to 59 these were compared: how closely two studies may be correlated (five
sets), how likely that is beforehand (three), from when on an earlier study is believed
(four), the gain at which a search ends that believes one (three), and how often an
earlier failure counts (three). Seeds 30000 to 30099 were run before the last of these:
ratios 0.53 and 0.55, answers 0.1 % and 0.0 % lower, misleading ones 0.4 % and 0.1 %.
Once slow trials ended early, and those of an earlier study counted for nothing, the
ratios were 0.70 and 0.70 on the seeds of the table; that they count by the middle of
their bounds was tried on seeds 0 to 19 (0.68 and 0.73 before, 0.47 and 0.54 after)."""
