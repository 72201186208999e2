"""Landscapes of near configs: another model size, length or number of GPUs.

What belongs to the machine and its software stays as it is up to a few percent: what
AC, compile and FP8 cost or gain, how full a GPU may be, which settings do not compile.
"""

from __future__ import annotations

import copy
import random
from typing import NamedTuple

from tests.support.landscape import World, built, laid
from tests.support.shape import Arbitrary, Shape

AWAY = 10**6
"""A near landscape's seed lies so far from that of the first one."""
SIZES = (0.5, 0.7, 1.4, 2.0)
"""Relative number of parameters, sequence length and GPUs of the near config."""
DRIFT = 0.01
"""Relative deviation of what belongs to the machine."""
MACHINE = ("compiled", "fp8_max", "eager_fp8", "chunk", "knee", "compiled_memory")


class Pair(NamedTuple):
    """Two landscapes, the one that is searched first and the one after it.

    A sequence of the first has ``scale`` times the tokens of one of the second.
    """

    first: World
    second: World
    scale: float = 1.0


def near(seed: int) -> Pair:
    """The landscape of a seed, and one of a config near the first one's."""
    first, ground = laid(seed)
    draw = random.Random(seed + AWAY)  # noqa: S311
    while True:
        shape = _changed(copy.copy(ground.shape), draw)
        found = built(seed + AWAY, ground._replace(shape=shape), draw)
        if found is not None:
            return Pair(first, found, ground.shape.seq / shape.seq)


def unlike(seed: int) -> Pair:
    """The second landscape of ``near``, and before it one that misleads.

    The same knobs and GPU, but model and software have nothing to do with each other.
    """
    second = near(seed).second
    _, ground = laid(seed)
    other = seed
    while True:
        other += 2 * AWAY
        shape = laid(other)[1].shape
        draw = random.Random(other)  # noqa: S311
        found = built(other, ground._replace(shape=shape), draw)
        if found is not None:
            return Pair(found, second)


def _changed(shape: Shape, draw: random.Random) -> Shape:
    """A shape of another size, whose machine is nearly the same."""
    size, length, gpus = (draw.choice(SIZES) for _ in range(3))
    width = draw.choice((0.0, 0.5))
    shape.params *= size
    shape.state *= size / gpus
    shape.seq = int(shape.seq * length)
    longer = {ac: gib * size ** (1 - width) for ac, gib in shape.slope.items()}
    shape.slope = {ac: gib * length for ac, gib in longer.items()}
    shape.logits *= length
    shape.fp8_half /= size**width
    shape.wave = random.Random(draw.random())  # noqa: S311
    for name in MACHINE:
        setattr(shape, name, getattr(shape, name) * draw.gauss(1, DRIFT))
    shape.recompute = {
        ac: max(1.0, by * draw.gauss(1, DRIFT)) for ac, by in shape.recompute.items()
    }
    if isinstance(shape, Arbitrary):
        shape.peak_at *= draw.gauss(1, 0.1)
        shape.salts += ((draw.uniform(0.0, 0.1), draw.random()),)
    return shape
