"""The command line ``llamafactory-cli train FILE key=value``.

OmegaConf reads the values as YAML; an argument without ``=`` sets a key to null.

Source: LLaMA-Factory 0.9.5, hparams/parser.py (``read_args``); OmegaConf 2.3.1,
``from_dotlist``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fp8tune.formats import parse
from fp8tune.formats.document import HOLE, InvalidText, Unreadable, Unresolved
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.llamafactory.loader import Loader
from fp8tune.trainers.overlay import Override, argument, laid_over


def load(loader: Loader, raw: dict[str, Any], words: Iterable[str]) -> Loaded:
    """Load a file with arguments; raises ``Unreadable`` for what is no YAML value."""
    return laid_over(loader, raw, map(override, words))


def override(word: str) -> Override:
    """Return what an argument sets; raises ``Unreadable`` for what is no YAML value."""
    key, equals, text = word.partition("=")
    value = _value(text) if equals else None
    return Override(tuple(key.split(".")), value, argument(word, len(key)))


def _value(text: str) -> Any:
    if HOLE in text:
        return Unresolved(text)
    try:
        document = parse(f"value: {text}\n".encode(), "argument.yaml")
        document.read_as("omegaconf")
    except InvalidText:
        document = None
    if document is None or document.values.keys() != {"value"}:
        raise Unreadable(f"fp8tune does not read this argument: {text[:40]}")
    return document.values["value"]
