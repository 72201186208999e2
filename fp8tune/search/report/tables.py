"""The tables of a report: every trial with its evidence, and the environment."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from fp8tune import __version__
from fp8tune.search.budget import show_duration
from fp8tune.search.extrapolation import extrapolation
from fp8tune.search.objective import tokens_per_joule
from fp8tune.search.report.data import Case
from fp8tune.search.report.words import (
    clean,
    gib,
    interval,
    label,
    percent,
    plural,
    rate,
)
from fp8tune.search.runs import by_point, deviation
from fp8tune.search.statistics import speed
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

MOST = 1000
"""Trials that are listed."""

FEWEST, UNEVEN = 4, 1.02
"""Steps that tell it, and their mean over their median from which it is said."""

Row = tuple[str, ...]

HEAD: Row = (
    "trial",
    "stage",
    "setting",
    "outcome",
    "tokens/s",
    "tokens/J",
    "peak GiB",
    "reserved GiB",
    "FP8 matmuls",
    "cost",
    "message",
)


def every_trial(case: Case) -> list[Row]:
    """The trials, the fastest first, those that failed last, by number among equals."""
    spread = deviation(by_point(case.plan.space, case.trials))
    ordered = sorted(case.trials, key=lambda trial: -trial.record.tokens_per_second)
    ordered.sort(key=lambda trial: (not trial.record.ok, trial.stage == "stability"))
    return [_row(case, trial, spread) for trial in ordered[:MOST]]


def _row(case: Case, trial: Trial, spread: float) -> Row:
    record = trial.record
    point = case.plan.space.point(record.knobs)
    return (
        str(trial.number + 1),
        trial.stage,
        label(case.plan.space.knobs, point),
        record.outcome,
        _loss(trial) or _rate(record, spread),
        _loss(trial) or _joules(record),
        gib(record.peak_gib),
        gib(record.reserved_gib),
        str(record.float8_matmuls or "-"),
        show_duration(record.cost_s),
        "; ".join(_remarks(trial)),
    )


def _rate(record: Record, spread: float) -> str:
    return interval(speed([record], spread)) if record.ok else "-"


def _joules(record: Record) -> str:
    value = tokens_per_joule(record)
    return rate(value) if record.ok and value else "-"


def _loss(trial: Trial) -> str:
    """``-`` where a run was made for its losses: its steps were not timed with care."""
    return "-" if trial.stage == "stability" else ""


def _remarks(trial: Trial) -> Iterator[str]:
    record, full = trial.record, trial.record.memory_shortage
    if full:
        yield f"may not be chosen: {full}"
    if uneven := _uneven(trial.record):
        yield uneven
    if how := trial.record.loss_run:
        yield f"seed {how.seed}, warmup {how.warmup_steps}, {how.steps} steps"
    if record.message:
        yield clean(record.message)
    for count, word in (
        (record.alloc_retries, "allocator retry"),
        (record.recompiles, "compiled graph"),
    ):
        said = plural(count, word).replace("retrys", "retries")
        if count and said not in full:
            yield said
    if found := extrapolation(trial.record):
        yield f"extrapolated: {clean(found['how'])}"


def _uneven(record: Record) -> str:
    """That a long run would be slower than the median step says, if it would."""
    times = record.step_ms
    middle = statistics.median(times) if len(times) >= FEWEST else 0.0
    longer = statistics.fmean(times) / middle if middle else 1.0
    if longer < UNEVEN:
        return ""
    return f"steps take {percent(longer)} on average, beside their median"


def environment(case: Case) -> list[tuple[str, str]]:
    """What the trials ran on and with, by name."""
    job, about = case.plan.config.job, case.about
    target = job.target
    found = [
        ("config", clean(case.plan.config.path)),
        ("study", clean(case.name)),
        ("trainer", case.plan.config.trainer.schema.title),
        ("target", _target(target.gpu, target.world_size)),
        ("trials", "recorded ones" if case.replay else str(about.get("device", "-"))),
        (
            "freed by --allow",
            ", ".join(map(str, about.get("allow") or [])) or "nothing",
        ),
        ("GPU memory", f"{case.capacity_gib:.1f} GiB" if case.capacity_gib else "-"),
        ("fp8tune", __version__),
    ]
    known = [(name, clean(said)) for name, said in found if said != "-"]
    return [*known, *_told(case.trials)]


def _target(gpu: str, world_size: int) -> str:
    count = plural(world_size, "GPU") if world_size else "GPUs not said"
    return f"{count}, {gpu or 'GPU not said'}"


def _told(trials: Sequence[Trial]) -> Iterator[tuple[str, str]]:
    """What the trials themselves said, with how many said it where they differ."""
    where = Counter(clean(trial.record.environment) for trial in trials)
    versions = Counter(_versions(trial) for trial in trials)
    for name, counted in (("trials ran on", where), ("versions", versions)):
        del counted[""]
        for said, count in counted.most_common(8):
            yield name, said if len(counted) == 1 else f"{said} ({count} trials)"
    records = [trial.record for trial in trials]
    for each, name, unit in (
        ([r.sm_mhz for r in records], "SM clock, median", "MHz"),
        ([r.power_w for r in records], "power, mean", "W"),
        ([r.temperature_c for r in records], "temperature, highest", "C"),
    ):
        if values := list(filter(None, each)):
            low, high = min(values), max(values)
            yield name, f"{low:,.0f} to {high:,.0f} {unit} over {len(values)} trials"


def _versions(trial: Trial) -> str:
    told = list(trial.record.versions.items())[:8]
    return clean(", ".join(f"{name} {version}" for name, version in told))
