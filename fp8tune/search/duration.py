"""Durations as people write them: ``90s``, ``30m``, ``2h``, ``1h30m``."""

from __future__ import annotations

import re

MAX_S = 30 * 24 * 3600.0
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


class BadDuration(Exception):
    """A text that is no duration, or not one to search for; says what is wrong."""


def parse_duration(text: str) -> float:
    """Seconds; raises ``BadDuration``."""
    match = _FORM.fullmatch(text.strip().replace(" ", ""))
    if match is None or not any(match.groups()):
        raise BadDuration(f"{text!r} is no duration; write 90s, 30m, 2h or 1h30m")
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    seconds = sum(float(number) * unit for number, unit in parts if number)
    if not 0 < seconds <= MAX_S:
        raise BadDuration(f"{text!r}: more than nothing and at most 30 days")
    return seconds


def shown(seconds: float) -> str:
    """A duration for people: ``45 s``, ``12 min``, ``1 h 30 min``."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def typed(seconds: float) -> str:
    """A duration of whole minutes as an option takes it: ``45m``, ``2h``, ``2h30m``."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h" * bool(hours) + f"{minutes}m" * bool(minutes or not hours)
