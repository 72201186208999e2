"""Durations as people type and read them: ``1h30m``, ``12 min``."""

from __future__ import annotations

import math
import re

MAX_S = 30 * 24 * 3600.0
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


class BadDuration(Exception):
    """A text that is no duration, or none to search for; says what is wrong."""


def parse_duration(text: str) -> float:
    """Return the seconds of ``90s``, ``30m``, ``2h`` or ``1h30m``.

    Raises ``BadDuration``.
    """
    match = _FORM.fullmatch(text.strip().replace(" ", ""))
    if match is None or not any(match.groups()):
        raise BadDuration(f"{text!r} is no duration; write 90s, 30m, 2h or 1h30m")
    parts = zip(match.groups(), UNITS_S.values(), strict=True)
    seconds = sum(float(number) * unit for number, unit in parts if number)
    if not 0 < seconds <= MAX_S:
        raise BadDuration(f"{text!r}: more than nothing and at most 30 days")
    return seconds


def whole_budget(seconds: float) -> float:
    """Return a budget of so many seconds or more, in minutes; from ten on in fives."""
    minutes = math.ceil(seconds / 60)
    return 60.0 * (minutes if minutes < 10 else 5 * math.ceil(minutes / 5))


def show_duration(seconds: float) -> str:
    """Return a duration for people: ``45 s``, ``12 min``, ``1 h 30 min``."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def typed(seconds: float) -> str:
    """Return whole minutes as an option takes them: ``45m``, ``2h``, ``2h30m``."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours}h" * bool(hours) + f"{minutes}m" * bool(minutes or not hours)
