"""The header comment that says what a config is for.

``# fp8tune: gpu=h100 world-size=16`` anywhere above the first table.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from fp8tune.config.mark import is_ignore, speaks
from fp8tune.formats.document import ConfigDocument, Span
from fp8tune.job import Target
from fp8tune.suggest import closest

PROJECT = "pyproject.toml"
"""Source of a GPU or world size that is the project's."""

MAX_WORLD_SIZE = 10**7
MAX_COMMENTS = 20
MAX_LENGTH = 200
_COMMENT = (
    r"(?m)^[ \t]*(?P<comment>(?:#|//)[ \t]*(?P<name>(?i:fp8tune))"
    r"(?P<colon>[ \t]*:|(?=[ \t]+\S*(?:gpu|world.size)s?[ \t]*=))"
    r"[ \t]*+(?P<words>(?:.*[^ \t\r\n])?))[ \t\r]*$"
)
_FIGURE = r"\S*(?:gpu|world.size)s?[ \t]*="
_TABLE = r"(?m)^[ \t]*\[\[?[^\[\],\n]+\]"
_NAMES = ("gpu", "world-size", "gpus-per-node", "trainer", "with", "extra-keys")


class BadTarget(Exception):
    """An unknown GPU, or not a number of GPUs; the message says what is wrong."""


class Directive(NamedTuple):
    """The header comments' content, with the line of each figure.

    ``problems`` are comments without effect: the reason and the place. ``beside`` are
    the other files of the job, relative to this one, ``extra_keys`` patterns of keys
    that the user's fork of the trainer has.
    """

    gpu: str = ""
    world_size: int = 0
    gpu_line: int = 0
    world_size_line: int = 0
    problems: tuple[tuple[str, Span], ...] = ()
    gpus_per_node: int = 0
    trainer: str = ""
    beside: tuple[str, ...] = ()
    extra_keys: tuple[str, ...] = ()

    def complete(self, target: Target) -> Target:
        """Return the target of the command line or project, completed by this one.

        The command line wins over the comment, the comment over pyproject.toml.
        """
        if self.gpu and not target.gpu_origin.startswith("--"):
            line = self.gpu_line
            origin = f"the comment on line {line}" if line else "the #SBATCH lines"
            target = target._replace(gpu=self.gpu, gpu_origin=origin)
        if self.world_size and not target.world_size_origin.startswith("--"):
            size, line = self.world_size, self.world_size_line
            origin = f"the comment on line {line}"
            target = target._replace(world_size=size, world_size_origin=origin)
        if self.gpus_per_node and not target.gpus_per_node:
            target = target._replace(gpus_per_node=self.gpus_per_node)
        return target


def directive_of(document: ConfigDocument, *, beside: bool = True) -> Directive:
    """Read the header comments of a config in any format.

    The GPU of a script is that of its ``#SBATCH`` lines, if no comment names one.
    Without ``beside`` the other files that comments name are left out.
    """
    text = document.text
    alone = document.format == "toml" or not speaks(text)
    found = read_directive(text if alone else _alone(document))
    if not beside:
        found = found._replace(beside=())
    if found.gpu or document.format != "bash":
        return found
    from fp8tune.formats.bash.slurm import sbatch

    return found._replace(gpu=gpu_of(sbatch(text)))


def _alone(document: ConfigDocument) -> str:
    """Return the text with blanks for everything but comments on their own lines.

    What looks like a comment or a table may be part of a string.
    """
    text = document.text
    blank = re.sub(r"[^\r\n]", " ", text)
    parts, end = [], 0
    for start, stop in document.comments():
        if not text[text.rfind("\n", 0, start) + 1 : start].strip():
            parts += [blank[end:start], text[start:stop]]
            end = stop
    return "".join([*parts, blank[end:]])


def read_directive(text: str) -> Directive:
    """Read the header comments of a TOML config."""
    if not speaks(text):
        return Directive()
    table = re.search(_TABLE, text)
    end = table.start() if table else len(text)
    found = Directive()
    for match in islice(re.finditer(_COMMENT, text), MAX_COMMENTS):
        ours = match["name"] == "fp8tune"
        if is_ignore(match["comment"]) or not (
            ours or re.match(_FIGURE, match["words"])
        ):
            continue
        line = text.count("\n", 0, match.start()) + 1
        if not ours:
            problem = "write fp8tune in lower case"
        elif not match["colon"]:
            problem = "there is no colon after fp8tune"
        elif match.start() > end:
            problem = "it must be above the first table"
        elif len(match["words"]) > MAX_LENGTH:
            problem = "it is too long"
        else:
            before = found
            found, problem = _words(match["words"], found, line)
            problem = problem or _contradicts(before, found)
        if problem:
            span = match.start("comment"), match.end("words")
            found = found._replace(problems=(*found.problems, (problem, span)))
    return found


