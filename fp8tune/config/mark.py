"""Read comments that are meant to silence a rule, correct or not."""

# no future annotations: as strings, they double the import time of a NamedTuple
import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from fp8tune.formats.document import ConfigDocument, Lines, Span

FORM = (
    r"(?:#|//)[ \t]*fp8tune[ \t]*:[ \t]*ignore\[(?P<names>[^\]]*)\]"
    r"(?:[ \t]+until=(?P<until>\S+))?(?:[ \t]+--[ \t]*(?P<reason>.*))?[ \t\r]*$"
)
_BEGINNING = "# fp8tune: ignore"
SEARCH = "# fp8tune search: "
"""How every comment begins that ``fp8tune search`` writes into a config."""
_MEANT = (
    r"(?i)(?:#|//)[ \t]*(?P<name>fp8tune)[ \t]*+(?P<colon>:?)[ \t]*"
    r"(?P<word>[a-z][a-z-]*)[ \t]*+(?P<rest>(?:.*[^ \t\r])?)[ \t\r]*$"
)
_INSIDE = r"(?i)(?<![\w`\"'./-])(?<![`\"']#)(?<![`\"']# )fp8tune[ \t]*:[ \t]*ignore\["
_ONE_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)+"
_NAME = r"[^\s,](?:[^,]*[^\s,])?"
_WORDS = (
    *("ignore", "ignores", "ignor", "disable", "disable-line", "disable-next-line"),
    *("noqa", "nolint", "suppress", "silence", "skip", "allow", "off"),
)
"""What other linters say for it."""
MAX_COMMENTS = 200
MAX_NAMES = 1000
"""Rules that the ignore comments of a file name at most."""
TOO_MANY = f"the ignore comments of this file name more than {MAX_NAMES} rules"


class Mistake(NamedTuple):
    """What is wrong with a comment; with ``end`` and ``meant`` if it can be fixed.

    ``meant`` is the intended comment, which differs in the text up to ``end``.
    """

    problem: str
    end: int = 0
    meant: str = ""

    @property
    def beginning(self) -> str:
        """The correct text up to ``end``."""
        return _BEGINNING


def speaks(text: str) -> bool:
    """Return whether a text mentions fp8tune."""
    return ("8t" in text or "8T" in text) and "fp8tune" in text.casefold()


def addresses(text: str) -> bool:
    """Return whether a comment of a YAML text begins with fp8tune's name.

    Else it may be that of a hook or a package, in a file of another program.
    """
    return speaks(text) and re.search(r"(?i)#[ \t]*fp8tune\b", text) is not None


def is_ignore(comment: str) -> bool:
    """Return whether a comment silences a rule, or is meant to."""
    return re.match(FORM, comment) is not None or mistake(comment) is not None


def mistake(comment: str) -> Mistake | None:
    """Return why a comment that is meant to silence a rule does not, else ``None``.

    Prose that mentions fp8tune is not meant to.
    """
    found = re.match(_MEANT, comment)
    if found is None or not _is_meant(found):
        inside = re.search(_INSIDE, comment)
        return Mistake("it must be at the beginning of the comment") if inside else None
    meant = f"{_BEGINNING}{found['rest']}"
    form = re.match(FORM, meant)
    if form is None or not form["names"].strip(" \t,"):
        reason = f"write `{_BEGINNING}[rule-name] until=YYYY-MM-DD -- reason`"
        return Mistake(reason)
    return Mistake(_reason(found), found.start("rest"), meant)


def _is_meant(found: re.Match[str]) -> bool:
    word, rest = found["word"].lower(), found["rest"]
    misspelt = word[0] == "i" and sorted(word) == sorted("ignore")
    known = misspelt or word in _WORDS
    if rest.startswith("["):
        return known
    if not found["colon"]:
        return False
    alone = not rest or rest[0] in "(=:" or re.fullmatch(_ONE_NAME, rest)
    return word.startswith("ignore") or (known and bool(alone))


def _reason(found: re.Match[str]) -> str:
    """Return which part of the beginning is wrong."""
    word = found["word"]
    if found["name"] != "fp8tune":
        return "write `fp8tune` in lower case"
    if not found["colon"]:
        return "there is no colon after `fp8tune`"
    if word == "ignore":
        return "there must be no space before the bracket"
    if word.lower() == "ignore":
        return "write `ignore` in lower case"
    return f"the word is `ignore`, not `{word}`"


