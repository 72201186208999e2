"""Read the flags of a training program that a bash script starts, as a document.

The script is read, never run. Keys are the flags of the command with the most flags,
``--num-layers`` as ``num_layers``: a flag alone is ``True``, one value is a number or
text, several are an array. What is known only at run time is ``None``, with the reason
in ``unknown``; ``unresolved`` lists the words that may stand for more flags, ``maybe``
the flags that the command may have or not.
``environment`` has the variables that the script exports with a known value.
``program`` is the Python file, ``launcher`` has the words before it, and ``processes``
is how many of it they start, where the script says that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from fp8tune.formats import ABOUT_SCRIPT
from fp8tune.formats.bash import slurm
from fp8tune.formats.bash.edit import code_of, value_edits
from fp8tune.formats.bash.environment import environment
from fp8tune.formats.bash.shell import Command, Shell
from fp8tune.formats.bash.values import FLAG, Word
from fp8tune.formats.bash.words import BadScript, comment_spans
from fp8tune.formats.document import (
    HOLE,
    InvalidText,
    Path,
    Placed,
    Position,
    Repeated,
    Span,
    Spans,
    Unreadable,
)
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.formats.values import same

MOST_PLACES = 20
"""Flags of a script behind which a new one is tried."""

MAX_BYTES = 1 << 16
"""Largest script that is read; the trainers' own have 20 KiB at most."""

_ASSIGNED = re.compile(r"\b(\w++)\\?[\"']? *[:=] *\\?[\"']?")
_WRITTEN = re.compile(r"(?<![\w-])--[A-Za-z][\w.-]*")
_VALUE = re.compile(r"(?:=|(?:[ \t]|\\\n|\n)+)([\"']?)((?!--[A-Za-z])[^\s\"'()\\]+)\1")
_WORD = re.compile(
    r"""(?:=|(?:[ \t]|\\\n)+)(?!["']?--[A-Za-z])"""
    r"""(?:"[^"\n]*"|'[^'\n]*'|\$\([^()\n]*\)|[^\s"'()\\;&|])+?"""
    r"""(?=["']?(?:[\s)\\;]|\Z))"""
)
"""What stands behind a flag as one word; it may be in quotes together with the flag."""
_QUOTED = re.compile(r"--[A-Za-z][\w.-]* ")
"""A flag and its value in one word, which argparse takes for one unknown flag."""
_LISTS = re.compile(r"^\$[@*]$|\[[@*]\]")
"""What stands for several words, and not for the value of a flag."""
_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
_BOM = "\ufeff"
_STARTERS = {"python", "python3", "deepspeed", *slurm.TORCHRUN}
"""Programs that start a Python file."""


class _Call(NamedTuple):
    """A command that starts a Python program with flags."""

    program: str
    flags: dict[str, list[Word]]
    loose: list[Word]
    launcher: list[str]
    processes: int
    lost: list[str]
    maybe: dict[str, bool]
    environment: dict[str, str]
    line: int

    @property
    def texts(self) -> tuple[str, list[str], dict[str, list[str]]]:
        """The program and its words, without the reasons of those not known."""
        flags = {key: [w.text for w in words] for key, words in self.flags.items()}
        return self.program, [word.text for word in self.loose], flags


