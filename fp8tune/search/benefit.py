"""What the chosen setting and FP8 gain, in tokens/s and in tokens per joule."""

from __future__ import annotations

from fp8tune.search.answer import Answer, Beside
from fp8tune.search.objective import ENERGY, SPEED


def reached(found: Answer, *, aimed_at: bool = True) -> Beside:
    """What the settings reach by the aim, or by the other figure."""
    if (found.aim == ENERGY) == aimed_at:
        return found.energy
    speeds = found.speed, found.given, found.twin, found.gain
    return Beside(*speeds, found.fp8, found.pair)


def benefits(found: Answer) -> list[tuple[Beside, str]]:
    """What is told of FP8 beside bf16: by the aim first, and always in tokens/s."""
    told = [(reached(found), found.aim)]
    if found.aim != SPEED:
        told.append((reached(found, aimed_at=False), SPEED))
    return told
