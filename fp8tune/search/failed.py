"""How a trial failed, in words."""

from __future__ import annotations

from collections.abc import Iterable

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

BAD_DATA, SHORT_DATA = "BadData", "ShortData"
"""How the message of a trial begins that cannot train on the data of ``[data]``:
whatever the setting, or with so large a micro-batch."""

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
    if _message(record).startswith((BAD_DATA, SHORT_DATA)):
        return "the data of [data] does not suit the config"
    return WORDS[record.outcome]


def wrong_data(records: Iterable[Record]) -> str:
    """Why no setting can train on the data of ``[data]``; ``""`` where none said so.

    By the last that did: what another said before may have been mended.
    """
    start = f"{BAD_DATA}: "
    told = [_message(record) for record in records if not record.ok]
    why = (said[len(start) :] for said in reversed(told) if said.startswith(start))
    return next(why, "")


def _message(record: Record) -> str:
    return str(record.more.get("message"))
