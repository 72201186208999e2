"""What the keys of a described trainer mean: the fields of its job.

A field is a key, a constant, or an expression in the language of rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import Expression, compile_expression, defined
from fp8tune.config.own_trainer.file import File
from fp8tune.facts import FACTS
from fp8tune.facts.gaps import FEW, MEANT, OTHER, UNSAID
from fp8tune.fields import COUNTS, FIELDS
from fp8tune.job import TARGETS, Job, Source, Unknown, Vocabulary, sources
from fp8tune.suggest import meant
from fp8tune.trainers.about import About
from fp8tune.trainers.described.loader import LARGEST
from fp8tune.trainers.schema import Key

_TEXTS_OF_A_JOB = (
    "precision",
    "optimizer",
    "schedule",
    "ac",
    "fp8_recipe",
    "activation",
    "loss",
    "sdpa_backend",
)
"""Fields of the job that are text; all others are numbers or true and false."""

_COUNTS = (COUNTS | {"ffn_matrices", "weight_bytes"}) - {
    *("max_steps", "warmup_steps", "max_seq_len", "experts", "expert_size")
}
"""Fields that are whole numbers from 1 on."""

_BYTES = tuple(
    name for name in FIELDS if name.endswith("_bytes") and name not in _COUNTS
)
"""Fields that are numbers from 0 on."""

_NOT_SAID = (
    *TARGETS,
    *("is_run", "trial_refusal", "moe_refusal", "estimate_family"),
    *("ac_modes", "ac_usable", "ac_applied", "fp8_tokens", "fp8_skips", "betas"),
    *("gemms", "expert_gemms", "data_files", "data_missing"),
    *("init", "rotary", "reshards", "ac_saves", "bf16_linears"),
)
"""Fields that no file says: they come from elsewhere, or have parts."""


_ESTIMATES = (("memory.peak_gib", "speed.tokens_per_second"), ("fp8.pays",))
"""Facts whose missing fields are named together."""


class Fields:
    """The fields that one file says; every method raises ``BadTrainer``."""

    def __init__(self, file: File, keys: dict[str, Key]) -> None:
        self.file = file
        self.keys = keys

    def tried(self) -> dict[str, list[Any]]:
        """Return the values that may be tried for a field."""
        values: dict[str, list[Any]] = self.file.values.get("values", {})
        for field in values:
            self.field(field, "values")
        return values

    def field(self, name: str, table: str) -> None:
        """Refuse what is no field of the job that a file may say."""
        if name in TARGETS:
            reason = f"`{name}` is given by --gpu, --world-size or a comment, not here"
            raise self.file.fail(reason, table, name)
        if name not in FIELDS or name in _NOT_SAID:
            known = [field for field in FIELDS if field not in _NOT_SAID]
            hint = meant(name, known) or "; docs/guides/own-trainer.md lists them"
            raise self.file.fail(f"no field `{name}`{hint}", table, name)

    def job(self, about: About) -> tuple[dict[str, str], dict[str, Source]]:
        """Return the fields that are a key, and those that are computed."""
        table = self.file.values["job"]
        accumulates = "reduces_each_micro_batch"
        if accumulates in table and "grad_accum" not in table:
            reason = f"`{accumulates}` needs `grad_accum`, which is not in [job]"
            raise self.file.fail(reason, "job", accumulates)
        renamed: dict[str, str] = {}
        follow = {*_follow(about), *table}
        unsaid = [name for name in FIELDS if name not in follow]
        computed = {name: _unsaid(name, unsaid) for name in unsaid}
        for name, said in table.items():
            self.field(name, "job")
            if reason := self.refusal(name, said):
                raise self.file.fail(f"`{name}` {reason}", "job", name, part="value")
            if not isinstance(said, str):
                computed[name] = _source(said, partial(_constant, said))
            elif said in self.keys and self.is_meant(name, self.keys[said]):
                renamed[name] = said
            else:
                formula = self.expression(name, said)
                compute = partial(_checked, name, formula.evaluate)
                computed[name] = _source(said, compute, formula.names)
        return renamed, computed

    def is_meant(self, name: str, key: Key) -> bool:
        """Whether every value of a key is one that fp8tune knows for the field."""
        return name not in MEANT or (
            bool(key.allowed) and {*key.allowed} <= {*MEANT[name]}
        )

    def refusal(self, name: str, said: Any) -> str:
        """Why a field cannot be this key or constant; empty if it can."""
        text, key = name in _TEXTS_OF_A_JOB, None
        if isinstance(said, str):
            key = self.keys.get(said)
            if key is not None and text != (key.base == "str"):
                kind = "text" if text else "a number, or true or false"
                return f"is {kind}, but not `{said}`: write an expression"
        elif not isinstance(said, (bool, int, float)) or not abs(said) < 1 << 53:
            return "must be a key or an expression in quotes, or a constant"
        elif text:
            return "is text: write '\"...\"' or an expression"
        elif name in _COUNTS and not (isinstance(said, int) and said >= 1):
            return "is a whole number from 1 on"
        elif name in _BYTES and said < 0:
            return "is a number from 0 on"
        if key is not None and name in _COUNTS and not _counts(key):
            need = "add min = 1 to the key, or write an expression"
            return f"is a whole number from 1 on, but `{said}` need not be: {need}"
        if key is not None and name in _BYTES and _least(key) < 0:
            need = "add min = 0 to the key, or write an expression"
            return f"is a number from 0 on, but `{said}` need not be: {need}"
        return ""

    def expression(self, name: str, source: str) -> Expression:
        """Compile the expression of a field."""
        functions = {"defined": defined}
        try:
            return compile_expression(source, self.knows, functions)
        except ExpressionError as error:
            reason, unknown = error.reason, error.unknown
            if unknown in FACTS:
                reason = f"`{unknown}` is a fact; keys and fields can be used here"
            elif unknown:
                names = (*self.keys, *self.file.values["job"])
                text = f"; for the text write '\"{unknown}\"'"
                reason += meant(unknown, names) or text
            raise self.file.fail(
                f"`{name}`: {reason}", "job", name, part="value"
            ) from None

    def knows(self, name: str) -> bool:
        """Whether an expression may use a name: a key, a field, or the GPUs."""
        return name in self.keys or name in FIELDS

    def no_circle(self, words: Vocabulary) -> None:
        """Refuse fields that follow from themselves."""
        done: set[str] = set()

        def follow(each: str, above: tuple[str, ...]) -> None:
            each = words.spelled.get(each, each)
            if each in above:
                circle = (*above[above.index(each) :], each)
                field = next(f for f in circle if f in self.file.values["job"])
                way = " follows from ".join(f"`{one}`" for one in circle)
                raise self.file.fail(f"a circle: {way}", "job", field, part="value")
            if each not in done and each not in words.renamed:
                source = words.computed.get(each)
                for inner in source.parameters if source else ():
                    follow(inner, (*above, each))
            done.add(each)

        for field in self.file.values["job"]:
            follow(field, ())


def _source(
    said: Any, compute: Callable[[Job], Any], reads: tuple[str, ...] = ()
) -> Source:
    """The source of a field, whose documentation is what the file says."""

    def call(job: Job) -> Any:
        return compute(job)

    call.__doc__ = f"By the trainer's file: `{said}`."
    return Source(call, (), of_job=True, reads=reads)


def _follow(about: About) -> set[str]:
    """The fields that nobody has to say, and those that are given otherwise."""
    modules = map(import_module, about.modules)
    return {*_NOT_SAID, *(name for module in modules for name in sources(module))}


def _unsaid(field: str, unsaid: list[str]) -> Source:
    def call(job: Job) -> Any:
        groups = (_needed(job.words, names) for names in _ESTIMATES)
        needed = next((group for group in groups if field in group), {field})
        raise Unknown(UNSAID + ",".join(name for name in unsaid if name in needed))

    call.__doc__ = "The trainer's file does not say it."
    return Source(call, (), of_job=True)


def _needed(words: Vocabulary, names: Iterable[str]) -> set[str]:
    """The names without which some others cannot be computed, and those."""
    found: set[str] = set()
    open_ = list(names)
    while open_:
        name = words.spelled.get(name := open_.pop(), name)
        if name not in found and name not in words.renamed:
            source = words.computed.get(name)
            open_ += source.required if source else ()
        found.add(name)
    return found


def _constant(value: Any, _: Job) -> Any:
    return value


def _counts(key: Key) -> bool:
    """Whether a key is a whole number from 1 on, or refused."""
    above = key.base == "int" and key.above is not None and key.above >= 0
    return key.base == "int" and (above or _least(key) >= 1)


def _least(key: Key) -> float:
    """The least value of a key that is a number, -inf if there is none."""
    if key.only_if:
        return -math.inf
    if key.allowed:
        return float(min(key.allowed))
    edges = [edge for edge in (key.min, key.above) if edge is not None]
    if key.within:
        edges.append(float(key.within[1:].partition(",")[0]))
    return max(edges, default=-math.inf)


def _checked(name: str, compute: Callable[[Job], Any], job: Job) -> Any:
    """Compute a field; raises ``Unknown`` if it is of another type or range."""
    value = compute(job)
    if name in _TEXTS_OF_A_JOB:
        fine = isinstance(value, str)
    else:
        fine = isinstance(value, (int, float)) and abs(value) < LARGEST
        if fine and name in _COUNTS and value < 1:
            raise Unknown(f"{FEW}{name}={value:g}")
        fine = fine and (name not in _BYTES or value >= 0)
    if not fine:
        raise Unknown(name)
    if value and name in MEANT and value not in MEANT[name]:
        raise Unknown(f"{OTHER}{name}={value:.60}")
    return value
