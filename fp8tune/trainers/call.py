"""Where a command that runs a trainer has its config and its overrides.

What such a command looks like is in ``[[call]]`` of the ``trainer.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from fp8tune.formats import ENDINGS
from fp8tune.trainers.about import About, CallAbout, launchers

STARTERS = ("python", "torchrun", "srun", "uv", "mpirun")
"""Beginnings of the programs that start a Python file, beside trainers' launchers."""


MISSING = -1
"""Stands for a config that no word names."""


class Call(NamedTuple):
    """A command that runs the trainer, by its words.

    The first ``launcher`` words start it (srun, torchrun), word number ``config`` names
    the config behind ``prefix`` characters, and those of ``overrides`` change it.
    ``script`` are those of the script that it starts, ``processes`` is what an option
    says of their number. A ``config`` that is no word's number: the command names none.
    """

    launcher: int
    config: int
    overrides: tuple[int, ...] = ()
    prefix: int = 0
    script: tuple[int, ...] = ()
    processes: str = ""


class Program(NamedTuple):
    """What a launch script starts: the words behind its launcher, ready to run.

    ``options`` are the launcher's own without those that name its config, ``words`` are
    the program and its arguments, a module behind ``-m``; files of the job stand in
    them by their paths from this folder, and a part that only a run knows is ``HOLE``.
    ``environment`` are variables that the script certainly exports, ``folder`` is the
    one that it changes to, ``""`` for this one.
    """

    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str = ""


NO_PROGRAM = Program()
"""What a trainer starts that is started itself."""


class LaunchScript(NamedTuple):
    """The script that launches a config: its path, its bytes, and what it starts."""

    path: str
    data: bytes
    program: Program


class Option(NamedTuple):
    """An option: words from ``start`` to ``end``, its value behind ``prefix``."""

    name: str
    start: int
    end: int
    prefix: int

    @property
    def value(self) -> int:
        """The number of the word that has the value; ``MISSING`` if there is none."""
        alone = self.end == self.start + 1 and not self.prefix
        return MISSING if alone else self.end - 1


def calls(about: About, words: Sequence[str]) -> Iterator[tuple[CallAbout, Call]]:
    """Yield where a command runs a trainer, with the kind of call."""
    for kind in about.calls:
        start = _start(kind.program, words)
        if start is not None:
            yield kind, _call(about, kind, words, start)


def _start(program: list[str], words: Sequence[str]) -> int | None:
    """Return the number of the first word of the program; ``None`` if it has none."""
    names = [word.rpartition("/")[2] for word in words]
    for start in range(len(words) - len(program) + 1):
        if all(map(_is, program, words[start:])):
            starters = (*STARTERS, *launchers())
            started = any(name.startswith(starters) for name in names[:start])
            if started or not start or not program[0].endswith(".py"):
                return start
    return None


def _is(pattern: str, word: str) -> bool:
    name = f"/{word}" if "/" in pattern else word.rpartition("/")[2]
    return name.endswith(f"/{pattern}") or fnmatchcase(name, pattern)


def _call(about: About, kind: CallAbout, words: Sequence[str], start: int) -> Call:
    first = start + len(kind.program)
    found = [*options(kind, words, first)]
    end = len(words)
    if kind.script:
        end = found[-1].end if found else first
    ours = [one for one in found if one.name in _valued(kind)]
    mine = {n for one in ours for n in range(one.start, one.end)}
    named = [one for one in ours if one.name in _names(kind.config)]
    config, prefix = (named[-1].value, named[-1].prefix) if named else (MISSING, 0)
    if kind.argument and not named:
        config = next((n for n in range(first, end) if n not in mine), MISSING)
        config = MISSING if words[config].startswith("-") else config
    if config != MISSING and not _may_be(about, kind, words[config]):
        config = MISSING
    counts = (one for one in ours if one.name in _names(kind.processes))
    count = next((words[one.end - 1][one.prefix :] for one in counts), "")
    if kind.starts == "all" and "--" in words[first:]:
        end = words.index("--", first)
    rest = set(range(first, end)) - {*mine, config} if kind.overrides else ()
    behind = range(end, len(words)) if kind.script else ()
    return Call(start, config, tuple(sorted(rest)), prefix, tuple(behind), count)


def _may_be(about: About, kind: CallAbout, word: str) -> bool:
    """Whether a file may be the trainer's config, by the ending of its name."""
    if word.startswith("-") and "=" not in word:
        return False
    form = ENDINGS.get(word[word.rfind(".") :].lower(), "") if "." in word else ""
    return form in about.formats or not (form or kind.is_general)


def options(kind: CallAbout, words: Sequence[str], place: int) -> Iterator[Option]:
    """Yield the options from a word on; with a script, those before it alone.

    Before a script each but the switches has a value. Else only the options that the
    kind of call names are known to have one.
    """
    valued, switches = _valued(kind), _names(kind.switches)
    while place < len(words):
        word = words[place].partition("=")[0]
        name, equals = _plain(word), len(word) < len(words[place])
        if not word.startswith("-") and word not in kind.config:
            if kind.script:
                return
            place += 1
            continue
        known = kind.script or name in valued
        takes = known and not equals and name not in switches
        takes = takes and not "".join(words[place + 1 : place + 2]).startswith("--")
        end = min(place + 1 + takes, len(words))
        yield Option(name, place, end, (len(word) + 1) * equals)
        place = end


def _valued(kind: CallAbout) -> list[str]:
    return _names([*kind.config, *kind.processes, *kind.harmless])


def _names(options: Sequence[str]) -> list[str]:
    return [*map(_plain, options)]


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_")
