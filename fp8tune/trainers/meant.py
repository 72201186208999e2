"""Whether what was meant is certain enough, and near enough, to write it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from fp8tune.formats.document import Path
from fp8tune.job import Words

NEAR = 0.75
"""How like a word a name must be to be near (difflib), as in ``suggest.closest``."""

CLEARLY = 0.1
"""How much nearer than all others the name is that was clearly meant."""

_NAME = r"did you mean [`\[]([\w.]+)[`\]]\?"


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
    clear = is_clear(word, name, keys)
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
