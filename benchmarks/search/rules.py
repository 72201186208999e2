"""How others choose a setting: each rule in a few lines, with its source.

A rule yields settings to try, gets the record of each, and ends by itself or with the
budget. All start from the given config, and none tries what the trainer refuses.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as GPSampler's documentation asks

import optuna

from benchmarks.search.place import Place
from fp8tune.trials.record import Record
from fp8tune.trials.space import Point

Tries = Generator[Point, Record, None]
Ran = tuple[Point, Record]


def fastest(ran: Sequence[Ran]) -> Point | None:
    """Return the setting that was measured fastest."""
    speeds = [(record.tokens_per_second, point) for point, record in ran if record.ok]
    return max(speeds)[1] if speeds else None


def last_that_ran(ran: Sequence[Ran]) -> Point | None:
    """Return the last setting that ran."""
    return next((point for point, record in reversed(ran) if record.ok), None)


class Rule(NamedTuple):
    """A way to choose a setting, and where it is described.

    ``answer`` is what it holds for the best after some trials. Trials ``in_process``
    need no new process and make three steps.
    """

    source: str
    tries: Callable[[Place, int], Tries]
    answer: Callable[[Sequence[Ran]], Point | None] = fastest
    in_process: bool = False


def batches(place: Place, point: Point) -> list[Point]:
    """Return the settings that differ from one at most in the batch, by batch."""
    cell = place.space.cell
    alike = [p for p in place.records if cell(p) == cell(point)]
    return sorted(alike, key=place.space.batch)


def scaled(place: Place, point: Point, factor: float) -> Point | None:
    """Return the next batch in a direction, at most ``factor`` times this one."""
    size, own = place.space.batch(point), batches(place, point)
    if factor > 1:
        more = [p for p in own if size < place.space.batch(p) <= factor * size]
        return more[-1] if more else None
    less = [p for p in own if place.space.batch(p) <= factor * size]
    return less[-1] if less else None


def doubled(place: Place, _seed: int) -> Tries:
    """Double the batch until memory runs out, then take the last one that fit."""
    point: Point | None = place.given
    ran = False
    while point is not None:
        record = yield point
        if record.ok:
            ran, point = True, scaled(place, point, 2.0)
        elif ran or record.outcome != "oom":
            return
        else:
            point = scaled(place, point, 0.5)


def shrunk(place: Place, _seed: int) -> Tries:
    """Start with the largest batch, and take 0.9 of it until it fits."""
    point: Point | None = batches(place, place.given)[-1]
    while point is not None:
        record = yield point
        if record.outcome != "oom":
            return
        point = scaled(place, point, 0.9)


def deepspeed(place: Place, _seed: int) -> Tries:
    """Find the largest batch that fits, then try three from half of it.

    A profile run gives memory per sequence, hence the largest batch by calculation.
    1.05, 1 and 0.95 of that are tried. The profile run is charged as a trial of the
    smallest batch; what it finds is exact here. A batch is not tried twice.
    """
    size, own = place.space.batch, batches(place, place.given)
    yield own[0]
    most, largest, ran = _calculated(place, own), own[0], {own[0]}
    for factor in (1.05, 1.0, 0.95):
        below = (p for p in own if size(p) <= factor * most)
        largest = max(below, key=size, default=own[0])
        if largest in ran:
            break
        ran.add(largest)
        record = yield largest
        if record.ok:
            break
    near = [p for p in own if size(largest) / 2 <= size(p) < size(largest)]
    for point in near[:: max(1, len(near) // 3)]:
        if point not in ran:
            yield point


def _calculated(place: Place, own: Sequence[Point]) -> float:
    """Return the batch at which a line through the two smallest peaks fills the GPU."""
    size = place.space.batch
    peaks = [
        (size(p), record.peak_gib)
        for p in own
        if (record := place.records[p][0]).ok and record.peak_gib
    ]
    if len(peaks) < 2:
        return max(map(size, own))
    (small, low), (large, high) = peaks[:2]
    return small + (place.capacity_gib - low) * (large - small) / max(high - low, 1e-9)


def by_hand(place: Place, _seed: int) -> Tries:
    """Double the batch until memory runs out, then less AC, then compile, then FP8.

    With less AC the batch is halved until it fits. A change that is faster is kept.
    """
    space = place.space
    best, speed = place.given, 0.0
    point: Point | None = place.given
    while point is not None:
        record = yield point
        if not record.ok:
            break
        if record.tokens_per_second > speed:
            best, speed = point, record.tokens_per_second
        point = scaled(place, point, 2.0)
    for change in _changes(place):
        values = {**space.params(best), **change}
        point = space.point(values) if values != space.params(best) else None
        point = point if point in place.records else None
        while point is not None:
            record = yield point
            if record.ok and record.tokens_per_second > speed:
                best, speed = point, record.tokens_per_second
            if record.outcome != "oom":
                break
            point = scaled(place, point, 0.5)


def _changes(place: Place) -> list[dict[str, Any]]:
    """Return what a person changes one after the other."""
    space, changes = place.space, list[dict[str, Any]]()
    knobs = {knob.role: knob for knob in space.knobs}
    if ac := knobs.get("ac"):
        modes = ac.values[: ac.values.index(space.value(place.given, "ac"))]
        changes += [{ac.key: mode} for mode in reversed(modes)]
    if compiles := knobs.get("compile"):
        changes.append({compiles.key: True})
    return [*changes, documented_fp8(place)] if "precision" in knobs else changes


def documented_fp8(place: Place) -> dict[str, Any]:
    """Return the values by which torchtitan's documentation turns FP8 on.

    Tensorwise with the FP8 all-gather, the head kept in bf16.
    """
    usual = {
        "precision": "fp8",
        "fp8_recipe": "tensorwise",
        "fp8_all_gather": True,
        "fp8_converts_head": False,
    }
    return _values(place, usual)


def _values(place: Place, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the wanted values by key, as far as there are such knobs and values."""
    return {
        knob.key: wanted[knob.role]
        for knob in place.space.knobs
        if knob.role in wanted and wanted[knob.role] in knob.values
    }