class Document(Placed):
    """A script that starts one training run."""

    format = "bash"

    def __init__(
        self, text: str, arguments: tuple[str, ...] = (), *, bom: bool = False
    ) -> None:
        self.text = text
        self.arguments = arguments
        self.bom = bom
        call = _call(text, arguments)
        self.values: dict[str, Any] = {"obstacle": call}
        self._lost: list[str] = []
        if isinstance(call, _Call):
            self.values, self._lost = _values(call), call.lost

    @property
    def repeated(self) -> list[Repeated]:
        """Flags that the command has again with another value, which holds."""
        found = []
        for key in self._lost:
            places = self.spans.names.get((key,), [])
            if len(places) > 1:
                found.append(Repeated((key,), places[-1], places[-2], refused=False))
        return found

    def read_as(self, loader: str) -> None:
        """Leave the values as they are: argparse reads text."""

    @cached_property
    def spans(self) -> Spans:
        """Where flags and their values are written.

        Of a flag that is written several times, the place that has the value of the
        run, else the last one.
        """
        spans = Spans({}, {}, {})
        text = code_of(self.text)
        place = text.rfind(str(self.values.get("program", "")))
        if "program" in self.values and place >= 0:
            spans.values["program",] = (place, place + len(self.values["program"]))
        environment = self.values.get("environment", {})
        for match in _ASSIGNED.finditer(text) if environment else ():
            name, start = match[1], match.end()
            end = start + len(environment.get(name, ""))
            ends = not re.match(r"\w", text[end : end + 1])
            if name in environment and text[start:end] == environment[name] and ends:
                spans.values[name,] = (start, end)
        for found in _WRITTEN.finditer(text):
            path: Path = (_key(found[0]),)
            if path[0] not in self.values:
                continue
            value = _VALUE.match(text, found.end())
            at = (found.start() + 2, found.end())
            same = value and _number(value[2]) == self.values[path[0]]
            if same or path not in spans.values:
                spans.keys[path] = at
                spans.values.pop(path, None)
                if value and same:
                    spans.values[path] = value.span(2)
            spans.names.setdefault(path, []).append(at)
        return spans

    def comments(self) -> Iterator[Span]:
        """The comments, from ``#`` to the end of the line."""
        return comment_spans(self.text)

    def read(self, text: str) -> Document:
        """Another text, read as this one was; raises ``InvalidText``."""
        try:
            return Document(text, self.arguments)
        except Unreadable as error:
            raise InvalidText(str(error), Position(1, 1), text) from None

    def set_values(self, values: Mapping[Path, Any]) -> Iterator[Edit]:
        """Set flags: replace their values, add them behind the last flag, or remove."""
        for path, value in values.items():
            if isinstance(value, (list, dict)):
                raise CannotEdit("a flag with several values")
            gone = value is False or value is None
            if gone and path[0] not in self.values:
                continue
            if gone:
                yield self.remove_key(path)
            elif path in self.spans.values and value is not True:
                yield Edit(*self.spans.values[path], str(value))
            elif path not in self.spans.keys:
                yield self._added(path, value)
            elif value is not True:
                yield from self._through_variable(path, value)
            elif self.values[str(path[0])] is not True:
                raise CannotEdit("the value is not written behind its flag")

    def _through_variable(self, path: Path, value: Any) -> list[Edit]:
        """Return the edits for a flag whose value is a variable's.

        Exactly this flag has another value then. Raises ``CannotEdit``.
        """
        old, wanted = self.values[str(path[0])], {**self.values, str(path[0]): value}
        flag = self.text[slice(*self.spans.keys[path])]
        ways = value_edits(self.text, f"--{flag}", lambda w: _number(w) == old, value)
        for edits in ways if old is not None and old is not True else ():
            if self._says(wanted, edits):
                return edits
        raise CannotEdit("the value is not written behind its flag")

    def _added(self, path: Path, value: Any) -> Edit:
        """Return the edit that adds a flag behind the last one of the command.

        Raises ``CannotEdit``.
        """
        flag = _flag(str(path[0]))
        new = f" {flag}" if value is True else f" {flag} {value}"
        wanted = {**self.values, str(path[0]): value}
        ends = {
            (self.span(path, "value") or (0, 0))[1]
            for path in self.spans.keys
            if path in self.spans.values or self.values[str(path[0])] is True
        }
        for end in sorted(ends, reverse=True)[:MOST_PLACES]:
            edit = Edit(end, end, new)
            if self._says(wanted, [edit]):
                return edit
        raise CannotEdit("no flag is written behind which another could stand")

    def _says(self, wanted: dict[str, Any], edits: list[Edit]) -> bool:
        """Return whether edits give exactly the wanted values."""
        try:
            return same(self.read(apply(self.text, edits)).values, wanted)
        except InvalidText:
            return False

    def rename_key(self, path: Path, name: str) -> Iterator[Edit]:
        """Give a flag another name wherever it is written."""
        for span in self.spans.names.get(path, ()):
            yield Edit(*span, _flag(name)[2:])

    def remove_key(self, path: Path) -> Edit:
        """Remove a flag with its value, and its line if nothing else stands there."""
        flag = str(path[0])
        wanted = {key: value for key, value in self.values.items() if key != flag}
        wanted["maybe"] = [key for key in self.values["maybe"] if key != flag]
        unknown = self.values["unknown"].items()
        wanted["unknown"] = {key: why for key, why in unknown if key != flag}
        is_alone = self.values.get(flag) is True
        for start, end in self.spans.names.get(path, [])[:MOST_PLACES]:
            word = None if is_alone else _WORD.match(self.text, end)
            if word or is_alone or flag in self.values["maybe"]:
                edit = self._removal(start - 2, word.end() if word else end)
                if self._says(wanted, [edit]):
                    return edit
        raise CannotEdit("the flag and its value cannot be removed in this layout")

    def _removal(self, start: int, end: int) -> Edit:
        """Return the edit that removes a text, its quotes, and its line if empty."""
        if (
            start
            and self.text[start - 1] in "\"'"
            and (self.text[start - 1] == self.text[end : end + 1])
        ):
            start, end = start - 1, end + 1
        line = self.lines.position(start).line
        begin = self.lines.offset(line)
        close = begin + len(self.lines.line(line))
        around = self.text[begin:start] + self.text[end:close]
        before = self.text[:begin].rstrip(" \t")
        if not around.strip() and before.endswith("\\\n"):  # the command ends there
            return Edit(len(before[:-2].rstrip(" \t")), close, "")
        if around.strip() in ("", "\\"):
            return Edit(begin, min(close + 1, len(self.text)), "")
        while end < close and self.text[end] in " \t":
            end += 1
        return Edit(start, end, "")

    def move_key(self, path: Path, to: Path) -> Iterator[Edit]:  # noqa: ARG002
        """Raise ``CannotEdit``: flags have no tables."""
        raise CannotEdit("flags have no tables")

    def add_header(self, path: Path, section: str) -> Edit:  # noqa: ARG002
        """Raise ``CannotEdit``: flags have no tables."""
        raise CannotEdit("flags have no tables")


