"""Run a benchmark over many seeds in processes, and record what came out."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.process import RESULTS

DRAWS = 2000

Name = TypeVar("Name")
Found = TypeVar("Found")


def raced(
    names: Iterable[Name],
    seeds: range,
    run: Callable[[Name, int], Found],
    jobs: int,
) -> Iterator[tuple[Name, list[Found]]]:
    """Each name with what ``run`` finds for it on every seed, one name at a time."""
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            yield name, list(pool.map(run, repeat(name), seeds, chunksize=4))


def of_seeds(first: int, count: int, tuned: Sequence[range]) -> str:
    """Which seeds a table is of, and how many of these tuning has used."""
    seeds = range(first, first + count)
    used = sum(seed in own for seed in seeds for own in tuned)
    return f"seeds {first} and up, {used or 'none'} of them used in tuning"


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval of paired differences."""
    draw = random.Random(1)  # noqa: S311
    count = len(differences)
    means = sorted(
        statistics.fmean(draw.choices(differences, k=count)) for _ in range(DRAWS)
    )
    low, high = means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1]
    return round(statistics.fmean(differences), 4), round(low, 4), round(high, 4)


def record(
    name: str, said: dict[str, Any], page: str, about: dict[str, str] | None = None
) -> None:
    """Write figures and page to the recorded results, with date and machine."""
    about = about or machine.describe()
    text = json.dumps({"about": about, **said}, indent=1)
    (RESULTS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    dated = "; ".join(f"{key} {value}" for key, value in about.items())
    (RESULTS / f"{name}.md").write_text(f"{page}\n\n{dated}\n", encoding="utf-8")


def told(name: str, rows: Sequence[dict[str, Any]], page: str, *, written: bool) -> int:
    """Print the page of worlds, record it if asked; 1 where a figure is missed."""
    print(page)
    if written:
        record(name, {"worlds": rows}, page)
    return int(not all(row["reached"] for row in rows))
