"""Read the commands of a bash script, resolving words without running anything.

Assignments, arguments, arrays, defaults and arithmetic are resolved, and tests of known
texts are decided. Values that only a run determines, such as the output of a command,
are named instead. So are variables that something changes which is not followed: loops,
functions, other processes, elements of arrays, and commands such as ``read``.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from fp8tune.formats.bash.arithmetic import NotEvaluated, assigned, evaluate
from fp8tune.formats.bash.block import Block
from fp8tune.formats.bash.values import (
    CONDITION,
    Unknown,
    Value,
    Word,
    either,
    flags,
    hole,
    join,
    marked,
    split,
    unmarked,
)
from fp8tune.formats.bash.words import (
    ARITHMETIC,
    CLOSES,
    MAX_DEPTH,
    OPENS,
    OUTPUT,
    RESERVED,
    BadScript,
    Part,
    Parts,
    Token,
    parts_of,
    parts_of_heredoc,
    tokens,
)
from fp8tune.formats.document import HOLE

MAX_EXPANDED = 1 << 28
"""The most that all expansions of a script give [characters]."""
WORD_COST = 1 << 12
"""What it costs to expand one word [characters]."""

MAX_NESTED = 3
"""Deepest ``bash -c`` within ``bash -c`` that is read."""

MAX_CALLS = 8
"""Deepest call of a function within a function that is followed."""

MAX_BLOCKS = 100
"""Blocks, such as ``if``, that are open at once."""

MAX_COMMANDS = 1 << 14
"""The most commands of a script that are read, those of its functions at each call."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_INDEXED = re.compile(r"([A-Za-z_]\w*)\[.*\]\+?=", re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_HEADS = {"case": "in", "for": "name", "select": "name"}
_LOOPS = ("while", "until", "for", "select")
_DECLARES = ("export", "declare", "local", "readonly", "typeset")
_CHANGES = ("read", "mapfile", "readarray", "getopts", "unset")
"""Commands that change the variables that they name."""
_LOOP = "is set in a loop"
_RUNS_TEXT = {"bash", "sh", "sbatch"}
"""Programs that run their here-document."""
_GOES_ON = ("&&", "||", "|", "|&")
_PIPES, _APART = ("|", "|&"), ("|", "|&", "&")
_KEPT = re.compile("(?:SLURM_.*|HOME|USER|PWD)$")
"""Variables that no other file changes."""
_SETUP = re.compile(
    r"\bactivate\b|\b(?:conda|mamba)\b|shell\.bash|\.bashrc|\.(?:bash_)?profile"
    r"|/etc/profile|/modules\.sh|/lmod/"
)
"""What sets up a shell: it changes no variable of a script but PATH and the like."""


class Command(NamedTuple):
    """A simple command: its words, its line, and the current folder after ``cd``.

    ``given`` are the variables that the script exports or assigns before its name, as
    far as they are certain, ``text`` is its here-document if it runs that.
    """

    words: list[Word]
    line: int
    folder: Word
    given: Mapping[str, Word] = {}
    text: Word | None = None


