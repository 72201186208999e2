"""Change what a launch script types: values of its flags, more flags, names of files.

Every change is proven: the commands of the script then have exactly the wanted words.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from fp8tune.formats.bash.edit import code_of, end_of, value_edits, written
from fp8tune.formats.bash.shell import Shell
from fp8tune.formats.bash.slurm import sbatch, variables
from fp8tune.formats.bash.words import BadScript, comment_spans
from fp8tune.formats.document import InvalidText, Lines, Position, Span
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.trainers.faults import Argument

Words = list[str]


class Script:
    """The text of a launch script; its ``values`` are the words of its commands."""

    format = "bash"

    def __init__(self, text: str) -> None:
        self.text = text
        shell = Shell([], variables(sbatch(text)))
        try:
            self.values: list[Words] = [
                [word.text for word in inner.words]
                for command in shell.commands(text)
                for inner in shell.nested(command)
            ]
        except BadScript as error:
            raise InvalidText(str(error), Position(1, 1), text) from None

    @cached_property
    def lines(self) -> Lines:
        """Line numbers and columns of character offsets."""
        return Lines(self.text)

    def comments(self) -> Iterator[Span]:
        """The comments, from ``#`` to the end of the line."""
        return comment_spans(self.text)

    def read(self, text: str) -> Script:
        """Another text; raises ``InvalidText``."""
        return Script(text)

    def set_argument(self, argument: Argument, value: Any) -> list[Edit]:
        """Return the edits that give an argument another value."""
        flag, old, new = flag_of(argument), value_of(argument), typed(argument, value)
        wanted = [replaced(words, argument, value) for words in self.values]
        ways = value_edits(self.text, flag, lambda word: word == old, new)
        if is_switch(argument):
            places = re.finditer(rf"{written(flag)}(?![\w-])", code_of(self.text))
            ways = iter([[Edit(m.end(), m.end(), f" {new}") for m in places]])
        return self._proven(ways, flag, lambda after: after == wanted)

    def add(self, words: Sequence[str], behind: Iterable[str]) -> list[Edit]:
        """Return the edit that adds words, behind the last of those that are there."""
        end = max((end_of(self.text, word) for word in behind), default=-1)
        if end < 0:
            raise CannotEdit("no flag is written behind which another could stand")
        edit = Edit(end, end, f" {shlex.join(words)}")
        new = [*words]

        def is_added(after: list[Words]) -> bool:
            return [without(each, new) for each in after] == self.values

        return self._proven([[edit]], words[0], is_added)

    def names(self, path: str) -> bool:
        """Return whether a command names a file in the folder of ``path``."""
        pattern = _file(os.path.basename(path))
        return any(pattern.search(word) for words in self.values for word in words)

    def rename(self, path: str, name: str) -> list[Edit]:
        """Return the edits by which it names another file in the folder of ``path``."""
        old = os.path.basename(path)
        pattern = _file(old)
        if len({w for words in self.values for w in words if pattern.search(w)}) > 1:
            raise CannotEdit(f"it names several files {old}")
        wanted = [[pattern.sub(name, word) for word in words] for words in self.values]
        places = pattern.finditer(code_of(self.text))
        edits = [Edit(*place.span(), name) for place in places]
        return self._proven([edits], old, lambda after: after == wanted)

    def _proven(
        self,
        ways: Iterable[list[Edit]],
        what: str,
        is_wanted: Callable[[list[Words]], bool],
    ) -> list[Edit]:
        """Return the edits after which the commands have the wanted words."""
        for edits in ways:
            try:
                after = self.read(apply(self.text, edits)).values
            except InvalidText:
                continue
            if after != self.values and is_wanted(after):
                return edits
        raise CannotEdit(f"`{what}` is not written so that it can be changed")


def _file(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")


def flag_of(argument: Argument) -> str:
    """Return the name of an argument as it is written, with its dashes."""
    return re.split("[= ]", argument.text, maxsplit=1)[0]


def value_of(argument: Argument) -> str:
    """Return the value of an argument as it is written, ``""`` for a switch."""
    return argument.text[slice(*argument.value)] if argument.value[0] else ""


def is_switch(argument: Argument) -> bool:
    """Return whether an argument stands alone, as ``--flag`` does for a true one."""
    return flag_of(argument) == argument.text


def typed(argument: Argument, value: Any) -> str:
    """Return a value as a word; raises ``CannotEdit`` if it is no single one."""
    if not isinstance(value, (bool, int, float, str)):
        raise CannotEdit(f"`{flag_of(argument)}` is not set to {value}")
    lower = isinstance(value, bool) and not value_of(argument).istitle()
    return str(value).lower() if lower else str(value)


def replaced(words: Iterable[str], argument: Argument, value: Any) -> Words:
    """Return the words of a command with another value of an argument."""
    flag, old, new = flag_of(argument), value_of(argument), typed(argument, value)
    if is_switch(argument):
        return [w for word in words for w in ([word, new] if word == flag else [word])]
    return [
        f"{flag}={new}" * (word == f"{flag}={old}")
        or (new if (before, word) == (flag, old) else word)
        for before, word in pairwise(["", *words])
    ]


def without(words: Words, some: Words) -> Words:
    """Return the words of a command without some that stand in a row."""
    size = len(some)
    for start in range(len(words) - size + 1):
        if words[start : start + size] == some:
            return words[:start] + words[start + size :]
    return words
