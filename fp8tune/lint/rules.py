"""Rules: one TOML file each, read from ``rules/<consequence>/<name>.toml``.

The folder is the category, the file name the rule. Built-in rules are compiled on first
use; users' packs are fully checked when they load.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import marshal
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.conditions import KNOWN
from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.config.settings import SEVERITIES
from fp8tune.facts import FACTS
from fp8tune.fields import FIELDS, VARIABLES
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.trainers import faults
from fp8tune.trainers.about import is_of, trainers
from fp8tune.trainers.trainer import trainer

if TYPE_CHECKING:
    from fp8tune.job import Vocabulary
    from fp8tune.lint.repair import Repair
    from fp8tune.lint.wording import Template
    from fp8tune.trainers.trainer import Trainer

CONSEQUENCES = {
    "rejected": "the trainer refuses the config at start",
    "crash": "the run starts, then fails",
    "silent": "the run works, but not as the file says",
    "slow": "the run is slower than it need be",
    "memory": "the run does not fit the GPU, or hardly",
    "stability": "the run may train worse, or diverge",
    "hygiene": "the file says something that has no effect or does not hold",
}
"""What each category of rules means for the run, worst first."""

CATEGORIES = tuple(CONSEQUENCES)

FAILING = {
    level: SEVERITIES[: number + 1] for number, level in enumerate(SEVERITIES)
} | {"never": ()}
"""The severities of findings that fail a run, by what it is to fail on."""

CONFIDENCES = ("certain", "high", "medium")


class BadRule(Exception):
    """A rule file cannot be used: ``path:line:column: reason``."""


NAMED_BY = ("key", "any", "value_of")
"""The fields of a span that say its key; it has one of them."""


class At(NamedTuple):
    """A span of the finding: its name, which part of it, and its label.

    Of several names the first one in the file gives the span. The finding is about the
    first name, in the file or not, unless ``any`` makes all names equal. With
    ``by_value`` the key is not the name, but its value.
    """

    names: list[str]
    mark: str
    label: str
    any: bool = False
    by_value: bool = False


class Example(NamedTuple):
    """A config that shows the rule; ``\u00ab\u00bb`` marks the span of a bad one.

    ``fixed`` is a bad example after the fix of its finding, safe or not. ``beside`` is
    a second config of the same run, for a rule on two files. ``arguments`` are the
    trainer's overrides. ``format`` is that of all these texts. ``installed`` are
    releases of packages, by their names, ``environment`` variables of the run.
    """

    config: str
    also: list[str]
    fixed: str = ""
    beside: str = ""
    arguments: tuple[str, ...] = ()
    format: str = "toml"
    installed: dict[str, str] = {}
    environment: dict[str, str] = {}


class Rule:
    """One rule, as its file defines it.

    ``head`` holds the fields that decide whether the rule fires; the rest of the
    file, ``text`` if it was read, is parsed when the rule is first spoken of. It is for
    ``trainers``, all if there are none, and of one between ``releases``. ``fp8`` is
    ``off`` if FP8 is asked for and no linear computes in it where the rule fires.
    A wheel has ``stored`` the trees of its conditions, and the rest with its trees.
    """

    def __init__(
        self,
        path: str,
        category: str,
        head: dict[str, Any],
        text: str = "",
        stored: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.builtin = False
        self.path = path
        self.category = category
        self.name = head["name"]
        self.code = head["code"]
        self.severity = head["severity"]
        self.fp8 = head.get("fp8", "")
        named = head.get("trainer", ())
        self.trainers = (named,) if isinstance(named, str) else tuple(named)
        self.releases = head.get("releases", {})
        self.fault = head.get("fault", "")
        self.source = head.get("when", "")
        self.same = head.get("same", "")
        self.differs = head.get("differs", "")
        self._given = text
        self.stored = stored

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without compiled or cached parts."""
        lazy = {k for k, v in vars(Rule).items() if isinstance(v, cached_property)}
        return {k: v for k, v in self.__dict__.items() if k not in lazy}

    @cached_property
    def _text(self) -> str:
        return self._given or read_text(self.path)

    @cached_property
    def data(self) -> dict[str, Any]:
        """The whole file."""
        return parsed(self._text)

    @cached_property
    def front(self) -> dict[str, Any]:
        """The part of the file that a finding needs: everything before the examples."""
        if self.stored:
            front: dict[str, Any]
            front, trees = marshal.loads(self.stored[1])  # noqa: S302 - of the wheel
            KNOWN.update(trees)
            return front
        if not self.builtin or "data" in self.__dict__:
            return self.data
        return parsed(self._text.partition("\n[[bad]]")[0])

    @property
    def summary(self) -> str:
        """A summary of one line, for lists."""
        return str(self.data["summary"])

    @property
    def confidence(self) -> str:
        """How strong the evidence is: certain, high or medium."""
        return str(self.data["confidence"])

    @property
    def since(self) -> str:
        """The first version of fp8tune that had the rule."""
        return str(self.data["since"])

    @property
    def why(self) -> str:
        """Why it matters, with the evidence."""
        return str(self.data.get("why", ""))

    @property
    def seen(self) -> list[str]:
        """Published configs in which it was found."""
        return list(self.data.get("seen", []))

    @property
    def references(self) -> list[str]:
        """The sources of the evidence."""
        return list(self.front.get("references", []))

    @cached_property
    def at(self) -> list[At]:
        """The spans of a finding, the primary one first."""
        return [_at(entry) for entry in self.front.get("at", [])]

    @property
    def bad(self) -> list[Example]:
        """Configs that the rule fires on."""
        return [_example(entry, self._format) for entry in self.data.get("bad", [])]

    @property
    def good(self) -> list[Example]:
        """Configs that the rule is silent on."""
        return [_example(entry, self._format) for entry in self.data.get("good", [])]

    @property
    def _format(self) -> str:
        """The format of examples that name none: the first of the rule's trainer."""
        return trainers()[self.trainers[0]].formats[0] if self.trainers else "toml"

    @cached_property
    def when(self) -> Expression:
        """The compiled condition."""
        return self._condition(self.source)

    @cached_property
    def compared(self) -> tuple[Expression, Expression]:
        """The compiled ``same`` and ``differs`` of a rule on two files."""
        return self._condition(self.same), self._condition(self.differs)

    def _condition(self, source: str) -> Expression:
        if self.stored:
            KNOWN.update(marshal.loads(self.stored[0]))  # noqa: S302 - of the wheel
        return self.compiled(source)

    @cached_property
    def message(self) -> "Template":
        """The compiled message."""
        return self._template(self.front["message"])

    @cached_property
    def help(self) -> "Template":
        """The compiled help line."""
        return self._template(self.front.get("help", ""))

    @cached_property
    def _labels(self) -> "dict[int, Template]":
        return {}

    def label(self, index: int) -> "Template":
        """The compiled label of one span."""
        if index not in self._labels:
            self._labels[index] = self._template(self.at[index].label)
        return self._labels[index]

    def _template(self, text: str) -> "Template":
        from fp8tune.lint.wording import compile_template

        return compile_template(text, self.compiled)

    @cached_property
    def fixes(self) -> "list[Repair]":
        """The compiled fixes; the first that applies is taken."""
        return [self.repair(entry) for entry in self.front.get("fix", [])]

    def repair(self, entry: dict[str, Any]) -> "Repair":
        """Compile one ``[[fix]]``, or a part of one."""
        from fp8tune.lint.repair import compile_repair

        return compile_repair(entry, self.compiled)

    def is_for(self, trainer: str) -> bool:
        """Whether the rule is for configs of a trainer's version, by its id."""
        name, _, version = trainer.partition("==")
        if self.trainers and name not in self.trainers:
            return False
        return not self.releases or is_of(self.releases, version)

    def targets(self, words: "Vocabulary", *, shown: bool = False) -> tuple[str, ...]:
        """Which of ``gpu`` and ``world_size`` the message or condition rests on.

        ``words`` are those of the trainer whose config is checked. With ``shown`` only
        the message counts.
        """
        names = self.message.names if shown else self.names
        found = {origin for name in names for origin in words.origins(name)}
        return tuple(name for name in ("gpu", "world_size") if name in found)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the message and in the condition."""
        return (*self.message.names, *(self.when.names if self.source else ()))

    def knows(self, name: str) -> bool:
        """Return whether the rule may use ``name``."""
        if name.startswith("fault."):
            return name.removeprefix("fault.") in self._fault_facts()
        if self.trainers:
            return any(known.vocabulary.knows(name) for known in self.known())
        return name in FIELDS or name in FACTS or name in VARIABLES

    def known(self) -> "Iterator[Trainer]":
        """Every version of the trainers that the rule is for, if it names any."""
        found = (trainer(id_) for name in self.trainers for id_ in trainers()[name].ids)
        return (known for known in found if self.is_for(known.id))

    def _fault_facts(self) -> tuple[str, ...]:
        return faults.facts_of(self.fault, self.trainers)

    def vocabulary(self) -> Iterator[str]:
        """Every name that the rule may use, for did-you-mean."""
        yield from (f"fault.{name}" for name in self._fault_facts())
        if not self.trainers:
            yield from (*FIELDS, *FACTS)
        for known in self.known():
            yield from known.vocabulary.names()

    def compiled(self, source: str) -> Expression:
        """An expression that may speak of what the rule knows."""
        ids = [id_ for name in self.trainers for id_ in trainers()[name].ids]
        keys = trainer(ids[0]).vocabulary.renamed if len(ids) == 1 else {}
        knows = _anything if self.builtin else self.knows  # tests check those
        return compile_expression(source, knows, ON_SCOPE, keys)


def _anything(_: str) -> bool:
    return True


def _at(entry: dict[str, Any]) -> At:
    """Read a span from its table in the file."""
    names = next(entry[field] for field in NAMED_BY if field in entry)
    return At(
        [names] if isinstance(names, str) else list(names),
        entry.get("mark", "value"),
        entry.get("label", ""),
        "any" in entry,
        "value_of" in entry,
    )


def _example(entry: dict[str, Any], form: str) -> Example:
    """Read an example from its table in the file; it may name a format but ``form``."""
    return Example(
        entry["config"],
        entry.get("also", []),
        entry.get("fixed", ""),
        entry.get("beside", ""),
        tuple(entry.get("arguments", ())),
        entry.get("format", form),
        entry.get("installed", {}),
        entry.get("environment", {}),
    )


def parsed(text: str) -> dict[str, Any]:
    """Return the values of a rule file; a wheel has those of its rules precomputed."""
    import tomllib

    return tomllib.loads(text)


def read_text(path: str) -> str:
    """Return the text of one of fp8tune's own files."""
    with open(path, "rb", buffering=0) as file:
        return file.read().decode()
