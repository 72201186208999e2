"""Does a second search on a near config need at most half the trials?

Three searches as a user would run them, one a call: the config; a near one from
nothing; the near one from the first one's study. Their studies are kept, so that one
that was cut off goes on.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fp8tune.search.plan import Plan
from fp8tune.search.saved_study import look
from fp8tune.search.write.writeback import Choice, write_back

STEPS = ("first", "fresh", "started")
SHARE = 0.75
"""Layers of the near config, of those of the first."""


def near(plan: Plan, folder: Path) -> Path:
    """A config with three quarters of the layers, in a file of that folder."""
    config = plan.config
    key, layers = config.trainer.schema.job["layers"], config.job["layers"]
    fewer = max(1, round(SHARE * layers))
    choice = Choice(key, fewer, f"{layers} -> {fewer} layers")
    path = folder / f"near_{Path(config.path).name}"
    path.write_bytes(write_back(config.data, [choice]))
    return path


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """What counts of an answer: trials by why they were run, and what was chosen."""
    _, trials = look(answer["study"])
    stages = Counter(trial.stage for trial in trials)
    chosen = answer["tokens_per_second"]["chosen"]
    return {
        "trials": dict(stages),
        "oom_trials": answer["oom_trials"],
        "seconds": answer["seconds"],
        "knobs": answer["knobs"],
        "tokens_per_second": chosen,
        "starts_from": Path(answer["starts_from"] or "").name,
    }


def lines(steps: dict[str, Any]) -> list[str]:
    """What the second search has cost, from nothing and from the first study."""
    said = [_line(name, steps[name]) for name in STEPS if name in steps]
    if len(said) < len(STEPS):
        return [*said, f"{len(STEPS) - len(said)} searches left"]
    fresh, started = (steps[name]["trials"].get("search", 0) for name in STEPS[1:])
    verdict = "reached" if 2 * started <= fresh else "MISSED"
    speeds = [steps[name]["tokens_per_second"] for name in STEPS[1:]]
    shown = " and ".join(f"{one['value']:,.0f}" for one in speeds if one)
    return [*said, f"{shown} tokens/s; at most half the trials: {verdict}"]


def _line(name: str, step: dict[str, Any]) -> str:
    chosen, every = step["trials"].get("search", 0), sum(step["trials"].values())
    count = f"{chosen} trials chosen by the search, {every} in all"
    return f"{name}: {count}, {step['seconds']:.0f} s"
