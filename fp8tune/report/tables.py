"""The tables of a report: every trial with its evidence, and the environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fp8tune import __version__
from fp8tune.report.data import StudyReport, ratio, role_names, vs_chosen
from fp8tune.search.answer.answer import failure_code
from fp8tune.search.answer.wording import FAILURES, gib
from fp8tune.search.budget import show_duration
from fp8tune.search.labels import setting_label
from fp8tune.search.objective import ENERGY, SPEED, show_value
from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial
from fp8tune.words import clean, counted

HEAD = (
    *("trial", "stage", "setting", "outcome", "tokens/s", "tokens/J"),
    *("peak GiB", "reserved GiB", "FP8 matmuls", "cost", "message"),
)


class Rows(NamedTuple):
    """A table: its head, its rows of text, and the CSS class of each row if any."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    classes: Sequence[str] = ()


def figures_table(report: StudyReport) -> Rows:
    """Return the figures of the answer, one row for each setting with a role in it."""
    is_baseline = report.chosen == report.plan.baseline
    rows = [
        (
            role_names(setting),
            report.label(setting),
            report.figure(setting),
            ratio(setting.vs_baseline),
            *([] if is_baseline else [vs_chosen(setting)]),
            gib(setting.peak_gib),
            ", ".join(map(str, setting.trials)),
        )
        for setting in report.with_roles
        if report.chosen is not None
    ]
    vs = ("vs your config",) if is_baseline else ("vs your config", "vs chosen")
    return Rows(("role", "setting", report.unit, *vs, "peak GiB", "trials"), rows)


def trial_table(report: StudyReport) -> Rows:
    """Return the trials, the fastest first, failed ones last, in the order of runs."""
    ordered = sorted(report.study.trials, key=lambda t: -t.record.tokens_per_second)
    ordered.sort(key=lambda t: (not t.record.ok, t.stage == "stability"))
    rows = [_row(report, trial) for trial in ordered]
    head: tuple[str, ...] = HEAD
    if any(trial.worker for trial in ordered):
        head = (*HEAD[:-1], "worker", HEAD[-1])
        rows = [
            (*row[:-1], clean(trial.worker) or "-", row[-1])
            for row, trial in zip(rows, ordered, strict=True)
        ]
    classes = [
        "" if t.record.ok else "cut-off" if t.cut_off else "failed" for t in ordered
    ]
    return Rows(head, rows, classes)


def _row(report: StudyReport, trial: Trial) -> tuple[str, ...]:
    record, space = trial.record, report.plan.space
    timed = record.ok and trial.stage != "stability"
    joules = record.tokens_per_joule
    matmuls = record.float8_matmuls
    return (
        str(trial.number),
        trial.stage,
        setting_label(space.knobs, space.point(record.knobs)),
        "ok" if record.ok and not trial.cut_off else FAILURES[failure_code(trial)],
        show_value(record.tokens_per_second, SPEED) if timed else "-",
        show_value(joules, ENERGY) if timed and joules else "-",
        gib(record.peak_gib),
        gib(record.reserved_gib),
        "-" if matmuls is None else f"{matmuls:,}",
        show_duration(record.cost_s),
        "; ".join(_remarks(trial)),
    )


def _remarks(trial: Trial) -> Iterator[str]:
    record, shortage = trial.record, trial.record.memory_shortage
    if shortage:
        yield f"may not be chosen: {shortage}"
    if run := record.loss_run:
        yield f"seed {run.seed}, warmup {run.warmup_steps}, {run.steps} steps"
    if record.message:
        yield clean(record.message)
    if record.alloc_retries and not shortage:
        yield f"allocator retries: {record.alloc_retries}"
    if record.recompiles:
        yield counted(record.recompiles, "compiled graph")
    if record.extrapolated:
        yield f"extrapolated: {clean(record.extrapolated)}"


def environment(report: StudyReport) -> list[tuple[str, str]]:
    """Return the hardware and software of the trials, by name."""
    config, about = report.plan.config, report.study.about
    target, allowed = config.job.target, about.allowed
    count = (
        counted(target.world_size, "GPU") if target.world_size else "GPU count unknown"
    )
    capacity = f"{report.capacity_gib:.1f} GiB" if report.capacity_gib else ""
    rows = [
        ("config", config.typed_path),
        ("study", report.study.name),
        ("trainer", config.trainer.schema.title),
        ("target", f"{count}, {target.gpu or 'GPU unknown'}"),
        ("trials", "recorded ones" if about.is_replay else about.device),
        ("freed by --allow", ", ".join(allowed) or "nothing"),
        ("GPU memory", capacity),
        ("fp8tune", __version__),
        *_reported(report.study.trials),
    ]
    return [(name, clean(value)) for name, value in rows if value]


def _reported(trials: Sequence[Trial]) -> Iterator[tuple[str, str]]:
    """Yield what the trials reported, with counts if they differ."""
    places = Counter(clean(trial.record.environment) for trial in trials)
    versions = Counter(_versions(trial.record) for trial in trials)
    for name, values in (("trials ran on", places), ("versions", versions)):
        del values[""]
        for value, count in values.most_common(8):
            yield name, value if len(values) == 1 else f"{value} ({count} trials)"
    records = [trial.record for trial in trials]
    for measured, name, unit in (
        ([r.sm_mhz for r in records], "SM clock, median", "MHz"),
        ([r.power_w for r in records], "power, mean", "W"),
        ([r.temperature_c for r in records], "temperature, highest", "C"),
    ):
        if known := list(filter(None, measured)):
            low, high = min(known), max(known)
            yield name, f"{low:,.0f} to {high:,.0f} {unit} over {len(known)} trials"


def _versions(record: Record) -> str:
    every = list(record.versions.items())[:8]
    return clean(", ".join(f"{name} {version}" for name, version in every))