class Shell:
    """Reads scripts, given ``variables`` and ``arguments`` from outside."""

    def __init__(self, arguments: Iterable[str], variables: Mapping[str, str]) -> None:
        self.arguments: list[Word] | str = list(map(Word, arguments))
        """Those of the script or function, else why they are not known."""
        self.variables: dict[str, Value] = {n: Word(v) for n, v in variables.items()}
        self.exported: set[str] = set()
        """Variables that the script certainly exports."""
        self.heredoc: Parts = ()
        self.folder = Word("")
        self.blocks: list[Block] = []
        self.runs: bool | None = True
        """Whether the next command runs; not known behind some ``&&`` and ``||``."""
        self.truth: bool | None = None
        """The result of the last list of commands, where tests decide it."""
        self.sign, self.negated = "", False
        self.apart = False
        """Whether the command runs in a process of its own, as in a pipeline."""
        self.ended_names: list[str] = []
        """What the block set that has just ended."""
        self.changed = ""
        """Why a variable that the script does not set may be set, if it may."""
        self.functions: dict[str, list[Token]] = {}
        self.calls = 0
        self.line, self.expanded, self.count = 1, 0, 0
        self.builtins = {
            "cd": self._enter,
            "pushd": self._lose_folder,
            "popd": self._lose_folder,
            "shift": self._shift,
            "set": self._replace_arguments,
            "let": self._let,
            "printf": self._printf,
            **dict.fromkeys(("source", "."), self._source),
            **dict.fromkeys(_CHANGES, self._change),
        }

    def commands(self, text: str) -> Iterator[Command]:
        """Yield the simple commands of a script in order; raises ``BadScript``.

        Those of a function come where it is called.
        """
        yield from self._all(tokens(text.replace(HOLE, "?")))

    def _all(self, each: Iterable[Token]) -> Iterator[Command]:
        """Yield the commands of tokens, without those of branches that do not run."""
        for command in self._statements(iter(each)):
            if self.runs is not False and not any(b.skipped for b in self.blocks):
                self.count += 1
                if self.count > MAX_COMMANDS:
                    raise BadScript(self.line, "the script runs too many commands")
                commands = self._run(command)
                yield from self._maybe(commands) if self.apart else commands

    def _maybe(self, commands: Iterable[Command]) -> Iterator[Command]:
        """Yield commands, after which what they set is unknown."""
        outer, depth = (self.runs, self.sign, self.negated), len(self.blocks)
        self._open("(")
        self.runs = True
        yield from commands
        while len(self.blocks) > depth:
            self._close()
        self.runs, self.sign, self.negated = outer
        for name in self.ended_names:
            self._lose(name)

    def nested(self, command: Command, depth: int = MAX_NESTED) -> Iterator[Command]:
        """Yield the command, or those in the text given to ``bash -c`` or ``eval``.

        What is only printed is no command.
        """
        first = command.words[0].text if command.words else ""
        if first in ("echo", "printf"):
            return
        if not depth or (found := _text_inside(command)) is None:
            yield command
            return
        before, text, arguments = found
        inner = Shell([], {})
        inner.arguments = self.arguments if first == "eval" else arguments
        inner.variables = self.variables | dict(command.given)
        inner.folder = command.folder
        inner.changed = self.changed
        inner.exported = {*command.given}
        if first == "eval":
            inner.functions = self.functions
        for each in inner._all(tokens(marked(text))):
            whole = [*before, *unmarked(each.words, text)]
            given = dict(
                zip(each.given, unmarked(each.given.values(), text), strict=True)
            )
            each = each._replace(words=whole, line=command.line, given=given)
            yield from inner.nested(each, depth - 1)

    def _statements(self, each: Iterator[Token]) -> Iterator[list[Token]]:
        """Yield the tokens of each simple command; block keywords are applied."""
        command: list[Token] = []
        skipped = ""  # the end of the head of a loop or case
        for token in chain(each, (Token("\n", (), self.line),)):
            word = token.plain
            if skipped:
                skipped = self._skipped(skipped, token)
            elif token.operator == "()" and len(command) == 1 and command[0].plain:
                self._define(command.pop().plain, _body(each))
            elif self._is_read_over(token, command):
                continue
            elif token.operator:
                if command:
                    self.apart = token.operator in _APART or self.sign in _PIPES
                    yield command
                    self.heredoc = ()
                    if self._leaves(command):
                        return
                    command = []
                skipped = self._operator(token.operator)
            elif not command and word == "function":
                name = next(each, token).plain
                self._define(name, _body(each))
            elif not command and word in RESERVED:
                self._reserved(word)
                skipped = _HEADS.get(word, "")
            else:
                command.append(token)

    def _is_read_over(self, token: Token, command: list[Token]) -> bool:
        """Return whether a token ends no command: a text, or a line that goes on."""
        if token.operator == "<<":
            self.heredoc = token.parts
            return True
        return token.operator == "\n" and not command and self.sign in _GOES_ON

    def _define(self, name: str, body: list[Token]) -> None:
        """Define a function; where another may hold, both are read."""
        if self.runs is not False and not any(b.skipped for b in self.blocks):
            before = self.functions.get(name, []) if self._uncertain else []
            self.functions[name] = [*before, *body]

    def _reserved(self, word: str) -> None:
        """Open, change or close the block of a reserved word."""
        if word in OPENS:
            self._open(word)
        elif word in CLOSES:
            self._close()
        elif word == "!":
            self.negated = not self.negated
        elif self.blocks and self.blocks[-1].kind == "if":
            self._branch(self.blocks[-1], word)

    def _branch(self, block: Block, word: str) -> None:
        """Apply ``then``, ``elif`` or ``else``."""
        if word == "then":
            if all(len(values) == 1 for values in block.names.values()):
                block.begin(self.variables)
            block.then(self.truth)
        elif word == "else":
            self._forget()
            block.then(True)
            block.whole = True
        elif word == "elif":
            self._forget()
            block.runs = None
        self.truth, self.sign = None, ""

    def _operator(self, sign: str) -> str:
        """Apply an operator to the blocks; return what ends a head that follows."""
        if sign in _APART:
            for name in self.ended_names:
                self._lose(name)
        self.ended_names = []
        self.runs, self.sign, self.negated = True, sign, False
        if sign in ("&&", "||"):
            self.runs = None if self.truth is None else self.truth is (sign == "&&")
        if sign == "(":
            self._open("(")
        elif sign == ")":
            self._close()
        elif sign == ";;":
            self._forget()
            return ")"
        elif sign in (";&", ";;&"):
            raise BadScript(self.line, f"a case that goes on behind {sign} is not read")
        return ""

    def _skipped(self, until: str, token: Token) -> str:
        """Skip the head of a loop or case; return what ends it."""
        if until == "name" and token.plain == "let":
            return "let"
        if until == "let":
            self._let([self._text(token.parts)])
            return "\n"
        if until == "name":
            self._set(token.plain, hole(f"${token.plain}", _LOOP))
            return "\n"
        if until == "in" or (until == ")" and self.blocks):
            return self._case(self.blocks[-1], until, token)
        ends = (";", "\n") if until == "\n" else (until,)
        return "" if token.operator in ends else until

    def _case(self, block: Block, until: str, token: Token) -> str:
        """Read the word or a pattern of a ``case``; return what ends its head."""
        if until == "in":
            if token.plain == "in":
                return ")"
            word = self._text(token.parts)
            block.word = "" if word.unknown else word.text
        elif token.plain == "esac":
            self._close(begun=False)
            return ""
        elif token.operator == ")":
            block.match(again=self._inside(*_LOOPS))
            return ""
        elif not token.operator:
            block.whole = block.whole or token.plain == "*"
            quoted = any(part.quoted for part in token.parts)
            block.compare(self._text(token.parts), quoted=quoted)
        return until

    def _leaves(self, command: list[Token]) -> bool:
        """Return whether the script ends here."""
        name = command[0].plain
        ends = name == "exit" or (name == "exec" and len(command) > 1)
        return ends and not self.blocks and self.sign not in ("&&", "||")

    def _open(self, kind: str) -> None:
        if len(self.blocks) == MAX_BLOCKS:
            raise BadScript(self.line, "the script nests too many blocks")
        self.blocks.append(Block(kind, reached=self.runs))
        self.truth, self.sign = None, ""

    def _close(self, *, begun: bool = True) -> None:
        """End a block, and its last branch if one has begun.

        Its assignments may not have happened.
        """
        self.truth = None
        if self.blocks:
            if begun:
                self._forget()
            block = self.blocks.pop()
            self.ended_names = list(block.names)
            for name in () if block.sure else block.names:
                self.variables[name] = self._either(name, block.after(name))

    def _forget(self) -> None:
        """End a branch: the next begins as this one did."""
        if self.blocks and not self.blocks[-1].sure:
            self.blocks[-1].branches += 1
            for name, values in self.blocks[-1].names.items():
                values.append(self.variables.pop(name, None))
                if values[0] is not None:
                    self.variables[name] = values[0]

    def _inside(self, *kinds: str) -> bool:
        return any(block.kind in kinds for block in self.blocks)

    @property
    def _uncertain(self) -> bool:
        """Whether this command may not run."""
        return self.runs is None or any(not block.sure for block in self.blocks)

    def _result(self, truth: bool | None) -> None:
        """Take the result of a command behind ``&&``, ``||`` or another sign."""
        if self._inside(*_LOOPS):
            truth = None  # the variables may have other values the next time
        truth = (not truth) if self.negated and truth is not None else truth
        if self.sign == "&&" and self.truth is not True:
            truth = False if False in (self.truth, truth) else None
        elif self.sign == "||" and self.truth is not False:
            truth = True if True in (self.truth, truth) else None
        self.truth = truth

    def _set(self, name: str, value: Value, start: Sequence[Word] = ()) -> None:
        """Set a variable if the line certainly runs; else it becomes unknown.

        ``start`` are the words of an array to which others are added.
        """
        added = value if isinstance(value, list) else [value]
        value = [*start, *added] if start else value
        outside = hole(f"${name}", self.changed)
        before = self.variables.get(name, outside if self.changed else None)
        for block in self.blocks:
            block.names.setdefault(name, [before])
        if self._inside(*_LOOPS):
            unknown = hole(f"${name}", _LOOP, flags([added]) if start else None)
            value = [*start, unknown] if start else unknown
        elif self.runs is None:
            value = self._either(name, [before, value])
        self.variables[name] = value

    def _either(self, name: str, values: list[Value | None]) -> Value:
        """Return what a variable is that has one of several values."""
        for value in values:
            self._count([*split(value)] if isinstance(value, Word) else value)
        return either(name, values)

    def _run(self, command: list[Token]) -> Iterator[Command]:
        """Apply a command to the state, or yield it."""
        self.line = command[0].line
        first = command[0].plain
        if first in _DECLARES:
            self._declare(first, command[1:])
            self._result(_status(command))
            return
        for_it = list(takewhile(lambda t: _is_assignment(t) or _element(t), command))
        command = command[len(for_it) :]
        if not command:
            for token in for_it:
                self._assign(token)
            self._result(_status(for_it))
            return
        words = [word for token in command for word in self._fields(token.parts)]
        if not words:
            return
        name = words[0].text
        if name in self.functions:
            for variable in self._given(for_it):
                self._lose(variable)
            yield from self._call(name, words[1:])
            self._result(None)
        elif name in self.builtins:
            self.builtins[name](words[1:])
            self._result(None)
        else:
            given = self._environment() | self._given(for_it)
            heredoc = self._heredoc(words)
            yield Command(words, command[0].line, self.folder, given, heredoc)
            if name == "eval":
                self._source(words)
            self._result(_truth(words))

    def _environment(self) -> dict[str, Word]:
        """Return the exported variables whose values are known."""
        values = {name: self.variables.get(name) for name in self.exported}
        self._count([Word(name) for name in values])
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, Word) and not value.holes
        }

    def _heredoc(self, words: list[Word]) -> Word | None:
        """Return the here-document of a command that runs it as a script."""
        names = {word.text.rpartition("/")[2] for word in words}
        if not self.heredoc or names.isdisjoint(_RUNS_TEXT):
            return None
        (part,) = self.heredoc
        if part.quoted:
            return Word(part.text)
        return self._text(parts_of_heredoc(part.text))

    def _given(self, assignments: Iterable[Token]) -> dict[str, Word]:
        """Return the variables that are assigned before a command's name."""
        given: dict[str, Word] = {}
        for token in assignments:
            first = token.parts[0]
            if found := _ASSIGNMENT.match(first.text):
                first = first._replace(text=first.text[found.end() :])
                value = self._text((first, *token.parts[1:]))
                unknown = found[2] or token.items is not None
                name = found[1]
                given[name] = hole(f"${name}", self._here) if unknown else value
        return given

    def _call(self, name: str, arguments: list[Word]) -> Iterator[Command]:
        """Yield the commands of a function."""
        if self.calls == MAX_CALLS:
            self._change_all()
            return
        outside = self.arguments
        self.arguments, self.calls = arguments, self.calls + 1
        yield from self._maybe(self._all(self.functions[name]))
        self.arguments, self.calls = outside, self.calls - 1

    def _declare(self, first: str, command: list[Token]) -> None:
        """Apply ``export`` and the like to the variables that follow."""
        options = "".join(t.plain for t in command if t.plain[:1] == "-")
        for token in command:
            words = [] if _is_assignment(token) else self._fields(token.parts)
            for each in words or token.parts[:1]:
                name = _NAME.match(each.text)
                if name and first == "export" and not self._uncertain:
                    self.exported.add(name[0])
            self._assign(token)
            for word in words:
                self._declare_word(word, local=first != "export" and self.calls > 0)
        if "n" in options and first != "export":
            self._change_all()  # a name of another variable

    def _declare_word(self, word: Word, *, local: bool) -> None:
        """Apply ``export`` and the like to a word that is no plain assignment."""
        found = _ASSIGNMENT.match(word.text)
        if found and not found[2]:
            self._set(found[1], word._replace(text=word.text[found.end() :]))
        elif HOLE in word.text or found:
            self._change_all()
        elif local:
            self._change([word])

    def _change_all(self) -> None:
        """Take all variables as unknown."""
        self.changed = self._here
        for name in self.variables:
            if not _KEPT.match(name):
                self._lose(name)

    @property
    def _here(self) -> str:
        """Why a variable is unknown that this line changes."""
        return f"may be changed in line {self.line}"

    def _lose(self, name: str) -> None:
        """Take a variable as unknown."""
        is_array = isinstance(self.variables.get(name), list)
        unknown = hole(f"${{{name}[@]}}" if is_array else f"${name}", self._here)
        self._set(name, [unknown] if is_array else unknown)

    def _change(self, words: list[Word]) -> None:
        """Take the variables that a command names as unknown."""
        for word in words:
            if name := _NAME.match(word.text):
                self._lose(name[0])

    def _printf(self, words: list[Word]) -> None:
        if words and words[0].text == "-v":
            self._change(words[1:2])

    def _let(self, words: list[Word]) -> None:
        for name in assigned(" ".join(word.text for word in words)):
            self._lose(name)

    def _assign(self, token: Token) -> None:
        if name := _element(token):
            self.variables.setdefault(name, [])
            self._lose(name)
        text = token.parts[0].text if token.parts else ""
        found = _ASSIGNMENT.match(text)
        if found is None or not _is_assignment(token):
            return
        name, more = found[1], bool(found[2])
        old = self.variables.get(name)
        before = old if isinstance(old, list) else [old] if old else []
        if token.items is not None:
            items = [word for item in token.items for word in self._fields(item)]
            self._set(name, items, before if more else [])
            return
        first = token.parts[0]._replace(text=text[found.end() :])
        value = self._text((first, *token.parts[1:]))
        if more:
            value = join((*before[:1], value))
        self._set(name, [value, *old[1:]] if isinstance(old, list) else value)

    def _enter(self, words: list[Word]) -> None:
        to = next((word for word in words if word.text[:1] != "-"), Word("~"))
        folder = Word(os.path.expanduser(to.text), to.holes)
        if self._uncertain:
            self._lose_folder(words)
        elif os.path.isabs(folder.text):
            self.folder = folder
        else:
            self.folder = join((self.folder, folder), "/" if self.folder.text else "")

    def _lose_folder(self, _words: list[Word]) -> None:
        self.folder = hole("the folder", self._here)

    def _shift(self, words: list[Word]) -> None:
        by = words[0].text if words else "1"
        if self._uncertain or not (by.isascii() and by.isdigit()):
            self.arguments = self._here
        elif not isinstance(self.arguments, str):
            self.arguments = self.arguments[int(by[:6]) :]

    def _source(self, words: list[Word]) -> None:
        """Run a text or file that is not read here: it may set any variable."""
        pieces = (word.unknown.text for word in words if word.unknown)
        if not _SETUP.search(" ".join([*(word.text for word in words), *pieces])):
            self._change_all()

    def _replace_arguments(self, words: list[Word]) -> None:
        if any(word.text == "--" for word in words):
            self.arguments = self._here

    def _text(self, parts: Parts, depth: int = 0) -> Word:
        """Return the word of parts that are not split."""
        values = (self._value(part, depth) for part in parts)
        return join(v if isinstance(v, Word) else join(v, " ") for v in values)

    def _fields(self, parts: Parts) -> list[Word]:
        """Return the words that one word of the script expands to."""
        done: list[Word] = []
        last: Word | None = None
        for part in parts:
            value = self._value(part)
            pieces = [value] if isinstance(value, Word) else value
            if part.name and not part.quoted:
                pieces = [word for piece in pieces for word in split(piece)]
                self._count(pieces)
            elif "@" not in (part.name, part.every):
                pieces = [join(pieces, " ")]
            for number, piece in enumerate(pieces):
                if number and last is not None:
                    done.append(last)
                    last = None
                last = piece if last is None else join((last, piece))
        return done if last is None else [*done, last]

    def _value(self, part: Part, depth: int = 0) -> Value:
        """Return the value of one piece of a word."""
        if part.reason == ARITHMETIC and depth <= MAX_DEPTH:
            return self._number(part, depth)
        if part.reason:
            return hole(part.text, part.reason)
        if not part.name:
            return Word(part.text)
        if depth > MAX_DEPTH:
            return hole(part.text, "is nested too deeply")
        value, sign = self._variable(part), part.operator[-1:]
        self._count(value)
        empty = value is None or (
            part.operator[:1] == ":" and value in (Word(""), list[Word]())
        )
        if sign in ("-", "=") and empty:
            slurm = "is set by Slurm in a job" * part.name.startswith("SLURM_")
            if value is None and (slurm or self.changed):
                return hole(part.text, slurm or self.changed)
            default = self._text(parts_of(part.default, quoted=part.quoted), depth + 1)
            if sign == "=":
                self._set(part.name, default)
            return default
        if sign == "+":
            return hole(part.text, CONDITION)
        if value is None or (sign == "?" and empty):
            number, why = part.name.isdigit(), "is not set in the script"
            why = f"is argument {part.name} of the script" if number else why
            return Word(HOLE, (Unknown(part.text, why, argument=number),))
        return value

    def _number(self, part: Part, depth: int) -> Word:
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
            self._let([text])
            return Word(HOLE, (unknown,)) if unknown else hole(part.text, ARITHMETIC)

    def _count(self, value: Value | None) -> None:
        """Count the expansion of a value; raises ``BadScript`` if all are too long."""
        words = value if isinstance(value, list) else [value] if value else []
        self.expanded += sum(len(word.text) + WORD_COST for word in words)
        if self.expanded > MAX_EXPANDED:
            raise BadScript(self.line, "the script becomes too long when expanded")

    def _variable(self, part: Part) -> Value | None:
        """Return the value of a variable, ``None`` if it is not set."""
        name, arguments = part.name, self.arguments
        if name in ("@", "*", "#") or name.isdigit():
            if isinstance(arguments, str):
                return hole(part.text, arguments)
            if name in ("@", "*"):
                return arguments
            if name == "#":
                return Word(str(len(arguments)))
            index = int(name[:6]) - 1
            return arguments[index] if 0 <= index < len(arguments) else None
        empty = part.every and not self.changed
        value = self.variables.get(name, [] if empty else None)
        if isinstance(value, list) and part.every not in ("@", "*"):
            index = int(part.every or 0)
            if any(word.unknown for word in value[: index + 1]):
                return hole(part.text, "may be another element")
            return value[index] if index < len(value) else Word("")
        return value if part.every in ("", "0", "@", "*") else Word("")


