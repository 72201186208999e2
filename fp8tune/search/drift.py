"""Whether settings were still as fast when they were measured again."""

from __future__ import annotations

import math
import statistics

from fp8tune.search.runs import Runs, confirmed, deviation
from fp8tune.search.statistics import FAR, speed

DRIFTED = 0.03
"""Change of settings that were measured again from which it is told."""


def drift(runs: Runs) -> float:
    """How fast settings are when measured again, over what they were in the search.

    The median; 1 where none was measured at both times.
    """
    return statistics.median(_changes(runs) or [1.0])


def told(runs: Runs) -> str:
    """That settings ran no longer as fast, all alike or each otherwise; else ``""``."""
    if _apart(runs):
        found = _changes(runs)
        return (
            "Settings did not keep their speed: measured again, one ran at "
            f"{100 * min(found):.0f} % of it and another at {100 * max(found):.0f} %. "
            "It takes more runs to tell bad ones from a machine that changed."
        )
    changed = drift(runs)
    if abs(changed - 1) > DRIFTED:
        return (
            f"The machine changed on the way: settings that were measured again ran at "
            f"{100 * changed:.0f} % of their speed before. Only trials of the stage "
            "confirm compare with each other."
        )
    return ""


def _apart(runs: Runs) -> bool:
    """Whether some settings have changed otherwise than others, by more than chance."""
    found = _changes(runs) or [1.0]
    return math.log(max(found) / min(found)) > 2 * FAR * deviation(runs)


def _changes(runs: Runs) -> list[float]:
    """How fast each setting is when measured again, over what it was before."""
    found = []
    for own in runs.values():
        before = speed([trial.record for trial in own if trial.stage != "confirm"])
        after = speed(confirmed(own))
        if before and after:
            found.append(after.value / before.value)
    return found
