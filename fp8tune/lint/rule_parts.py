"""Parts of a rule's file: the spans of its findings, and its examples."""

from __future__ import annotations

from typing import Any, NamedTuple


class At(NamedTuple):
    """A span of the finding: what it is about, which part of it, and its label.

    Of several names the first that stands in the file gives the span. The finding is
    about the first name, written or not, unless ``any`` makes them equals.
    """

    names: list[str]
    mark: str
    label: str
    any: bool = False


class Example(NamedTuple):
    """A config that shows the rule; ``\u00ab\u00bb`` marks the span of a bad one.

    ``fixed`` is what the fix of its finding, safe or not, makes of a bad one;
    ``beside`` is a second config of the same run, for a rule on several files, and
    ``arguments`` are what the trainer gets behind the config.
    """

    config: str
    also: list[str]
    fixed: str = ""
    beside: str = ""
    arguments: tuple[str, ...] = ()


def at(entry: dict[str, Any]) -> At:
    """A span, from its table in the file."""
    names = entry["any"] if "any" in entry else entry["key"]
    return At(
        [names] if isinstance(names, str) else list(names),
        entry.get("mark", "value"),
        entry.get("label", ""),
        "any" in entry,
    )


def example(entry: dict[str, Any]) -> Example:
    """An example, from its table in the file."""
    return Example(
        entry["config"],
        entry.get("also", []),
        entry.get("fixed", ""),
        entry.get("beside", ""),
        tuple(entry.get("arguments", ())),
    )
