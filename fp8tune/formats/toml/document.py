"""Decode and parse one TOML file; keep its text for positions.

``tomllib`` decides what is valid, because trainers parse with it. Plain files (see
``plain.py``) are read faster, with positions; ``tomllib`` would accept them too. In all
other files positions are scanned when a finding needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from fp8tune.formats.document import (
    InvalidText,
    Lines,
    OneFile,
    Position,
    Repeated,
    Span,
    Spans,
    Unreadable,
    text_of,
)
from fp8tune.formats.toml.plain import read_plain

LONG_STRING = (
    r"""\"{3}(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}|'{3}(?:[^']++|'{1,2}(?!'))*+'{3,5}"""
)
"""A string over several lines; needs ``re.DOTALL``."""

STRING = r""""(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'"""
"""A string on one line, also as a quoted key."""

COMMENT = r"#[^\n]*+"

BARE_KEY = r"[A-Za-z0-9_-]++"

MAX_KEY_PARTS = 100
"""Longest dotted key; ``tomllib`` needs time quadratic in this."""

_WHERE = r" \(at (?:line (\d+), column (\d+)|end of document)\)$"
_KEY = rf"(?:(?<![\w-]){BARE_KEY}|{STRING})"
_DOTTED = rf"(?:[ \t]*+\.[ \t]*+{_KEY})"


class InvalidToml(InvalidText):
    """The bytes are not TOML, with the position and the parser's reason."""

    format = "toml"


class Document(OneFile):
    """A valid TOML text: its values, and on demand their positions.

    ``bom`` says whether a byte-order mark was removed from the start of ``text``.
    ``spans`` are known from the start if ``plain.py`` read the text.
    """

    format = "toml"
    repeated: Sequence[Repeated] = ()

    def __init__(
        self,
        text: str,
        values: dict[str, Any],
        *,
        bom: bool,
        spans: Spans | None = None,
    ) -> None:
        self.text = text
        self.values = values
        self.bom = bom
        if spans is not None:
            self.spans = spans

    def read_as(self, loader: str) -> None:
        """Nothing to change: every trainer reads TOML alike."""

    @cached_property
    def spans(self) -> Spans:
        """Spans of keys and values, as character offsets into ``text``."""
        from fp8tune.formats.toml.spans import scan

        try:
            return scan(self.text)
        except RecursionError:  # nested as deeply as the parser can take
            return Spans({}, {}, {})

    def comments(self) -> Iterator[Span]:
        """The comments, from ``#`` to the end of the line."""
        return comments(self.text)

    def read(self, text: str) -> Document:
        """Another text, read as this one was; raises ``InvalidToml``."""
        return parse(text.encode())


def parse(data: bytes) -> Document:
    """Parse the bytes of a file.

    Raises ``InvalidToml`` if the trainer's parser would refuse the text, and
    ``Unreadable`` if the bytes exceed the bounds above. A byte-order mark, which the
    trainer's parser refuses as well, is only noted in ``bom``.
    """
    text, bom = text_of(data, InvalidToml)
    plain = read_plain(text)
    if plain is not None:
        return Document(text, plain[0], bom=bom, spans=plain[1])
    if text.count(".") >= MAX_KEY_PARTS and _has_long_key(text):
        raise Unreadable(f"a key has more than {MAX_KEY_PARTS} dotted parts")
    return Document(text, _values(text), bom=bom)


def comments(text: str) -> Iterator[Span]:
    """Yield the comments of a valid TOML text, from ``#`` to the end of the line."""
    tokens = f"{LONG_STRING}|{STRING}|{COMMENT}"
    for match in re.finditer(tokens, text, re.DOTALL):
        if match[0][0] == "#":
            yield match.span()


def _has_long_key(text: str) -> bool:
    """Return whether a dotted key, not a string or comment, has too many parts.

    Reads each character once, so its time is linear in the length of the text.
    """
    key = f"{_KEY}{_DOTTED}{{0,{MAX_KEY_PARTS - 1}}}+(?P<too_long>{_DOTTED})?"
    tokens = re.compile(f"{LONG_STRING}|{key}|{STRING}|{COMMENT}", re.DOTALL)
    return any(match["too_long"] for match in tokens.finditer(text))


def _values(text: str) -> dict[str, Any]:
    import tomllib  # costs more than reading a plain text

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(text, str(error)) from None
    except RecursionError:
        reason = "nested too deeply for the parser"
        raise InvalidToml(reason, Position(1, 1), text) from None
    except ValueError:
        reason = "an integer of more than 4300 digits"
        raise InvalidToml(reason, Position(1, 1), text) from None


def _invalid(text: str, message: str) -> InvalidToml:
    where = re.search(_WHERE, message)
    if where is None:
        return InvalidToml(message, Position(1, 1), text)
    reason = _reason(message[: where.start()])
    if where[1]:
        return InvalidToml(reason, Position(int(where[1]), int(where[2])), text)
    return InvalidToml(
        f"{reason} at the end of the file", Lines(text).position(len(text)), text
    )


def _reason(said: str) -> str:
    """Return the parser's reason, reworded to name the key."""
    if said == "Cannot overwrite a value":
        return "this key is already set above"
    twice = re.fullmatch(r"Cannot declare \((.*)\) twice", said)
    if twice is None:
        return said
    names = re.findall(r"'([^']*)'", twice[1])
    return f"[{'.'.join(names)}] is declared twice"
