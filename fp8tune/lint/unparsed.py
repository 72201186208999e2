"""The report on a file that does not parse; in TOML, with a hint on missing quotes."""

from __future__ import annotations

import re
from typing import Any

from fp8tune.formats.document import InvalidText
from fp8tune.job import Words
from fp8tune.lint.diagnostic import Label, Region, Report
from fp8tune.lint.ruleset import Rules
from fp8tune.suggest import closest

_WORD = r"((?:[A-Za-z_/~]|\.{1,2}/)[\w./:~@+-]*)[ \t\r]*(?=$|[#,\]}])"
_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on"), "true"),
    **dict.fromkeys(("false", "no", "off"), "false"),
}


def report(path: str, error: InvalidText, rules: Rules) -> Report:
    """Return the report on a file that is not of its format."""
    line, column = error.position
    label = Label("", Region(line, column, line, column + 1), "here")
    hint = Words(error.hint or unquoted_hint(error))
    scope: Any = {"fault.reason": Words(error.reason), "fault.hint": hint}
    diagnostics = [
        rules.diagnostic(
            path, rule, rule.message.fill(scope), rule.help.fill(scope), (label,)
        )
        for rule in rules.by_fault.get(f"invalid-{error.format}", ())
    ]
    lines = error.text.split("\n")
    text = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
    return Report(path, diagnostics, lines={line: text} if diagnostics else {})


def unquoted_hint(error: InvalidText) -> str:
    """Return what to write in place of a word without quotes; else ``""``."""
    if error.reason != "Invalid value":
        return ""
    line, column = error.position
    match = re.match(_WORD, error.text.split("\n")[line - 1][column - 1 :])
    if match is None:
        return ""
    word = match[1]
    lower = word.lower()
    if lower in ("none", "null", "nil"):
        return "TOML has no empty value: remove the key"
    switch = _SWITCHES.get(lower) or closest(word, ("true", "false"))
    if switch:
        return f"write `{switch}`"
    return f'a string needs quotes: write "{word}"'
