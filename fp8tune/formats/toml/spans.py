"""Find the span of every key, value, table and array item of a valid TOML text.

The scanner handles no errors: ``tomllib`` has accepted the text. Spans are character
offsets, the end exclusive. The text of a value's span parses, alone, to that value;
tests check this over a corpus and over generated documents.
"""

from __future__ import annotations

import re
import tomllib

from fp8tune.formats.document import Path, Span, Spans
from fp8tune.formats.toml.document import BARE_KEY, COMMENT, LONG_STRING, STRING

_BLANK = re.compile(rf"(?:[ \t\r\n]++|{COMMENT})*+")
_SPACE = re.compile(r"[ \t]*+")
_KEY = re.compile(f"{BARE_KEY}|{STRING}")
_PLAIN_PAIR = re.compile(r"([A-Za-z0-9_-]++)[ \t]*+=[ \t]*+")
_SCALAR = re.compile(
    f"{LONG_STRING}|{STRING}"
    r"|\d{4}-\d\d-\d\d[ ]\d\d:[^\s,\]}#]++"
    r"|[^\s,\]}#]++",
    re.DOTALL,
)


def scan(text: str) -> Spans:
    """Find every key and value of ``text``, which must be valid TOML."""
    scanner = _Scanner(text)
    scanner.document()
    return Spans(scanner.keys, scanner.values, scanner.names)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.names: dict[Path, list[Span]] = {}
        self._items: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _header(self) -> Path:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        path: Path = ()
        parts = self._key_parts()
        for number, (name, span) in enumerate(parts):
            path += (name,)
            last = number == len(parts) - 1
            if last and many:
                self._items[path] = self._items.get(path, -1) + 1
            if last and not many:
                self.keys[path] = span
            self._name(path, span)
            if path in self._items:
                path += (self._items[path],)
                self.keys.setdefault(path, span)
        self.at += 2 if many else 1
        return path

    def _key_parts(self) -> list[tuple[str, Span]]:
        parts = []
        while True:
            self._skip(_SPACE)
            start = self.at
            self._skip(_KEY)
            raw = self.text[start : self.at]
            name = tomllib.loads(f"k={raw}")["k"] if raw[0] in "\"'" else raw
            parts.append((name, (start, self.at)))
            self._skip(_SPACE)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _pair(self, table: Path) -> None:
        plain = _PLAIN_PAIR.match(self.text, self.at)
        if plain is not None:  # covers most pairs, and is much faster
            path = (*table, plain[1])
            self._name(path, plain.span(1))
            self.at = plain.end()
            self._value(path)
            return
        path = table
        for name, span in self._key_parts():
            path += (name,)
            self._name(path, span)
        self.at += 1
        self._skip(_SPACE)
        self._value(path)

    def _name(self, path: Path, span: Span) -> None:
        self.keys.setdefault(path, span)
        self.names.setdefault(path, []).append(span)

    def _value(self, path: Path) -> None:
        start = self.at
        opening = self.text[start]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)
        self.values[path] = (start, self.at)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        self._skip(_BLANK)
        while self.text[self.at] != "]":
            self._value((*path, index))
            index += 1
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_BLANK)
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK)
        while self.text[self.at] != "}":
            self._pair(path)
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_BLANK)
        self.at += 1
