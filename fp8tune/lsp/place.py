"""What may be typed at a place of a text, by the lines before it.

A text is seldom valid while it is typed, so that the lines are read loosely.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fp8tune.formats import format_of
from fp8tune.lsp.keys import ITEM

_NAME = r"""[\w.\-]*|"[^"\n]*"?|'[^'\n]*'?"""
_TOML_HEADER = re.compile(r"(?m)^[ \t]*\[(\[?)[ \t]*([^\]\n]+?)[ \t]*\]")
_TOML_TABLE = re.compile(rf"^[ \t]*\[\[?[ \t]*(?P<word>{_NAME})$")
_TOML_VALUE = re.compile(
    rf"^[ \t]*(?P<key>{_NAME})[ \t]*=[ \t]*(?P<word>[^\s,\[\]{{}}]*)$"
)
_TOML_KEY = re.compile(rf"^[ \t]*(?P<word>{_NAME})$")
_YAML = re.compile(
    r"^(?P<indent> *(?:- +)*)(?:(?P<key>[\w.\-]+|\"[^\"]*\"): +(?P<value>\S*)"
    r"|(?P<word>[\w.\-]*))$"
)
_YAML_KEY = re.compile(
    r"^(?P<blanks> *)(?P<items>(?:- +)*)(?:(?P<key>[\w.\-]+|\"[^\"]*\"):(?:\s|$))?"
)
_JSON = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[{}\[\]:,]|[\w.+\-]+')
_FLAG = re.compile(r"(?:^|\s)(?P<word>--[\w-]*)$")
_FLAG_VALUE = re.compile(r"(?:^|\s)(?P<key>--[\w-]+)(?:=|[ \t]+)(?P<word>[^\s-]\S*|)$")
_COMMENT = re.compile(
    r"(?:#|//)[ \t]*fp8tune:.*?(?:\b(?P<option>gpu|trainer)=(?P<value>[\w.=-]*)"
    r"|\bignore\[(?:[^\]]*,)?[ \t]*(?P<rule>[\w-]*))$"
)


class Place(NamedTuple):
    """What is typed: a ``key``, the ``value`` of one, a ``table``, or a word.

    ``name`` is the table of a key, the key of a value, or the option of a comment, and
    ``word`` what of it stands there already. A name has ``[]`` for items of a list.
    """

    kind: str
    name: str
    word: str


def place_at(path: str, text: str, offset: int) -> Place | None:
    """Return what is typed at an offset; ``None`` where nothing can be offered."""
    before = text[:offset]
    line = before[before.rfind("\n") + 1 :]
    if comment := _COMMENT.search(line):
        word = comment["rule"]
        return (
            Place("comment", comment["option"], comment["value"])
            if word is None
            else Place("comment", "ignore", word)
        )
    if re.match(r"[ \t]*(#|//)", line):
        return None
    return _PLACES[format_of(path)](before, line)


def _toml(before: str, line: str) -> Place | None:
    if found := _TOML_TABLE.match(line):
        return Place("table", "", found["word"])
    table = ""
    for header in _TOML_HEADER.finditer(before[: len(before) - len(line)]):
        table = _plain(header[2]) + ITEM * bool(header[1])
    if found := _TOML_VALUE.match(line):
        return Place("value", _joined(table, _plain(found["key"])), found["word"])
    if found := _TOML_KEY.match(line):
        inner, dot, word = found["word"].rpartition(".")
        return Place("key", _joined(table, inner) if dot else table, word)
    return None


def _yaml(before: str, line: str) -> Place | None:
    found = _YAML.match(line)
    if found is None:
        return None
    lines = before[: len(before) - len(line)].split("\n")
    table = _yaml_table([*lines, f"{found['indent']}x:"])
    if found["key"]:
        return Place("value", _joined(table, _plain(found["key"])), found["value"])
    return Place("key", table, found["word"])


def _yaml_table(lines: list[str]) -> str:
    """Return the name of the table that the key on the last line is in."""
    above: list[tuple[int, str]] = []
    for line in lines:
        found = _YAML_KEY.match(line)
        if found is None or (not found["key"] and not found["items"]):
            continue  # a comment, or a text
        level = len(found["blanks"])
        for item in re.findall("- +", found["items"]):
            while above and (above[-1][0] > level or above[-1] == (level, ITEM)):
                above.pop()
            above.append((level, ITEM))
            level += len(item)
        while above and above[-1][0] >= level:
            above.pop()
        if found["key"]:
            above.append((level, _plain(found["key"])))
    names = (name for _, name in above[:-1])
    return ".".join(names).replace(f".{ITEM}", ITEM)


def _json(before: str, _: str) -> Place | None:
    tables: list[str] = []
    key, word, at_key = "", "", False
    for token in _JSON.finditer(before):
        text = word = token[0]
        if text in "{[":
            tables.append(key + ITEM * (text == "["))
            key, at_key = "", text == "{"
        elif text in "}]":
            tables = tables[:-1]
        elif text == ",":
            key, at_key = "", bool(tables) and not tables[-1].endswith(ITEM)
        elif text == ":":
            at_key = False
        elif at_key and token.end() < len(before):
            key = _plain(text)
    word = word if word.strip("{[]},:") and before.endswith(word) else ""
    table = ".".join(filter(None, tables))
    if at_key and tables:
        return Place("key", table, word)
    return Place("value", _joined(table, key), word) if key else None


def _bash(_: str, line: str) -> Place | None:
    if found := _FLAG.search(line):
        return Place("key", "", found["word"])
    if found := _FLAG_VALUE.search(line):
        return Place("value", found["key"][2:].replace("-", "_"), found["word"])
    return None


_PLACES = {"toml": _toml, "yaml": _yaml, "json": _json, "bash": _bash}


def _joined(table: str, name: str) -> str:
    return f"{table}.{name}" if table else name


def _plain(name: str) -> str:
    """Return a dotted name without quotes and blanks."""
    return re.sub(r"[\"' \t]", "", name)
