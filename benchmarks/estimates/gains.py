"""Whether FP8 pays: predicted gains of every engine against every published pair.

Each pair is predicted by rates that were fitted without its model: ``left out``.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks import machine
from benchmarks.estimates import fit, speeds
from benchmarks.estimates.pairs import pairs
from fp8tune.facts.fp8 import HARDLY, PAYS
from fp8tune.facts.speed import ROWWISE_BAND
from fp8tune.facts.steptime import engines

TARGETS = {"dense": 0.04, "mixture of experts": 0.06}
"""Largest median error of the gain of models that were left out."""

HELD, SPEED_TARGET, FASTER = 0.9, 0.15, 1.10
"""Share of pairs in the band, median error of a step, and a gain that FP8 pays for."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published gain, as predicted with its model and without it."""

    engine: str
    model: str
    name: str
    experts: bool
    published: float
    predicted: float
    left_out: float
    band: tuple[float, float]
    step_error: float | None
    source: str

    @property
    def error(self) -> float:
        """The error of the model that was left out."""
        return self.left_out - self.published

    @property
    def held(self) -> bool:
        """Whether the band around that prediction holds the published gain."""
        below, above = self.band
        return -above <= self.error <= below

    @property
    def wrong(self) -> bool:
        """Whether it says that FP8 pays where it does not, or the reverse."""
        if self.published < HARDLY:
            return self.left_out - self.band[0] >= PAYS
        return self.published > FASTER and self.left_out < HARDLY


@cache
def rows() -> tuple[Row, ...]:
    """Every pair of Transformer Engine, and every gain of torchao."""
    return (*_of_pairs(), *_of_torchao())


def _of_pairs() -> Iterator[Row]:
    mine = [pair for pair in pairs() if pair.engine in engines()]
    without = {name: fit.transformer_engine(name) for name in {p.family for p in mine}}
    for pair in mine:
        engine, other = engines()[pair.engine], without[pair.family][pair.engine]
        yield Row(
            engine=engine.title,
            model=pair.family,
            name=pair.name,
            experts=pair.experts,
            published=pair.gain,
            predicted=pair.predicted_gain(engine),
            left_out=pair.predicted_gain(other),
            band=engine.gain_band,
            step_error=pair.predicted(other)[0] / pair.bf16_seconds - 1,
            source=pair.source,
        )


def _of_torchao() -> Iterator[Row]:
    runs = [run for run in speeds.gains() if run.measured]
    without = {model: fit.torchao(model=model) for model in {r.model for r in runs}}
    for run in runs:
        engine = engines()["torchao"]
        near = run.group == fit.FITTED
        band = engine.gain_band if near else engine.far_gain_band
        yield Row(
            engine=engine.title,
            model=run.model,
            name=run.name,
            experts=False,
            published=run.measured,
            predicted=speeds.gain(run, engine),
            left_out=speeds.gain(run, without[run.model]),
            band=ROWWISE_BAND if run.recipe == "rowwise" else band,
            step_error=None,
            source=run.source,
        )


def targets() -> Iterator[tuple[str, str, bool]]:
    """What was asked, what came out, and whether it is met."""
    for kind, most in TARGETS.items():
        mine = [row for row in rows() if row.experts == (kind != "dense")]
        middle = statistics.median(abs(row.error) for row in mine)
        promise = f"{kind}: median error of a gain whose model was left out {most:.2f}"
        yield promise, f"{middle:.3f} of {len(mine)}", middle <= most
    held = sum(row.held for row in rows()) / len(rows())
    promise = f"{HELD:.0%} of published gains in the band, their model left out"
    yield promise, f"{held:.0%} of {len(rows())}", held >= HELD
    wrong = [row for row in rows() if row.wrong]
    promise = f"no sign error below {HARDLY} and above {FASTER:.2f}"
    yield promise, f"{len(wrong)} of {len(rows())} wrong", not wrong
    errors = [abs(row.step_error) for row in rows() if row.step_error is not None]
    middle = statistics.median(errors)
    promise = f"median error of a bf16 step, model left out, {SPEED_TARGET:.0%}"
    yield promise, f"{middle:.1%} of {len(errors)}", middle <= SPEED_TARGET


def summary() -> str:
    """The errors of each engine and model, as a Markdown table."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows():
        groups.setdefault((row.engine, row.model), []).append(row)
    lines = []
    for (engine, model), mine in groups.items():
        gains, errors = [r.published for r in mine], [r.error for r in mine]
        fitted = [abs(r.predicted - r.published) for r in mine]
        steps = [r.step_error for r in mine if r.step_error is not None]
        lines.append(
            (
                engine,
                model,
                str(len(mine)),
                _range(gains, "{:.2f}"),
                f"{statistics.median(fitted):.3f}",
                f"{statistics.median(map(abs, errors)):.3f}",
                _range(errors, "{:+.2f}"),
                f"{sum(r.held for r in mine)}",
                f"{100 * statistics.median(steps):+.0f} %" if steps else "",
            )
        )
    head = ("engine", "model", "pairs", "published", "median error")
    after = ("left out: median", "left out: errors", "in the band", "its bf16 step")
    return machine.table(lines, (*head, *after))


def wrong() -> str:
    """The gains whose sign is wrong, as a Markdown table."""
    lines = [
        (
            f"[{row.name}]({row.source})",
            row.engine,
            f"{row.published:.2f}",
            f"{row.left_out:.2f}",
        )
        for row in rows()
        if row.wrong
    ]
    return machine.table(lines, ("run", "engine", "published", "left out"))


def _range(values: list[float], shown: str) -> str:
    ends = [shown.format(end(values)) for end in (min, max)]
    return " to ".join(dict.fromkeys(ends))


COLOURS = ("#0b7285", "#e8590c", "#5f3dc4")
SIZE, LOW, HIGH = 480, 0.8, 1.7


def plot() -> str:
    """Predicted gains of left-out models against published ones, as SVG."""

    def at(value: float) -> float:
        return 40 + (SIZE - 60) * (value - LOW) / (HIGH - LOW)

    def line(one: float, two: float, dash: str) -> str:
        return (
            f'<line x1="{at(LOW):.0f}" y1="{SIZE - at(one):.0f}" '
            f'x2="{at(HIGH):.0f}" y2="{SIZE - at(two):.0f}" '
            f'stroke="#868e96" stroke-dasharray="{dash}"/>'
        )

    names = list(dict.fromkeys(row.engine for row in rows()))
    parts = [line(LOW, HIGH, "0"), line(LOW - 0.1, HIGH - 0.1, "4")]
    parts.append(line(LOW + 0.1, HIGH + 0.1, "4"))
    for row in rows():
        x, y = at(row.published), SIZE - at(row.left_out)
        colour = COLOURS[names.index(row.engine)]
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" '
            f'fill-opacity="0.6"><title>{row.name}</title></circle>'
        )
    for index, name in enumerate(names):
        y = 24 + 16 * index
        parts.append(f'<text x="60" y="{y}" fill="{COLOURS[index]}">{name}</text>')
    for tick in (0.8, 1.0, 1.2, 1.4, 1.6):
        place = at(tick)
        parts.append(f'<text x="{place - 8:.0f}" y="{SIZE - 22}">{tick}</text>')
        parts.append(f'<text x="8" y="{SIZE - place + 4:.0f}">{tick}</text>')
    parts.append(f'<text x="{SIZE - 140}" y="{SIZE - 6}">published gain</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" '
        f'width="{SIZE}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>\n{body}\n</svg>\n'
    )
