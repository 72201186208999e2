"""Read the commands of a bash script, resolving words without running anything.

Assignments, arguments, arrays and defaults are resolved. Values that only a run
determines, such as the output of a command or a variable set in a loop, are named
instead.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fp8tune.formats.bash.arithmetic import NotEvaluated, evaluate
from fp8tune.formats.bash.words import (
    ARITHMETIC,
    MAX_DEPTH,
    BadScript,
    Part,
    Parts,
    Token,
    parts_of,
    tokens,
)
from fp8tune.formats.document import HOLE

MAX_LENGTH = 1 << 16
"""Longest value of a variable that is kept [characters]."""
MAX_EXPANDED = 1 << 20
"""The most that all expansions of a script give [characters]."""

MAX_NESTED = 3
"""Deepest ``bash -c`` within ``bash -c`` that is read."""

FLAG = re.compile(r"--[A-Za-z][\w.-]*(?==|$)")
"""A flag, with its value behind a sign or without one."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_OPENS = ("if", "while", "until", "case", "for", "select", "{")
_CLOSES = ("fi", "done", "esac", "}")
_BRANCHES = ("then", "else", "elif", "!")
_RESERVED = frozenset((*_OPENS, *_CLOSES, *_BRANCHES, "do", "time"))
_HEADS = {"case": "in", "for": "name", "select": "name"}
_LOOPS = ("while", "until", "for", "select")
_DECLARES = ("export", "declare", "local", "readonly", "typeset")
_READS = ("read", "mapfile", "readarray", "getopts")
_LOOP, _CONDITION = "is set in a loop", "is set on a condition"


class Unknown(NamedTuple):
    """An unresolvable piece: its text, and why.

    ``flags`` are those that may be among the words it stands for, with whether an
    unknown value follows; ``None`` if it may be any words.
    """

    text: str
    reason: str
    flags: dict[str, bool] | None = None


class Word(NamedTuple):
    """One word of a command; each ``HOLE`` in it is a piece in ``unknown``."""

    text: str
    unknown: Unknown | None = None


def _hole(text: str, reason: str) -> Word:
    return Word(HOLE, Unknown(text, reason))


def _join(words: Iterable[Word], between: str = "") -> Word:
    """Join several words into one."""
    known = list(words)
    pieces = [word.unknown for word in known if word.unknown]
    unknown = pieces[0] if pieces else None
    for piece in pieces[1:]:
        if unknown is not None and unknown.flags is not None:
            more = piece.flags
            flags = None if more is None else unknown.flags | more
            unknown = unknown._replace(flags=flags)
    return Word(between.join(word.text for word in known), unknown)


class Command(NamedTuple):
    """A simple command: its words, its line, and the current folder after ``cd``."""

    words: list[Word]
    line: int
    folder: Word


Value = Word | list[Word]
"""A text, or an array."""


class _Block:
    """A block that is open, with what the variables that it sets may be after it.

    The first such value is the one before the block, then that of each branch.
    ``runs`` says of a branch whether it runs: it is decided where the tests before it
    compare known texts. ``tested`` is what its test has given so far, ``negated``
    whether it has a ``!``, which is not followed, ``taken`` whether an earlier branch
    ran, and ``sure`` whether all branches were decided.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.names: dict[str, list[Value | None]] = {}
        self.testing = kind == "if"
        self.runs: bool | None = None
        self.tested: bool | None = None
        self.negated = False
        self.taken: bool | None = False
        self.sure = kind == "if"

    def test(self, truth: bool | None, sign: str) -> None:
        """Take the result of one command of the test, behind ``&&``, ``||`` or else."""
        if sign == "&&" and self.tested is not True:
            truth = False if False in (self.tested, truth) else None
        elif sign == "||" and self.tested is not False:
            truth = True if True in (self.tested, truth) else None
        self.tested = truth

    def then(self, truth: bool | None) -> None:
        """Begin a branch, given the result of its test."""
        self.testing = False
        if self.taken or truth is False:
            self.runs = False
        else:
            self.runs = None if self.taken is None else truth
        self.taken = self.taken or truth
        self.sure = self.sure and self.runs is not None


class Shell:
    """Reads scripts, given ``variables`` and ``arguments`` from outside."""

    def __init__(self, arguments: Iterable[str], variables: Mapping[str, str]) -> None:
        self.arguments: Value = list(map(Word, arguments))
        self.variables: dict[str, Value] = {n: Word(v) for n, v in variables.items()}
        self.folder = Word("")
        self.blocks: list[_Block] = []
        self.conditional = False
        self.sign = ""
        self.closed = False
        self.sourced = False
        self.line, self.expanded = 1, 0
        self.builtins = {
            "cd": self._enter,
            "pushd": self._enter,
            "shift": self._shift,
            "set": self._replace_arguments,
            "unset": self._unset,
            **dict.fromkeys(("source", "."), self._source),
            **dict.fromkeys(_READS, self._read),
        }

    def commands(self, text: str) -> Iterator[Command]:
        """Yield the simple commands of a script in order; raises ``BadScript``."""
        for command in self._statements(text):
            if all(block.runs is not False for block in self.blocks):
                yield from self._run(command)

    def nested(self, command: Command, depth: int = MAX_NESTED) -> Iterator[Command]:
        """Yield the command, or those in the text given to ``bash -c`` or ``eval``.

        What is only printed is no command.
        """
        words = command.words
        first = words[0].text if words else ""
        if first in ("echo", "printf"):
            return
        if not depth or (found := _text_inside(words)) is None:
            yield command
            return
        before, text, arguments = found
        inner = Shell([], {})
        inner.arguments = self.arguments if first == "eval" else arguments
        inner.variables = dict(self.variables)
        inner.folder = command.folder
        inner.sourced = self.sourced
        for each in inner.commands(text.text):
            whole = [*before, *_with_holes(each.words, text)]
            yield from self.nested(Command(whole, command.line, each.folder), depth - 1)

    def _statements(self, text: str) -> Iterator[list[Token]]:
        """Yield the tokens of each simple command; block keywords are applied."""
        command: list[Token] = []
        skipped = ""  # the end of the head of a loop or case
        for token in tokens(text):
            word = token.plain
            if skipped:
                skipped = self._skipped(skipped, token)
            elif token.operator:
                if command:
                    yield command
                    if self._leaves(command):
                        return
                    command = []
                skipped = self._operator(token.operator)
            elif not command and word in _RESERVED:
                self._reserved(word)
                skipped = _HEADS.get(word, "")
            else:
                command.append(token)
            if token.operator != "\n":
                self.closed = token.operator == ")"
        if command:
            yield command

    def _reserved(self, word: str) -> None:
        """Open, change or close the block of a reserved word."""
        if word in _OPENS:
            self._open("function" if word == "{" and self.closed else word)
        elif word in _CLOSES:
            self._close()
        elif self.blocks and self.blocks[-1].kind == "if":
            self._branch(self.blocks[-1], word)

    def _branch(self, block: _Block, word: str) -> None:
        """Apply ``then``, ``elif`` or ``else``; a test behind ``!`` is not decided."""
        if word == "then":
            block.then(None if block.negated else block.tested)
        elif word == "else":
            self._forget()
            block.then(True)
        elif word == "elif":
            self._forget()
            block.testing, block.tested, block.negated = True, None, False
            block.runs = None
        elif word == "!":
            block.negated = True
        self.sign = ""

    def _operator(self, sign: str) -> str:
        """Apply an operator to the blocks; return what ends a head that follows."""
        self.conditional, self.sign = sign in ("&&", "||"), sign
        if sign == "(":
            self._open("(")
        elif sign == ")":
            self._close()
        elif sign.startswith(";;") or sign == ";&":
            self._forget()
            return ")"
        return ""

    def _skipped(self, until: str, token: Token) -> str:
        """Skip the head of a loop or case; return what ends it."""
        if until == "name":
            self._set(token.plain, _hole(f"${token.plain}", _LOOP))
            return "\n"
        if until == "in":
            return ")" if token.plain == "in" else until
        if until == ")" and token.plain == "esac":
            self._close()
            return ""
        ends = (";", "\n") if until == "\n" else (until,)
        return "" if token.operator in ends else until

    def _leaves(self, command: list[Token]) -> bool:
        """Return whether the script ends here."""
        name = command[0].plain
        ends = name == "exit" or (name == "exec" and len(command) > 1)
        return ends and not self.blocks and not self.conditional

    def _open(self, kind: str) -> None:
        self.blocks.append(_Block(kind))

    def _close(self) -> None:
        """End a block: its assignments may not have happened."""
        if self.blocks:
            self._forget()
            block = self.blocks.pop()
            for name, values in {} if block.sure else block.names.items():
                self.variables[name] = _either(name, values)

    def _forget(self) -> None:
        """End a branch: the next begins as this one did."""
        if self.blocks and not self.blocks[-1].sure:
            for name, values in self.blocks[-1].names.items():
                values.append(self.variables.pop(name, None))
                if values[0] is not None:
                    self.variables[name] = values[0]

    def _inside(self, *kinds: str) -> bool:
        return any(block.kind in kinds for block in self.blocks)

    def _set(self, name: str, value: Value) -> None:
        """Set a variable if the line certainly runs; else it becomes unknown."""
        outside = _hole(f"${name}", "may be set by another file")
        before = self.variables.get(name, outside if self.sourced else None)
        for block in self.blocks:
            block.names.setdefault(name, [before])
        length = self._count(value)
        if self._inside(*_LOOPS):
            value = _hole(f"${name}", _LOOP)
        elif self.conditional:
            value = _either(name, [before, value])
        elif length > MAX_LENGTH:
            value = _hole(f"${name}", "is too long")
        self.variables[name] = value

    def _run(self, command: list[Token]) -> Iterator[Command]:
        """Apply a command to the state, or yield it."""
        self.line = command[0].line
        first = command[0].plain
        if first in _DECLARES or all(map(_is_assignment, command)):
            for token in command:
                self._assign(token)
            return
        while len(command) > 1 and _is_assignment(command[0]):
            command = command[1:]
        words = [word for token in command for word in self._fields(token.parts)]
        builtin = self.builtins.get(words[0].text) if words else None
        if builtin is not None:
            builtin(words[1:])
        elif words:
            if self.blocks and self.blocks[-1].testing:
                self.blocks[-1].test(_truth(words), self.sign)
            yield Command(words, command[0].line, self.folder)

    def _read(self, words: list[Word]) -> None:
        for word in words:
            self._set(word.text, _hole(f"${word.text}", "is read by the script"))

    def _unset(self, words: list[Word]) -> None:
        for word in words:
            self.variables.pop(word.text, None)

    def _assign(self, token: Token) -> None:
        text = token.parts[0].text if token.parts else ""
        found = _ASSIGNMENT.match(text)
        if found is None or not _is_assignment(token):
            return
        name, more = found[1], bool(found[2])
        old = self.variables.get(name)
        before = old if isinstance(old, list) else [old] if old else []
        if token.items is not None:
            items = [word for item in token.items for word in self._fields(item)]
            self._set(name, [*before, *items] if more else items)
            return
        first = token.parts[0]._replace(text=text[found.end() :])
        value = self._text((first, *token.parts[1:]))
        if more:
            value = _join((*before[:1], value))
        self._set(name, [value, *old[1:]] if isinstance(old, list) else value)

    def _enter(self, words: list[Word]) -> None:
        to = next((word for word in words if word.text[:1] != "-"), Word("~"))
        folder = Word(os.path.expanduser(to.text), to.unknown)
        if os.path.isabs(folder.text):
            self.folder = folder
        else:
            self.folder = _join((self.folder, folder), "/" if self.folder.text else "")

    def _shift(self, words: list[Word]) -> None:
        by = words[0].text if words else "1"
        known = by.isascii() and by.isdigit() and not (self.blocks or self.conditional)
        if isinstance(self.arguments, list) and known:
            self.arguments = self.arguments[int(by[:6]) :]
        else:
            self.arguments = _hole("$@", "depends on a `shift` that is not resolved")

    def _source(self, _words: list[Word]) -> None:
        """Note that another file was run here: it may set any array."""
        self.sourced = True

    def _replace_arguments(self, words: list[Word]) -> None:
        """Apply ``set -- ...``; other options of ``set`` change nothing here."""
        if words and words[0].text == "--":
            unknown = any(word.unknown for word in words)
            sure = not (self.blocks or self.conditional or unknown)
            self.arguments = words[1:] if sure else _hole("$@", _CONDITION)

    def _text(self, parts: Parts, depth: int = 0) -> Word:
        """Return the word of parts that are not split."""
        values = (self._value(part, depth) for part in parts)
        return _join(v if isinstance(v, Word) else _join(v, " ") for v in values)

    def _fields(self, parts: Parts) -> list[Word]:
        """Return the words that one word of the script expands to."""
        done: list[Word] = []
        last: Word | None = None
        for part in parts:
            value = self._value(part)
            pieces = [value] if isinstance(value, Word) else value
            if part.name and not part.quoted:
                pieces = [
                    Word(text, piece.unknown if HOLE in text else None)
                    for piece in pieces
                    for text in piece.text.split()
                ]
            elif "@" not in (part.name, part.every):
                pieces = [_join(pieces, " ")]
            for number, piece in enumerate(pieces):
                if number and last is not None:
                    done.append(last)
                    last = None
                last = piece if last is None else _join((last, piece))
        return done if last is None else [*done, last]

    def _value(self, part: Part, depth: int = 0) -> Value:
        """Return the value of one piece of a word."""
        if part.reason == ARITHMETIC and depth <= MAX_DEPTH:
            return self._result(part, depth)
        if part.reason:
            return _hole(part.text, part.reason)
        if not part.name:
            return Word(part.text)
        if depth > MAX_DEPTH:
            return _hole(part.text, "is nested too deeply")
        value, sign = self._variable(part), part.operator[-1:]
        self._count(value)
        empty = value is None or (
            part.operator[:1] == ":" and value in (Word(""), list[Word]())
        )
        if sign in ("-", "=") and value is None and part.name.startswith("SLURM_"):
            return _hole(part.text, "is set by Slurm in a job")
        if sign in ("-", "=") and empty:
            default = self._text(parts_of(part.default, quoted=part.quoted), depth + 1)
            if sign == "=":
                self._set(part.name, default)
            return default
        if sign == "+":
            return _hole(part.text, _CONDITION)
        if value is None or (sign == "?" and empty):
            number = part.name.isdigit()
            what = f"argument {part.name} of the script"
            return _hole(
                part.text, f"is {what}" if number else "is not set in the script"
            )
        return value

    def _result(self, part: Part, depth: int) -> Word:
        """Return the result of ``$((...))``; an unknown operand makes it unknown."""
        text = self._text(parts_of(part.text[3:-2], quoted=True), depth + 1)
        unknown = text.unknown

        def value(name: str) -> str:
            nonlocal unknown
            word = self._text((Part(f"${name}", name=name),), depth + 1)
            unknown = unknown or word.unknown
            return word.text

        try:
            return Word(str(evaluate(text.text, value)))
        except NotEvaluated:
            return Word(HOLE, unknown or Unknown(part.text, ARITHMETIC))

    def _count(self, value: Value | None) -> int:
        """Return the length of a value; raise ``BadScript`` if all are too long."""
        words = value if isinstance(value, list) else [value] if value else []
        length = sum(len(word.text) + 1 for word in words)
        self.expanded += length
        if self.expanded > MAX_EXPANDED:
            raise BadScript(self.line, "the script becomes too long when expanded")
        return length

    def _variable(self, part: Part) -> Value | None:
        """Return the value of a variable, ``None`` if it is not set."""
        name, arguments = part.name, self.arguments
        if name in ("@", "*", "#") or name.isdigit():
            if self._inside("function"):
                return _hole(part.text, "is an argument of a function")
            if name in ("@", "*") or isinstance(arguments, Word):
                return arguments
            if name == "#":
                return Word(str(len(arguments)))
            index = int(name[:6]) - 1
            return arguments[index] if 0 <= index < len(arguments) else None
        empty = part.every and not self.sourced
        value = self.variables.get(name, [] if empty else None)
        if isinstance(value, list) and not part.every:
            return value[0] if value else Word("")
        return value


def _either(name: str, values: Sequence[Value | None]) -> Value:
    """Return what a variable is that has one of several values.

    It is what all begin with, then an unknown piece, with the flags that may be in it.
    A text that is not set may come from outside; an array is empty then.
    """
    unknown = Unknown(f"${name}", _CONDITION)
    known = [value or [] for value in values]
    text = not any(isinstance(value, list) for value in values)
    if text and (None in values or any(map(_is_open, known))):
        return Word(HOLE, unknown)
    lists = [value if isinstance(value, list) else [value] for value in known]
    if text:
        lists = [[*_split(words[0])] for words in lists]
    same = 0
    for each in zip(*lists, strict=False):
        if any(word != each[0] for word in each):
            break
        same += 1
    rests = [words[same:] for words in lists]
    hole = Word(HOLE, unknown._replace(flags=_flags(rests)))
    found = [*lists[0][:same], *[hole] * any(rests)]
    return _join(found, " ") if text else found


def _is_open(value: Value) -> bool:
    """Whether a text has a piece that may be any words."""
    piece = value.unknown if isinstance(value, Word) else None
    return piece is not None and piece.flags is None


def _split(word: Word) -> Iterator[Word]:
    """Yield the words of a text."""
    for text in word.text.split(" "):
        yield Word(text, word.unknown if HOLE in text else None)


def _flags(alternatives: Iterable[list[Word]]) -> dict[str, bool] | None:
    """Return the flags in them, ``None`` where words may belong to other flags."""
    found: dict[str, bool] = {}
    for words in alternatives:
        flag = ""
        pieces = (word._replace(text=t) for word in words for t in word.text.split())
        for word in pieces:
            name = FLAG.match(word.text)
            if name:
                flag = name[0]
                found[flag] = found.get(flag, False) or bool(word.unknown)
            elif word.unknown and word.unknown.flags is not None:
                found |= word.unknown.flags
            elif not flag:
                return None
            elif word.unknown:
                found[flag] = True
    return found


def _text_inside(words: list[Word]) -> tuple[list[Word], Word, list[Word]] | None:
    """Return the text that a command runs as a script.

    With the words before it, and its arguments.
    """
    texts = [word.text for word in words]
    if texts[:1] == ["eval"]:
        return [], _join(words[1:], " "), []
    for number, text in enumerate(texts[:-2]):
        shell = text.rpartition("/")[2] in ("bash", "sh")
        if shell and re.fullmatch("-[a-z]*c", texts[number + 1]):
            return words[:number], words[number + 2], words[number + 4 :]
    return None


def _with_holes(words: list[Word], outer: Word) -> Iterator[Word]:
    """Yield the words of a text; its unknown parts stay unknown in them."""
    for word in words:
        hole = HOLE in word.text and not word.unknown
        yield word._replace(unknown=outer.unknown) if hole else word


def _truth(words: list[Word]) -> bool | None:
    """Return the result of a test of known texts; ``None`` for any other command."""
    if any(word.unknown for word in words):
        return None
    first, *texts = (word.text for word in words)
    if (first, texts[-1:]) in (("[", ["]"]), ("[[", ["]]"])):
        texts = texts[:-1]
    elif first != "test":
        return None
    if len(texts) == 2 and texts[0] in ("-n", "-z"):
        return bool(texts[1]) is (texts[0] == "-n")
    if len(texts) != 3 or (first == "[[" and set(texts[2]) & set("*?[")):
        return None
    left, sign, right = texts
    if sign in ("=", "==", "!="):
        return (left == right) is (sign != "!=")
    if sign in ("-eq", "-ne") and left.isdecimal() and right.isdecimal():
        return (int(left[:20]) == int(right[:20])) is (sign == "-eq")
    return None


def _is_assignment(token: Token) -> bool:
    first = token.parts[0] if token.parts else None
    bare = first is not None and not (first.quoted or first.name or first.reason)
    return bare and first is not None and bool(_ASSIGNMENT.match(first.text))
