"""Whole searches in simulated time with eight workers, against one.

``python -m benchmarks.search.simulated`` runs each search on generated landscapes
(``tests/support/landscape.py``) of which some trials straggle and some fail.
``--record`` writes ``results/scale_simulated.md`` and ``.jsonl``.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchmarks import machine
from benchmarks.search.budgets import fraction
from benchmarks.search.recording import record
from fp8tune.runners.replay import Replay
from fp8tune.search.coordinator import Search
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial
from tests.support.landscape import World, estimate, world
from tests.support.side_by_side import Simulated

FIRST, COUNT = 720_000, 30
"""Seeds that no tuning used."""
WORKERS = 8
STRAGGLERS, FAILURES = 0.05, 0.05
"""Shares of the trials that take 3 to 10 times as long, and that fail."""
GOOD = 0.995
ENOUGH_SETTINGS, RATE_S = 144, 600.0
"""Settings that a landscape must have to count trials of so many seconds on it: eight
workers would run out of settings on a smaller one."""
AIM, ENOUGH_RATIO = 5, 7
"""The ratios that were aimed at: of the times to a good setting, and of the trials in
the same time."""
ARMS = {
    "estimate wrong by 25 % per cell": ("auto", 0.25),
    "no estimate": ("auto", 0.0),
    "random settings": ("random", 0.0),
}
"""The sampler of each arm, and the error of its estimate (0: none)."""
HEAD = (
    *("search", "n", "to a setting of 0.995 [min], one", "eight", "ratio, median"),
    *("smallest", "largest", "length of one trial, median ratio", "within it"),
    *("settings tried, one", "eight", "twice"),
)
RATE_HEAD = (
    *("search", "n", "trials of one", "of eight", "ratio, median", "smallest"),
    f"at least {ENOUGH_RATIO}",
)


def strained(records: Iterable[Record], seed: int) -> Iterator[Record]:
    """Yield records of which some straggle and some fail by chance."""
    draw = random.Random(seed)  # noqa: S311
    for one in records:
        kind, factor = draw.random(), draw.uniform(3.0, 10.0)
        if kind < STRAGGLERS:
            yield one._replace(cost_s=one.cost_s * factor)
        elif kind > 1 - FAILURES:
            yield Record(one.knobs, "launch", cost_s=one.cost_s / factor)
        else:
            yield one


def searched(place: World, arm: str, workers: int) -> dict[str, Any]:
    """Return what a search of two hours took on some workers."""
    sampler, error = ARMS[arm]
    space, study = place.space, Study(place.space)
    records = strained(place.records(), place.seed)
    runner = Replay(records, space, card_gib=place.capacity_gib)
    prior = estimate(place, error) if error else None
    strategy = Strategy(study, place.given, prior, place.capacity_gib, sampler=sampler)
    pool = Simulated(study, runner, workers)
    found = Search(space, place.given, pool, strategy, study, 7200.0).run()
    trials = [t for t in study.trials if t.stage in ("baseline", "search")]
    good = (t for t in trials if t.record.ok and _fraction(place, t) >= GOOD)
    return {
        "seed": place.seed,
        "arm": arm,
        "workers": workers,
        "settings": len(list(space.points(place.given))),
        "trials": len(trials),
        "trials_in_time": sum(_end(t) <= RATE_S for t in trials),
        "twice": _twice(place, trials),
        "failed": sum(not t.record.ok for t in trials),
        "good_s": round(min(map(_end, good), default=0.0), 1),
        "shortest_good_s": round(_shortest(place), 1),
        "search_s": round(max(map(_end, trials)), 1),
        "answer_s": round(found.seconds, 1),
        "fraction": round(fraction(place, found.chosen), 5),
        "verdict": found.verdict,
    }


def _end(trial: Trial) -> float:
    """Return the search time at which a trial ended [s]."""
    return (trial.at_s or 0.0) + trial.record.cost_s


def _fraction(place: World, trial: Trial) -> float:
    return fraction(place, place.space.point(trial.record.knobs))


def _twice(place: World, trials: Sequence[Trial]) -> int:
    """Count the trials of settings that had a result or ran: retries do not count."""
    kept = [t for t in trials if t.record.outcome not in ("launch", "throttled")]
    counts = Counter(place.space.point(t.record.knobs) for t in kept)
    return sum(count - 1 for count in counts.values())


def _shortest(place: World) -> float:
    """Return how long the shortest trial of a good setting takes [s]."""
    space = place.space
    good = {p for p in space.points(place.given) if fraction(place, p) >= GOOD}
    known = (r for r in place.records() if r.ok and space.point(r.knobs) in good)
    first: dict[Any, float] = {}
    for one in known:
        first.setdefault(space.point(one.knobs), one.cost_s)
    return min(first.values())


def pairs(
    rows: Sequence[dict[str, Any]], arm: str
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the searches of an arm on one worker and on eight, by seed."""
    own = {(row["seed"], row["workers"]): row for row in rows if row["arm"] == arm}
    seeds = dict.fromkeys(seed for seed, _ in own)
    return [(own[seed, 1], own[seed, WORKERS]) for seed in seeds]


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the two tables, and what was aimed at."""
    lines, rates = [], []
    for arm in ARMS:
        both = pairs(rows, arm)
        if ARMS[arm][0] == "auto":
            lines.append((arm, *_figures(both)))
        else:
            large = [
                (max(1, a["trials_in_time"]), b["trials_in_time"]) for a, b in both
            ]
            ratios = [b / a for a, b in large]
            medians = (statistics.median(each) for each in zip(*large, strict=True))
            rates.append(
                (
                    *(arm, str(len(large))),
                    *(f"{value:.0f}" for value in medians),
                    *(f"{statistics.median(ratios):.1f}", f"{min(ratios):.1f}"),
                    f"{sum(r >= ENOUGH_RATIO for r in ratios)} of {len(ratios)}",
                )
            )
    typical = {line[0]: float(line[HEAD.index("ratio, median")]) for line in lines}
    bound = lines[0][HEAD.index("length of one trial, median ratio")]
    reached = "reached" if max(typical.values()) >= AIM else "missed"
    shown = " and ".join(f"{ratio} ({arm})" for arm, ratio in typical.items())
    return "\n\n".join(
        (
            machine.table(lines, HEAD),
            f"The aim was a ratio of {AIM}, a fifth of the time. It is {reached}: the "
            f"medians are {shown}. A search that tried the right setting at once would "
            f"have {bound}, as one trial of that setting has to end.",
            f"Trials in {RATE_S / 60:.0f} minutes:",
            machine.table(rates, RATE_HEAD),
        )
    )


def _figures(
    both: Sequence[tuple[dict[str, Any], dict[str, Any]]],
) -> tuple[str, ...]:
    """Return the figures of an arm, as ``HEAD`` names them."""
    found = [(a, b) for a, b in both if a["good_s"] and b["good_s"]]
    ratios = [a["good_s"] / b["good_s"] for a, b in found]
    bounds = [a["good_s"] / a["shortest_good_s"] for a, _ in found]
    near = sum(b["good_s"] <= 1.3 * b["shortest_good_s"] for _, b in found)
    trials = [[row["trials"] for row in each] for each in zip(*both, strict=True)]
    minutes = [
        [row["good_s"] / 60 for row in each] for each in zip(*found, strict=True)
    ]
    median = statistics.median
    return (
        str(len(found)),
        *(f"{median(each):.1f}" for each in minutes),
        *(f"{value:.1f}" for value in (median(ratios), min(ratios), max(ratios))),
        f"{median(bounds):.1f}",
        f"{near} of {len(found)}",
        *(f"{median(each):.0f}" for each in trials),
        str(sum(b["twice"] for _, b in both)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the searches and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + 3 * options.count)
    rows = []
    for seed in seeds:
        place = world(seed)
        for arm, (sampler, _) in ARMS.items():
            large = len(list(place.space.points(place.given))) >= ENOUGH_SETTINGS
            first = seed < options.first + options.count
            if large if sampler == "random" else first:
                rows += [searched(place, arm, n) for n in (1, WORKERS)]
    text = page(rows)
    print(text)
    if options.record:
        record(
            "scale_simulated", rows, f"# Eight workers against one\n\n{NOTE}\n\n{text}"
        )
    return 0


NOTE = """\
Simulated: generated landscapes (`tests/support/landscape.py`), each searched by one
worker and by eight. Of the trials 5 % take 3 to 10 times as long, and 5 % fail by
chance. The time to a setting of 0.995 is the time until a trial of a setting with at
least 0.995 of the best speed has ended. No number of workers makes that shorter than
the length of such a trial: `length of one trial` is the ratio that a search would reach
that tried the right setting at once, and `within it` counts the searches in which eight
workers needed at most 1.3 times that. `twice` counts trials of settings that another
worker ran too.

A search by the models ends when no setting is worth a trial. It then has tried so few
that the trials of eight workers in the same time cannot be counted. They are counted in
searches of random settings, on landscapes of at least 144 settings (of three times as
many seeds). Only the search is compared, without the confirmation at its end."""


if __name__ == "__main__":
    raise SystemExit(main())
