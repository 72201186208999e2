"""How often are the intervals and verdicts of ``fp8tune compare`` right?

Three parts. ``steps``: differences of two runs step by step, generated with a known
mean and correlation: how often the interval of the mean holds it. ``seeds``: recorded
bf16 runs (``loss_curves.jsonl.gz``) compared with other seeds of themselves, where the
true gap is 0: how often the interval holds 0, and which verdicts are given.
``precision``: FP8 and broken FP8 compared with bf16. ``equal``: generated curves in
which FP8 needs a known number of times the tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from benchmarks.machine import describe, table
from benchmarks.paths import RESULTS
from fp8tune.verify.evidence import Curve
from fp8tune.verify.gap import Comparison, Verdict, compare, mean_interval
from fp8tune.verify.runs import Run
from tests.support.curves import Runs, runs, worse

JSON, MARKDOWN = RESULTS / "loss_gaps.json", RESULTS / "loss_gaps.md"
DRAWS = 500
"""Random choices of seeds."""
GREATER = (1, 2, 4)
"""How many deviations between seeds worse FP8 is made."""

Kind = tuple[str, str, str]


def steps(count: int) -> Iterator[dict[str, Any]]:
    """Yield how often the interval of a mean holds it."""
    chance = random.Random(1)  # noqa: S311
    for places in (12, 25, 50, 100):
        for correlation in (0.0, 0.3, 0.6, 0.8, 0.9):
            inside = 0
            for _ in range(count):
                values = _noise(chance, places, correlation)
                inside += abs(sum(values) / places) <= mean_interval(values)
            yield {
                "places": places,
                "correlation": correlation,
                "holds": inside / count,
            }


def _noise(chance: random.Random, places: int, correlation: float) -> list[float]:
    """Return values around 0 whose neighbours are correlated."""
    value = chance.gauss(0, 1) / math.sqrt(1 - correlation**2)
    values = []
    for _ in range(places):
        values.append(value)
        value = correlation * value + chance.gauss(0, 1)
    return values


def pairs(every: Runs) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on all pairs of bf16 seeds."""
    for data in ("same", "own"):
        both = permutations(every["bf16", data, ""], 2)
        yield _row(data, "bf16", 1, [compare([a], [b]) for a, b in both])


