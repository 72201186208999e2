"""Which key or value the author probably meant, and whether that is certain."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.job import Words
from fp8tune.suggest import closest
from fp8tune.trainers.schema import Key, Schema

JINJA = "this looks like a Jinja template: render it first, and lint the result"
VARIABLE = "nothing expands `{}` here: lint the file in which it is filled in"

SWITCH = "enabled"
"""A key that says nothing of where it was meant to stand."""

_FP8 = "(float|fp|mxfp)8.*"

_VARIABLE = r"\$\{[^}]*\}?|\$[A-Za-z_]\w*"

NEAR = 0.75
"""How like a word a name must be to be near (difflib), as in ``suggest.closest``."""

CLEARLY = 0.1
"""How much nearer than all others the name is that was clearly meant."""

_NAME = r"did you mean [`\[]([\w.]+)[`\]]\?"


def about_template(value: Any) -> str:
    """Return what to do about a text that somebody has yet to fill in, or ``""``."""
    if not isinstance(value, str):
        return ""
    found = re.search(_VARIABLE, value)
    jinja = JINJA if "{{" in value or "{%" in value else ""
    return jinja or (VARIABLE.format(found[0][:40]) if found else "")


def nearest(name: str, keys: Iterable[str]) -> str:
    """Return the key that is like a name, or the one that begins with this word."""
    known = [*keys]
    longer = [key for key in known if key.startswith(f"{name}_")]
    return closest(name, known) or (longer[0] if len(longer) == 1 else "")


class Called(str):
    """A question that names the key which other trainers call so."""


class Hints:
    """Suggestions from the names of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def for_key(self, path: Path, keys: Iterable[str] = ()) -> str:
        """A question about the key or section that was meant, or ``""``.

        ``keys`` are those of the table that the unknown key stands in.
        """
        name = str(path[-1])
        if name == SWITCH and len(path) > 1:
            return "did you mean `enable`?" if "enable" in keys else ""
        if len(path) == 1:
            meant = self._section(name)
        elif len(path) == 2:
            meant = self._key(name, str(path[0]))
        else:
            near = nearest(name, keys)
            meant = f"`{near}`" if near else ""
        hint = f"did you mean {meant}?" if meant else ""
        return Called(hint) if meant and meant == self._called(name, "") else hint

    def _key(self, name: str, section: str) -> str:
        if name in self.schema.sections:
            return f"[{name}], a separate section"
        near = closest(name, self._section_keys(section))
        return (
            self._variant_of(name, section)
            or self._called(name, f"{section}.")
            or self._homes(name)
            or (f"`{near}`" if near else "")
            or self._called(name, "")
            or self._elsewhere(name, section)
        )

    def in_some_variant(self, name: str, key: str, table: dict[str, Any]) -> bool:
        """Whether ``key`` is right for some variant while the variant is unknown."""
        variants = self.schema.variants.get(name)
        if variants is None or variants.key not in table:
            return False
        return any(
            key in self.schema.classes[other] for other in variants.classes.values()
        )

    def for_value(self, spec: Key, value: Any) -> str:
        """A question about the allowed value that was meant, or ``""``."""
        if isinstance(value, int) and value.bit_length() < 64:
            value = str(value)
        if not isinstance(value, str):
            return ""
        word = value.strip().casefold()
        near = (meant for meant, words in spec.near.items() if word in words)
        words = [each for each in spec.allowed if isinstance(each, str)]
        if re.fullmatch(_FP8, word):  # float8 is no slip of float32
            words = [each for each in words if "8" in each]
        meant = next(near, "") or closest(word, words)
        return f'did you mean "{meant}"?' if meant else ""

    def for_name(self, name: str, known: Iterable[str]) -> str:
        """A question about the name that was meant, or ``""``."""
        near = closest(name, known)
        return f'did you mean "{near}"?' if near else ""

    def _variant_of(self, name: str, section: str) -> str:
        """The variant that has the key, if another one than the chosen has it."""
        variants = self.schema.variants.get(self.schema.section_class(section))
        for value, owner in (variants.classes if variants else {}).items():
            if name in self.schema.classes[owner]:
                return f'`{variants.key} = "{value}"`, which has it' if variants else ""
        return ""

    def _section(self, name: str) -> str:
        near = closest(name, self.schema.sections)
        near_key = nearest if "_" in name else closest  # one word begins many keys
        key = "" if near else near_key(name, self.schema.top_keys)
        meant = f"[{near}]" if near else f"`{key}`" * bool(key)
        return self._called(name, "") or meant or self._homes(name)

    def _section_keys(self, section: str) -> list[str]:
        return self._by_section.get(section, [])

    @cached_property
    def _by_section(self) -> dict[str, list[str]]:
        keys: dict[str, list[str]] = {}
        for name, _ in self.schema.dotted_keys():
            section, dot, key = name.partition(".")
            if dot:
                keys.setdefault(section, []).append(key)
        return keys

    def _called(self, name: str, prefix: str) -> str:
        """The key below ``prefix`` that other trainers call ``name``."""
        word = name.casefold()
        for key, spec in self.schema.dotted_keys():
            if key.startswith(prefix) and word in spec.aka:
                return f"`{key}`"
        return ""

    def _homes(self, name: str) -> str:
        """Sections that have a key of exactly this name."""
        homes = [
            section
            for section in self.schema.sections
            if name in self._section_keys(section)
        ]
        return " or ".join(f"`{home}.{name}`" for home in homes[:2])

    def _elsewhere(self, name: str, section: str) -> str:
        by_name = {
            key.rpartition(".")[2]: key
            for key, _ in self.schema.dotted_keys()
            if not key.startswith(f"{section}.")
        }
        near = closest(name, by_name)
        return f"`{by_name[near]}`" if near else ""


