"""The keys that a trainer's config may have, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from fp8tune.formats.document import Path
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import Trainer

ITEM = "[]"
"""Stands in a name for the number of an item: ``data.datasets[].path``."""


class Keys:
    """The keys of a trainer by their dotted names."""

    def __init__(self, trainer: Trainer) -> None:
        schema = trainer.schema
        self.trainer = trainer
        self.by_name = dict((*schema.dotted_keys(), *schema.entry_keys()))
        self.tables = dict.fromkeys(
            name[:end]
            for name in (*schema.sections, *self.by_name)
            for end in (i for i, letter in enumerate(name) if letter == ".")
        )
        self.tables |= dict.fromkeys(schema.sections)

    def below(self, table: str) -> Iterator[tuple[str, Key | None]]:
        """Yield the names in a table with their keys; ``None`` for a table.

        ``table`` is empty for the whole file.
        """
        start = f"{table}." if table else ""
        inner: dict[str, Key | None] = {}
        for name, key in self.by_name.items():
            if name.startswith(start):
                first, dot, _ = name[len(start) :].partition(".")
                first = first.removesuffix(ITEM)
                inner[first] = inner.get(first) if dot else key
        if not table:
            inner = dict.fromkeys(self.trainer.schema.sections) | inner
        yield from inner.items()


@lru_cache(8)
def keys_of(trainer: Trainer) -> Keys:
    """Return the keys of a trainer."""
    return Keys(trainer)


def name_of(path: Path) -> str:
    """Return the name that the keys at a path have in a schema."""
    text = ""
    for part in path:
        text += ITEM if isinstance(part, int) else f".{part}" if text else part
    return text


def about(name: str, key: Key, trainer: Trainer) -> str:
    """Return what is known of a key, in Markdown."""
    said = [kind(key)]
    if limits := takes(key):
        said.append(limits)
    said.append(f"default: {default(key)}")
    if key.deprecated:
        said.append("deprecated")
    head = f"**`{name}`** ({trainer.schema.title})"
    return "\n\n".join(filter(None, (head, key.doc, "; ".join(said))))
