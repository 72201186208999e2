"""How a trainer is run for a trial, as data: its ``run.toml``, or ``[run]`` of a file.

``docs/guides/trainer.md`` explains the fields. Every one is checked when it is read.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from fp8tune.runners.trainer.inside import PROFILED
from fp8tune.suggest import meant
from fp8tune.trainers.about import About, path_of, trainers
from fp8tune.trainers.call import NO_PROGRAM, Program
from fp8tune.verify import patterns

PLACEHOLDERS = ("python", "inside", "dir", "config", "ranks", "scratch", "traces")
"""What stands in braces in commands and values, beside the sections of other files."""
PROGRAM = ("launcher", "program")
"""Placeholders of several words: the options of a launcher, and what it starts."""
INSIDE = "inside"
"""The placeholder of ``inside.py``, and the name of the lines that it prints."""
PLACEHOLDER = re.compile(r"\{(\w+)\}")


class BadRecipe(Exception):
    """The data that say how a trainer is run are wrong; the message says where."""


class Keys(NamedTuple):
    """Keys of the config that a kind of trial sets, and those that it removes."""

    set: Mapping[str, Any] = {}
    unset: tuple[str, ...] = ()


class Profile(NamedTuple):
    """How the trainer writes a profile, and which steps it slows.

    The steps from ``first`` to ``last`` count from 1. With ``period`` the same steps of
    every further period are slowed too. ``last`` is recorded.
    """

    keys: Keys
    first: int
    last: int
    period: int = 0

    def slows(self, step: float) -> bool:
        """Whether the profiler slows a step: what it writes, the step after."""
        if self.period and step > self.period:
            step = (step - 1) % self.period + 1
            if step == self.last + 1 - self.period:
                return True
        return self.first <= step <= self.last + 1

    def is_written(self, step: float) -> bool:
        """Whether the profile is complete once the log shows a step."""
        return step > self.last


INSIDE_PROFILE = Profile(Keys(), PROFILED, PROFILED)
"""The profile that ``inside.py`` writes."""


class Losses(NamedTuple):
    """The keys of a run's seeds: of weights, and of the data's order if it has one.

    ``unset`` are keys that would change its warmup.
    """

    seed: tuple[str, ...]
    data_seed: str = ""
    unset: tuple[str, ...] = ()


Command = tuple[str | tuple[str, ...], ...]
"""The words of a command; those of a tuple are left out without their file."""


class Recipe(NamedTuple):
    """How a trainer is run.

    ``command`` is for one rank, ``ranks`` for several. ``needs`` are files of its
    folder, ``package`` is what it imports as, ``install`` what pip installs it by, if
    it is published. The keys of ``trial`` are for every
    trial, those of ``speed`` for trials that measure speed, those of ``cpu`` for trials
    on a CPU, if it trains there too.
    ``log`` names the program whose lines it prints, where that is not the trainer's
    name. ``lines`` are what the trainer prints, where fp8tune does not know it.
    """

    origin: str
    command: Command = ()
    ranks: Command = ()
    needs: tuple[str, ...] = ()
    package: str = ""
    install: str = ""
    cpu: Keys | None = None
    peak: str = ""
    environment: Mapping[str, str] = {}
    trial: Keys = Keys()
    speed: Keys = Keys()
    profile: Profile | None = None
    synthetic: Keys = Keys()
    losses: Losses | None = None
    log: str = ""
    lines: tuple[Mapping[str, Any], ...] = ()
    refused: str = ""

    @property
    def inside(self) -> bool:
        """Whether ``inside.py`` runs the trainer's program, and prints its steps."""
        return self.has(INSIDE)

    @property
    def launches(self) -> bool:
        """Whether a launcher starts the ranks, and a program of the user's in them."""
        return self.has(PROGRAM[0])

    def has(self, name: str) -> bool:
        """Whether a placeholder stands in the command for one rank."""
        return any(f"{{{name}}}" in word for word in _flat(self.command))

    def words(
        self, ranks: int, values: Mapping[str, str], program: Program = NO_PROGRAM
    ) -> list[str]:
        """Return the command for so many ranks, with its placeholders filled in."""
        several = {"{launcher}": program.options, "{program}": program.words}
        words: list[str] = []
        for each in self.ranks if ranks > 1 and self.ranks else self.command:
            if each in several:
                words += several[each]
                continue
            group = (each,) if isinstance(each, str) else each
            names = PLACEHOLDER.findall("".join(group))
            if isinstance(each, str) or all(name in values for name in names):
                words += [filled(word, values) for word in group]
        return words


def recipe_of(about: About) -> Recipe:
    """Return how a trainer is run; raises ``BadRecipe`` if that is not said."""
    if about.own is not None:
        origin = f"{about.own.path}: [run]"
        if not about.own.run:
            raise BadRecipe(
                f"{about.own.path}: no [run]: it says how to launch the trainer; see "
                "docs/guides/trainer-runner.md"
            )
        return read(about.own.run, origin)
    path = path_of(about.name, "run.toml")
    if not os.path.isfile(path):
        raise BadRecipe(f"no trial of fp8tune runs {about.title} yet; {instead(about)}")
    with open(path, "rb") as file:
        return read(tomllib.load(file), path)


def instead(about: About) -> str:
    """Return what to do where no trial can run a trainer."""
    predicts = "`fp8tune estimate` predicts its settings, and "
    predicts *= not about.no_estimate
    return f"{predicts}--runner replay --records FILE searches those that you measured"


