"""Split a bash script into words and operators, with the expansions of each word.

Comments and redirections are left out. A here-document is an operator ``<<`` at the
end of its line, whose only part is the text. Nothing is expanded here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

MAX_DEPTH = 8
"""Deepest nesting of quotes and parentheses that is read."""

OPENS = ("if", "while", "until", "case", "for", "select", "{")
CLOSES = ("fi", "done", "esac", "}")
RESERVED = frozenset((*OPENS, *CLOSES, "then", "else", "elif", "!", "do", "time"))
"""The words that open, close or divide blocks."""

_NAME = r"[A-Za-z_]\w*"
_BRACES = re.compile(
    rf"({_NAME}|\d+|[@*#])(?:\[([@*]|\d{{1,4}})\])?(?:(:?[-=?+])(.*))?", re.DOTALL
)
_SIMPLE = re.compile(rf"{_NAME}|\d|[@*#?$!-]")
_OPERATOR = re.compile(r"\([ \t]*\)|;;&?|;&|&&|\|\||\|&|[;&|()\n]")
_REDIRECTION = re.compile(r"\d*(?:<<<|<>|>>|>\||[<>]&|&>>?|[<>](?!\())|&>>?")
_HEREDOC = re.compile(r"\d*<<(-?)[ \t]*(['\"\\]?)([\w.-]+)\2")
_ARRAY = re.compile(rf"{_NAME}\+?=")
_ENDS = " \t\n;&|()<>"
OUTPUT = "is the output of a command"
ARITHMETIC = "is arithmetic that is not evaluated"


class BadScript(Exception):
    """The script cannot be split into words; has the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"{line}: {reason}")


class Part(NamedTuple):
    """A piece of a word: text, an expansion of ``name``, or an unresolvable piece.

    ``every`` is the ``@``, ``*`` or number in ``[]``, ``operator`` and ``default`` are
    those of ``${name:-default}``; ``reason`` says why a piece cannot be resolved.
    """

    text: str
    quoted: bool = False
    name: str = ""
    every: str = ""
    operator: str = ""
    default: str = ""
    reason: str = ""


Parts = tuple[Part, ...]


class Token(NamedTuple):
    """An operator, or a word; ``items`` are the words of an array, ``NAME=(...)``."""

    operator: str
    parts: Parts
    line: int
    items: tuple[Parts, ...] | None = None

    @property
    def plain(self) -> str:
        """The text of a word that has no quotes and expansions, else ``""``."""
        bare = all(not (p.quoted or p.name or p.reason) for p in self.parts)
        return "".join(part.text for part in self.parts) if bare else ""


def tokens(text: str) -> Iterator[Token]:
    """Yield the operators and words of a script; raises ``BadScript``."""
    yield from _Reader(text).tokens()


def comment_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the comments of a script, from ``#`` to the end of the line."""
    reader = _Reader(text)
    try:
        for _ in reader.tokens():
            pass
    except BadScript:
        pass
    yield from reader.comments


def parts_of(text: str, *, quoted: bool) -> Parts:
    """Return the pieces of a default in ``${name:-default}``; raises ``BadScript``."""
    return _Reader(text).inner(quoted=quoted)


