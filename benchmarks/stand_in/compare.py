"""Compare what both programs did: losses, memory, operators, and speed.

Losses. On a CPU, single threads add in one order, so equal computations give equal
bits, and nothing else passes. On a GPU a kernel may be another one; then a loss may
differ by one step of the trainer's own losses, which are bf16: 2^-7 of it. That is also
how far the trainer's compiled run is from its eager one.

Peak memory within 1 % on a CPU (live bytes, one instrument), 3 % on a GPU (torch's
allocator). Operators of the last step: equal counts, but for ``KEPT`` and ``AGREED``,
which cost nothing, and for ``EMPTY``. Speed: on a GPU tokens/s within 5 %. On a CPU
that others use too, the order of the settings by CPU time counts: where all runs of one
setting are faster than all of another in both programs, it must be the same one.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.machine import table

Figures = Mapping[str, Any]
BF16_STEP = 2**-7
MEMORY = {"cpu": 0.01, "cuda": 0.03}
SPEED = 0.05
WARM = 3
"""Steps of a run that are not timed: one compiles, and AdamW makes its state."""

KEPT = "aten::detach"
"""The trainer keeps the load of its experts for its log, by this operator."""
EMPTY = "aten::empty"
"""Kernels allocate by it while they run: some CPUs have kernels that others lack."""
AGREED = {
    "c10d::allreduce_": 1,
    "aten::_local_scalar_dense": 2,
    "aten::detach_": 1,
    "aten::empty": 1,
    "aten::item": 1,
    "aten::lift_fresh": 1,
    "aten::to": 1,
    "aten::view": -1,
    "aten::view_as": -1,
}
"""How many more the trainer runs on several ranks: they agree that no loss is NaN."""


def step_ms(seen: Figures) -> float:
    """The median CPU time of a run's steps, or on a GPU their time [ms]."""
    times: list[float] = seen["cpu_ms" if seen["device"] == "cpu" else "wall_ms"]
    return statistics.median(times[WARM:])


def peak(seen: Figures) -> int:
    """The most bytes in any phase of the steps."""
    most: int = max(seen["peaks"].values())
    return most


def off(found: Figures, kind: str) -> float:
    """How far a trial's peak is from the trainer's, as a share of it."""
    share: float = peak(found[kind]) / peak(found["trainer"]) - 1
    return share


def loss_gap(found: Figures) -> float:
    """The largest difference of losses and gradient norms, as a share of them."""
    one, other = found["trainer"], found["trial"]
    pairs = [
        pair
        for name in ("losses", "norms")
        for pair in zip(one[name], other[name], strict=True)
    ]
    gap: float = max(abs(b / a - 1) for a, b in pairs)
    return gap


def odd_operators(found: Figures) -> dict[str, tuple[int, int]]:
    """Operators whose counts differ without an explanation."""
    one, other = found["trainer"]["counts"], found["trial"]["counts"]
    pairs = {n: (one.get(n, 0), other.get(n, 0)) for n in sorted({*one, *other})}
    several = "c10d::allreduce_" in one
    return {
        name: (theirs, ours)
        for name, (theirs, ours) in pairs.items()
        if theirs - ours != several * AGREED.get(name, 0) and name not in (KEPT, EMPTY)
    }


def decided(
    times: Mapping[str, Mapping[str, Sequence[float]]], kind: str
) -> dict[tuple[str, str], bool]:
    """Pairs of settings of which one is faster in every run: whether the first is."""
    found = {}
    for one, other in itertools.combinations(times, 2):
        first, second = times[one][kind], times[other][kind]
        if max(first) < min(second):
            found[one, other] = True
        elif max(second) < min(first):
            found[one, other] = False
    return found


def orders(times: Mapping[str, Any]) -> tuple[int, int, list[tuple[str, str]]]:
    """Pairs that both programs decide, all pairs, and those decided otherwise."""
    theirs, ours = (decided(times, kind) for kind in ("trainer", "trial"))
    both = theirs.keys() & ours.keys()
    every = len(times) * (len(times) - 1) // 2
    return len(both), every, sorted(p for p in both if theirs[p] != ours[p])


