"""How a trial failed, in words."""

from __future__ import annotations

from fp8tune.search.cutoff import is_cut_off
from fp8tune.search.record import Record

WORDS = {
    "oom": "out of memory",
    "hang": "gave no answer",
    "compile": "did not compile",
    "nan": "lost its loss (NaN)",
    "launch": "did not start",
    "throttled": "the GPU did not run at its full speed",
    "user": "the config's own code failed",
}

BAD_DATA = "BadData"
"""How the message of a trial begins that cannot train on the data of ``[data]``."""

STEPPING = ("first_step", "steady", "profile")
"""Stages in which a trial makes steps."""


def failed(record: Record) -> str:
    """How a trial failed."""
    if is_cut_off(record):
        return "cut off by the end of the budget"
    if record.outcome == "launch" and record.step_ms:
        return "does not count"
    if record.outcome == "launch" and record.more.get("stage_reached") in STEPPING:
        return "died in its steps"
    if str(record.more.get("message")).startswith(BAD_DATA):
        return "the data of [data] does not suit the config"
    return WORDS[record.outcome]
