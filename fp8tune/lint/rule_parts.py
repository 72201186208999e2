"""Parts of a rule's file: the spans of its findings, and its examples."""

from __future__ import annotations

from typing import Any, NamedTuple

NAMED_BY = ("key", "any", "value_of")
"""The fields of a span that say its key; it has one of them."""


class At(NamedTuple):
    """A span of the finding: its name, which part of it, and its label.

    Of several names the first one in the file gives the span. The finding is about the
    first name, in the file or not, unless ``any`` makes all names equal. With
    ``by_value`` the key is not the name, but its value.
    """

    names: list[str]
    mark: str
    label: str
    any: bool = False
    by_value: bool = False


class Example(NamedTuple):
    """A config that shows the rule; ``\u00ab\u00bb`` marks the span of a bad one.

    ``fixed`` is a bad example after the fix of its finding, safe or not. ``beside`` is
    a second config of the same run, for a rule on two files. ``arguments`` are the
    trainer's overrides. ``format`` is that of all these texts. ``installed`` are
    releases of packages, by their names, ``environment`` variables of the run.
    """

    config: str
    also: list[str]
    fixed: str = ""
    beside: str = ""
    arguments: tuple[str, ...] = ()
    format: str = "toml"
    installed: dict[str, str] = {}
    environment: dict[str, str] = {}


def at(entry: dict[str, Any]) -> At:
    """Read a span from its table in the file."""
    names = next(entry[field] for field in NAMED_BY if field in entry)
    return At(
        [names] if isinstance(names, str) else list(names),
        entry.get("mark", "value"),
        entry.get("label", ""),
        "any" in entry,
        "value_of" in entry,
    )


def example(entry: dict[str, Any], form: str) -> Example:
    """Read an example from its table in the file; it may name a format but ``form``."""
    return Example(
        entry["config"],
        entry.get("also", []),
        entry.get("fixed", ""),
        entry.get("beside", ""),
        tuple(entry.get("arguments", ())),
        entry.get("format", form),
        entry.get("installed", {}),
        entry.get("environment", {}),
    )
