"""The command line ``automodel FILE --section.key value``.

Source: NeMo Automodel 0.5.0, components/config/_arg_parser.py (``parse_cli_argv``) and
loader.py (``translate_value``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fp8tune.formats.document import HOLE, Unresolved
from fp8tune.trainers.automodel.loader import WORDS, Loader
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.overlay import Override, argument, laid_over, literal

CHOOSES = "_target_"
"""The key that chooses what the other keys of its table mean."""


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a recipe with arguments; raises ``Unreadable`` for a key below no table."""
    return laid_over(loader, raw, _overrides(list(words)))


def _overrides(words: list[str]) -> Iterator[Override]:
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            continue
        option, equals, text = word.partition("=")
        if not equals:
            follows = words and not words[0].startswith("--")
            text = words.pop(0) if follows else "True"
            word = f"{option}={text}"
        *above, last = option.lstrip("-").split(".")
        lost = HOLE in text
        path = (*above,) if lost and last == CHOOSES and above else (*above, last)
        value = Unresolved(text) if lost else WORDS.get(text, literal(text))
        yield Override(path, value, argument(word, len(option)))
