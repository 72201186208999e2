"""Loss runs: runs made for their losses, to compare FP8 with bf16."""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_COUNT = 10**18


class LossRun(NamedTuple):
    """How a loss run is trained: seed of the weights, linear warmup, length [steps].

    All runs see the same data. ``config_warmup_steps`` is the config's own warmup,
    ``may_change`` says whether the search may write another one.
    """

    seed: int
    warmup_steps: int
    steps: int
    config_warmup_steps: int
    may_change: bool = False

    def training(self) -> dict[str, int]:
        """Return the fields of ``Spec`` that it sets in a worker."""
        return {
            "seed": self.seed,
            "warmup_steps": self.warmup_steps,
            "steps": self.steps,
        }


def parse_loss_run(data: Any) -> LossRun | None:
    """Return the loss run in a record's JSON; ``None`` if it is not valid."""
    try:
        run = LossRun(**data)
    except TypeError:
        return None
    *counts, may_change = run
    valid = all(type(n) is int and 0 <= n < MAX_COUNT for n in counts)
    valid = valid and run.steps > 0 and isinstance(may_change, bool)
    return run if valid else None
