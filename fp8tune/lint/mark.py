"""Comments that are meant to silence a rule, well written or not."""

from __future__ import annotations

import re
from typing import NamedTuple

FORM = (
    r"#[ \t]*fp8tune[ \t]*:[ \t]*ignore\[(?P<names>[^\]]*)\]"
    r"(?:[ \t]+until=(?P<until>\S+))?(?:[ \t]+--[ \t]*(?P<reason>.*))?[ \t\r]*$"
)
_BEGINNING = "# fp8tune: ignore"
_MEANT = (
    r"(?i)#[ \t]*(?P<name>fp8tune)[ \t]*(?P<colon>:?)[ \t]*"
    r"(?P<word>[a-z][a-z-]*)[ \t]*(?P<rest>.*?)[ \t\r]*$"
)
_INSIDE = r"(?i)(?<![\w`\"'./-])(?<![`\"']#)(?<![`\"']# )fp8tune[ \t]*:[ \t]*ignore\["
_ONE_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)+"
_WORDS = (
    *("ignore", "ignores", "ignor", "disable", "disable-line", "disable-next-line"),
    *("noqa", "nolint", "suppress", "silence", "skip", "allow", "off"),
)
"""What other linters say for it."""


class Mistake(NamedTuple):
    """What is wrong with a comment; ``end`` and ``meant`` if that can be mended.

    ``meant`` is the comment as it was meant: the text up to ``end`` is another.
    """

    problem: str
    end: int = 0
    meant: str = ""

    @property
    def beginning(self) -> str:
        """What belongs in the place of the text up to ``end``."""
        return _BEGINNING


def speaks(text: str) -> bool:
    """Whether there is anything for us in a text."""
    return "fp8tune" in text.casefold()


def is_ignore(comment: str) -> bool:
    """Whether a comment silences a rule, or is meant to."""
    return re.match(FORM, comment) is not None or mistake(comment) is not None


def mistake(comment: str) -> Mistake | None:
    """Why a comment that is meant to silence a rule does not; none if it is not meant.

    Prose that speaks of us is not.
    """
    found = re.match(_MEANT, comment)
    if found is None or not _is_meant(found):
        inside = re.search(_INSIDE, comment)
        return Mistake("it does not begin the comment") if inside else None
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
    """Which part of the beginning is not as it must be."""
    word = found["word"]
    if found["name"] != "fp8tune":
        return "`fp8tune` is written in small letters"
    if not found["colon"]:
        return "it lacks the colon after `fp8tune`"
    if word == "ignore":
        return "no space goes before the bracket"
    if word.lower() == "ignore":
        return "`ignore` is written in small letters"
    return f"the word is `ignore`, not `{word}`"
