"""What the runner of GitHub Actions makes of a log.

https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
"""

import re
from typing import NamedTuple

LEVELS = ("error", "warning", "notice")
KNOWN = {*LEVELS, "debug", "group", "endgroup", "add-mask", "stop-commands"}


class Command(NamedTuple):
    """One workflow command."""

    name: str
    properties: dict[str, str]
    data: str


def unescaped(text, **more):
    for token, sign in {"0D": "\r", "0A": "\n", **more, "25": "%"}.items():
        text = text.replace(f"%{token}", sign)
    return text


def command(line):
    """What the runner makes of a line of the log; ``None`` for plain text."""
    form = re.match(r"\s*::([^ :]+)(?: (.*?))?::(.*)", line, re.DOTALL)
    if form is None or form[1] not in KNOWN:
        old = re.search(r"##\[([^ \]]*)", line)
        assert old is None or old[1] not in KNOWN, "a command of the old form"
        return None
    pairs = (part.split("=", 1) for part in (form[2] or "").split(",") if part)
    properties = {p[0]: unescaped(p[1], **{"3A": ":", "2C": ","}) for p in pairs}
    return Command(form[1], properties, unescaped(form[3]))


def commands(text):
    assert "\r" not in text
    return [found for line in text.split("\n") if (found := command(line))]
