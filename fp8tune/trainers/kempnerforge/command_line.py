"""How KempnerForge reads its command line: ``train.py CONFIG --section.key=value``.

The trainer loads the file first and applies the overrides to the result. It checks
both, so an override does not rescue a file that is refused by itself.

Source: kempnerforge/config/loader.py (``_parse_cli_overrides``) and scripts/train.py at
commit 5666d0d.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from fp8tune.formats.document import Path, Unreadable
from fp8tune.trainers.faults import Argument, Fault, Loaded, dotted
from fp8tune.trainers.kempnerforge.loader import ConfigLoading, Loader
from fp8tune.trainers.schema import Schema

MAX_LENGTH = 10_000
"""Longest argument that is read [characters]."""

MAX_PARTS = 100
"""Most parts of a dotted key that is read."""

CHECKED_FIRST = frozenset(
    (
        "checkpoint-window-ends-before-start",
        "heads-do-not-divide-hidden-size",
        "image-grid-not-divisible",
        "image-tokens-not-square",
        "kv-heads-do-not-divide-heads",
        "kv-heads-omitted",
        "max-seq-len-below-vlm-tokens",
        "min-frames-above-max-frames",
        "phases-with-annealing",
        "profiling-ends-before-start",
        "top-k-above-experts",
        "video-without-vlm",
        "vlm-without-vision-encoder",
        "warm-start-without-path",
    )
)
"""Rules on what the trainer checks in the file before it applies the overrides."""

_RUNS_ON = frozenset(
    (
        "boolean-for-number",
        "not-a-number",
        "not-text",
        "read-as-false",
        "table-replaced",
        "unknown-freeze-module",
        "value-truncated",
    )
)
"""Faults of a file that do not keep the trainer from applying the overrides."""


class Overrides(NamedTuple):
    """What a command line sets: nested values, and which argument set them."""

    values: dict[str, Any]
    arguments: dict[Path, Argument]
    faults: list[Fault]


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Hold parsed TOML with overrides as the trainer would.

    Raises ``Unreadable`` for overrides whose effect is not known.
    """
    schema, said = loader.schema, parse(words)
    file, config = loader.load(raw), ConfigLoading(loader)
    known = {name: v for name, v in said.values.items() if name in schema.sections}
    config.sections(_overlaid(schema, raw, known))
    for name in said.values.keys() - known.keys():
        table = f"a {schema.title} config"
        config.unknown((name,), table, {}, said.values[name])
    stays = [f for f in file.faults if f.kind not in _RUNS_ON or f in config.faults]
    loaded = Loaded(config.values, config.written, stays, said.arguments)
    refused = {(fault.kind, fault.path) for fault in said.faults}
    for fault in config.faults:
        if fault not in stays and (fault.kind, fault.path) not in refused:
            stays.append(fault._replace(argument=loaded.argument(fault.path)))
    stays += said.faults
    return loaded


def parse(words: Iterable[str]) -> Overrides:
    """Parse the arguments behind the config; raises ``Unreadable``."""
    said = Overrides({}, {}, [])
    last: Argument | None = None
    for word in words:
        name, equals, text = word[2:].partition("=")
        if len(word) > MAX_LENGTH or name.count(".") >= MAX_PARTS:
            raise Unreadable(f"an argument is too long: {word[:40]}...")
        if not word.startswith("--"):
            said.faults.append(_ignored(word, last))
            continue
        value = (len(name) + 3, len(word)) if equals else (0, len(word))
        last = Argument(word, (2, 2 + len(name)), value)
        _set(said, tuple(name.split(".")), text if equals else "true", last)
    return said


def _ignored(word: str, before: Argument | None) -> Fault:
    """The fault of a word that the trainer does not read."""
    hint, key = "write --section.key=value", ""
    if before is not None and "=" not in before.text:
        key = before.text
        hint = f"write {key}={word}"
    argument = Argument(word, (0, len(word)), (0, len(word)))
    facts = {"name": word, "key": key, "hint": hint}
    return Fault("ignored-argument", (), facts, argument=argument)


