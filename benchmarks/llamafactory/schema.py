"""The schema of LLaMA-Factory's configs, generated from its own argument classes.

``TRAINER_PYTHON... -m benchmarks.llamafactory.schema VERSION`` (one or more Pythons, one
for each release of transformers that the version allows) writes
``fp8tune/trainers/llamafactory/schema-VERSION.toml``: the union of their keys, and as
``only`` of ``releases.toml`` those that some releases of transformers lack. Keys, types,
defaults and choices come from the dataclasses; the map to the job and the descriptions of
the keys that FP8 depends on from ``words.toml``. ``--check`` writes nothing and exits with
1 if a file differs. ``--keys`` prints the keys of this Python as JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tomllib
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from benchmarks.paths import ROOT
from benchmarks.torchtitan.schema import toml

FOLDER = ROOT / "fp8tune" / "trainers" / "llamafactory"
WORDS = Path(__file__).parent / "words.toml"
PLAIN = {int: "int", float: "float", bool: "bool", str: "str", list: "list"}

Spec = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Write a schema, or compare it."""
    parser = argparse.ArgumentParser(prog="llamafactory.schema", description=__doc__)
    parser.add_argument("version", nargs="?", help="the release, 0.9.5")
    parser.add_argument("pythons", nargs="*", help="Pythons that have it")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--keys", action="store_true", help="print keys as JSON")
    options = parser.parse_args(arguments)
    if options.keys:
        print(json.dumps(installed()))
        return 0
    found = [of_python(python) for python in options.pythons]
    lines = [*schema(options.version, found)]
    path = FOLDER / f"schema-{options.version}.toml"
    text = "\n".join(lines) + "\n"
    if not options.check:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        print(f"{path.name}: differs from the installed packages")
        return 1
    print(f"{path.name}: {sum('type = ' in line for line in lines)} keys")
    return 0


def of_python(python: str) -> dict[str, Any]:
    """Return what ``--keys`` prints with another Python."""
    command = [python, "-m", "benchmarks.llamafactory.schema", "--keys"]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, cwd=ROOT, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def installed() -> dict[str, Any]:
    """Return the keys of the installed LLaMA-Factory and the release of transformers."""
    import transformers
    from llamafactory.hparams.parser import _TRAIN_ARGS
    from llamafactory.hparams.training_args import RayArguments

    keys: dict[str, Spec] = {}
    for owner in (*_TRAIN_ARGS, RayArguments):
        hints = typing.get_type_hints(owner)
        for field in dataclasses.fields(owner):
            if field.init:
                keys.setdefault(field.name, _key(hints[field.name], field))
    return {"transformers": transformers.__version__, "keys": keys}


def _key(annotation: Any, field: Any) -> Spec:
    allowed: list[Any] = []
    spec: Spec = {"type": _type(annotation, allowed)}
    default = field.default
    if default is dataclasses.MISSING and field.default_factory is not default:
        default = field.default_factory()
    if isinstance(default, Enum):
        default = default.value
    if default is dataclasses.MISSING:
        spec["required"] = True
    elif isinstance(default, (bool, int, float, str)):
        spec["default"] = default
    if allowed:
        spec["allowed"] = allowed
    return spec


def _type(annotation: Any, allowed: list[Any]) -> str:
    """Return a type in the schema's words: of several the first that is plain."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        names = [_type(each, allowed) for each in arguments]
        optional = " | None" * ("None" in names)
        return next(name for name in names if name != "None") + optional
    if origin is Literal:
        allowed += arguments
        return "str"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        allowed += [each.value for each in annotation]
        return "str"
    if annotation is type(None):
        return "None"
    plain = PLAIN.get(origin or annotation, "dict")
    return "list[str]" if plain == "list" else plain


def schema(version: str, found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of one schema file."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    tree = f"https://github.com/hiyouga/LLaMA-Factory/tree/v{version}/src/llamafactory"
    releases = [each["transformers"] for each in found]
    yield f"# What a config of LLaMA-Factory {version} accepts, as data."
    yield "#"
    yield "# Generated by benchmarks/llamafactory/schema.py from its argument classes with"
    yield f"# transformers {' and '.join(releases)}, and from words.toml beside it; change"
    yield "# those. All keys stand at the top; no value is checked against its type."
    yield ""
    yield f'title = "LLaMA-Factory {version}"'
    yield f'source = "{tree}/hparams"'
    yield 'root = "Arguments"'
    yield ""
    yield "[sections]"
    yield ""
    yield "[job]"
    for field, key in words["job"].items():
        yield f"{field} = {toml(key)}"
    yield ""
    yield "[variants]"
    yield ""
    yield "[classes.Arguments]"
    keys: dict[str, Spec] = {}
    for each in found:  # the newest last: its defaults count
        for name, spec in each["keys"].items():
            allowed = keys.get(name, {}).get("allowed", []) + spec.get("allowed", [])
            keys[name] = spec | (
                {"allowed": [*dict.fromkeys(allowed)]} if allowed else {}
            )
    for name in sorted(keys):
        yield f"{name} = {toml(keys[name] | words['keys'].get(name, {}))}"


if __name__ == "__main__":
    sys.exit(main())
