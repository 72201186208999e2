"""prime-rl's own command line: ``uv run sft @ CONFIG --model.seq-len 4096``.

Overrides are laid over the file before anything is converted or checked. Names may be
written with dashes. A switch is ``--clean`` or ``--no-clean``, a table that may be
absent ``--ckpt`` or ``--no-ckpt``; lists take all words up to the next option, tables
and lists also JSON. Further files (``@ overlay.toml``, ``--trainer @ trainer.toml``)
are not followed.

Source: prime-pydantic-config 0.4.3, pydantic_config/cli.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.faults import Argument, Loaded
from fp8tune.trainers.overlay import Override, laid_over
from fp8tune.trainers.overlay import is_free_text as is_free_text
from fp8tune.trainers.prime_rl.loader import Loader
from fp8tune.trainers.schema import Key, Schema

SIGN = "@"
SWITCHES = {"true": True, "True": True, "1": True}
SWITCHES |= {"false": False, "False": False, "0": False}


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a config with overrides; raises ``Unreadable`` for what is not followed."""
    return laid_over(loader, raw, _overrides(loader.schema, list(words)))


def _overrides(schema: Schema, rest: list[str]) -> Iterator[Override]:
    keys = schema.classes[schema.root] | dict(schema.dotted_keys())
    while rest:
        word = rest.pop(0)
        option, equals, text = word.partition("=")
        if not word.startswith("--") or rest[:1] == [SIGN]:
            raise Unreadable(f"fp8tune does not follow this argument: {word[:80]}")
        name, switch = _key(option, keys)
        value: Any = text
        if switch is not None:
            value = switch
        elif not equals:
            value = _value(keys.get(name), rest, schema)
        whole = Argument(word, (0, len(option)), (0, len(word)))
        yield Override((*name.split("."),), value, whole)


def _key(option: str, keys: dict[str, Key]) -> tuple[str, Any]:
    """The key that an option sets, and its value where it turns something off."""
    name = option.removeprefix("--").replace("-", "_")
    spec = keys.get(name.removeprefix("no_"))
    if name in keys or spec is None or not name.startswith("no_"):
        return name, None
    return name.removeprefix("no_"), False if spec.base == "bool" else "None"


def _value(spec: Key | None, rest: list[str], schema: Schema) -> Any:
    """The value of an option, taken from the words that follow."""
    following = rest[0] if rest and not rest[0].startswith("--") else None
    if spec is not None and spec.base == "bool":
        return SWITCHES[rest.pop(0)] if following in SWITCHES else True
    if spec is not None and spec.base in schema.classes and following is None:
        return {}
    if following is not None and following[:1] in ("{", "["):
        try:
            return json.loads(rest.pop(0))
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"not JSON: {following[:40]}: {error}") from None
    if spec is not None and spec.base.startswith("list"):
        values = []
        while rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        return values
    return True if following is None else rest.pop(0)
