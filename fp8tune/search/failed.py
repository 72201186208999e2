"""How a trial failed, in words."""

from __future__ import annotations

from collections.abc import Iterable

from fp8tune.trials.record import Record
from fp8tune.trials.trial import Trial

WORDS = {
    "oom": "out of memory",
    "hang": "gave no answer",
    "compile": "did not compile",
    "nan": "lost its loss (NaN)",
    "launch": "did not start",
    "throttled": "the GPU did not run at its full speed",
    "user": "the config's own code failed",
}

BAD_DATA, SHORT_DATA = "BadData", "ShortData"
"""How the message of a trial begins that cannot train on the data of ``[data]``:
whatever the setting, or with so large a micro-batch."""

STEPPING = ("first_step", "steady", "profile")
"""Stages in which a trial makes steps."""


def failed(trial: Trial) -> str:
    """How a trial failed."""
    record = trial.record
    if trial.cut_off:
        return "cut off by the end of the budget"
    if record.outcome == "launch" and record.step_ms:
        return "does not count"
    if record.outcome == "launch" and record.stage_reached in STEPPING:
        return "died in its steps"
    if record.message.startswith((BAD_DATA, SHORT_DATA)):
        return "the data of [data] does not suit the config"
    return WORDS[record.outcome]


def wrong_data(records: Iterable[Record]) -> str:
    """Why no setting can train on the data of ``[data]``; ``""`` where none said so.

    By the last that did: what another said before may have been mended.
    """
    start = f"{BAD_DATA}: "
    told = [record.message for record in records if not record.ok]
    why = (said[len(start) :] for said in reversed(told) if said.startswith(start))
    return next(why, "")