def _contradicts(before: Directive, after: Directive) -> str:
    """Return how one comment contradicts those above it."""
    said = (
        ("gpu", before.gpu, after.gpu, before.gpu_line),
        ("world-size", before.world_size, after.world_size, before.world_size_line),
    )
    for name, old, new, line in said:
        if old and old != new:
            return f"line {line} says {name}={old}, which this comment overrides"
    return ""


def _words(words: str, found: Directive, line: int) -> tuple[Directive, str]:
    """Return what the words of one comment add, and the first without effect."""
    problem = ""
    for word in words.split():
        name, _, value = word.partition("=")
        try:
            found = _word(found, name, value, line)
        except BadTarget as error:
            problem = problem or str(error)
    return found, problem


def _word(found: Directive, name: str, value: str, line: int) -> Directive:
    if name in _NAMES and not value:
        raise BadTarget(f"{name}= has no value (write it without a space)")
    if name == "gpu":
        return found._replace(gpu=parse_gpu(value), gpu_line=line)
    if name == "world-size":
        size = parse_world_size(value)
        return found._replace(world_size=size, world_size_line=line)
    if name == "gpus-per-node":
        return found._replace(gpus_per_node=parse_world_size(value, name))
    if name == "trainer":
        from fp8tune.trainers.about import misnamed, named

        value = named(value)
        if wrong := misnamed(value):
            raise BadTarget(wrong)
        return found._replace(trainer=value)
    if name == "with":
        return found._replace(beside=(*found.beside, value))
    if name == "extra-keys":
        more = filter(None, re.split(r"[\[\],\"']+", value))  # or as in pyproject.toml
        return found._replace(extra_keys=(*found.extra_keys, *more))
    near = closest(name, _NAMES)
    hint = f"; did you mean {near}=?" if near else ""
    raise BadTarget(f"unknown name {name!r}{hint}")


def asked(gpu: str | None, world_size: int | None, gpus_per_node: int = 0) -> Target:
    """Return the target of ``--gpu`` and ``--world-size``; raises ``BadTarget``."""
    name = parse_gpu(gpu) if gpu else ""
    size = world_size or 0
    origins = "--gpu" * bool(name), "--world-size" * bool(size)
    return Target(name, size, *origins, gpus_per_node)


def parse_gpu(value: str) -> str:
    """Return the table's name of a GPU; raises ``BadTarget`` with a suggestion."""
    from fp8tune.facts.gpus import UnknownGpu, members, resolve

    try:
        return resolve(value)
    except UnknownGpu as error:
        near = error.args[1]
        known = ", ".join(gpu.name for gpu in members())
        hint = f"; did you mean {near}?" if near else f"; known: {known}"
        raise BadTarget(f"no GPU named {value!r}{hint}") from None


def gpu_of(options: Mapping[str, str]) -> str:
    """Return the GPU that Slurm's options name, ``""`` if none or several are named."""
    found = set()
    typed = (
        options.get(name, "") for name in ("gpus-per-node", "gpus", "gpus-per-task")
    )
    gres = (e.partition(":")[2] for e in options.get("gres", "").split(","))
    names = [value.rpartition(":")[0] or value for value in (*typed, *gres)]
    names += re.split(r"[&|,*\[\]()]", options.get("constraint", ""))
    for name in names:
        try:
            found.add(parse_gpu(name) if re.search("[A-Za-z]", name) else "")
        except BadTarget:
            continue
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def parse_world_size(value: str, name: str = "world-size") -> int:
    """Return a number of GPUs; raises ``BadTarget``."""
    digits = value.isascii() and value.isdigit() and 0 < len(value) < 9
    if not digits or not 0 < int(value) <= MAX_WORLD_SIZE:
        raise BadTarget(f"{name}={value} is not a number of GPUs")
    return int(value)
