"""Which names training arguments may have, and in which releases.

Those of transformers and TRL are in ``arguments.toml``. Scripts of other people may
have arguments of their own, so that a name is surely unknown only where TRL's script
reads it. Its command ``trl sft`` hands the names that it does not know to ``accelerate
launch``, which refuses them; ``python trl/scripts/sft.py`` ignores them. Elsewhere a
name counts that is nearly one of theirs: ``HfArgumentParser`` refuses it, ``TrlParser``
since TRL 0.19.

Source: TRL 0.15 to 1.16, cli and scripts/utils.py; transformers, hf_argparser.py.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from fp8tune.suggest import closest
from fp8tune.trainers.about import order
from fp8tune.trainers.meant import same_word

OF_PARSER = ("config", "env")
"""What TRL's parser takes itself: the file, and its environment variables."""

SHORT = 4
"""Length of a word of which another letter makes another word [letters]."""

_SCRIPT = re.compile(r"(?:.*/)?trl/scripts/(\w+)\.py")


class Reader(NamedTuple):
    """What reads training arguments: a command of TRL, else an unknown script.

    ``refuses`` says that names which it does not know end the run.
    """

    command: str = ""
    refuses: bool = True

    @property
    def title(self) -> str:
        """What messages call it."""
        release = f"TRL {_data()['newest']['trl']}"
        script = f"trl/scripts/{self.command}.py"
        name = f"trl {self.command}" if self.refuses else script
        return f"`{name}` of {release}"

    @property
    def names(self) -> frozenset[str]:
        """Every name that it takes in some release."""
        if not self.command:
            return every_name()
        data = _data()
        tables = data["trl"][self.command], data["transformers"]["TrainingArguments"]
        launch = [data["launch"]] * self.refuses
        return frozenset(_names(*tables, *launch)).union(OF_PARSER)

    def meant(self, name: str) -> str:
        """Return the name that was nearly written, ``""`` if there is none."""
        near = closest(name, self.names)
        return near if self.command or _is_slip(name, near) else ""


def reader(script: str) -> Reader:
    """Return what reads the arguments of a script, or of a command of ``trl``."""
    commands = _data()["trl"].keys() - {"other"}
    if script in commands:
        return Reader(script)
    path = _SCRIPT.fullmatch(script)
    return Reader(path[1], refuses=False) if path and path[1] in commands else Reader()


def _is_slip(name: str, near: str) -> bool:
    """Whether a name is another one with a slip: separators, or a letter of one word.

    Scripts have arguments of their own that differ by a plural, a digit or a short word
    from one of TRL: ``dataset``, ``adam_epsilon2``, ``dp_size``.
    """
    words, meant = name.split("_"), near.split("_")
    if not near or same_word(name, near):
        return bool(near)
    wrong = [pair for pair in zip(words, meant, strict=False) if pair[0] != pair[1]]
    plural = len(words) == 1 and name.rstrip("s") == near.rstrip("s")
    one_word = len(words) == len(meant) and len(wrong) == 1
    return one_word and not plural and _differ_by_a_letter(*wrong[0])


def _differ_by_a_letter(word: str, meant: str) -> bool:
    """Whether a letter is missing, too many, another one, or swapped with the next."""
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, word, meant).get_matching_blocks()
    wrong = max(len(word), len(meant)) - sum(block.size for block in blocks)
    same_start = word[:1] == meant[:1]
    return wrong == 1 and len(meant) > SHORT and same_start and word.isalpha()


def why_missing(name: str, trl: str, transformers: str) -> str:
    """Say which release lacks an argument that others have; ``""`` if it may be there.

    ``trl`` and ``transformers`` are releases, ``""`` for one that is not known. Of such
    a one, and of one that is newer than the names here, every argument may be there.
    Names of other classes than those of training are names that scripts have too.
    """
    texts: list[str] = []
    if any(_spans(_data()["trl"]["other"], name)):
        return ""
    for package, release in (("trl", trl), ("transformers", transformers)):
        tables = _data()[package].values()
        spans = [span for table in tables for span in _spans(table, name)]
        newer = order(release) > order(_data()["newest"][package])
        if spans and (not release or newer or any(_within(release, s) for s in spans)):
            return ""
        if spans:
            texts.append(_lacks(package, release, name, spans))
    return " and ".join(texts)


def _lacks(package: str, release: str, name: str, spans: list[str]) -> str:
    """Say that a release lacks a name, and which ones have it."""
    title = "TRL" if package == "trl" else package
    begin, end = spans[-1].split("..")
    later = begin and order(release) < order(begin)
    since = f"{begin} is the first with it" if later else f"it is gone since {end}"
    return f"{title} {release} has no `{name}` ({since})"


def _within(release: str, span: str) -> bool:
    begin, end = span.split("..")
    old = not begin or order(begin) <= order(release)
    return old and (not end or order(release) < order(end))


def _spans(table: dict[str, str], name: str) -> Iterator[str]:
    """Yield the ranges of releases in which a class has a name."""
    for span, names in table.items():
        if name in names.split():
            yield from span.split()


@cache
def every_name() -> frozenset[str]:
    """Every name that transformers or TRL has in some release."""
    packages = (_data()[package].values() for package in ("transformers", "trl"))
    return frozenset(_names(*(t for tables in packages for t in tables)))


def _names(*tables: dict[str, str]) -> Iterator[str]:
    for table in tables:
        for names in table.values():
            yield from names.split()


@cache
def _data() -> dict[str, Any]:
    path = os.path.join(os.path.dirname(__file__), "arguments.toml")
    with open(path, "rb") as file:
        return tomllib.load(file)
