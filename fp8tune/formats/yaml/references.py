"""What a loader fills in for ``${...}`` in the values of a file.

OmegaConf takes ``${a.b}`` from the same file, with its type where nothing else stands
in the value. What comes from elsewhere, as ``${oc.env:NAME}``, is ``Unresolved``.

Sources: OmegaConf 2.3.0, ``to_container(..., resolve=True)``; nemo_automodel 0.5.0,
components/config/loader.py, ``resolve_yaml_env_vars``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fp8tune.formats.document import Unresolved

MAX_DEPTH = 10
"""References to references that are followed."""

_REFERENCE = re.compile(
    r"(?<!\\)\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*)\s*\}", re.ASCII
)
_VARIABLE = re.compile(r"\$\{[^}]+\}|\$[A-Za-z_]")


def filled(values: dict[str, Any], how: str) -> dict[str, Any]:
    """Return values with what a loader fills in: ``how`` is a name of ``FILLED``."""
    of_text = FILLED[how]
    return {key: _each(value, values, of_text) for key, value in values.items()}


Filling = Callable[[str, dict[str, Any]], Any]


def _each(value: Any, root: dict[str, Any], of_text: Filling) -> Any:
    if isinstance(value, dict):
        return {key: _each(each, root, of_text) for key, each in value.items()}
    if isinstance(value, list):
        items = [_each(each, root, of_text) for each in value]
        lost = (each for each in items if isinstance(each, Unresolved))
        return next(lost, items)
    return of_text(value, root) if isinstance(value, str) and "$" in value else value


def _from_file(text: str, root: dict[str, Any], depth: int = 0) -> Any:
    """Return the value of a text with references into the same file."""
    if "${" not in text:
        return text
    if depth > MAX_DEPTH:
        return Unresolved(text)
    parts, end = [], 0
    for found in _REFERENCE.finditer(text):
        value = _value(found[1], root)
        if isinstance(value, str):
            value = _from_file(value, root, depth + 1)
        if isinstance(value, (dict, list, Unresolved)) or value is _ABSENT:
            return Unresolved(text)
        if found[0] == text:
            return value
        parts += [text[end : found.start()], str(value)]
        end = found.end()
    whole = "".join([*parts, text[end:]])
    return Unresolved(text) if "${" in whole else whole


_ABSENT = object()


def _value(name: str, root: Any) -> Any:
    for part in re.findall(r"[\w-]+", name):
        if isinstance(root, dict):
            root = root.get(part, _ABSENT)
        elif isinstance(root, list) and part.isdecimal() and int(part[:6]) < len(root):
            root = root[int(part[:6])]
        else:
            return _ABSENT
    return root


def _from_environment(text: str, root: dict[str, Any]) -> Any:  # noqa: ARG001
    """Return a text, which is not known if it names a variable."""
    return Unresolved(text) if _VARIABLE.search(text) else text


FILLED: dict[str, Filling] = {
    "references": _from_file,
    "environment": _from_environment,
}
"""What follows ``+`` in what a trainer ``reads`` its configs with."""