class Ignore(NamedTuple):
    """One ignore comment: its place, the lines it applies to, and what it silences.

    ``places`` are the spans of the names; ``mistake`` says why the comment has no
    effect.
    """

    span: Span
    lines: tuple[int, ...]
    names: tuple[str, ...]
    until: str
    problem: str = ""
    reason: str = ""
    places: tuple[Span, ...] = ()
    mistake: Mistake | None = None

    @property
    def words(self) -> str:
        """What follows the names, in the form that ``--add-ignore`` writes."""
        return words(self.until, self.reason)

    def expired(self, today: str) -> bool:
        """Return whether the comment has expired by a day, ``2026-11-28``."""
        return bool(self.until) and today > self.until


def words(until: str, reason: str) -> str:
    """Return what follows the names in a comment: last day and reason, if any."""
    return f" until={until}" * bool(until) + f" -- {reason}" * bool(reason)


def read_ignores(document: ConfigDocument) -> list[Ignore]:
    """The ignore comments of a config."""
    if not speaks(document.text):
        return []
    text = document.text
    spans = (span for span in document.comments() if speaks(text[slice(*span)]))
    below = _Below(document)
    found = (_ignore(document, span, below) for span in spans)
    ignores, named = [], 0
    for ignore in islice((ignore for ignore in found if ignore), MAX_COMMENTS):
        named += len(ignore.names)
        problem = "" if named <= MAX_NAMES else TOO_MANY
        ignores.append(ignore._replace(problem=problem) if problem else ignore)
    return ignores


def _ignore(document: ConfigDocument, span: Span, below: "_Below") -> Ignore | None:
    comment = document.text[slice(*span)]
    form = re.match(FORM, comment)
    wrong = mistake(comment) if form is None else None
    if form is None and wrong is None:
        return None
    lines = below.lines(span)
    if wrong is not None:
        return Ignore(span, lines, (), "", wrong.problem, mistake=wrong)
    assert form is not None
    offset = span[0] + form.start("names")
    found = list(re.finditer(_NAME, form["names"]))
    names = tuple(match[0] for match in found)
    places = tuple((offset + m.start(), offset + m.end()) for m in found)
    problem = "" if names else "name the rules between the brackets"
    until = ""
    if form["until"]:
        import datetime

        try:
            until = str(datetime.date.fromisoformat(form["until"]))
        except ValueError:
            problem = f"until={form['until']} is not a date of the form YYYY-MM-DD"
    reason = (form["reason"] or "").rstrip()
    return Ignore(span, lines, names, until, problem, reason, places)


class _Below:
    """The lines that ignore comments apply to; the comments are asked for in order.

    Each line of the config is then read once, however many comments precede it.
    """

    def __init__(self, document: ConfigDocument) -> None:
        self._lines = document.lines
        self._last = document.text.count("\n") + 1
        self._line = self._key = 0
        self._continues = document.format == "bash"
        self._rest: tuple[int, ...] = ()

    def lines(self, span: Span) -> tuple[int, ...]:
        """Its own line; and if it stands alone, the one below and the next key's.

        The one below is the first that is not an ignore comment. Of a script the lines
        of the whole command count.
        """
        line = self._lines.position(span[0]).line
        if not self._lines.line(line).lstrip().startswith(("#", "//")):
            return (line,)
        if line >= self._line:
            self._line = self._next(line, _is_no_ignore)
        if line >= self._key:
            self._key = self._next(line, _is_key)
            end = self._key
            while self._continues and end < self._last and goes_on(self._lines, end):
                end += 1
            self._rest = tuple(range(self._key + 1, end + 1))
        below = (n for n in (self._line, self._key) if n <= self._last)
        return (line, *below, *self._rest)

    def _next(self, line: int, wanted: Callable[[str], object]) -> int:
        """Return the first line below of this kind; one past the last if none is."""
        below = range(line + 1, self._last + 1)
        matching = (n for n in below if wanted(self._lines.line(n).strip()))
        return next(matching, self._last + 1)


def goes_on(lines: Lines, number: int) -> bool:
    """Whether the command on a line of a script goes on below."""
    return lines.line(number).endswith("\\")


def _is_no_ignore(line: str) -> bool:
    return re.match(FORM, line) is None


def _is_key(line: str) -> bool:
    return bool(line) and not line.startswith(("#", "//"))