def seeds(every: Runs, draws: int) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on random choices of bf16 seeds, one of them worse or not."""
    chance = random.Random(2)  # noqa: S311
    for data in ("same", "own"):
        own = every["bf16", data, ""]
        spread = _spread(own)
        for times in (0, *GREATER):
            for count in (1, 3, 5):
                chosen = [chance.sample(own, count + 1) for _ in range(draws)]
                results = [
                    compare([worse(one[0], times * spread)], one[1:]) for one in chosen
                ]
                name = f"bf16, {times} deviations worse" if times else "bf16"
                yield _row(data, name, count, results, times * spread)


def precision(every: Runs, draws: int) -> Iterator[dict[str, Any]]:
    """Yield the verdicts on FP8 and on broken FP8."""
    chance = random.Random(3)  # noqa: S311
    for (name, data, fault), own in every.items():
        if name == "bf16":
            continue
        others = every["bf16", data, ""]
        for count in (1, 3, 5):
            results = [
                compare([run], chance.sample(others, count))
                for run in own
                for _ in range(max(1, draws // 10 // len(own)))
            ]
            yield _row(data, f"FP8 {fault}".strip(), count, results)


def _spread(own: Sequence[Run]) -> float:
    """Return the relative standard deviation between seeds at the end."""
    gap = compare(own[:1], own[1:]).gap
    assert gap is not None
    return gap.spread / gap.bf16


def _row(
    data: str,
    name: str,
    count: int,
    results: Sequence[Comparison],
    truth: float | None = None,
) -> dict[str, Any]:
    verdicts = Counter(str(result.verdict) for result in results)
    row: dict[str, Any] = {
        "data": data,
        "run": name,
        "bf16_runs": count,
        "comparisons": len(results),
        "verdicts": {
            verdict: round(100 * verdicts[verdict] / len(results), 1)
            for verdict in map(str, Verdict)
        },
    }
    if truth is not None:
        row["holds"] = sum(_holds(one, truth) for one in results) / len(results)
    return row


def _holds(result: Comparison, truth: float) -> bool:
    gap = result.gap
    assert gap is not None
    loss = gap.fp8 - gap.total.value
    return gap.total.low <= truth * loss <= gap.total.high


def equal(draws: int) -> Iterator[dict[str, Any]]:
    """Yield how often the tokens to equal loss are right, on power laws with noise.

    All runs see the same batches, whose noise has a deviation of 0.1; each has 0.01 of
    its own, and its seed moves it by 0.3 %.
    """
    chance = random.Random(4)  # noqa: S311
    for times in (1.0, 1.02, 1.1):
        inside, known, error = 0, 0, 0.0
        for _ in range(draws):
            shared = [chance.gauss(0, 0.1) for _ in range(400)]
            made = [_power_law(chance, shared, share) for share in (times, 1, 1, 1, 1)]
            found = compare(made[:1], made[1:]).equal
            if found is not None:
                known += 1
                inside += found.tokens.low <= times <= found.tokens.high
                error += math.log(found.tokens.value / times) / draws
        yield {
            "tokens": times,
            "known": known / draws,
            "holds": inside / known,
            "bias": math.exp(error) - 1,
        }


def _power_law(chance: random.Random, shared: Sequence[float], times: float) -> Run:
    curve, seed = Curve(), chance.gauss(0, 0.003)
    for step, noise in enumerate(shared, 1):
        loss = 1.5 + 6 * (step / times + 5) ** -0.4
        curve.add(step=step, loss=loss * (1 + seed) + noise + chance.gauss(0, 0.01))
    return Run("", "", [], curve, tokens_per_step=1000.0)


def markdown(found: dict[str, Any]) -> str:
    """Return the results as a page."""
    heads = ("data", "run", "bf16 runs", "comparisons", *map(str, Verdict), "holds")
    rows = [
        (
            row["data"],
            row["run"],
            str(row["bf16_runs"]),
            f"{row['comparisons']:,}",
            *(f"{row['verdicts'][str(verdict)]:g}" for verdict in Verdict),
            f"{row['holds']:.3f}" if "holds" in row else "",
        )
        for part in ("pairs", "seeds", "precision")
        for row in found[part]
    ]
    step_rows = [
        (str(row["places"]), f"{row['correlation']:g}", f"{row['holds']:.3f}")
        for row in found["steps"]
    ]
    equal_rows = [
        tuple(f"{row[name]:.3f}" for name in ("tokens", "known", "holds", "bias"))
        for row in found["equal"]
    ]
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    return (
        "# Loss gaps\n\n`python -m benchmarks.verify.gaps --record`. "
        f"{machine}.\n\n## Verdicts on recorded runs [%]\n\n"
        "`pairs` are all pairs, the others random choices of seeds. `holds`: how often "
        "the 95 % interval of the gap has the true one.\n\n"
        f"{table(rows, heads)}\n\n## The interval of the steps\n\n"
        f"{table(step_rows, ('places', 'correlation of neighbours', 'holds'))}\n\n"
        "## Tokens to equal loss, on generated curves\n\n"
        f"{table(equal_rows, ('truth', 'known', 'holds', 'bias'))}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and with ``--record`` write the results."""
    parser = argparse.ArgumentParser("benchmarks.verify.gaps")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args(arguments)
    every = runs()
    found = {
        "machine": describe(),
        "pairs": list(pairs(every)),
        "seeds": list(seeds(every, options.draws)),
        "precision": list(precision(every, options.draws)),
        "steps": list(steps(2 * options.draws)),
        "equal": list(equal(options.draws)),
    }
    text = markdown(found)
    print(text)
    if options.record:
        JSON.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        MARKDOWN.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
