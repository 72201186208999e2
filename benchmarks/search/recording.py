"""Run a benchmark over many seeds in processes, and record what came out."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.paths import RESULTS

DRAWS = 2000

Name = TypeVar("Name")
Found = TypeVar("Found")


def raced(
    names: Iterable[Name],
    seeds: range,
    run: Callable[[Name, int], Found],
    jobs: int,
) -> Iterator[tuple[Name, list[Found]]]:
    """Yield each name with what ``run`` returns for it on every seed."""
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            yield name, list(pool.map(run, repeat(name), seeds, chunksize=4))


def of_seeds(first: int, count: int, tuned: Sequence[range]) -> str:
    """Say which seeds a table is of, and how many of these tuning has used."""
    seeds = range(first, first + count)
    used = sum(seed in own for seed in seeds for own in tuned)
    return f"seeds {first} and up, {used or 'none'} of them used in tuning"


def interval(
    values: Sequence[float], of: Callable[[Any], float] = statistics.fmean
) -> tuple[float, float, float]:
    """Return a statistic of values and its 95 % bootstrap interval."""
    draw = random.Random(1)  # noqa: S311
    found = sorted(of(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    return of(values), found[int(0.025 * DRAWS)], found[int(0.975 * DRAWS) - 1]


def record(
    name: str,
    figures: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    page: str,
    about: Mapping[str, str] | None = None,
) -> None:
    """Write figures and their page to the recorded results, with date and machine.

    Rows are written as one JSON object a line, other figures as one object.
    """
    about = about or machine.describe()
    if isinstance(figures, Mapping):
        text = f"{json.dumps({'about': about, **figures}, indent=1)}\n"
        (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    else:
        text = "".join(f"{json.dumps(row)}\n" for row in figures)
        (RESULTS / f"{name}.jsonl").write_text(text, encoding="utf-8")
    dated = "; ".join(f"{key} {value}" for key, value in about.items())
    (RESULTS / f"{name}.md").write_text(f"{page}\n\n{dated}\n", encoding="utf-8")
