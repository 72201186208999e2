"""Keys that a trainer's release does not have, but a fork or an earlier release may.

Each is a fault of the loader. Patterns of ``extra-keys`` make a fork's keys known. Else
those that resemble no key become one fault of the file, as do those of an earlier
release.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from fp8tune.formats.document import Path
from fp8tune.job import Prose
from fp8tune.trainers.faults import UNKNOWN, Fault, Loaded

if TYPE_CHECKING:
    from fp8tune.trainers.trainer import Trainer

_FLAG = re.compile(r"(?<=`)([a-z][a-z0-9_]*)(?=`)")

SHOWN, LENGTH = 5, 80
"""Keys that a finding names and marks, and patterns that its help suggests; how much of
each [characters]."""


def without_tolerated(loaded: Loaded, trainer: Trainer) -> Loaded:
    """Return a loaded config without faults that do not count for this trainer.

    ``extra`` then has the keys of a fork that ``extra_keys`` make known. Where the
    trainer stands for a release that is not known, its own keys are no measure.
    """
    if trainer.standing == "another":
        return loaded._replace(faults=[])
    extra: list[str] = []
    faults: list[Fault] = []
    for fault in loaded.faults:
        if fault.kind not in (*UNKNOWN, "unknown-argument"):
            faults.append(fault)
        elif _is_extra(fault.path, trainer):
            extra.append(as_typed(fault.path, trainer))
        elif not trainer.standing:
            faults.append(fault)
    return loaded._replace(faults=faults, extra=tuple(extra))


def _is_extra(path: Path, trainer: Trainer) -> bool:
    """Whether a pattern is of a key, or of a table that it stands in."""
    names = [as_typed(path[:end], trainer) for end in range(1, len(path) + 1)]
    names.append(f"{names[-1]}.")  # `infra.*` is of the whole table
    return any(fnmatchcase(name, each) for name in names for each in trainer.extra_keys)


def as_typed(path: Path, trainer: Trainer) -> str:
    """Return a key as a user types it: ``training.lr``, or the flag ``--lr``.

    A key of another file of the job is as it stands there.
    """
    inner = path[1:] if path[0] in trainer.about.parts else path
    name = ".".join(part for part in inner or path if isinstance(part, str))
    if trainer.about.formats != ["bash"] or name.startswith("--"):
        return name
    return f"--{name.replace('_', '-')}"


def joined(faults: Iterable[Fault], trainer: Trainer) -> Iterator[Fault]:
    """Yield the faults: one for all keys of a fork, one for an earlier release's.

    Each that is of a key says in ``lacks`` what the trainer has not: ``key `tp```.
    """
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in faults:
        earlier, title = (str(fault.facts.get(n, "")) for n in ("earlier", "title"))
        if fault.kind not in UNKNOWN:
            yield fault
        elif fault.argument or (fault.facts.get("hint") and not earlier):
            hint = fault.facts.get("hint", "")
            if trainer.about.formats == ["bash"] and not fault.facts.get("sure"):
                flag = _FLAG.sub(lambda name: as_typed((name[1],), trainer), hint)
                hint = Prose(f"{flag} Or, {_of_fork([fault], trainer)}")
            yield _with(fault, lacks=_lacks([fault], trainer), hint=hint)
        else:
            groups.setdefault((fault.kind, earlier, title), []).append(fault)
    for (_, earlier, _), group in groups.items():
        facts: dict[str, Any] = {"lacks": _lacks(group, trainer)}
        if len({fault.facts["table"] for fault in group}) > 1:
            facts["table"] = trainer.schema.title
        if not earlier:
            facts |= {"hint": _of_fork(group, trainer), "fork": True}
        elif len(group) > 1:
            facts["lacks"] = Prose(f"{facts['lacks']} of {earlier}")
            facts |= {"hint": _of_earlier(group, earlier), "meant": None, "home": None}
        others = tuple(fault.path for fault in group[1:SHOWN])
        yield _with(group[0], **facts)._replace(others=others)


def _with(fault: Fault, **facts: Any) -> Fault:
    """Return a fault with other facts; one that is ``None`` is left out."""
    every = {**fault.facts, **facts}
    return fault._replace(facts={n: v for n, v in every.items() if v is not None})


def _lacks(group: list[Fault], trainer: Trainer) -> Prose:
    what = "flag" if trainer.about.formats == ["bash"] else "key"
    names = [str(fault.facts["name"]) for fault in group]
    if len(group) > 1:
        names = [as_typed(fault.path, trainer) for fault in group]
    elif what == "flag":
        names = [as_typed(group[0].path, trainer)]
    shown = ", ".join(f"`{name[:LENGTH]}`" for name in names[:SHOWN])
    more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
    return Prose(f"{what}{'s' * (len(group) > 1)} {shown}{more}")


def _of_fork(group: list[Fault], trainer: Trainer) -> Prose:
    """Return what to do where the trainer is a fork that has these keys."""
    names = dict.fromkeys(as_typed(fault.path, trainer) for fault in group)
    patterns = list(_patterns(names, trainer))
    more = ", ..." if len(patterns) > SHOWN else ""
    listed = ", ".join(f'"{pattern[:LENGTH]}"' for pattern in patterns[:SHOWN])
    has = f"has {'them' if len(group) > 1 else 'it'}"
    setting = f"`extra-keys=[{listed}{more}]` to [tool.fp8tune] in pyproject.toml"
    title = group[0].facts.get("title", trainer.about.title)
    return Prose(f"if yours is a fork of {title} that {has}, add {setting}")


def _patterns(names: Iterable[str], trainer: Trainer) -> Iterator[str]:
    """Yield patterns for names: one for all that begin alike, if only a fork's do."""
    keys = trainer.schema.dotted_keys()
    mine = {_start(as_typed((name,), trainer)) for name, _ in keys}
    starts = Counter(map(_start, names))
    alike = (
        f"{start}*" if start and starts[start] > 1 and start not in mine else name
        for name in names
        for start in [_start(name)]
    )
    yield from dict.fromkeys(alike)


def _start(name: str) -> str:
    """Return a name up to its second word, ``""`` for one word."""
    match = re.match(r"(--[^-]+-|([^.]*\.)*[^._]+_)[^.]", name)
    return match[1] if match else ""


def _of_earlier(group: list[Fault], earlier: str) -> Prose:
    """Return for which release a file is written, and what became of its keys."""
    now = {fault.facts["key"]: fault.facts.get("now") for fault in group}
    moved = ", ".join(f"`{key}` is now {new}" for key, new in now.items() if new)
    gone = ", ".join(f"`{key}`" for key, new in now.items() if new == "")
    changes = f"nothing replaces {gone}" * bool(gone)
    file = f"the file is written for {earlier}"
    return Prose("; ".join(filter(None, (file, moved, changes))))
