"""The header comment that says what a config is for.

``# fp8tune: gpu=h100 world-size=16`` anywhere above the first table.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from fp8tune.job import Target
from fp8tune.suggest import closest
from fp8tune.toml import Span

MAX_WORLD_SIZE = 10**7
MAX_COMMENTS = 20
MAX_LENGTH = 200
_COMMENT = re.compile(r"^[ \t]*#[ \t]*fp8tune:[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[\[?[^\[\],\n]+\]", re.MULTILINE)
_NAMES = ("gpu", "world-size")


class Directive(NamedTuple):
    """What the header comment says; ``problems`` are words that say nothing."""

    gpu: str = ""
    world_size: int = 0
    line: int = 0
    span: Span = (0, 0)
    problems: tuple[str, ...] = ()

    def complete(self, target: Target) -> Target:
        """The target of the command line or project, with this one in between.

        The command line wins over the comment, the comment over pyproject.toml.
        """
        origin = f"the comment on line {self.line}"
        if self.gpu and not target.gpu_origin.startswith("--"):
            target = target._replace(gpu=self.gpu, gpu_origin=origin)
        if self.world_size and not target.world_size_origin.startswith("--"):
            size = self.world_size
            target = target._replace(world_size=size, world_size_origin=origin)
        return target


def read_directive(text: str) -> Directive:
    """Read the header comment of a config."""
    if "fp8tune:" not in text:
        return Directive()
    table = _TABLE.search(text)
    found = Directive()
    end = table.start() if table else len(text)
    for match in islice(_COMMENT.finditer(text, 0, end), MAX_COMMENTS):
        if not match[1].startswith("ignore["):
            line = text.count("\n", 0, match.start()) + 1
            span = (text.index("#", match.start()), match.end(1))
            found = _words(match[1], found._replace(line=line, span=span))
    return found


def _words(words: str, found: Directive) -> Directive:
    for word in words[:MAX_LENGTH].split():
        name, _, value = word.partition("=")
        try:
            found = _word(found, name, value)
        except ValueError as error:
            found = found._replace(problems=(*found.problems, str(error)))
    return found


def _word(found: Directive, name: str, value: str) -> Directive:
    if name == "gpu":
        return found._replace(gpu=parse_gpu(value))
    if name == "world-size":
        return found._replace(world_size=parse_world_size(value))
    near = closest(name, _NAMES)
    raise ValueError(
        f"{name!r} is not known{f'; did you mean {near}=?' if near else ''}"
    )


def parse_gpu(value: str) -> str:
    """The table's name of a GPU; ``ValueError`` says what is wrong, kindly."""
    from fp8tune.facts.gpus import UnknownGpu, resolve

    try:
        return resolve(value)
    except UnknownGpu as error:
        near = error.args[1]
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f"no GPU named {value!r}{hint}") from None


def parse_world_size(value: str) -> int:
    """A number of GPUs; ``ValueError`` if it is none."""
    if not (value.isascii() and value.isdigit() and 0 < len(value) < 9):
        raise ValueError(f"world-size={value} is no number of GPUs")
    size = int(value)
    if not 0 < size <= MAX_WORLD_SIZE:
        raise ValueError(f"world-size={value} is no number of GPUs")
    return size