def parts_of_heredoc(text: str) -> Parts:
    """Return the pieces of a here-document, in which quotes are text."""
    return tuple(_Reader(text).quoted(end=""))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.heredocs: list[tuple[str, bool, bool]] = []
        self.arrays = 0
        self.comments: list[tuple[int, int]] = []

    def line(self, at: int) -> int:
        return bisect_left(self.newlines, at) + 1

    def tokens(self) -> Iterator[Token]:
        text = self.text
        while self.at < len(text):
            here = text[self.at]
            if here in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif here == "#":
                start, end = self.at, text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
                self.comments.append((start, self.at))
            elif text.startswith("((", self.at):
                start, line = self.at, self.line(self.at)
                self.at = self.closing(start + 2, "))")
                let = Part("let"), Part(text[start + 2 : self.at - 2], quoted=True)
                yield from (Token("", (part,), line) for part in let)
            elif found := _HEREDOC.match(text, self.at):
                self.heredocs.append((found[3], bool(found[1]), bool(found[2])))
                self.at = found.end()
            elif found := _REDIRECTION.match(text, self.at):
                self.at = found.end()
                self.skip_target()
            elif found := _OPERATOR.match(text, self.at):
                line = self.line(self.at)
                self.at = found.end()
                if found[0] == "\n" and self.heredocs:
                    yield from self.read_heredocs()
                yield Token(found[0].replace(" ", "").replace("\t", ""), (), line)
            else:
                yield self.word()

    def skip_target(self) -> None:
        """Skip the file of a redirection."""
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] not in "\n;|&":
            self.word()

    def read_heredocs(self) -> Iterator[Token]:
        """Yield the here-documents that begin behind this line."""
        for name, tabs, quoted in self.heredocs:
            lines, start = list[str](), self.line(self.at)
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                line = line.lstrip("\t") if tabs else line
                self.at = end + 1
                if line == name:
                    break
                lines.append(line)
            yield Token("<<", (Part("\n".join(lines), quoted),), start)
        self.heredocs = []

    def word(self) -> Token:
        line = self.line(self.at)
        parts = []
        start = self.at
        while self.at < len(self.text):
            here = self.text[self.at]
            if self.text.startswith(("<(", ">("), self.at):
                self.at = end = self.closing(self.at + 2, ")")
                parts.append(Part(self.text[start:end], reason=OUTPUT))
            elif here == "(" and _ARRAY.fullmatch(self.text[start : self.at]):
                return Token("", tuple(parts), line, tuple(self.array()))
            elif here in _ENDS:
                break
            else:
                parts += self.piece()
        if self.at == start:  # such as a > that redirects nothing
            self.at += 1
        return Token("", tuple(parts), line)

    def array(self) -> Iterator[Parts]:
        """Yield the words of ``(...)`` after ``NAME=``."""
        self.at += 1
        self.arrays += 1
        if self.arrays > MAX_DEPTH:
            raise BadScript(self.line(self.at), "arrays are nested too deeply")
        for token in self.tokens():
            if token.operator == ")":
                self.arrays -= 1
                return
            if not token.operator:
                yield token.parts

    def piece(self) -> list[Part]:
        """Return the next piece of a word outside of quotes."""
        here, start = self.text[self.at], self.at
        if here == "'":
            end = self.find("'", start + 1)
            self.at = end + 1
            return [Part(self.text[start + 1 : end], quoted=True)]
        if here == '"':
            self.at += 1
            return self.quoted()
        if here == "\\":
            self.at += 2
            following = self.text[start + 1 : self.at]
            return [] if following == "\n" else [Part(following, quoted=True)]
        if here in "$`":
            return [self.expansion(quoted=False)]
        plain = re.compile(r"[^'\"\\$` \t\n;&|()<>]+").match(self.text, start)
        self.at = plain.end() if plain else start + 1
        return [Part(self.text[start : self.at])]

    def quoted(self, end: str = '"') -> list[Part]:
        """Return the pieces up to the closing double quote, or up to the end."""
        start, parts = self.at, list[Part]()
        plain = re.compile(rf"\\|[^{end}\\$`]+")
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == end:
                self.at += 1
                return parts or [Part("", quoted=True)]
            if here in "$`":
                parts.append(self.expansion(quoted=True))
            elif (
                here == "\\" and self.text[self.at + 1 : self.at + 2] in f"$`\\\n{end}"
            ):
                escaped = self.text[self.at + 1 : self.at + 2].replace("\n", "")
                parts.append(Part(escaped, quoted=True))
                self.at += 2
            else:
                found = plain.match(self.text, self.at)
                stop = found.end() if found else self.at + 1
                parts.append(Part(self.text[self.at : stop], quoted=True))
                self.at = stop
        if end:
            raise BadScript(self.line(start - 1), "a quote is not closed")
        return parts

    def expansion(self, *, quoted: bool) -> Part:
        """Return an expansion, which begins with ``$`` or a backtick."""
        text, start = self.text, self.at
        if text[start] == "`":
            self.at = self.find("`", start + 1) + 1
            return Part(text[start : self.at], quoted, reason=OUTPUT)
        if text.startswith("$((", start):
            self.at = self.closing(start + 3, "))")
            return Part(text[start : self.at], quoted, reason=ARITHMETIC)
        if text.startswith("$[", start):
            self.at = self.closing(start + 2, "]")
            inner = text[start + 2 : self.at - 1]
            return Part(f"$(({inner}))", quoted, reason=ARITHMETIC)
        if text.startswith("$(", start):
            self.at = self.closing(start + 2, ")")
            return Part(text[start : self.at], quoted, reason=OUTPUT)
        if text.startswith("${", start):
            self.at = self.closing(start + 2, "}")
            return _braces(text[start : self.at], quoted)
        name = _SIMPLE.match(text, start + 1)
        if name is None:
            self.at += 1
            return Part("$", quoted)
        self.at = name.end()
        return Part(text[start : self.at], quoted, name=name[0])

    def inner(self, *, quoted: bool) -> Parts:
        """Return the pieces of the whole text; blanks and operators are text."""
        parts: list[Part] = []
        while self.at < len(self.text):
            here = self.text[self.at]
            if here in "$`":
                parts.append(self.expansion(quoted=quoted))
            elif here in "'\"\\":
                parts += self.piece()
            else:
                parts.append(Part(here, quoted))
                self.at += 1
        return tuple(parts)

    def find(self, sign: str, start: int) -> int:
        end = self.text.find(sign, start)
        if end < 0:
            raise BadScript(self.line(start - 1), f"a {sign} is not closed")
        return end

    def closing(self, start: int, sign: str) -> int:
        """Return the position of the closing ``sign``, skipping quotes and brackets."""
        stack, at = [sign], start
        opens = {"$((": "))", "$(": ")", "${": "}", "(": ")", "`": "`", '"': '"'}
        while at < len(self.text):
            top = stack[-1]
            if self.text.startswith(top, at):
                at += len(top)
                stack.pop()
                if not stack:
                    return at
                continue
            if self.text[at] == "\\":
                at += 2
                continue
            if self.text[at] == "'" and top != '"':
                at = self.find("'", at + 1) + 1
                continue
            found = next((o for o in opens if self.text.startswith(o, at)), "")
            if found and not (top == '"' and found in ('"', "(")):
                stack.append(opens[found])
            if len(stack) > MAX_DEPTH * 4:
                raise BadScript(self.line(start), "brackets are nested too deeply")
            at += max(1, len(found))
        raise BadScript(self.line(start - 1), f"a {sign} is missing")


def _braces(text: str, quoted: bool) -> Part:
    """Return the expansion ``${...}``."""
    found = _BRACES.fullmatch(text[2:-1])
    if found is None:
        return Part(text, quoted, reason="is more than a variable with a default")
    name, every, operator, default = found.groups()
    return Part(text, quoted, name, every or "", operator or "", default or "")
