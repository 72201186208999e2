"""One JSON file: the values that its trainer's loader reads, and where they stand.

A trainer that reads ``hjson`` gets the values of that package. All others read what
Python's ``json`` accepts, with its values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fp8tune.formats.document import (
    InvalidText,
    OneFile,
    Repeated,
    Span,
    Spans,
    Unreadable,
    text_of,
)
from fp8tune.formats.json.scan import NotRead, Refused, Scanner

MAX_REPEATED = 100
"""Most keys that are reported as repeated."""

_STRICT = "this run reads it with Python's json: no comments, no comma at an end"


class InvalidJson(InvalidText):
    """The bytes are not JSON, nor Hjson, with the position and the reason."""

    format = "json"


def parse(data: bytes) -> Document:
    """Parse the bytes of a file as Hjson, of which JSON is a part.

    Raises ``InvalidJson``, and ``Unreadable`` beyond the bounds or without keys.
    """
    text, bom = text_of(data, InvalidJson)
    return Document(text, bom=bom)


class Document(OneFile):
    """A valid text: its values and their positions."""

    format = "json"

    def __init__(self, text: str, *, bom: bool) -> None:
        self.text = text
        self.bom = bom
        self.loader = "hjson"
        self._scanner = self._scan()

    def _scan(self) -> Scanner:
        """Read the text, and let ``json`` say the values where it is the loader."""
        scanner = Scanner(self.text, strict=self.loader == "json")
        try:
            values = scanner.document(bom=self.bom)
        except NotRead as error:
            raise Unreadable(str(error)) from None
        except Refused as error:
            position = self.lines.position(error.at)
            raise InvalidJson(error.reason, position, self.text) from None
        if scanner.strict:
            values = json.loads(self.text)
        if not isinstance(values, dict):
            raise Unreadable("no train config: at its top there are no keys")
        self.values: dict[str, Any] = values
        return scanner

    def read_as(self, loader: str) -> None:
        """Read the text as ``hjson`` does, or as ``json``.

        Raises ``InvalidJson`` for what ``json`` refuses.
        """
        loader = "hjson" if loader == "hjson" else "json"
        if loader == self.loader:
            return
        if loader == "json":
            self._refuse_liberties()
        self.loader = loader
        self._scanner = self._scan()

    def _refuse_liberties(self) -> None:
        """Raise ``InvalidJson`` if Python's ``json`` refuses the text."""
        if self.bom:
            position = self.lines.position(0)
            raise InvalidJson("a byte-order mark", position, self.text, _STRICT)
        try:
            json.loads(self.text)
        except json.JSONDecodeError as error:
            position = self.lines.position(min(error.pos, len(self.text)))
            raise InvalidJson(error.msg, position, self.text, _STRICT) from None
        except ValueError:
            reason = "an integer of more than 4300 digits"
            raise InvalidJson(reason, self.lines.position(0), self.text) from None

    @property
    def spans(self) -> Spans:
        """Spans of keys, with their quotes, and values, as offsets into ``text``."""
        return self._scanner.spans

    @property
    def repeated(self) -> Sequence[Repeated]:
        """Keys that stand in one object more than once; DeepSpeed refuses them."""
        refused = self.loader == "hjson"
        return [Repeated(*e, refused) for e in self._scanner.repeated[:MAX_REPEATED]]

    @property
    def all_comments(self) -> list[Span]:
        """All comments, those in ``/* */`` too."""
        return self._scanner.comments

    def comments(self) -> Iterator[Span]:
        """The comments that begin with ``#`` or ``//``, to the end of the line."""
        for start, end in self._scanner.comments:
            if self.text.startswith(("#", "//"), start):
                yield start, end

    def read(self, text: str) -> Document:
        """Another text, read as this one was; raises ``InvalidJson``."""
        other = parse(text.encode(errors="surrogatepass"))
        other.read_as(self.loader)
        return other
