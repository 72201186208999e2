"""The events of a Chrome trace, one by one, in bounded memory.

``torch.profiler`` writes such traces: an object whose ``traceEvents`` is an array of
events; other tools write the array alone. json's C scanner reads event after event
from blocks of text. torch lays its events out in one way; there, an event that cannot
matter is skipped by its first lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from fp8tune.verify.unpack import Text

LONGEST = 1 << 20
"""Characters of one event, or of one value beside the events."""
KEPT = ("distributedInfo", "deviceProperties")
"""What is kept of the values beside the events."""

_DECODER = json.JSONDecoder(strict=False)
_GAP = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_HEAD = re.compile(
    r'\{\n    "ph": "(?:X",\s{1,9}"cat": "([^"\\]*)",\s{1,9}"name": "([^"\\]*)"|[sft]")'
)
"""How an event of torch.profiler begins; events of flows have no groups."""
_END = "\n  }"


class Events:
    """The events of a trace, and what the trace holds beside them.

    ``wanted`` says by category and name whether an event matters; an event that does
    not may be left out. ``header`` has the values of ``KEPT`` beside the events,
    ``read`` counts the events, ``cut`` says why the trace could not be read to its end.
    """

    def __init__(self, text: Text, wanted: Callable[[str, str], bool]) -> None:
        self._text = text
        self._wanted = wanted
        self._cursor = _Cursor(text)
        self.header: dict[str, Any] = {}
        self.read = 0
        self.cut = ""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self._document()
        except _Malformed as error:
            self.cut = self._text.cut or str(error)
        except RecursionError:
            self.cut = "nested too deeply"
        self.cut = self.cut or self._text.cut

    def _document(self) -> Iterator[dict[str, Any]]:
        cursor = self._cursor
        opening = cursor.next_character()
        cursor.at += 1
        if opening == "[":
            yield from self._array(open_end=True)
        elif opening == "{":
            yield from self._object()
        else:
            raise _Malformed("no JSON of a trace")

    def _object(self) -> Iterator[dict[str, Any]]:
        cursor, has_events = self._cursor, False
        while cursor.next_character() != "}":
            key = cursor.value()
            if not isinstance(key, str) or not cursor.skip(_COLON):
                raise _Malformed(f"not valid JSON at character {cursor.position:,}")
            if key == "traceEvents" and cursor.next_character() == "[":
                cursor.at += 1
                has_events = True
                yield from self._array(open_end=False)
                continue
            value = cursor.value()
            if key in KEPT:
                self.header[key] = value
        if not has_events:
            raise _Malformed("JSON without traceEvents")

    def _array(self, *, open_end: bool) -> Iterator[dict[str, Any]]:
        """Yield the events of an array; ``open_end``: it may lack its bracket."""
        cursor, decode = self._cursor, _DECODER.raw_decode
        while True:
            text, at = cursor.text, cursor.at
            while True:
                at = _GAP.match(text, at).end()  # type: ignore[union-attr]
                head = _HEAD.match(text, at)
                end = -1 if head is None else self._end_of_unwanted(head)
                event = None
                if end < 0:
                    try:
                        event, end = decode(text, at)
                    except ValueError:
                        break
                at = end
                self.read += 1
                if type(event) is dict:
                    yield event
            cursor.at = at
            if text[at : at + 1] == "]":
                cursor.at += 1
                return
            if not cursor.more():
                if open_end and at == len(text):
                    return
                raise _Malformed("the file ends before its events do")

    def _end_of_unwanted(self, head: re.Match[str]) -> int:
        """Return where an event ends that does not matter, -1 for any other."""
        category, name = head.groups()
        if category is not None and self._wanted(category, name):
            return -1
        text, begin = head.string, head.end()
        end = text.find(_END, begin)
        if end < 0 or text.find('"ph": ', begin, end) >= 0:
            return -1
        return end + len(_END)


class _Malformed(Exception):
    """The text is not the JSON of a trace; the message says where."""


class _Cursor:
    """A place in a text of which only what is ahead is kept."""

    def __init__(self, text: Text) -> None:
        self._blocks = text.text()
        self.text = next(self._blocks, "")
        self.at = 0
        self._before = 0

    @property
    def position(self) -> int:
        """The number of characters before this place."""
        return self._before + self.at

    def more(self) -> bool:
        """Read one more block; return whether there was one.

        Raises ``_Malformed`` if what is ahead is longer than any value should be.
        """
        if len(self.text) - self.at > LONGEST:
            raise _Malformed(f"not valid JSON at character {self.position:,}")
        block = next(self._blocks, "")
        self._before += self.at
        self.text = self.text[self.at :] + block
        self.at = 0
        return bool(block)

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Go behind what matches here; return whether anything does."""
        while True:
            match = pattern.match(self.text, self.at)
            if match is not None and match.end() < len(self.text):
                self.at = match.end()
                return True
            if not self.more():
                return match is not None

    def next_character(self) -> str:
        """Go to the next character that is neither space nor comma, and return it."""
        self.skip(_GAP)
        character = self.text[self.at : self.at + 1]
        if not character:
            raise _Malformed("the file ends before its JSON does")
        return character

    def value(self) -> Any:
        """Read the JSON value here, and go behind it."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except ValueError:
                if self.more():
                    continue
                raise _Malformed("the file ends before its JSON does") from None
            left = len(self.text) - end
            if left or not self.more():
                self.at = len(self.text) - left
                return value
