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

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from fp8tune.suggest import closest
from fp8tune.trainers.about import order, read_toml
from fp8tune.trainers.hints import same_word

OF_PARSER = ("config", "env")
"""What TRL's parser takes itself: the file, and its environment variables."""

LAUNCH_FILE = "accelerate_config"
"""TRL's name for the launch file, which its commands hand to ``accelerate``."""

SHORT = 4
"""Length of a word of which another letter makes another word [letters]."""

RENAMED = {
    "max_seq_length": "max_length",
    "no_cuda": "use_cpu",
    "torch_dtype": "dtype",
}
"""What the releases since call an argument whose name is not like it.

Source: their warnings in TRL 0.19, trainer/sft_config.py, TRL 0.23,
trainer/model_config.py, and transformers 4.57, training_args.py.
"""

_SCRIPT = re.compile(r"(?:.*/)?trl/scripts/(\w+)\.py")


class Reader(NamedTuple):
    """What reads training arguments: a command of TRL, else an unknown script.

    ``refuses`` says that names which it does not know end the run. ``trl`` and
    ``transformers`` are releases, ``""`` for one that is not known: then every name
    counts that some release has.
    """

    command: str = ""
    refuses: bool = True
    trl: str = ""
    transformers: str = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        script = f"trl/scripts/{self.command}.py"
        name = f"trl {self.command}" if self.refuses else script
        return f"`{name}`" + f" of TRL {self.trl}" * bool(self.trl)

    @property
    def fields(self) -> frozenset[str]:
        """The fields of the classes that it fills."""
        return _fields(self.command, self.trl, self.transformers)

    @property
    def names(self) -> frozenset[str]:
        """Every name that it takes, with those that it hands to ``accelerate``."""
        if not self.command:
            return self.fields
        launch = (*_data()["launch"][".."].split(), LAUNCH_FILE)
        return self.fields.union(launch if self.refuses else (), OF_PARSER)

    @property
    def of_launcher(self) -> frozenset[str]:
        """Names that a command of TRL hands to ``accelerate``."""
        return self.names - self.fields - {*OF_PARSER}

    def values(self, name: str) -> list[str]:
        """The values that an argument takes, ``[]`` where they are not a few words."""
        return [*_names("values", (name,), self.transformers)]

    def meant(self, name: str) -> str:
        """Return the name that was nearly written, ``""`` if there is none."""
        if RENAMED.get(name) in self.fields:
            return RENAMED[name]
        near = closest(name, self.fields)
        return near if self.command or _is_slip(name, near) else ""

    def why_missing(self, name: str) -> str:
        """Say which release lacks a name that others have; ``""`` if none does.

        Names of other classes of TRL than those of training are names that scripts
        have too.
        """
        data, texts = _data(), []
        of_scripts = not self.command and any(_spans(data["trl"]["other"], name))
        if name in self.names or of_scripts:
            return ""
        commands = [self.command] if self.command else [*data["trl"]]
        tables = [data["trl"][command] for command in commands]
        of_trl = [span for table in tables for span in _spans(table, name)]
        of_hf = [*_spans(data["transformers"]["TrainingArguments"], name)]
        if of_trl and self.trl:
            texts.append(_lacks("TRL", self.trl, name, of_trl))
        if of_hf and self.transformers:
            texts.append(_lacks("transformers", self.transformers, name, of_hf))
        return " and ".join(texts)


def commands() -> frozenset[str]:
    """Return the commands of TRL that train."""
    return frozenset(_data()["trl"].keys() - {"other"})


def reader(script: str, trl: str = "", transformers: str = "") -> Reader:
    """Return what reads the arguments of a script, or of a command of ``trl``."""
    path = _SCRIPT.fullmatch(script)
    command = path[1] if path else script
    if command not in commands():
        command, path = "", None
    return Reader(
        command, path is None, _dated("trl", trl), _dated("transformers", transformers)
    )


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


def _dated(package: str, release: str) -> str:
    """Return a release, ``""`` for one that is newer than the names here."""
    newer = order(release) > order(_data()["newest"][package])
    return "" if newer else release


def _lacks(title: str, release: str, name: str, spans: list[str]) -> str:
    """Say that a release lacks a name, and which ones have it."""
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
def _fields(command: str, trl: str, transformers: str) -> frozenset[str]:
    """Return the fields of the classes that a command or another script fills."""
    of_trl = _names("trl", (command,) if command else _data()["trl"], trl)
    of_hf = _names("transformers", ("TrainingArguments",), transformers)
    return frozenset((*of_trl, *of_hf))


def _names(package: str, owners: Iterable[str], release: str) -> Iterator[str]:
    """Yield the names of some classes in a release, in all for ``""``."""
    for owner in owners:
        for spans, names in _data()[package].get(owner, {}).items():
            if not release or any(_within(release, span) for span in spans.split()):
                yield from names.split()


@cache
def _data() -> dict[str, Any]:
    return read_toml("accelerate", "arguments.toml")
