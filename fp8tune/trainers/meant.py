"""Whether what was meant is certain enough, and near enough, to write it."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.job import Words

_NAME = r"did you mean [`\[]([\w.]+)[`\]]\?"


def key_meant(hint: str, path: Path, keys: Container[str]) -> dict[str, Any]:
    """Facts for a fix: the key that a hint names.

    ``meant`` is a key of the same table, ``sure`` if it is the same word; ``home`` is
    the key of the same name in another section.
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
    return {"meant": Words(name), "sure": same_word(str(path[-1]), name)}


def value_meant(hint: str, value: Any) -> dict[str, Any]:
    """Facts for a fix: the allowed value that a hint names, if it does."""
    match = re.fullmatch(r'did you mean "(.*)"\?', hint)
    if match is None:
        return {}
    return {"meant": match[1], "sure": same_word(str(value), match[1])}


def same_word(one: str, other: str) -> bool:
    """Whether two names differ in case and separators alone."""
    return _letters(one) == _letters(other)


def _letters(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).casefold()