def wrong(found: Figures) -> list[str]:
    """What is outside its tolerance."""
    return [*_wrong_figures(found), *_wrong_times(found)]


def _wrong_figures(found: Figures) -> Iterator[str]:
    device = found["device"]
    for name, figures in found["cases"].items():
        gap = loss_gap(figures)
        if gap > (0 if device == "cpu" else BF16_STEP):
            yield f"{name}: losses or gradient norms differ by {gap:.2%}"
        for kind in figures.keys() & {"trial", "simulated rank"}:
            if abs(off(figures, kind)) > MEMORY[device]:
                yield f"{name}, {kind}: peak memory {off(figures, kind):+.2%}"
        odd = odd_operators(figures)
        if odd and device == "cpu":
            yield f"{name}: operators {odd}"


def _wrong_times(found: Figures) -> Iterator[str]:
    times = found["times"]
    for pair in orders(times)[2]:
        yield f"{' and '.join(pair)}: another one is faster"
    if found["device"] == "cuda":
        for name, both in times.items():
            ratio = _ratio(both)
            if abs(ratio - 1) > SPEED:
                yield f"{name}: step time {ratio - 1:+.1%}"


def _ratio(both: Mapping[str, Sequence[float]]) -> float:
    return statistics.median(both["trial"]) / statistics.median(both["trainer"])


def row(name: str, figures: Figures) -> tuple[str, ...]:
    """A line of the table of cases."""
    gap, odd = loss_gap(figures), odd_operators(figures)
    simulated = "simulated rank"
    return (
        name,
        str(len(figures["trainer"]["losses"])),
        "equal" if gap == 0 else f"{gap:.2%}",
        "equal" if not odd else "; ".join(f"{n} {a}/{b}" for n, (a, b) in odd.items()),
        f"{peak(figures['trainer']) / 2**20:.2f}",
        f"{off(figures, 'trial'):+.2%}",
        f"{off(figures, simulated):+.2%}" if simulated in figures else "",
    )


def page(found: Figures) -> str:
    """The recorded page."""
    rows = [row(name, figures) for name, figures in found["cases"].items()]
    head = ("case", "steps", "losses and norms", "operators", "peak [MiB]", "trial")
    blocks = [
        "# The built-in trial against KempnerForge",
        "Written by `python -m benchmarks.stand_in`: the trainer's own script and the "
        "built-in trial get the same configs, data and seeds. The peak is the "
        "trainer's, the columns after it say how far a trial is from it.",
        table(rows, (*head, "simulated rank")),
    ]
    times = found["times"]
    if times:
        both, every, other = orders(times)
        lines = [
            (
                name,
                *(f"{statistics.median(two[k]):.1f}" for k in ("trainer", "trial")),
                f"{_ratio(two):.3f}",
                *(f"{_spread(two[k]):.1%}" for k in ("trainer", "trial")),
            )
            for name, two in times.items()
        ]
        columns = ("case", "trainer [ms]", "trial [ms]", "ratio")
        runs = [len(two[k]) for two in times.values() for k in ("trainer", "trial")]
        what = "CPU time" if found["device"] == "cpu" else "Time"
        blocks += [
            f"{what} of a step, the median of {min(runs)} runs or more, and how far "
            f"they are apart. Of {every} pairs of settings, both programs decide "
            f"{both}, {both - len(other)} of them alike. Only configs of one rank are "
            "timed.",
            table(lines, (*columns, "trainer's runs", "trial's runs")),
        ]
    faults = wrong(found)
    blocks.append("Outside the tolerances: " + ("; ".join(faults) or "nothing") + ".")
    return "\n\n".join(blocks)


def _spread(runs: Sequence[float]) -> float:
    """Largest less smallest, as a share of the median."""
    return (max(runs) - min(runs)) / statistics.median(runs)
