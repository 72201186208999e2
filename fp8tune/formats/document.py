"""What lint and search ask of a config's text, whatever format it is in.

``fp8tune.formats`` reads a file; a format is a module whose document keeps this
protocol.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.values import copied, put, same, value_at

Path = tuple[str | int, ...]
"""Keys and array indices from the root, e.g. ``("data", "datasets", 0, "path")``."""

Span = tuple[int, int]
"""Start and end offset in characters, the end exclusive."""


class Position(NamedTuple):
    """A place in a text; lines and columns count characters from 1."""

    line: int
    column: int


class InvalidText(Exception):
    """The bytes are not of the format, with the position and the parser's reason.

    ``format`` names the format; ``hint`` says what to write, if that is known.
    """

    format = ""

    def __init__(
        self, reason: str, position: Position, text: str, hint: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.text = text
        self.hint = hint


class Unreadable(Exception):
    """The file is refused: too large, or nested too deeply."""


class NoReader(Unreadable):
    """The format needs a package that is not installed; says what to type."""


MAX_BYTES = 1 << 20
"""Largest config that is read [bytes]; the largest that the trainers ship has 4602."""

_BOM = "\ufeff"


def text_of(data: bytes, invalid: type[InvalidText]) -> tuple[str, bool]:
    """Return the text of a file without its byte-order mark, and whether it had one.

    Raises ``Unreadable`` for a file that is too large, and ``invalid`` for one that is
    not UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise Unreadable("a file of more than 1 MiB is not a train config")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix(_BOM)
        reason = f"not UTF-8: byte 0x{data[error.start]:02x} ({error.reason})"
        whole = data.decode(errors="replace").removeprefix(_BOM)
        position = Lines(before).position(len(before))
        raise invalid(reason, position, whole) from None
    return text.removeprefix(_BOM), text.startswith(_BOM)


HOLE = "\ufffc"
"""Stands in a text for a part that only a run knows."""


class Unresolved(str):
    """The text of a value that only a run knows: it names a variable outside."""

    __slots__ = ()


class Spans(NamedTuple):
    """Spans by path: of the last part of each key, and of each value.

    Tables written as ``[header]`` have a key span (the name inside the
    brackets) and no value span; array items have a value span only, but for
    ``[[header]]`` items, which have a key span only. ``names`` are all the places
    that name a key, of which ``keys`` holds one.
    """

    keys: dict[Path, Span]
    values: dict[Path, Span]
    names: dict[Path, list[Span]]


class Repeated(NamedTuple):
    """A key that stands in one table again: where it does, and where it did before.

    The later value holds, unless the trainer's loader refuses the file.
    """

    path: Path
    span: Span
    first: Span
    refused: bool


class Lines:
    """Lines of a text by number, and positions by character offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        lengths = accumulate(map(len, text.split("\n")), initial=0)
        self._starts = [before + number for number, before in enumerate(lengths)]
        del self._starts[-1]

    def position(self, offset: int) -> Position:
        """Return the line and column of a character offset."""
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def offset(self, number: int) -> int:
        """Return the offset at which line ``number`` (from 1) begins."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """Return the text of line ``number`` (from 1) without its line ending."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


class ConfigDocument(Protocol):
    """A valid text: its values, where each stands, and edits that change them.

    The methods that edit raise ``CannotEdit`` for a layout that they do not cover.
    Whether the outcome is valid is for the caller to check, by reading it.
    """

    text: str
    values: dict[str, Any]
    bom: bool

    @property
    def format(self) -> str:
        """The format's name: ``toml``, ``yaml``, ``json`` or ``bash``."""

    @property
    def repeated(self) -> Sequence[Repeated]:
        """Keys that stand in one table more than once."""

    def read_as(self, loader: str) -> None:
        """Change ``values`` to what a trainer's loader makes of the scalars.

        ``loader`` is what the trainer ``reads`` its configs with. Raises ``Unreadable``
        where only a run can tell, and ``InvalidText`` for what this loader refuses.
        """

    @property
    def spans(self) -> Spans:
        """Where keys and values stand, as character offsets into ``text``."""

    @property
    def lines(self) -> Lines:
        """Offsets to lines and columns."""

    def span(self, path: Path, part: str) -> Span | None:
        """The span of ``"key"`` or ``"value"`` at ``path``, if it stands there."""

    def comments(self) -> Iterator[Span]:
        """The comments, from the mark that begins each to the end of its line."""

    def read(self, text: str) -> "ConfigDocument":
        """Another text, read as this one was; raises ``InvalidText``."""

    def set_values(self, values: Mapping[Path, Any]) -> Iterator[Edit]:
        """Set keys: replace their values, or add them to their tables."""

    def rename_key(self, path: Path, name: str) -> Iterator[Edit]:
        """Give a key another name wherever it is named."""

    def remove_key(self, path: Path) -> Edit:
        """Remove a key with its value, or an empty table, with its line."""

    def move_key(self, path: Path, to: Path) -> Iterator[Edit]:
        """Move a key or table, with its comments, to another place."""

    def add_header(self, path: Path, section: str) -> Edit:
        """Put the header of a section above a key."""


