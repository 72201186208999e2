"""Run a benchmark over many seeds in processes, and record what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.paths import RESULTS

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