def parse(data: bytes, arguments: tuple[str, ...] = ()) -> Document:
    """Read the bytes of a script with its arguments; raises ``Unreadable``."""
    if len(data) > MAX_BYTES:
        raise Unreadable("a script of more than 64 KiB is not read")
    text = data.decode(errors="replace").replace("\r\n", "\n")
    return Document(text.removeprefix(_BOM), arguments, bom=text.startswith(_BOM))


def _key(flag: str) -> str:
    """Return the key of a flag; one with underscores is another flag, and stays so.

    So does one that has the name of a key about the script.
    """
    apart = "_" in flag or flag[2:] in ABOUT_SCRIPT
    return flag if apart else flag[2:].replace("-", "_")


def _flag(key: str) -> str:
    return key if key.startswith("--") else "--" + key.replace("_", "-")


def _call(text: str, arguments: tuple[str, ...]) -> _Call | str:
    """Return the run that a script starts, or why none is read.

    Raises ``Unreadable`` for several.
    """
    calls: list[_Call] = []
    obstacle = ""
    try:
        options = slurm.sbatch(text)
        shell = Shell(arguments, slurm.variables(options))
        for command in shell.commands(text):
            for inner in shell.nested(command):
                if call := _python_call(inner, options):
                    calls = _with(call, calls)
                else:
                    obstacle = _obstacle(inner) or obstacle
    except BadScript as error:
        raise Unreadable(f"line {error}") from None
    most = max((len(call.flags) for call in calls), default=0)
    large = [call for call in calls if 2 * len(call.flags) > most]
    if len(large) > 1:
        runs = " and ".join(f"{call.program} on line {call.line}" for call in large[:3])
        raise Unreadable(f"the script starts several runs ({runs}): give each its own")
    return (
        large[0]
        if large
        else obstacle or "it starts no Python program with flags or a config"
    )