class Placed:
    """A text and where its keys and values stand."""

    text: str

    @property
    def spans(self) -> Spans:
        """Where keys and values stand, as character offsets into ``text``."""
        raise NotImplementedError

    @cached_property
    def lines(self) -> Lines:
        """Line numbers and columns of character offsets."""
        return Lines(self.text)

    def span(self, path: Path, part: str) -> Span | None:
        """Return the span of the ``"key"`` or ``"value"`` at ``path``, if any."""
        spans = self.spans
        table = spans.values if part == "value" else spans.keys
        return table.get(path) or spans.keys.get(path)


class OneFile(Placed):
    """What documents of one file do alike; each format's ``edit.py`` makes edits.

    Edits are proven: the text after them is read, and exactly the wanted values have
    changed. Else ``CannotEdit`` is raised: an edit at an anchor of YAML, for instance,
    would change other places too.
    """

    format: str
    values: dict[str, Any]

    def read(self, text: str) -> "ConfigDocument":
        """Return another text, read as this one was; raises ``InvalidText``."""
        raise NotImplementedError

    @property
    def _edit(self) -> Any:
        return import_module(f"fp8tune.formats.{self.format}.edit")

    def _proven(self, edits: Iterable[Edit], wanted: Any) -> Iterator[Edit]:
        """Return the edits if they give these values; raises ``CannotEdit``."""
        edits = list(edits)
        try:
            values = self.read(apply(self.text, edits)).values
        except (InvalidText, Unreadable) as error:
            raise CannotEdit(f"in this layout: {error}") from None
        if not same(values, wanted):
            raise CannotEdit("in this layout, other values would change too")
        return iter(edits)

    def _without(self, path: Path) -> tuple[Any, Any]:
        """Return the values without a key, and what stood there."""
        if path not in self.spans.keys or not isinstance(path[-1], str):
            raise CannotEdit("not a key with a value")
        rest = copied(self.values)
        return rest, value_at(rest, path[:-1]).pop(path[-1])

    def set_values(self, values: Mapping[Path, Any]) -> Iterator[Edit]:
        """Set keys: replace their values, or add them to their tables."""
        wanted = copied(self.values)
        for path, value in values.items():
            put(wanted, path, value)
        return self._proven(self._edit.set_values(self, values), wanted)

    def rename_key(self, path: Path, name: str) -> Iterator[Edit]:
        """Give a key another name wherever it is named."""
        wanted, value = self._without(path)
        if name in value_at(wanted, path[:-1]):
            raise CannotEdit(f"`{name}` is already there")
        put(wanted, (*path[:-1], name), value)
        return self._proven(self._edit.rename_key(self, path, name), wanted)

    def remove_key(self, path: Path) -> Edit:
        """Remove a key with its value, or an empty table, with its line."""
        wanted, _ = self._without(path)
        return next(self._proven([self._edit.remove_key(self, path)], wanted))

    def remove_table(self, path: Path) -> Iterator[Edit]:
        """Remove a table of YAML or TOML with all that is in it, its comments too."""
        wanted, _ = self._without(path)
        return self._proven(self._edit.remove_table(self, path), wanted)

    def move_key(self, path: Path, to: Path) -> Iterator[Edit]:
        """Move a key with its value, and comments that belong to it; or rename it."""
        if path[:-1] == to[:-1]:
            return self.rename_key(path, str(to[-1]))
        if to in self.spans.keys:
            raise CannotEdit("no room for it")
        wanted, value = self._without(path)
        put(wanted, to, value)
        return self._proven(self._edit.move_key(self, path, to), wanted)

    def add_header(self, path: Path, section: str) -> Edit:
        """Put the header of a section above a key; only TOML has some."""
        edit: Edit = self._edit.add_header(self, path, section)
        return edit