def key_meant(hint: str, path: Path, keys: Collection[str]) -> dict[str, Any]:
    """Facts for a fix: the key that a hint names.

    ``meant`` is a key of the same table, ``sure`` if it is the same word, ``clear`` if
    no other key is near; ``home`` is the key of the same name in another section.
    """
    match = re.fullmatch(_NAME, hint)
    if match is None:
        return {}
    name = match[1].removeprefix(f"{path[0]}.") if len(path) == 2 else match[1]
    if "." in name:
        same = same_word(str(path[-1]), name.rpartition(".")[2])
        return {"home": Words(name)} if same else {}
    if len(path) > 1 and name not in keys:
        return {}
    word = str(path[-1])
    clear = isinstance(hint, Called) or is_clear(word, name, keys)
    return {"meant": Words(name), "sure": same_word(word, name), "clear": clear}


def value_meant(hint: str, value: Any) -> dict[str, Any]:
    """Facts for a fix: the allowed value that a hint names, if it does."""
    match = re.fullmatch(r'did you mean "(.*)"\?', hint)
    if match is None:
        return {}
    return {"meant": match[1], "sure": same_word(str(value), match[1])}


def is_clear(word: str, meant: str, names: Iterable[str]) -> bool:
    """Whether no other of these names may be meant by a word.

    A name that is not near was not found by its letters, but is known to be meant.
    """
    if same_word(word, meant):
        return True
    import difflib

    letters = {_letters(name): name for name in names}
    near = difflib.get_close_matches(_letters(word), letters, n=2, cutoff=NEAR)
    if len(near) == 2 and _ratio(near[0], word) - _ratio(near[1], word) > CLEARLY:
        near.pop()
    return [letters[one] for one in near] in ([], [meant])


def _ratio(letters: str, word: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, letters, _letters(word)).ratio()


def same_word(one: str, other: str) -> bool:
    """Whether two names differ in case and separators alone."""
    return _letters(one) == _letters(other)


def _letters(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).casefold()
