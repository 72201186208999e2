"""Which package versions are unsafe together: the data of ``versions.toml``.

Versions are ordered as PEP 440 says: ``2.14.0.dev1``, ``2.14.0rc1``, ``2.14.0``,
``2.14.1``. What follows ``+`` is left out. A version that is not written so matches no
range.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

TRIALS = frozenset({"versions.torchao", "compile"})
"""What a search's trials do: compiled FP8 of linears by torchao."""

FAILS = ("nan", "crash")
"""Consequences for which no trial is run."""

_VERSION = re.compile(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})[-_.]?(?:(dev|a|b|c|rc|post)[-_.]?(\d{0,12}))?"
    r"(?:\+[\w.-]{0,99})?"
)
_STAGES = ("dev", "a", "b", "rc", "", "post")

Order = tuple[tuple[int, ...], int, int]


class Range(NamedTuple):
    """Versions from ``since`` on and before ``until``; empty where it is open.

    Those after ``newest`` were not checked: whether they belong to it is unknown.
    """

    since: str = ""
    until: str = ""
    newest: str = ""

    def holds(self, version: str) -> bool | None:
        """Return whether a version is in the range; ``None`` if it was not checked."""
        place = order(version)
        if place is None or (self.since and place < _certain(self.since)):
            return False
        if self.until and place >= _certain(self.until):
            return False
        return None if self.newest and place > _certain(self.newest) else True


class Combination(NamedTuple):
    """Versions that are unsafe or pointless together, as ``versions.toml`` has them.

    ``when`` names facts of a job that must be true, ``device`` is ``cuda`` for what
    only GPUs do. ``consequence`` is nan, crash, silent or note.
    """

    code: str
    what: str
    packages: dict[str, Range]
    consequence: str
    symptom: str
    certainty: str
    install: str
    date: str
    sources: tuple[str, ...]
    when: tuple[str, ...] = ()
    device: str = ""

    @property
    def is_of_trials(self) -> bool:
        """Whether the trials of a search do what it concerns."""
        return bool(self.when) and TRIALS.issuperset(self.when)

    @property
    def fails(self) -> bool:
        """Whether runs with these versions fail."""
        return self.consequence in FAILS


class Match(NamedTuple):
    """A combination that is there; ``checked`` is false for versions after the newest.

    ``versions`` are those of its packages.
    """

    combination: Combination
    versions: dict[str, str]
    checked: bool

    @property
    def named(self) -> str:
        """The packages and their versions: ``torch 2.14.1 with torchao 0.17.0``."""
        return " with ".join(f"{name} {v}" for name, v in self.versions.items())

    def __str__(self) -> str:
        """Return the versions and what happens."""
        return f"{self.named}: {self.symptom}"

    @property
    def symptom(self) -> str:
        """What happens, or that it is unknown."""
        if self.checked:
            return self.combination.symptom
        newest = (
            f"{name} {each.newest}"
            for name, each in self.combination.packages.items()
            if each.holds(self.versions[name]) is None
        )
        about = self.combination.symptom
        return f"not checked: newer than {', '.join(newest)}, with which {about}"


@cache
def combinations() -> tuple[Combination, ...]:
    """Return every combination of ``versions.toml``, in its order."""
    try:
        from fp8tune._index import VERSIONS
    except ImportError:  # in a checkout
        return tuple(map(_combination, parsed()))
    return tuple(map(_combination, VERSIONS))


def parsed() -> list[dict[str, Any]]:
    """Return the entries of ``versions.toml``."""
    import tomllib

    path = os.path.join(os.path.dirname(__file__), "versions.toml")
    with open(path, "rb") as file:
        entries: list[dict[str, Any]] = tomllib.load(file)["combination"]
    return entries


def _combination(entry: dict[str, Any]) -> Combination:
    ranges = {name: Range(**each) for name, each in entry["packages"].items()}
    lists = {name: tuple(entry.get(name, ())) for name in ("when", "sources")}
    return Combination(**{**entry, **lists, "packages": ranges})


@cache
def packages() -> frozenset[str]:
    """Return the names of all packages of which the data has a version."""
    return frozenset(name for each in combinations() for name in each.packages)


def matches(
    versions: Mapping[str, str], among: Iterable[Combination] | None = None
) -> Iterator[Match]:
    """Yield the combinations that these versions have; unknown versions match none.

    ``versions`` are by the name of the package, ``""`` where it is not known.
    """
    for each in combinations() if among is None else among:
        there = {name: versions.get(name, "") for name in each.packages}
        held = [each.packages[name].holds(there[name]) for name in there]
        if all(there.values()) and False not in held:
            yield Match(each, there, None not in held)


def of_trials(versions: Mapping[str, str], device: str) -> list[Match]:
    """Return the combinations with which trials on a device fail, or may fail."""
    among = (
        each
        for each in combinations()
        if each.is_of_trials and each.fails and each.device in ("", device)
    )
    return list(matches(versions, among))


@cache
def order(version: str) -> Order | None:
    """Return what sorts versions, ``None`` for what is none."""
    match = _VERSION.fullmatch(version.strip().lower())
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    stage = "rc" if match[2] == "c" else match[2] or ""
    return tuple(numbers), _STAGES.index(stage), int(match[3] or 0)


def _certain(version: str) -> Order:
    place = order(version)
    assert place is not None, version
    return place
