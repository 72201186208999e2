"""Write values as TOML in random style; what is written is known beforehand."""

from __future__ import annotations

import datetime
import math
import re
from random import Random
from typing import Any

from hypothesis import strategies as st

BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\f": r"\f",
    "\r": r"\r",
    '"': r"\"",
    "\\": r"\\",
}
_COMMENTS = ("", " a = 1", " [x]", ' "', " '''", ' """ {', "#", "\tä漢😀", " \\", "[[")

_zones = st.integers(-1439, 1439).map(
    lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
)
_characters = st.one_of(
    st.characters(codec="utf-8"), st.sampled_from("\"'\\\n\t\r #=.,[]{}\x7f\x1b😀e")
)
texts = st.text(_characters, max_size=12)
keys = st.one_of(st.sampled_from(["a", "b", "c-d", "1", "e_f", ""]), texts)
scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-10, 300),
    st.floats(),
    texts,
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=_zones),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
tables = st.dictionaries(keys, values, max_size=6)
_dice = st.integers(0, 2**32 - 1).map(Random)  # hypothesis draws one number, not all


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """TOML text with line feeds, and the value that it stands for."""
    value = draw(tables)
    return Writer(draw(_dice)).document(value), value


class Writer:
    """Writes values as TOML; every choice of style is thrown with ``dice``.

    ``bare`` arrays have no comments inside.
    """

    def __init__(self, dice: Random, *, bare: bool = False) -> None:
        self.dice = dice
        self.bare = bare

    def pick(self, *choices: Any) -> Any:
        return self.dice.choice(choices)

    def space(self) -> str:
        return self.pick("", " ", "\t", "  ")

    def comment(self) -> str:
        return self.pick("", "", f"{self.space()}#{self.pick(*_COMMENTS)}")

    def blank(self) -> str:
        """Space inside an array: also line ends and comments."""
        if self.bare:
            return self.pick(self.space(), f"\n{self.space()}")
        return self.pick(
            self.space(), f"{self.comment()}\n{self.space()}", "\n# ],\n\n"
        )

    def document(self, value: dict[str, Any]) -> str:
        body, sections = self.split(value)
        lines = [*self.body(body), *self.sections((), sections)]
        text = "".join(
            f"{self.pick('', '', self.blank() + chr(10))}{line}{self.comment()}\n"
            for line in lines
        )
        return text if self.pick(True, False) else text.removesuffix("\n")

    def split(self, table: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is written in the body of a table, and what under own headers."""
        items = list(table.items())
        self.dice.shuffle(items)
        own = {
            key: value
            for key, value in items
            if (isinstance(value, dict) or _is_tables(value))
            and self.pick(True, True, False)
        }
        return {key: value for key, value in items if key not in own}, own

    def body(self, table: dict[str, Any], prefix: str = "") -> list[str]:
        lines = []
        for key, value in table.items():
            name = f"{prefix}{self.key(key)}"
            if isinstance(value, dict) and value and self.pick(True, False):
                lines += self.body(value, f"{name}{self.space()}.{self.space()}")
            else:
                equals = f"{self.space()}={self.space()}"
                lines.append(f"{self.space()}{name}{equals}{self.value(value)}")
        return lines

    def sections(self, path: tuple[str, ...], tables: dict[str, Any]) -> list[str]:
        lines = []
        for key, value in tables.items():
            here = (*path, key)
            if isinstance(value, dict):
                lines += self.table(here, value)
                continue
            for item in value:
                body, own = self.split(item)
                lines += [f"[{self.header(here)}]", *self.body(body)]
                lines += self.sections(here, own)
        return lines

    def table(self, path: tuple[str, ...], table: dict[str, Any]) -> list[str]:
        body, own = self.split(table)
        below = self.sections(path, own)
        if own and not body and self.pick(True, False):
            return below
        head = [self.header(path), *self.body(body)]
        return below + head if self.pick(False, False, True) else head + below

    def header(self, path: tuple[str, ...]) -> str:
        dot = f"{self.space()}.{self.space()}"
        return f"[{self.space()}{dot.join(map(self.key, path))}{self.space()}]"

    def key(self, key: str) -> str:
        if BARE.fullmatch(key) and self.pick(True, True, False):
            return key
        return self.literal(key) if self.pick(True, False) else self.basic(key)

    def value(self, value: Any) -> str:
        return str(getattr(self, f"_{type(value).__name__}")(value))

    def _bool(self, value: bool) -> str:
        return str(value).lower()

    def _int(self, value: int) -> str:
        plus = self.pick("", "+")
        decimal = [f"{value}", f"{value:_}"]
        if value < 0:
            return self.pick(*decimal)
        other = [f"0x{value:x}", f"0x{value:_X}", f"0o{value:o}", f"0b{value:_b}"]
        return self.pick(*other, *(plus + text for text in decimal))

    def _float(self, value: float) -> str:
        plus = self.pick("", "+") if math.copysign(1, value) > 0 else ""
        if not math.isfinite(value):
            return plus + str(value)
        exact = f"{value:.17e}"
        return plus + self.pick(repr(value), exact, exact.upper())

    def _date(self, value: datetime.date) -> str:
        return value.isoformat()

    _time = _date

    def _datetime(self, value: datetime.datetime) -> str:
        text = value.isoformat(sep=self.pick("T", "t", " "))
        if text.endswith("+00:00") and self.pick(True, False):
            return f"{text[:-6]}{self.pick('Z', 'z')}"
        return text

    def _str(self, value: str) -> str:
        kinds = (self.basic, self.literal, self.long_basic, self.long_literal)
        return str(self.pick(*kinds)(value))

    def escape(self, character: str) -> str:
        short = _ESCAPES.get(character)
        code = f"\\U{ord(character):08x}"
        if ord(character) < 0x10000:
            code = self.pick(code, f"\\u{ord(character):04X}")
        return self.pick(short, code) if short else code

    def basic(self, value: str) -> str:
        text = "".join(
            self.escape(c)
            if c in _ESCAPES or _is_control(c) or not self.dice.randrange(9)
            else c
            for c in value
        )
        return f'"{text}"'

    def literal(self, value: str) -> str:
        if "'" in value or any(c != "\t" and _is_control(c) for c in value):
            return self.basic(value)
        return f"'{value}'"

    def long_basic(self, value: str) -> str:
        text = ""
        for character in value:
            raw = character in '\n\t"' or not _is_control(character)
            if character == "\\" or not raw or (text[-2:] == '""' == character * 2):
                text += self.escape(character)
            elif character.isalnum() and not self.dice.randrange(5):
                text += f"\\{self.space()}\n{self.pick('', ' ', chr(10))}{character}"
            else:
                text += character
        start = "\n" if value.startswith("\n") else self.pick("", "\n")
        return f'"""{start}{text}"""'

    def long_literal(self, value: str) -> str:
        if "'''" in value or any(c not in "\t\n" and _is_control(c) for c in value):
            return self.long_basic(value)
        start = "\n" if value.startswith("\n") else self.pick("", "\n")
        return f"'''{start}{value}'''"

    def _list(self, value: list[Any]) -> str:
        comma = "," if value and self.pick(True, False) else ""
        items = ",".join(self.blank() + self.value(v) + self.blank() for v in value)
        return f"[{items}{comma}{self.blank()}]"

    def _dict(self, value: dict[str, Any]) -> str:
        inside = ",".join(
            self.space() + line + self.space() for line in self.body(value)
        )
        return f"{{{inside or self.space()}}}"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _all_tables(value)


def _all_tables(value: list[Any]) -> bool:
    return all(isinstance(item, dict) for item in value)


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"
