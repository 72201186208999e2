"""The page of what was measured on GPUs, beside what was predicted.

Predictions are those of this version of fp8tune; the measurements are the records below
``benchmarks/results/on_gpu``, a folder for each session.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.on_gpu import records
from benchmarks.on_gpu.predicted import Compared, compare, gains
from benchmarks.on_gpu.records import Measured
from benchmarks.on_gpu.session import steps_of
from benchmarks.on_gpu.take import ENVIRONMENT
from benchmarks.paths import RESULTS
from benchmarks.stand_in import compare as compare_stand_in
from fp8tune.estimate.predict import predict
from fp8tune.facts.calibration import Band
from fp8tune.formats.document import InvalidText
from fp8tune.search import CannotSearch
from fp8tune.trials.record import BadRecord
from fp8tune.words import plain

HEAD = """\
# Measured on GPUs

What sessions of `benchmarks/gpu_session.sh` measured, beside what this version of
fp8tune predicts. Written by `python -m benchmarks.on_gpu page` from the records below
`benchmarks/results/on_gpu`.
"""
NONE = "Nothing has been measured on a GPU yet."
STEP_NAMES = {
    "trial-alone": "one trial of 8 layers, alone",
    "trial-rank-0-of-16": "one trial of rank 0 of 16",
    "traces": "traces of FP8 and bf16 steps, and what `verify` says of them",
    "search": "a search of 8 layers",
    "stand-in": "the built-in trial beside KempnerForge's own training",
    "fp8-shapes": "the GEMM shapes that an FP8 linear refuses",
    "rules": "the experiments of rules that only a GPU decides",
    "linears": "each linear in bf16 and FP8",
}
"""The steps that measure something, in words."""


class GpuSession(NamedTuple):
    """What a session recorded: environment, steps, settings that ran, failed trials."""

    folder: Path
    environment: dict[str, str]
    steps: list[dict[str, Any]]
    settings: list[Compared]
    failed: list[Measured]
    unreadable: list[str]

    @property
    def has_gpu(self) -> bool:
        """Whether it ran on a GPU; else it was a rehearsal."""
        return "gpu" in self.environment


def sessions(results: Path = RESULTS / "on_gpu") -> list[GpuSession]:
    """Return the recorded sessions, the newest first."""
    folders = sorted(results.glob(f"*/{ENVIRONMENT}"), reverse=True)
    return [_session(path.parent) for path in folders]


def _session(folder: Path) -> GpuSession:
    measured, unreadable = [], []
    for path in sorted(folder.glob("*.jsonl")):
        if path.with_suffix(".toml").exists():
            try:
                measured += list(records.read(path))
            except (BadRecord, CannotSearch, InvalidText) as error:
                unreadable.append(f"{path.name}: {plain(str(error))}")
    environment = json.loads((folder / ENVIRONMENT).read_text())
    failed = [one for one in measured if not one.record.ok]
    steps = steps_of(folder)
    return GpuSession(folder, environment, steps, compare(measured), failed, unreadable)


def write_page(results: Path) -> Path:
    """Write the page beside the folder of results; return its path."""
    every = sessions(results)
    parts = [HEAD, *("\n".join(_section(one)) for one in every)]
    path = results.with_suffix(".md")
    path.write_text("\n".join([*parts, *([] if every else [f"{NONE}\n"])]))
    return path


def accuracy(results: Path = RESULTS / "on_gpu") -> str:
    """Return the settings of all sessions on GPUs, for ``docs/accuracy.md``."""
    every = [row for one in sessions(results) if one.has_gpu for row in one.settings]
    return "\n".join(settings_table(every)) if every else NONE


def _section(session: GpuSession) -> Iterator[str]:
    said = session.environment
    gpu = said.get("gpu", "a rehearsal on a CPU: its speeds say nothing about a GPU")
    yield f"\n## {said.get('date', '')}: {cell(gpu)}\n"
    yield "; ".join(f"{cell(name)} {cell(value)}" for name, value in said.items())
    yield "\n### Steps\n"
    yield from _steps(session.steps)
    missing = [STEP_NAMES[name] for name in STEP_NAMES if not _begun(session, name)]
    if missing:
        yield f"\nNot reached: {'; '.join(missing)}."
    if session.unreadable:
        yield f"\nNot readable: {cell('; '.join(session.unreadable))}."
    yield "\n### Settings\n"
    yield from settings_table(session.settings)
    yield from _failed(session.failed)
    yield from _gains(session.settings)
    for name, lines in SECTIONS.items():
        yield from _readable(name, session.folder, lines)


def _readable(
    name: str, folder: Path, lines: Callable[[Any], Iterator[str]]
) -> Iterator[str]:
    """Yield a section for each file of that name; say so if one cannot be read."""
    for path in sorted(folder.glob(name)):
        try:
            text = path.read_text()
            data = (
                list(map(json.loads, text.splitlines()))
                if path.suffix == ".jsonl"
                else json.loads(text)
            )
            yield from list(lines(data))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            yield f"\nNot readable: {path.name} ({type(error).__name__})."


def _begun(session: GpuSession, name: str) -> bool:
    """Return whether a step ran, whatever came of it."""
    ended = {s["outcome"] for s in session.steps if s["step"] == name}
    return bool(ended - {"skipped", "not reached"})


def _steps(steps: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (
            cell(step.get("step", "")),
            cell(step.get("outcome", "")),
            cell(step.get("seconds", "")),
            cell(step.get("why", "")),
        )
        for step in steps
    ]
    if rows:
        yield machine.table(rows, ("step", "outcome", "s", "why"))


def settings_table(rows: Iterable[Compared]) -> Iterator[str]:
    """Yield a table of the settings that ran, and what its columns mean."""
    lines = [_row(row) for row in rows]
    if not lines:
        yield "No setting has run."
        return
    yield machine.table(lines, COLUMNS)
    yield f"\n{LEGEND}"


COLUMNS = (
    "config",
    "setting",
    "peak",
    "predicted",
    "error",
    "tokens/s",
    "predicted",
    "error",
    "published",
    "compile s",
    "trial s",
    "MHz",
    "W",
    "°C",
    "noise",
    "n",
    "sd",
)

LEGEND = """\
Peaks are the largest of n runs, in GiB of allocated memory, tokens/s their median, sd
is the standard deviation between them. An error is predicted / measured - 1. Where one
GPU stands for several, tokens/s include predicted communication, so that the error is
that of the rest. The other figures are of the first run: seconds of compiling and of
the whole trial (neither is predicted), clock, watts, temperature, and noise (half the
95 % interval of the median step)."""


def _row(row: Compared) -> tuple[str, ...]:
    first = row.records[0]
    setting = ", ".join(filter(None, (_words(row.setting), first.extrapolated)))
    noise, between = first.relative_error, row.between_runs
    return (
        cell(Path(row.config).stem),
        cell(setting),
        f"{row.peak_gib:.1f}",
        *_beside(row.memory, row.peak_gib, ".1f"),
        f"{row.tokens_per_second:,.0f}",
        *_beside(row.speed, row.tokens_per_second, ",.0f"),
        f"{row.published:,.0f}" if row.published else "",
        f"{first.compile_s:.0f}" if first.compile_s else "",
        f"{first.cost_s:.0f}",
        f"{first.sm_mhz:.0f}" if first.sm_mhz else "",
        f"{first.power_w:.0f}" if first.power_w else "",
        f"{first.temperature_c:.0f}" if first.temperature_c else "",
        f"{100 * noise:.2f} %" if noise else "",
        str(len(row.records)),
        f"{100 * between:.2f} %" if between is not None else "",
    )


def _words(setting: Mapping[str, object]) -> str:
    """Return a setting as ``fp8, batch 8 x 1, AC none, compiled, 16 GPUs``."""
    gpus = setting.get("world_size")
    parts = (
        setting.get("precision"),
        f"batch {setting.get('micro_batch')} x {setting.get('grad_accum')}",
        f"AC {setting.get('ac')}",
        "compiled" if setting.get("compile") else "eager",
        f"{gpus} GPUs" if gpus != 1 else "",
    )
    return ", ".join(str(part) for part in parts if part)


def _beside(band: Band | None, measured: float, form: str) -> tuple[str, str]:
    """Return a prediction with its range, and its error [%]."""
    if band is None or not measured:
        return "", ""
    low, value, high = (format(x, form) for x in (band.low, band.value, band.high))
    error = f"{100 * (band.value / measured - 1):+.1f} %"
    if not band.low <= measured <= band.high:
        error += ", outside of the range"
    return f"{value} ({low} to {high})", error


def _failed(measured: list[Measured]) -> Iterator[str]:
    """Yield the trials that did not run, with the memory that was predicted."""
    lines = []
    for one in measured:
        config, record = one
        said = None if record.rehearsal else predict(one.job).memory
        lines.append(
            (
                cell(Path(config.path).stem),
                cell(", ".join(f"{k} = {v}" for k, v in record.knobs.items())),
                cell(record.outcome),
                f"{said.value:.1f}" if said else "",
                cell(record.message),
            )
        )
    if lines:
        yield "\n### Trials that failed\n"
        head = ("config", "setting", "outcome", "predicted [GiB]", "why")
        yield machine.table(lines, head)


def _gains(rows: list[Compared]) -> Iterator[str]:
    lines = [
        (
            cell(Path(gain.config).stem),
            cell(_words(gain.setting)),
            f"{gain.measured:.3f}",
            f"{gain.predicted:.3f}" if gain.predicted else "",
        )
        for gain in gains(rows)
    ]
    if lines:
        yield "\n### FP8's tokens/s over those of bf16\n"
        yield machine.table(lines, ("config", "setting", "measured", "predicted"))


def _traces(data: Any) -> Iterator[str]:
    lines = [
        (
            cell(row["case"]),
            *(cell(row[name]) for name in ("fp8", "other", "unclear")),
            cell(row["word"]),
            "yes" if row["word"] in row["right"] else "**no**",
        )
        for row in data["rows"]
    ]
    yield "\n### Traces\n"
    head = ("case", "FP8 GEMMs", "other", "unclear", "`verify` says", "right")
    yield machine.table(lines, head)


def _linears(data: Any) -> Iterator[str]:
    lines = [
        (
            cell(row["name"]),
            *(cell(row[name]) for name in ("m", "k", "n")),
            *(_time(row[name]) for name in ("bf16_ms", "fp8_ms")),
            f"{row['gain']:.2f}" if row["gain"] else "",
            f"{row['predicted']:.2f}",
        )
        for row in data["rows"]
    ]
    yield "\n### Kernels of compiled linears, tensorwise FP8 against bf16\n"
    head = ("linear", "M", "K", "N", "bf16 ms", "FP8 ms", "gain", "predicted")
    yield machine.table(lines, head)


def _time(ms: float) -> str:
    return f"{ms:.3f}" if ms else "out of memory"


def _shapes(data: Any) -> Iterator[str]:
    refused = sum(bool(outcome["message"]) for outcome in data["outcomes"])
    yield "\n### Shapes\n"
    every = len(data["outcomes"])
    ran = cell(data["environment"].get("ran", ""))
    yield f"{refused} of {every} shapes of an FP8 linear were refused ({ran})."


def _stand_in(rows: Any) -> Iterator[str]:
    cases: dict[str, Any] = {}
    times: dict[str, Any] = {}
    for saved in rows:
        case, _, what = saved["name"].rpartition(": ")
        if why := saved["row"].get("failed"):
            yield f"\n{cell(saved['name'])} failed: {cell(why)}"
        elif what == "figures":
            cases[case] = saved["row"]
        else:
            kinds = times.setdefault(case, {"trainer": [], "trial": []})
            kinds[what.partition(",")[0]].append(saved["row"]["step_ms"])
    times = {case: kinds for case, kinds in times.items() if all(kinds.values())}
    device = rows[0]["about"]["device"]
    if cases:
        found = {"device": device, "cases": cases, "times": times}
        title, _, rest = compare_stand_in.page(found).partition("\n")
        yield f"\n##{title}\n{rest}"


SECTIONS: dict[str, Callable[[Any], Iterator[str]]] = {
    "traces_*.json": _traces,
    "linears_*.json": _linears,
    "stand_in.jsonl": _stand_in,
    "fp8_shapes.json": _shapes,
}
"""What else a session may have measured, by the names of its files.

Of experiments of rules ``rule_evidence.md`` is written beside the record.
"""


def cell(value: object) -> str:
    """Return text as it may stand in a cell of a Markdown table."""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    text = plain(str(value))[:300]
    for sign in ("\\", "|", "<", "`", "*", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return text
