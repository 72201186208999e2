"""Which files of a git repository its ``.gitignore`` files leave out.

Read as git reads them (gitignore(5)), without git: nested files, negation,
``.git/info/exclude``. As in ruff and ripgrep they count only inside a repository.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import NamedTuple

from fp8tune.formats import MAX_BYTES

NAME = ".gitignore"
_SPECIAL = "*?[]\\"
_PARTS = r"(?s)(?:^|(?<=/))\*\*/|\*|\?|\[!?\]?[^\]]*\]|\\.|."
_WILD = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}


class Pattern(NamedTuple):
    """One line: a glob of a name, or of a path if it has a slash before its end.

    ``ending`` is what every name that it matches ends with, all of it where the glob
    is ``literal``.
    """

    glob: str
    ending: str
    literal: bool
    negated: bool
    folders_only: bool
    of_path: bool

    def matches(self, name: str, path: str, is_folder: bool) -> bool:
        """Return whether an entry matches; ``path`` is relative to the file."""
        if not name.endswith(self.ending) or (self.folders_only and not is_folder):
            return False
        subject = path if self.of_path else name
        if self.literal:
            return subject == self.glob
        return _compiled(self.glob).fullmatch(subject) is not None


class Level(NamedTuple):
    """The patterns of one file, last line first, and the way from its folder."""

    patterns: tuple[Pattern, ...]
    way: str = ""


class Ignored(NamedTuple):
    """What is ignored in one folder: the files that speak of it, the nearest first."""

    levels: tuple[Level, ...] = ()
    in_repository: bool = False

    def covers(self, name: str, is_folder: bool) -> bool:
        """Return whether an entry of the folder is ignored."""
        for patterns, way in self.levels:
            for pattern in patterns:
                if pattern.matches(name, way + name, is_folder):
                    return not pattern.negated
        return False

    def inside(self, folder: str, names: set[str]) -> Ignored:
        """Return what is ignored in a folder with entries of these names."""
        ignored = self
        if ".git" in names:
            exclude = _read(os.path.join(folder, ".git", "info", "exclude"))
            ignored = Ignored((exclude,), True)
        if NAME in names and ignored.in_repository:
            nearest = _read(os.path.join(folder, NAME))
            ignored = ignored._replace(levels=(nearest, *ignored.levels))
        return ignored

    def below(self, name: str) -> Ignored:
        """Return what these files ignore in a folder inside."""
        levels = (Level(each, f"{way}{name}/") for each, way in self.levels if each)
        return self._replace(levels=tuple(levels))


def ignored_above(folder: str) -> Ignored:
    """Return what the files above a folder, up to its repository's, ignore in it."""
    below: list[str] = []
    place = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(place, ".git")):
        place, name = os.path.split(place)
        if not name:
            return Ignored()
        below.append(name)
    if not below:  # the walk begins at the top and reads it there
        return Ignored()
    ignored = Ignored()
    for depth, name in enumerate(reversed(below)):
        names = {NAME, ".git"} if depth == 0 else {NAME}
        ignored = ignored.inside(place, names).below(name)
        place = os.path.join(place, name)
    return ignored


def _read(path: str) -> Level:
    """Return the patterns of a file, none if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(MAX_BYTES).splitlines()
    except OSError:
        return Level(())
    patterns = (_pattern(line) for line in reversed(lines))
    return Level(tuple(each for each in patterns if each))


def _pattern(line: str) -> Pattern | None:
    """Return the pattern of a line; ``None`` for a comment or an empty line."""
    text = re.sub(r"(?<!\\) +$", "", line)
    if text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    glob = text.removesuffix("/")
    of_path = "/" in glob
    glob = glob.removeprefix("/")
    if not glob:
        return None
    start = max(map(glob.rfind, (*_SPECIAL, "/"))) + 1
    literal = not any(mark in glob for mark in _SPECIAL)
    return Pattern(
        glob=glob,
        ending=glob[start:],
        literal=literal,
        negated=negated,
        folders_only=text.endswith("/"),
        of_path=of_path,
    )


@cache
def _compiled(glob: str) -> re.Pattern[str]:
    """Return the expression of a glob; one that git cannot read matches nothing."""
    try:
        return re.compile("".join(map(_part, re.findall(_PARTS, glob))), re.DOTALL)
    except re.error:
        return re.compile("(?!)")


def _part(token: str) -> str:
    """Return the expression of one token of a glob."""
    if token in _WILD:
        return _WILD[token]
    if token[0] == "[" and len(token) > 1:
        inside = re.sub(r"([\\\[&|~])", r"\\\1", token[1:-1].removeprefix("!"))
        return f"(?!/)[{'^' * (token[1] == '!')}{inside}]"
    return re.escape(token[1:] if token[0] == "\\" else token)