def shipped(place: Place, _seed: int) -> Tries:
    """Try torchtitan's Llama 3 8B config with the FP8 of its documentation."""
    usual = _values(place, {"ac": "op", "compile": True})
    usual |= _values(place, {"ac": "selective"})
    if knob := place.space.knob("micro_batch"):
        usual[knob.key] = min(knob.values)
    values = {**place.space.params(place.given), **usual, **documented_fp8(place)}
    point = place.space.point(values)
    if point in place.records:
        yield point


Made = Callable[[int], optuna.samplers.BaseSampler]
REPEATS = 20
"""Proposals of what was tried, one after the other, until a sampler is stopped."""


def by_sampler(make: Made) -> Callable[[Place, int], Tries]:
    """Return the rule that tries what one of Optuna's samplers proposes.

    The given config is its first trial, what fails violates a constraint, and what was
    tried or is refused is answered without a trial.
    """

    def tries(place: Place, seed: int) -> Tries:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=make(seed), direction="maximize")
        study.enqueue_trial(_names(place, place.given))
        known: dict[Point, Record | None] = {}
        lowest, repeats = math.inf, 0
        while repeats < REPEATS:
            trial = study.ask()
            point = place.same(_suggested(place, trial))
            repeats += 1
            if point not in known and point in place.records:
                known[point] = yield point
                repeats = 0
            record = known.get(point)
            speed = record.tokens_per_second if record and record.ok else 0.0
            lowest = min(lowest, speed or lowest)
            trial.set_constraint("runs", 0.0 if speed else 1.0)
            study.tell(trial, speed or (lowest if lowest < math.inf else 1.0))

    return tries


def _names(place: Place, point: Point) -> dict[str, int]:
    return {
        knob.key: index for knob, index in zip(place.space.knobs, point, strict=True)
    }


def _suggested(place: Place, trial: optuna.Trial) -> Point:
    """Return the setting of a trial: the batch by its rank, other knobs by name."""
    return tuple(
        trial.suggest_int(knob.key, 0, len(knob.values) - 1)
        if knob.role == "micro_batch"
        else trial.suggest_categorical(knob.key, range(len(knob.values)))
        for knob in place.space.knobs
    )


DEEPSPEED = (
    "deepspeed 0.17.1, `autotuning/autotuner.py`: `get_min_max_micro_batch_size`, "
    "`get_tuning_micro_batch_size_list`, `run_tuning_micro_batch_sizes`, in its fast "
    "mode (the default), which tunes the micro-batch alone"
)
RULES = {
    "TPE": Rule(
        "Optuna 5.0, `TPESampler` with its defaults",
        by_sampler(lambda seed: optuna.samplers.TPESampler(seed=seed)),
    ),
    "GP": Rule(
        "Optuna 5.0, `GPSampler` with its defaults",
        by_sampler(lambda seed: optuna.samplers.GPSampler(seed=seed)),
    ),
    "random": Rule(
        "Optuna 5.0, `RandomSampler`",
        by_sampler(lambda seed: optuna.samplers.RandomSampler(seed=seed)),
    ),
    "by hand": Rule(
        "the usual order: batch up until out of memory, then less AC, then compile, "
        "then FP8 as torchtitan documents it (no published protocol)",
        by_hand,
    ),
    "DeepSpeed": Rule(DEEPSPEED, deepspeed),
    "Lightning": Rule(
        "lightning 2.6.6, `tuner/batch_size_scaling.py`, `_run_power_scaling`: doubles "
        "the batch in one process, three steps each, halves it when memory runs out",
        doubled,
        last_that_ran,
        in_process=True,
    ),
    "Accelerate": Rule(
        "accelerate 1.15.0, `find_executable_batch_size`: 0.9 of the batch in one "
        "process until it fits",
        shrunk,
        last_that_ran,
        in_process=True,
    ),
    "shipped": Rule(
        "torchtitan's `llama3_8b.toml` with the FP8 command of `docs/float8.md`: batch "
        "1, selective AC, compile, tensorwise, FP8 all-gather, head in bf16; one trial",
        shipped,
    ),
}
