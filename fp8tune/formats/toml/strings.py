"""Map characters of a string's value to its text, where escapes are longer."""

from __future__ import annotations

import re

_NEWLINE = re.compile(r"\r?\n")
_LITERAL = re.compile(r"()(?:\r\n|.)", re.DOTALL)
_BASIC = re.compile(
    r"(\\[ \t]*\r?\n[ \t\r\n]*)|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|\r\n|.",
    re.DOTALL,
)
"""One character of a string as written; group 1 is a line that goes on."""


def offset_in_string(text: str, offset: int, inside: int) -> int:
    """Return the offset of character ``inside`` of the string written at ``offset``.

    Escapes are several characters long in the text, and so are line ends of CRLF.
    """
    long = text[offset : offset + 3] in ('"""', "'''")
    at = offset + (3 if long else 1)
    newline = _NEWLINE.match(text, at) if long else None
    at = newline.end() if newline else at
    pattern = _BASIC if text[offset] == '"' else _LITERAL
    while inside > 0:
        part = pattern.match(text, at)
        if part is None:
            break
        at = part.end()
        inside -= not part[1]
    return at
