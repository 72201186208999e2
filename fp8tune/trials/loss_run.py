"""A run that is made for its losses, to compare what FP8 and bf16 learn."""

from __future__ import annotations

from typing import Any, NamedTuple

MOST = 10**18


class LossRun(NamedTuple):
    """How a run is trained: the initial weights' seed, linear warmup, length [steps].

    The data are the same in all. ``config_warmup_steps`` is the config's own warmup,
    ``may_change`` says whether the search may write another one.
    """

    seed: int
    warmup_steps: int
    steps: int
    config_warmup_steps: int
    may_change: bool = False

    def training(self) -> dict[str, int]:
        """What a worker needs to know of it."""
        return {
            "seed": self.seed,
            "warmup_steps": self.warmup_steps,
            "steps": self.steps,
        }


def parse_loss_run(told: Any) -> LossRun | None:
    """The loss run of a record's JSON; ``None`` where that is none."""
    try:
        found = LossRun(**told)
    except TypeError:
        return None
    *counts, may_change = found
    whole = all(type(n) is int and 0 <= n < MOST for n in counts)
    sound = whole and found.steps > 0 and isinstance(may_change, bool)
    return found if sound else None