def _text_inside(command: Command) -> tuple[list[Word], Word, list[Word]] | None:
    """Return the text that a command runs as a script.

    With the words before it, and its arguments.
    """
    words = command.words
    texts = [word.text for word in words]
    if texts[:1] == ["eval"]:
        return [], join(words[1:], " "), []
    if command.text:
        return words, command.text, []
    for number, text in enumerate(texts):
        if text.rpartition("/")[2] in ("bash", "sh"):
            options = takewhile(lambda word: word[:1] == "-", texts[number + 1 :])
            at = number + 1 + len([*options])
            if re.fullmatch("-[a-z]*c", texts[at - 1]) and at < len(words):
                return words[:number], words[at], words[at + 2 :]
        if text == "--wrap" and number + 1 < len(words):
            return words[:number], words[number + 1], []
        if text.startswith("--wrap="):
            return words[:number], words[number]._replace(text=text[7:]), []
    return None


def _truth(words: list[Word]) -> bool | None:
    """Return the result of a test of known texts; ``None`` for any other command."""
    if any(word.unknown for word in words):
        return None
    if len(words) == 1 and words[0].text in ("true", "false", ":"):
        return words[0].text != "false"
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


def _status(command: list[Token]) -> bool | None:
    """Return the result of assignments: known if no command is run for them."""
    parts = (part for token in command for part in token.parts)
    return None if any(part.reason == OUTPUT for part in parts) else True


def _body(each: Iterator[Token]) -> list[Token]:
    """Take the tokens of the ``{ ... }`` of a function; raises ``BadScript``."""
    for token in each:
        if token.plain == "{":
            return list(_up_to_the_end(each))
        if token.operator not in ("()", "\n"):
            raise BadScript(token.line, "the body of a function is not in { }")
    return []


def _up_to_the_end(each: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens up to the ``}`` that closes what has been opened."""
    depth, first = 1, True
    for token in each:
        if first and token.plain in ("{", "}"):
            depth += 1 if token.plain == "{" else -1
        if not depth:
            return
        yield token
        first = bool(token.operator) or (first and token.plain in RESERVED)


def _element(token: Token) -> str:
    """Return the array of ``A[1]=8``, which sets an element, or ``""``."""
    first = token.parts[0] if token.parts else None
    if first is None or first.quoted or first.name or first.reason:
        return ""
    found = _INDEXED.match("".join(part.text for part in token.parts))
    return found[1] if found else ""


def _is_assignment(token: Token) -> bool:
    first = token.parts[0] if token.parts else None
    bare = first is not None and not (first.quoted or first.name or first.reason)
    return bare and first is not None and bool(_ASSIGNMENT.match(first.text))
