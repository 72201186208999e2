"""torchtitan's own command line: ``-m torchtitan.train --job.config_file C``.

Overrides are parsed by tyro, and replace what the file says. A switch is
``--compile.enable`` or ``--compile.no_enable``; other values follow after ``=`` or a
space and are converted by the type of the key, unlike values of the file. Anything
else ends the program, in 0.1.0 too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fp8tune.formats.document import Path, Unreadable
from fp8tune.trainers.faults import Argument, Fault, Loaded, dotted
from fp8tune.trainers.hints import Hints, key_meant
from fp8tune.trainers.overlay import Override, laid_over
from fp8tune.trainers.overlay import is_free_text as is_free_text
from fp8tune.trainers.schema import Key
from fp8tune.trainers.torchtitan.loader import Loader


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a config with overrides; raises ``Unreadable`` for what is not followed."""
    keys = dict(loader.schema.dotted_keys())
    overrides: list[Override] = []
    refused: list[Fault] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, text = word.partition("=")
        name, switch = _key(option, keys)
        argument = Argument(word, (0, len(option)), (0, len(word)))
        path: Path = tuple(name.split("."))
        if name not in keys or not word.startswith("--"):
            refused.append(_unknown(loader, path, option, argument))
            if word.startswith("--") and not equals and _is_value(rest[:1]):
                rest.pop(0)
            continue
        if switch is None and not equals:
            text = rest.pop(0) if rest else ""
        value = text if switch is None else switch
        fault = _odd(keys[name], value)
        if equals and switch is not None:
            table, _, key = name.rpartition(".")
            fault = f"a switch: write --{name} or --{table}.no_{key}, without a value"
        if fault:
            facts = {"key": name, "value": text, "type": fault}
            refused.append(
                Fault("value-not-convertible", path, facts, argument=argument)
            )
            continue
        overrides.append(Override(path, _converted(keys[name], value), argument))
    loaded = laid_over(loader, raw, overrides)
    return loaded._replace(faults=[*loaded.faults, *refused])


def _unknown(loader: Loader, path: Path, option: str, argument: Argument) -> Fault:
    """Return the fault of an option that no key has, with the key that was meant."""
    section = str(path[0])
    keys = loader.schema.classes.get(loader.schema.section_class(section), {})
    switched_off = str(path[-1]).startswith("no_")  # what is near means the opposite
    of_table = len(path) == 2 and not switched_off
    hint = Hints(loader.schema).for_key(path, keys) if of_table else ""
    facts = {"name": option, "table": f"a {loader.schema.title} config", "hint": hint}
    facts |= {"key": dotted(path), **key_meant(hint, path, keys)}
    return Fault("unknown-key", path, facts, argument=argument)


def _is_value(words: list[str]) -> bool:
    """Whether the next word is the value of an option that no key has."""
    return bool(words) and not words[0].startswith("--")


def _key(option: str, keys: dict[str, Key]) -> tuple[str, bool | None]:
    """The key that an option sets, and to what if it is a switch."""
    name = option.removeprefix("--").replace("-", "_")
    table, _, last = name.rpartition(".")
    off = f"{table}.{last.removeprefix('no_')}"
    if name not in keys and off in keys and keys[off].base == "bool":
        return off, False
    return name, True if name in keys and keys[name].base == "bool" else None


def _odd(spec: Key, value: Any) -> str:
    """What a value has to be, if tyro refuses it; ``""`` if it does not."""
    if isinstance(value, bool) or (spec.optional and value == "None"):
        return ""
    if spec.allowed:
        return "" if value in spec.allowed else f"one of {', '.join(spec.allowed)}"
    if spec.base not in ("int", "float", "str", "list[str]"):
        raise Unreadable(f"fp8tune does not read values of type {spec.type}: {value}")
    try:
        _converted(spec, value)
    except ValueError:
        return spec.kind
    return ""


def _converted(spec: Key, value: Any) -> Any:
    """A value by the type of its key; raises ``ValueError``."""
    if isinstance(value, bool):
        return value
    if spec.optional and value == "None":
        return None
    if spec.base == "list[str]":
        return value.split(",")
    kinds = {"int": int, "float": float}
    return kinds[spec.base](value) if spec.base in kinds else value
