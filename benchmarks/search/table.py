"""Results in numbers: means, medians, paired bootstrap intervals, and a page."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.machine import table
from benchmarks.search.history import HISTORY
from benchmarks.search.race import Result
from benchmarks.search.recording import of_seeds

TIMES = ("trials_10", "minutes_30", "minutes_60", "minutes_120")
DRAWS = 2000
TARGETS = (
    "median 99 % of the optimum by 60 minutes",
    "at most 3 trials out of memory at the median",
    "ahead of every other strategy at 30 minutes, interval without zero",
    "with an estimate wrong by 25 % at least default TPE",
)
TUNED = range(100), range(1000, 1100)
"""Seeds that tuning used, the latter once."""
RIVALS = 5
"""The strategies after ours that are not variants of it."""


def summary(found: Mapping[str, Sequence[Result]], first: int) -> dict[str, Any]:
    """All figures, ready for JSON."""
    said: dict[str, Any] = {"first_seed": first, "arms": {}, "reached": {}}
    names = list(found)
    for name, results in found.items():
        own = {
            "mean": _each(results, statistics.fmean),
            "median": _each(results, statistics.median),
            "reached_99_percent_in_60_minutes": statistics.fmean(
                result.minutes_60 >= 0.99 for result in results
            ),
            "landscapes": len(results),
        }
        if name != names[0]:
            own["ours_minus_this"] = {
                time: interval(_differences(found[names[0]], results, time))
                for time in (*TIMES, "minutes")
            }
        said["arms"][name] = own
    said["reached"] = _reached(said["arms"], names)
    return said


def _each(results: Sequence[Result], of: Any) -> dict[str, float]:
    columns = zip(*results, strict=True)
    pairs = zip(Result._fields, columns, strict=True)
    return {name: round(float(of(column)), 4) for name, column in pairs}


def _differences(
    ours: Sequence[Result], other: Sequence[Result], time: str
) -> list[float]:
    pairs = zip(ours, other, strict=True)
    return [getattr(a, time) - getattr(b, time) for a, b in pairs]


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval of paired differences."""
    draw = random.Random(1)  # noqa: S311
    count = len(differences)
    means = sorted(
        statistics.fmean(draw.choices(differences, k=count)) for _ in range(DRAWS)
    )
    low, high = means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1]
    return round(statistics.fmean(differences), 4), round(low, 4), round(high, 4)


def _reached(arms: dict[str, Any], names: list[str]) -> dict[str, bool]:
    """Which of the figures to reach were, where the arms for them were run."""
    median = arms[names[0]]["median"]
    rivals = [arms[name] for name in names[1 : RIVALS + 1]]
    ahead = all(rival["ours_minus_this"]["minutes_30"][1] > 0 for rival in rivals)
    reached = dict.fromkeys(TARGETS[:3], True)
    reached[TARGETS[0]] = median["minutes_60"] >= 0.99
    reached[TARGETS[1]] = median["oom_120"] <= 3
    reached[TARGETS[2]] = ahead
    wrong, tpe = (
        arms.get(name)
        for name in ("ours, estimate wrong by 25 %", "TPE, OOM a constraint")
    )
    if wrong and tpe:
        better = (wrong["mean"][time] >= tpe["mean"][time] for time in TIMES)
        reached[TARGETS[3]] = all(better)
    return reached


def markdown(said: dict[str, Any]) -> str:
    """The page."""
    arms = said["arms"]
    count = next(iter(arms.values()))["landscapes"]
    lines = [
        "# Strategies on generated landscapes",
        "",
        f"{count} landscapes, {of_seeds(said['first_seed'], count, TUNED)}. "
        "Mean fraction of the optimum after 10 trials and after 30, 60 and 120 "
        "simulated minutes; share that reached 99 % by 60 minutes; median trials out "
        "of memory by 30 and 120 minutes; median trials and minutes until the end.",
        "",
        "Ours is the whole search at each budget, confirmation included; of the others "
        "what looked best by then counts. Ours starts from the usual effects of AC and "
        "compile and from no estimate of the job, which a real search has; the rows "
        "with an estimate show what one adds, and without warm starts nothing at all "
        "is expected beforehand.",
        "",
        fractions(arms),
        "",
        "Ours minus each, paired over landscapes, with 95 % bootstrap intervals:",
        "",
        gaps(arms),
        "",
        *(
            f"- {'reached' if ok else 'MISSED'}: {t}"
            for t, ok in said["reached"].items()
        ),
        "",
        HISTORY,
    ]
    return "\n".join(lines)


def fractions(arms: dict[str, Any]) -> str:
    """A row for each strategy: how near the optimum it came, and what it took."""
    times = ("10 trials", "30 min", "60 min", "120 min", "P(99 %)")
    head = ("strategy", *times, "OOM 30", "OOM", "trials", "minutes")
    rows = []
    for name, arm in arms.items():
        median = arm["median"]
        rows.append(
            (
                name,
                *(f"{arm['mean'][time]:.3f}" for time in TIMES),
                f"{arm['reached_99_percent_in_60_minutes']:.2f}",
                *(f"{median[key]:.1f}" for key in ("oom_30", "oom_120")),
                *(f"{median[key]:.0f}" for key in ("trials", "minutes")),
            )
        )
    return table(rows, head)


def gaps(arms: dict[str, Any]) -> str:
    """A row for each rival: how far ours is ahead, with intervals."""
    rows = []
    for name, arm in arms.items():
        if "ours_minus_this" in arm:
            gaps = (arm["ours_minus_this"][time] for time in TIMES)
            cells = (
                f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" for mean, low, high in gaps
            )
            spent = arm["ours_minus_this"]["minutes"]
            longer = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*spent)
            rows.append((name, *cells, longer))
    times = ("10 trials", "30 min", "60 min", "120 min", "minutes until the end")
    return table(rows, ("strategy", *times))
