"""Words without quotes where TOML wants a value: what to write instead."""

from __future__ import annotations

import re

from fp8tune.suggest import closest
from fp8tune.toml.document import InvalidToml

_WORD = r"((?:[A-Za-z_/~]|\.{1,2}/)[\w./:~@+-]*)[ \t\r]*(?=$|[#,\]}])"
_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on"), "true"),
    **dict.fromkeys(("false", "no", "off"), "false"),
}


def advice(error: InvalidToml) -> str:
    """What to write for a bare word that the parser refused; empty if it is none."""
    if error.reason != "Invalid value":
        return ""
    line, column = error.position
    found = re.match(_WORD, error.text.split("\n")[line - 1][column - 1 :])
    if found is None:
        return ""
    word = found[1]
    lower = word.lower()
    if lower in ("none", "null", "nil"):
        return "TOML has no empty value: leave the key out"
    switch = _SWITCHES.get(lower) or closest(word, ("true", "false"))
    if switch:
        return f"write `{switch}`"
    return f'text needs quotes: write "{word}"'
