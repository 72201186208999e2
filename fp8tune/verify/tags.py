"""Find out which of a run's tags are its loss, its tokens, FP8 statistics and so on."""

from __future__ import annotations

import functools
import math
import re
import statistics
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from fp8tune.verify.evidence import QUANTITIES, Curve
from fp8tune.verify.scalars import Points, Scalars


class NoLoss(Exception):
    """No tag of a run is a loss; the message names the tags that there are."""


class Named(NamedTuple):
    """The trainer whose tags these are, and the tag of each quantity.

    The trainer is ``""`` where several have as many of the tags.
    """

    trainer: str
    tags: dict[str, str]


@functools.cache
def known() -> dict[str, dict[str, list[str]]]:
    """Return the tags of each quantity, in the order of preference, by trainer."""
    data = tomllib.loads(
        files("fp8tune.verify").joinpath("tags.toml").read_text("utf-8")
    )
    return {
        trainer: {name: tags for name, tags in table.items() if name != "source"}
        for trainer, table in data.items()
    }


def named(scalars: Scalars, loss: str = "") -> Named:
    """Return which tag is which quantity; ``loss`` names that of the loss.

    Case does not count. Raises ``NoLoss``.
    """
    own = {tag.casefold(): tag for tag in scalars.points}
    given = own.get(loss.casefold(), "")
    if loss and not given:
        raise NoLoss(f"no tag `{loss}`; there are {_shown(scalars)}")
    best = Named("", {})
    for trainer, quantities in known().items():
        tags = {
            name: own[tag.casefold()]
            for name, several in quantities.items()
            for tag in reversed(several)
            if tag.casefold() in own
        }
        if given:
            tags["loss"] = given
        if "loss" in tags and len(tags) > len(best.tags):
            best = Named(trainer, tags)
        elif "loss" in tags and len(tags) == len(best.tags):
            best = Named("", best.tags)
    if not best.tags:
        raise NoLoss(
            f"none of these is known as the loss: {_shown(scalars)}; choose one with "
            "--loss-tag"
            if scalars.points
            else "no numbers in it"
        )
    return best


def _shown(scalars: Scalars) -> str:
    tags = sorted(scalars.points)
    more = f" and {len(tags) - 12} more" if len(tags) > 12 else ""
    return (", ".join(f"`{tag}`" for tag in tags[:12]) or "none") + more


def curves(scalars: Scalars, tags: dict[str, str]) -> tuple[list[Curve], list[float]]:
    """Return the curve of each start, and the wall time of each step of the last.

    A step that is not above the one before begins a new start. A step is one of the
    loss; other quantities count where they were logged at the same step.
    """
    loss = scalars.points[tags["loss"]]
    others = {
        name: _by_start(scalars.points[tag])
        for name, tag in tags.items()
        if name != "loss" and name in QUANTITIES
    }
    starts: list[Curve] = []
    times: list[float] = []
    last = float("inf")
    for step, value, time in zip(loss.step, loss.value, loss.time, strict=True):
        if step <= last:
            starts.append(Curve())
            times = []
        number = len(starts) - 1
        values = {
            name: found[number][step]
            for name, found in others.items()
            if number < len(found) and step in found[number]
        }
        starts[-1].add(step=step, loss=value, **values)
        times.append(time)
        last = step
    return starts, times


def _by_start(points: Points) -> list[dict[float, float]]:
    """Return the values by step, for each start."""
    starts: list[dict[float, float]] = []
    last = float("inf")
    for step, value in zip(points.step, points.value, strict=True):
        if step <= last:
            starts.append({})
        starts[-1][step] = value
        last = step
    return starts


STATISTICS = ("underflows%", "overflows%", "saturations%")
"""Shares of the values of a tensor that are lost [%]."""
_STATISTIC = re.compile(
    r"([^\s]{1,160})_(activation|gradient|weight|output|wgrad|dgrad)_([\w%]{1,40})"
)


class Scale(NamedTuple):
    """The share of a tensor's values that are lost [%], over the last steps.

    ``tensor`` is activation, gradient, weight and so on, ``value`` the median of the
    last quarter of what was logged, ``highest`` the highest value. torchao logs none;
    Transformer Engine's debug feature ``LogFp8TensorStats`` writes
    ``LAYER_TENSOR_underflows%`` and others to TensorBoard
    (docs.nvidia.com/deeplearning/transformer-engine/user-guide/debug/).
    """

    layer: str
    tensor: str
    statistic: str
    value: float
    highest: float


def scales(scalars: Scalars) -> Iterator[Scale]:
    """Yield the FP8 statistics among the tags of a run."""
    for tag, points in scalars.points.items():
        match = _STATISTIC.fullmatch(tag)
        finite = list(filter(math.isfinite, points.value))
        if match and finite and match[3] in STATISTICS:
            last = finite[-max(1, len(finite) // 4) :]
            named = match[1], match[2], match[3]
            yield Scale(*named, statistics.median(last), max(finite))