def read(data: Mapping[str, Any], origin: str) -> Recipe:
    """Return a checked recipe; raises ``BadRecipe``."""
    try:
        checked = _table(data, _FIELDS)
    except BadRecipe as error:
        raise BadRecipe(f"{origin}: {error}") from None
    checked["lines"] = tuple(checked.pop("line", ()))
    recipe = Recipe(origin, **checked)
    if not recipe.refused and not recipe.command:
        raise BadRecipe(f"{origin}: `command` is missing: an array of strings")
    for words in (recipe.command, recipe.ranks):
        if words and not any("{config}" in word for word in _flat(words)):
            raise BadRecipe(f"{origin}: the command has no {{config}}")
    return recipe._replace(profile=INSIDE_PROFILE) if recipe.inside else recipe


def with_lines(name: str, about: About, recipe: Recipe) -> None:
    """Let the reader of logs know the lines of a trainer of the user's own."""
    if about.own is None or recipe.inside:
        return
    data = {"title": about.title, "line": list(recipe.lines), "peak": recipe.peak}
    taken = patterns.known().get(name)
    if taken is not None and taken.title != about.title:
        raise BadRecipe(
            f"{recipe.origin}: {name} is a program already: rename the file"
        )
    try:
        known = patterns.of(name, data)
    except (KeyError, TypeError, re.error) as error:
        said = str(error).removeprefix("Line.__init__() ")
        raise BadRecipe(f"{recipe.origin}: [[run.line]]: {said}") from None
    steps = [line for line in known.lines if line.kind == "step"]
    if not any("step" in line.pattern.groupindex for line in steps):
        raise BadRecipe(
            f"{recipe.origin}: no [[run.line]] of kind `step` with a group (?P<step>"
            "...): fp8tune reads the steps from the log"
        )
    patterns.known()[name] = known


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders filled in, once."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def _table(
    data: Mapping[str, Any], fields: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return the checked fields of a table; raises ``BadRecipe``."""
    found = {}
    for name, value in data.items():
        if name not in fields:
            raise BadRecipe(f"has no field `{name}`{meant(name, fields)}")
        try:
            found[name] = fields[name](value)
        except BadRecipe as error:
            colon = ":" * str(error).startswith("`")
            raise BadRecipe(f"`{name}`{colon} {error}") from None
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRecipe("must be a string")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise BadRecipe("must be an array of strings")
    return tuple(value)


def _words(value: Any) -> Command:
    """Read a command: its arguments, in which only known placeholders stand."""
    if not isinstance(value, list):
        raise BadRecipe("must be an array of strings")
    if not value:
        raise BadRecipe("must be an array of strings: a program and its arguments")
    words = tuple(_texts(v) if isinstance(v, list) else _text(v) for v in value)
    parts = {section for about in trainers().values() for section in about.parts}
    for word in _flat(words):
        for name in PLACEHOLDER.findall(word):
            if name not in (*PLACEHOLDERS, *PROGRAM, *parts):
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise BadRecipe(f"has {{{name}}}; there are {known}")
    return words


def _flat(command: Command) -> Iterator[str]:
    """Yield the words of a command."""
    for each in command:
        yield from (each,) if isinstance(each, str) else each


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else _texts(value)


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRecipe("must be a table")
    return value


def _environment(value: Any) -> dict[str, str]:
    return {name: _text(text) for name, text in _dict(value).items()}


def _keys(value: Any) -> Keys:
    return Keys(**_table(_dict(value), {"set": _dict, "unset": _texts}))


def _cpu(value: Any) -> Keys | None:
    if isinstance(value, bool):
        return Keys() if value else None
    return _keys(value)


def _profile(value: Any) -> Profile:
    own = {"steps": _steps, "period": _count, "set": _dict, "unset": _texts}
    found = _table(_dict(value), own)
    keys = Keys(found.get("set", {}), found.get("unset", ()))
    if "steps" not in found:
        raise BadRecipe("needs steps = [first, last]: those that the profiler slows")
    first, last = found["steps"]
    return Profile(keys, first, last, found.get("period", 0))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadRecipe("must be a whole number")
    return value


def _steps(value: Any) -> tuple[int, int]:
    match value:
        case [int(first), int(last)] if 1 <= first <= last:
            return first, last
    raise BadRecipe("must be [first, last], counted from 1")


def _losses(value: Any) -> Losses:
    found = _table(_dict(value), {"seed": _names, "data_seed": _text, "unset": _texts})
    if "seed" not in found:
        raise BadRecipe("needs the key of the seed: seed = ...")
    return Losses(**found)


def _lines(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise BadRecipe("must be an array of tables: [[run.line]]")
    return [{"examples": [], **_dict(line)} for line in value]


def _peak(value: Any) -> str:
    if value not in ("allocated", "reserved"):
        raise BadRecipe('must be "allocated" or "reserved"')
    return str(value)


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "command": _words,
    "ranks": _words,
    "needs": _texts,
    "package": _text,
    "install": _text,
    "cpu": _cpu,
    "peak": _peak,
    "environment": _environment,
    "trial": _keys,
    "speed": _keys,
    "profile": _profile,
    "synthetic": _keys,
    "losses": _losses,
    "log": _text,
    "line": _lines,
    "refused": _text,
}
