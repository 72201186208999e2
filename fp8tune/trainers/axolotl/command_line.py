"""The command line ``axolotl train FILE --micro-batch-size 2 --no-fp8``.

click makes arguments of the options, ``axolotl.cli.train`` reads them with Fire, and
``load_cfg`` converts what is still text to the type of the value in the file. With
``strict``, keys that are not in the file are not set.

Source: Axolotl 0.18.0 and 0.19.0, cli/main.py, cli/utils/train.py, cli/config.py; Fire
0.7.1, parser.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from fp8tune.formats.document import HOLE, Path, Unreadable, Unresolved
from fp8tune.formats.values import find
from fp8tune.trainers.axolotl.loader import Loader
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.overlay import Override, argument, laid_over, literal
from fp8tune.trainers.schema import Schema

SWITCHES = ("debug", "debug_text_only", "shard")
VALUED = ("debug_num_examples", "prompter", "launcher")
"""Options of the command that set no key."""

WORDS: dict[str, Any] = {"true": True, "yes": True, "false": False, "no": False}
WORDS |= dict.fromkeys(("null", "none", "~"))
"""What a text means where the file has no value."""

TRUE = ("true", "1", "yes")
"""Texts that mean true where the file has a switch."""

OFF = "no_"


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file with options; raises ``Unreadable`` for others."""
    return laid_over(loader, raw, _overrides(loader.schema, raw, list(words)))


def _overrides(
    schema: Schema, raw: dict[str, Any], words: list[str]
) -> Iterator[Override]:
    while words and words[0] != "--":  # then the launcher's own arguments follow
        word = words.pop(0)
        option, equals, text = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        path, is_switch = _key(schema, name)
        own = name.removeprefix(OFF) in SWITCHES or name in VALUED
        if not word.startswith("--") or not (path or own):
            raise Unreadable(f"fp8tune does not follow this argument: {word[:80]}")
        if not path and name not in VALUED:
            continue
        if is_switch and equals:
            how = f"write --{option[2:]} or --no-{option[2:]}"
            raise Unreadable(f"Axolotl takes no value in {word[:80]}: {how}")
        if not is_switch and not equals:
            if not words:
                raise Unreadable(f"{word[:80]} has no value")
            text = words.pop(0)
            word = f"{option} {text}"
        if name == "launcher" and text == "python":
            raise Unreadable("fp8tune does not follow --launcher python: leave it out")
        if path and (path[0] in raw or not raw.get("strict")):
            given = not name.startswith(OFF) if is_switch else _value(text, raw, path)
            yield Override(path, given, argument(word, len(option)))


def _key(schema: Schema, name: str) -> tuple[Path, bool]:
    """The key that an option sets, and whether it is a switch; ``()`` if none is."""
    for each in (name, name.removeprefix(OFF)):
        section, _, key = each.rpartition(".")
        inner = schema.sections.get(section, "") if section else schema.root
        inner = inner.removesuffix(" | None")
        spec = schema.classes.get(inner, {}).get(key)
        is_switch = spec is not None and spec.base == "bool"
        if spec and (each == name or is_switch):
            return ((section, key) if section else (key,)), is_switch
    return (), False


def _value(text: str, raw: dict[str, Any], path: Path) -> Any:
    """The value that Axolotl makes of a text, as the file has it already."""
    if HOLE in text:
        return Unresolved(text)
    there = find(raw, path)
    value = literal(text, bare=True)
    if not isinstance(value, str):
        return value
    if isinstance(there, bool):
        return value.lower() in TRUE
    if there is None and value.lower() in WORDS:
        return WORDS[value.lower()]
    for kind in (int, float):
        if there is None or isinstance(there, kind):
            with suppress(ValueError):
                return kind(value)
    return value