def _obstacle(command: Command) -> str:
    """Return which unknown word may be the program of a command, ``""`` if none is."""
    starters = [
        number
        for number, word in enumerate(command.words)
        if word.text.rpartition("/")[2] in _STARTERS
    ]
    for before, word in pairwise(command.words[starters[-1] :] if starters else ()):
        is_value = before.text.startswith("-") and "=" not in before.text
        if word.holes and not is_value and not word.text.startswith("-"):
            what = f"`{word.holes[0].text}` {word.holes[0].reason}"
            line = command.line
            return f"what line {line} starts is not known before the run: {what}"
    return ""


def _with(call: _Call, calls: list[_Call]) -> list[_Call]:
    """Add a call; of one that is there, by another launcher, the launcher is unknown.

    Such are the branches of a script that runs at a prompt or as a job.
    """
    same = [other for other in calls if other.texts == call.texts]
    if same and same[0].launcher != call.launcher:
        call = call._replace(launcher=[], processes=0)
    if same and same[0].environment != call.environment:
        call = call._replace(environment={})
    return [other for other in calls if other not in same] + [call]


def _python_call(command: Command, job: Mapping[str, str]) -> _Call | None:
    """Return a command as a call of a Python file with flags.

    ``job`` are the options of the job of Slurm that the script is.
    """
    words = command.words
    texts = [word.text for word in words]
    number = next((n for n, text in enumerate(texts) if text.endswith(".py")), -1)
    if number < 0:
        return None
    flags: dict[str, list[Word]] = {}
    loose: list[Word] = []
    twice: list[tuple[str, list[Word]]] = []
    maybe: dict[str, bool] = {}
    into = loose
    for word in words[number + 1 :]:
        if word.text == HOLE and word.unknown and word.unknown.flags is not None:
            maybe |= {_key(flag): hole for flag, hole in word.unknown.flags.items()}
            continue
        flag, equals, value = word.text.partition("=")
        if FLAG.match(word.text):
            key = _key(flag)
            if key in flags:
                twice.append((key, flags[key]))
            into = flags[key] = []
            if equals:
                into.append(word._replace(text=value))
        elif _QUOTED.match(word.text) and not word.unknown:
            into = flags[word.text] = []
        elif word.text[:1] != "-" or _NEGATIVE.match(word.text):
            into.append(word)
    program = texts[number].rpartition("/")[2]
    lost = [key for key, words in twice if words != flags[key]]
    launcher = texts[:number]
    count = slurm.processes(launcher, {**job, **slurm.options_of(launcher)})
    given = environment(words[:number], command.given)
    found = _Call(
        program, flags, loose, launcher, count, lost, maybe, given, command.line
    )
    return found if flags or loose else None


def _values(call: _Call) -> dict[str, Any]:
    """Return the values of a call.

    An unknown word may be several, or none, if it is no value that a flag needs: it may
    hide other flags then.
    """
    values: dict[str, Any] = {"program": call.program, "launcher": call.launcher}
    values |= {"processes": call.processes} if call.processes else {}
    values |= {"environment": call.environment} if call.environment else {}
    unresolved = _reasons(call.loose)
    unknown = {}
    for key, words in call.flags.items():
        if words and words[0].unknown and _LISTS.search(words[0].unknown.text):
            unresolved += _reasons(words[:1])
            words = words[1:]
        known = [None if word.unknown else _number(word.text) for word in words[:1]]
        known += [_number(word.text) for word in words[1:] if not word.unknown]
        unresolved += _reasons(words[1:])
        values[key] = known[0] if len(known) == 1 else known or True
        if reasons := _reasons(words[:1]):
            unknown[key] = reasons[0]
    values["maybe"] = list(call.maybe)
    for key, hole in call.maybe.items():
        values[key] = None
        unknown[key] = "is set on a condition" if hole else ""
    unknown = {key: reason for key, reason in unknown.items() if reason}
    return {**values, "unknown": unknown, "unresolved": unresolved}


def _reasons(words: list[Word]) -> list[str]:
    """Return the unknown pieces of words, and why they are unknown."""
    pieces = (word.unknown for word in words)
    return [f"{piece.text} {piece.reason}" for piece in pieces if piece]


def _number(text: str) -> Any:
    """Return the number that a text says, else the text."""
    for kind in (int, float):
        try:
            value = kind(text) if len(text) < 30 else math.nan
        except ValueError:
            continue
        return value if math.isfinite(value) else text
    return text
