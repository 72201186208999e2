"""Read JSON with the liberties of Hjson, and note where every key and value stands.

Accepts and refuses what the package ``hjson`` 3.1.0 does, with the same values:
comments (``#``, ``//``, ``/* */``), keys and strings without quotes, single quotes,
commas that are missing or too many at an end, no braces around the whole file. Texts in
``'''`` are not read. Of a ``strict`` text, which ``json`` has accepted, only the places
count.

Source: hjson 3.1.0, decoder.py.
"""

from __future__ import annotations

import re
from typing import Any

from fp8tune.formats.document import Path, Span, Spans

MAX_DEPTH = 100
"""Deepest nesting that is read; DeepSpeed's configs have about five."""

_BLANK = re.compile(r"[ \t\r\n]*+")
_COMMENT = re.compile(r"(?:#|//)[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_BARE_KEY = re.compile(r"[^ \t\r\n:{}\[\],]++(?=([ \t\r\n]*+):)")
_NUMBER = re.compile(r"[\t ]*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
_STOP = re.compile(r"[\r\n,}\]#]|/[/*]|\Z")
_LINE_END = re.compile(r"[\r\n]|\Z")
_STRICT = re.compile(r"[^\s,\]}]++")
_CHUNK = re.compile(r"([^'\"\\\x00-\x1f]*+)(['\"\\\x00-\x1f])")
_ESCAPES = dict(zip("\"'\\/bfnrt", "\"'\\/\b\f\n\r\t", strict=True))
_CODE = re.compile("[0-9a-fA-F]{4}")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
"""The second half of a character beyond the first 65,536."""
_WORDS = {"null": None, "true": True, "false": False}
_WHOLE_BELOW = 1e10
"""A number without a fraction is an ``int`` below this, as ``1e3``."""


class Refused(Exception):
    """The text is not Hjson: the reason, and the offset."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class NotRead(Exception):
    """The text is nested too deeply, or has what no config has; the message says it."""


class Scanner:
    """One text: its values, spans, comments, and keys that stand twice."""

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self.text = text
        self.strict = strict
        self.spans = Spans({}, {}, {})
        self.comments: list[Span] = []
        self.repeated: list[tuple[Path, Span, Span]] = []
        self.depth = 0

    def document(self, *, bom: bool) -> Any:
        """Return the value of the whole text; raises ``Refused`` and ``NotRead``."""
        at = self.skip(0)
        if at == len(self.text) and not bom:
            return {}
        if self.text[at : at + 1] in ("{", "["):
            value, at = self.value((), at)
        else:
            value, at = self.table((), at, braces=False)
        end = self.skip(at)
        if end < len(self.text):
            raise Refused("there is more after the end of the value", end)
        return value

    def skip(self, at: int) -> int:
        """Return where the next token starts, behind blanks and comments."""
        while True:
            blank = _BLANK.match(self.text, at)
            at = blank.end() if blank else at
            comment = _COMMENT.match(self.text, at)
            if comment is None:
                if self.text.startswith("/*", at):
                    raise Refused("a comment that does not end", at)
                return at
            if not self.comments or self.comments[-1][0] < at:
                self.comments.append(comment.span())
            at = comment.end()

    def value(self, path: Path, at: int) -> tuple[Any, int]:
        """Return the value that starts here, and where it ends."""
        value: Any
        opening = self.text[at : at + 1]
        if opening in ("{", "["):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise NotRead(f"nested more than {MAX_DEPTH} deep")
            read = self.table if opening == "{" else self.array
            value, end = read(path, at + 1)
            self.depth -= 1
        elif self.text.startswith("'''", at):
            raise NotRead("a text in ''' is not read: write it in quotes, on one line")
        elif opening in ('"', "'") and opening:
            value, end = self.string(at)
        else:
            value, end = self.plain(at)
        self.spans.values[path] = (at, end)
        return value, end

    def table(
        self, path: Path, at: int, *, braces: bool = True
    ) -> tuple[dict[str, Any], int]:
        """Return an object, whose brace is before ``at``, and where it ends."""
        found: dict[str, Any] = {}
        opening, at = at - 1, self.skip(at)
        while not (braces and self.text.startswith("}", at)):
            if braces and at == len(self.text):
                raise Refused("this { is never closed", opening)
            name, end = self.key(at)
            here = (*path, name)
            if name in found:
                self.repeated.append((here, (at, end), self.spans.keys[here]))
                self.forget(here)
            self.spans.keys[here] = span = (at, end)
            self.spans.names[here] = [span]
            at = self.skip(end)
            if not self.text.startswith(":", at):
                raise Refused("a colon is missing after the key", at)
            found[name], at = self.value(here, self.skip(at + 1))
            at = self.after(at)
            if not braces and at == len(self.text):
                return found, at
        return found, at + 1

    def array(self, path: Path, at: int) -> tuple[list[Any], int]:
        """Return an array, whose bracket is before ``at``, and where it ends."""
        found: list[Any] = []
        opening, at = at - 1, self.skip(at)
        while not self.text.startswith("]", at):
            if at == len(self.text):
                raise Refused("this [ is never closed", opening)
            item, at = self.value((*path, len(found)), at)
            found.append(item)
            at = self.after(at)
        return found, at + 1

    def after(self, at: int) -> int:
        """Return where the next token starts behind a value and its comma."""
        at = self.skip(at)
        return self.skip(at + 1) if self.text.startswith(",", at) else at

    def forget(self, path: Path) -> None:
        """Drop the spans inside a value that a later one replaces."""
        for table in self.spans:
            for inner in [p for p in table if p[: len(path)] == path]:
                del table[inner]

    def key(self, at: int) -> tuple[str, int]:
        """Return the key that starts here, and where it ends."""
        if self.text[at : at + 1] in ('"', "'") and at < len(self.text):
            return self.string(at)
        bare = _BARE_KEY.match(self.text, at)
        if bare is None:
            raise Refused("a key is missing here, or its colon", at)
        return (bare[0].rstrip() if bare[1] else bare[0]), bare.end()

    def plain(self, at: int) -> tuple[Any, int]:
        """Return a number, a word, or a string without quotes up to the line's end."""
        text = self.text
        if at == len(text) or text[at] in "{}[],:":
            raise Refused("a value is missing here", at)
        if self.strict:
            token = _STRICT.match(text, at)
            return None, token.end() if token else at
        stop = _end(_STOP, text, at)
        word = text[at:stop].strip()
        if word in _WORDS:
            return _WORDS[word], at + len(word)
        if "0" <= text[at] <= "9" or text[at] == "-":
            number = _NUMBER.match(text, at)
            if number is not None and number.end() == stop:
                return _number(number, at), at + len(word)
        line = text[at : _end(_LINE_END, text, at)].strip()
        return line, at + len(line)

    def string(self, start: int) -> tuple[str, int]:
        """Return a quoted string, and where it ends."""
        text, quote, at = self.text, self.text[start], start + 1
        parts: list[str] = []
        while True:
            chunk = _CHUNK.match(text, at)
            if chunk is None:
                raise Refused("a string that does not end", start)
            at = chunk.end()
            parts.append(chunk[1])
            if chunk[2] == quote:
                return "".join(parts), at
            if chunk[2] in "\"'":
                parts.append(chunk[2])
            elif chunk[2] != "\\":
                reason = (
                    "a string that does not end on its line, or a control character"
                )
                raise Refused(reason, at - 1)
            elif text[at : at + 1] == "u":
                character, at = self.unicode(at + 1)
                parts.append(character)
            else:
                if text[at : at + 1] not in _ESCAPES:
                    raise Refused("an unknown escape in a string", at - 1)
                parts.append(_ESCAPES[text[at]])
                at += 1

    def unicode(self, at: int) -> tuple[str, int]:
        r"""Return the character of ``\uXXXX``; two may be one character."""
        code = _CODE.match(self.text, at)
        if code is None:
            raise Refused("four hexadecimal digits are missing after \\u", at - 2)
        number, end = int(code[0], 16), code.end()
        low = _LOW.match(self.text, end) if number & 0xFC00 == 0xD800 else None
        if low is not None:
            number = 0x10000 + ((number - 0xD800) << 10) + int(low[1], 16) - 0xDC00
            end = low.end()
        return chr(number), end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern is found that matches somewhere."""
    found = pattern.search(text, at)
    assert found is not None
    return found.start()


def _number(match: re.Match[str], at: int) -> Any:
    """Return a number: an ``int`` if it has no fraction and is below 1e10."""
    whole, fraction, power = match.groups()
    try:
        if not (fraction or power):
            return int(whole)
        number = float(f"{whole}{fraction or ''}{power or ''}")
        rounded = int(number)
    except (OverflowError, ValueError):
        raise Refused("a number that is too large", at) from None
    small = rounded == number and abs(number) < _WHOLE_BELOW
    return rounded if small else number
