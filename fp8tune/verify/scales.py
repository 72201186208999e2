"""FP8 statistics of tensors, where a run logged them.

torchao logs no scales, amax or underflow. Transformer Engine does with its debug tools:
the feature ``LogFp8TensorStats`` writes ``LAYER_TENSOR_underflows%`` and others to
TensorBoard
(docs.nvidia.com/deeplearning/transformer-engine/user-guide/debug/).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fp8tune.verify.scalars import Scalars

STATISTICS = ("underflows%", "overflows%", "saturations%")
"""Shares of the values of a tensor that are lost [%]."""
_TAG = re.compile(
    r"([^\s]{1,160})_(activation|gradient|weight|output|wgrad|dgrad)_([\w%]{1,40})"
)


class Scale(NamedTuple):
    """The share of a tensor's values that are lost [%], over the last steps.

    ``tensor`` is activation, gradient, weight and so on, ``value`` the median of the
    last quarter of what was logged, ``highest`` the highest value.
    """

    layer: str
    tensor: str
    statistic: str
    value: float
    highest: float


def of_tags(scalars: Scalars) -> list[Scale]:
    """Return the statistics among the tags of a run."""
    rows = ((tag, points.value) for tag, points in scalars.points.items())
    return list(_scales(rows))


def _scales(rows: Iterable[tuple[str, Iterable[float]]]) -> Iterator[Scale]:
    for tag, values in rows:
        match = _TAG.fullmatch(tag)
        finite = [value for value in values if math.isfinite(value)]
        if match and finite and match[3] in STATISTICS:
            last = finite[-max(1, len(finite) // 4) :]
            named = match[1], match[2], match[3]
            yield Scale(*named, statistics.median(last), max(finite))