def _set(said: Overrides, path: Path, text: str, argument: Argument) -> None:
    """Set one key as the trainer does: later arguments win, tables are merged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    except (TypeError, MemoryError, RecursionError):
        facts = {"key": dotted(path), "value": text, "type": "a Python value"}
        fault = Fault("value-not-convertible", path, facts, argument=argument)
        said.faults.append(fault)
        return
    _refuse_odd(value, argument)
    table = said.values
    for end, part in enumerate(path[:-1], 1):
        inner = table.setdefault(str(part), {})
        if not isinstance(inner, dict):
            facts = {"key": dotted(path[:end]), "value": inner}
            fault = Fault("section-not-a-table", path[:end], facts, argument=argument)
            said.faults.append(fault)
            return
        table = inner
    table[str(path[-1])] = value
    for other in [each for each in said.arguments if each[: len(path)] == path]:
        del said.arguments[other]
    said.arguments[path] = argument


def _refuse_odd(value: Any, argument: Argument) -> None:
    """Raise ``Unreadable`` for a Python value that no config has, such as a set."""
    if isinstance(value, dict):
        parts = [*value.values()]
        usual = all(isinstance(key, str) for key in value)
    elif isinstance(value, (list, tuple)):
        parts, usual = list(value), True
    else:
        parts, usual = [], value is None or isinstance(value, (bool, int, float, str))
    if not usual:
        raise Unreadable(f"{argument.text}: fp8tune does not check such a Python value")
    for part in parts:
        _refuse_odd(part, argument)


def _overlaid(
    schema: Schema, raw: dict[str, Any], values: dict[str, Any]
) -> dict[str, Any]:
    """Return the file's values with the overrides; raises ``Unreadable``."""
    whole = dict(raw)
    for section, value in values.items():
        name, old = schema.section_class(section), raw.get(section)
        if value is None and schema.optional(section):
            whole.pop(section, None)
        elif old is None or not isinstance(value, dict):
            whole[section] = value
        elif isinstance(old, dict):  # else the trainer holds no section to change
            variants = schema.variants.get(name)
            if variants is not None:
                chosen = old.get(variants.key, variants.default)
                _same_variant(section, variants.key, chosen, value)
                if isinstance(chosen, str):
                    name = variants.classes.get(chosen, name)
            whole[section] = _merged(schema, name, old, value)
    model = whole.get("model")
    if isinstance(model, dict) and model.get("n_kv_heads", 0) is None:
        heads = schema.classes["ModelConfig"]["n_heads"].default
        whole["model"] = {**model, "n_kv_heads": model.get("n_heads", heads)}
    return whole


def _same_variant(section: str, key: str, chosen: Any, new: dict[str, Any]) -> None:
    """Raise ``Unreadable`` where an override changes which class a section has."""
    if key in new and new[key] != chosen:
        reason = f"the trainer keeps the class of the file's [{section}]"
        raise Unreadable(f"--{section}.{key}={new[key]}: {reason}; set it in the file")


def _merged(
    schema: Schema, name: str, old: dict[str, Any], new: dict[str, Any]
) -> dict[str, Any]:
    """Return a table with overrides: config classes are merged, all else replaced."""
    keys, whole = schema.classes[name], dict(old)
    for key, value in new.items():
        there, spec = old.get(key), keys.get(key)
        if not (spec and spec.base in schema.classes and isinstance(value, dict)):
            whole[key] = value
        elif there is None or isinstance(there, dict):
            whole[key] = _merged(schema, spec.base, there or {}, value)
    return whole


def is_free_text(schema: Schema, word: str) -> bool:
    """Whether an argument sets a key that takes any text, such as a folder."""
    name = word[2:].partition("=")[0]
    spec = dict(schema.dotted_keys()).get(name) if word.startswith("--") else None
    return spec is not None and spec.base == "str" and not spec.allowed
