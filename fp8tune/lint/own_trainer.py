"""A trainer that a user describes in one TOML file: read, checked, and added.

The file is data. Its expressions are those of rules, and nothing of it is run. Every
part is checked first; the first thing wrong is said with its line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from fp8tune.document import Path, Unreadable
from fp8tune.facts import FACTS
from fp8tune.facts.gaps import UNSAID
from fp8tune.fields import FIELDS
from fp8tune.job import TARGETS, Job, Source, Unknown, sources
from fp8tune.lint.discover import CannotRead, read
from fp8tune.lint.expression import Expression, compile_expression
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.lint.syntax import ExpressionError
from fp8tune.suggest import closest
from fp8tune.toml.document import Document, InvalidToml, parse
from fp8tune.trainers.about import (
    DESCRIBED,
    PACKAGE,
    WORDS,
    About,
    Own,
    add,
    trainers,
)
from fp8tune.trainers.described.loader import LARGEST, Wrong, checked, in_range
from fp8tune.trainers.schema import Key, Schema, schema_of
from fp8tune.trainers.trainer import trainer

MAX_BYTES = 1 << 18
MAX_KEYS = 5000
MAX_DEPTH = 8
"""Bounds of a file: its size, its keys, and how deep its tables are nested."""

PLAIN = ("int", "float", "bool", "str")
REQUIRED = ("title", "sections", "classes", "job")
TOP: dict[str, str] = {
    "title": "a string",
    "source": "a string",
    "data": "a string",
    "unknown_keys": '"refused" or "ignored"',
    "quoted_values": '"refused" or "converted"',
    "learned": "an array of names of tables and keys",
    "sections": "a table: section = class",
    "classes": "a table of tables: one for each class, with its keys",
    "job": "a table: field = key, constant or expression",
    "values": "a table of arrays: field = values to try",
}
"""What a file may say at its top, and what that is."""

_NUMBER = "a number"
FIELDS_OF_A_KEY: dict[str, str] = {
    "type": "a string",
    "default": "",
    "required": "true or false",
    "allowed": "an array of values",
    "above": _NUMBER,
    "min": _NUMBER,
    "within": 'an interval in quotes, such as "[0, 1)"',
    "nonzero": "true or false",
    "only_if": "the name of a key of the same class",
    "near": "a table of arrays: allowed value = what people write for it",
    "aka": "an array of names",
    "doc": "a string",
    "deprecated": "true or false",
}
"""What may be said of a key, and what that is."""

_TESTS: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a number": lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool)
    ),
    "an array of names": lambda value: _texts(value),
    "an array of names of tables and keys": lambda value: _texts(value),
    '"refused" or "ignored"': lambda value: value in ("refused", "ignored"),
    '"refused" or "converted"': lambda value: value in ("refused", "converted"),
    "an array of values": lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, (str, int, float)) for item in value)
    ),
    "the name of a key of the same class": lambda value: isinstance(value, str),
    'an interval in quotes, such as "[0, 1)"': lambda value: (
        isinstance(value, str)
        and bool(re.fullmatch(r"[\[(]-?\d+(\.\d+)?, ?-?\d+(\.\d+)?[\])]", value))
    ),
    "a table of arrays: allowed value = what people write for it": lambda value: (
        isinstance(value, dict) and all(map(_texts, value.values()))
    ),
    "a table: section = class": lambda value: (
        isinstance(value, dict) and bool(value) and _texts([*value.values()])
    ),
    "a table of tables: one for each class, with its keys": lambda value: (
        isinstance(value, dict) and all(isinstance(v, dict) for v in value.values())
    ),
    "a table: field = key, constant or expression": lambda v: isinstance(v, dict),
    "a table of arrays: field = values to try": lambda value: (
        isinstance(value, dict) and all(isinstance(v, list) for v in value.values())
    ),
}


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

_NOT_SAID = (
    *TARGETS,
    *("is_run", "trial_refusal", "moe_refusal", "estimate_family"),
    *("ac_modes", "ac_usable", "ac_applied", "fp8_tokens", "fp8_skips", "betas"),
    *("gemms", "expert_gemms", "data_files", "data_missing"),
)
"""Fields that no file says: they come from elsewhere, or have parts."""


class BadTrainer(Exception):
    """A file does not describe a trainer: ``path:line:column: reason``."""


def is_file(name: str) -> bool:
    """Whether the name of a trainer is that of a file."""
    return name.endswith(".toml") or "/" in name or os.sep in name


def add_trainer(path: str) -> str:
    """Add the trainer that a file describes; return its name.

    A folder stands for its ``trainer.toml``. Raises ``BadTrainer``.
    """
    if os.path.isdir(path):
        path = os.path.join(path, "trainer.toml")
    folder, file = os.path.split(os.path.abspath(path))
    stem = file.removesuffix(".toml")
    name = os.path.basename(folder) if stem == "trainer" else stem
    taken = trainers().get(name)
    if taken is not None and taken.own and taken.own.path == os.path.abspath(path):
        return name
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise BadTrainer(
            f"{path}: a trainer is called as its file, by lower-case letters, digits, "
            f"- and _, but {name!r} is not: rename it, such as ours.toml"
        )
    if taken is not None:
        where = taken.own.path if taken.own else "built into fp8tune"
        raise BadTrainer(f"{path}: there is a trainer {name} already, {where}: rename")
    try:
        data = read(path)
    except CannotRead as error:
        raise BadTrainer(str(error)) from None
    if len(data) > MAX_BYTES:
        raise BadTrainer(f"{path}: larger than {MAX_BYTES >> 10} KiB")
    try:
        document = parse(data)
    except InvalidToml as error:
        line, column = error.position
        raise BadTrainer(f"{path}:{line}:{column}: {error.reason}") from None
    except Unreadable as error:
        raise BadTrainer(f"{path}: {error}") from None
    reader = _Reader(path, document)
    add(reader.about(name))
    try:
        reader.no_circle(name)
    except BadTrainer:
        del trainers()[name]
        trainer.cache_clear()
        raise
    return name


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _meant(name: str, known: Any) -> str:
    near = closest(name, known)
    return f"; did you mean `{near}`?" if near else ""


class _Reader:
    """One file; every method raises ``BadTrainer``."""

    def __init__(self, path: str, document: Document) -> None:
        self.path = path
        self.document = document
        self.values = document.values
        self.keys: dict[str, Key] = {}

    def fail(self, reason: str, *at: str | int, part: str = "key") -> BadTrainer:
        """The error of what stands at a path."""
        place: Path = at
        span = None
        while place and span is None:
            span = self.document.span(place, part) or self.document.span(place, "key")
            place = place[:-1]
        line, column = self.document.lines.position(span[0] if span else 0)
        return BadTrainer(f"{self.path}:{line}:{column}: {reason}")

    def about(self, name: str) -> About:
        """Check everything; return the trainer."""
        self.fields(self.values, TOP, "a trainer's file")
        for field in REQUIRED:
            if field not in self.values:
                needed = f"{field} = ..." if field == "title" else f"[{field}]"
                raise self.fail(f"`{needed}` is missing: {TOP[field]}")
        schema = self.schema()
        self.keys = dict(schema.dotted_keys())
        self.names(schema)
        learned = self.values.get("learned", [])
        for number, each in enumerate(learned):
            known = (*schema.sections, *self.keys)
            if each not in known:
                raise self.fail(
                    f"no table or key `{each}`{_meant(each, known)}",
                    *("learned", number),
                    part="value",
                )
        data = {
            "title": self.values["title"],
            "data": self.values.get("data", ""),
            "versions": [""],
            "tables": [*schema.sections],
            "learned": learned,
            "harmless": [s for s in schema.sections if s not in learned],
            "values": self.tried(),
        }
        about = About(name, data)
        renamed, computed = self.job()
        whole = self.whole(renamed)
        about.own = Own(os.path.abspath(self.path), whole, computed)
        return about

    def fields(
        self, table: dict[str, Any], known: dict[str, str], what: str, *at: str
    ) -> None:
        """Check the names and the kinds of the fields of a table."""
        for name, value in table.items():
            if name not in known:
                raise self.fail(
                    f"{what} has no field `{name}`{_meant(name, known)}", *at, name
                )
            kind = known[name]
            if kind and not _TESTS[kind](value):
                raise self.fail(f"`{name}` must be {kind}", *at, name, part="value")

    def schema(self) -> Schema:
        """Check sections and classes; return them."""
        classes: dict[str, dict[str, Any]] = self.values["classes"]
        for name, keys in classes.items():
            if not re.fullmatch(r"[A-Z]\w{0,63}", name):
                raise self.fail(
                    f"`{name}`: a class begins with a capital letter", "classes", name
                )
            for key, spec in keys.items():
                self.key(name, key, spec)
        for section, named in self.values["sections"].items():
            name = named.removesuffix(" | None")
            if name not in classes:
                raise self.fail(
                    f"no class `{name}` in [classes]{_meant(name, classes)}",
                    *("sections", section),
                    part="value",
                )
        self.size()
        schema = schema_of(self.whole({}))
        for name, keys in classes.items():
            for key in keys:
                self.default(name, key, schema.classes[name][key])
        return schema

    def whole(self, job: dict[str, str]) -> dict[str, Any]:
        """The values of a schema."""
        base = {"source": self.path, "variants": {}}
        return {**base, **self.values, "job": job}

    def key(self, owner: str, key: str, spec: Any) -> None:
        """Check what is said of one key, but for its default."""
        at = ("classes", owner, key)
        if not re.fullmatch(r"[\w-]{1,128}", key):
            raise self.fail(f"`{key}`: a key has letters, digits, - and _", *at)
        if not isinstance(spec, dict):
            raise self.fail(
                f'a key is a table: {key} = {{ type = "int", default = 1 }}', *at
            )
        self.fields(spec, FIELDS_OF_A_KEY, "a key", *at)
        if "type" not in spec:
            raise self.fail(f"`{key}` has no type: {self.types}", *at)
        wrong = self.unknown_type(spec["type"].removesuffix(" | None"))
        if wrong:
            reason = f"no type `{wrong}`: {self.types}"
            raise self.fail(reason, *at, "type", part="value")
        keys = self.values["classes"][owner]
        switch = spec.get("only_if", "")
        if switch and (
            not isinstance(keys.get(switch), dict)
            or keys[switch].get("type") != "int"
            or not isinstance(keys[switch].get("default"), int)
        ):
            reason = f"`{switch}` is no key of {owner} with type int and a default"
            raise self.fail(reason, *at, "only_if", part="value")

    @property
    def types(self) -> str:
        """The types that there are, in words."""
        classes = self.values["classes"]
        names = [*PLAIN, "list[str]", "dict[str, float]", *list(classes)[:3]]
        return f"write one such as {', '.join(names)}"

    def unknown_type(self, base: str, depth: int = 0) -> str:
        """The part of a type that is none; ``""`` if all is known."""
        if base in PLAIN or (base in self.values["classes"] and depth < 2):
            return ""
        match = re.fullmatch(r"list\[(.+)\]|dict\[str, ?(.+)\]", base)
        if match is None or depth > 2:
            return base
        inner = match[1] or match[2]
        if match[2] and inner in self.values["classes"]:
            return base
        return self.unknown_type(inner, depth + 1)

    def size(self) -> None:
        """Check that classes do not hold themselves, and how many keys there are."""
        counts: dict[str, int] = {}

        def count(name: str, above: tuple[str, ...]) -> int:
            if name in above or len(above) > MAX_DEPTH:
                reason = (
                    f"`{name}` holds itself"
                    if name in above
                    else f"tables are nested deeper than {MAX_DEPTH}"
                )
                raise self.fail(reason, "classes", above[-1])
            if name not in counts:
                inner = (
                    re.sub(r"^list\[|\]$", "", spec["type"].removesuffix(" | None"))
                    for spec in self.values["classes"][name].values()
                )
                parts = (
                    count(each, (*above, name)) if each in self.values["classes"] else 1
                    for each in inner
                )
                counts[name] = sum(parts)
            return counts[name]

        sections = self.values["sections"].values()
        total = sum(count(named.removesuffix(" | None"), ()) for named in sections)
        if total > MAX_KEYS:
            raise self.fail(f"{total} keys; at most {MAX_KEYS} are read", "classes")
        for name in self.values["classes"]:
            if name not in counts:
                raise self.fail(f"no section has the class `{name}`", "classes", name)

    def default(self, owner: str, key: str, spec: Key) -> None:
        """Check the default and the allowed values of a key, by its own type."""
        at = ("classes", owner, key)
        table = spec.base in self.values["classes"]
        if table and (spec.default is not None or spec.allowed):
            raise self.fail(f"`{key}` is a table and has no default of its own", *at)
        for number, value in enumerate(spec.allowed):
            try:
                checked(spec._replace(allowed=[]), value)
            except Wrong:
                reason = f"{value!r} is not of type {spec.base}"
                raise self.fail(reason, *at, "allowed", number, part="value") from None
        for value in spec.near:
            if value not in spec.allowed:
                reason = f'"{value}" is not one of the allowed values'
                raise self.fail(reason, *at, "near", value)
        if spec.default is None:
            return
        try:
            checked(spec, spec.default)
            fine = spec.only_if or in_range(spec, spec.default)
        except Wrong as wrong:
            if wrong.kind == "value-not-allowed":
                reason = f"the default is not one of the allowed values of `{key}`"
            else:
                reason = f"the default of `{key}` is not of type {spec.base}"
            raise self.fail(reason, *at, "default", part="value") from None
        if not fine:
            reason = f"the default of `{key}` is not {spec.bound}"
            raise self.fail(reason, *at, "default", part="value")

    def names(self, schema: Schema) -> None:
        """Refuse keys with the names of facts, which rules could not tell apart."""
        for section in schema.sections:
            if not re.fullmatch(r"[A-Za-z_][\w-]*", section):
                reason = f"`{section}` cannot be a section's name here"
                raise self.fail(reason, "sections", section)
        for name in self.keys:
            if name in FACTS:
                section, _, key = name.partition(".")
                raise self.fail(
                    f"`{name}` is also a fact of fp8tune (fp8tune explain {name}), "
                    "and a file with such a key cannot be described",
                    *("classes", schema.section_class(section), key),
                )

    def tried(self) -> dict[str, list[Any]]:
        """Check and return the values that may be tried for a field."""
        values: dict[str, list[Any]] = self.values.get("values", {})
        for field in values:
            self.field(field, "values")
        return values

    def field(self, name: str, table: str) -> None:
        """Refuse what is no field of the job that a file may say."""
        if name in TARGETS:
            reason = f"`{name}` is given by --gpu, --world-size or a comment, not here"
            raise self.fail(reason, table, name)
        if name not in FIELDS or name in _NOT_SAID:
            known = [field for field in FIELDS if field not in _NOT_SAID]
            hint = _meant(name, known) or "; docs/guides/own-trainer.md lists them"
            raise self.fail(f"no field `{name}`{hint}", table, name)

    def job(self) -> tuple[dict[str, str], dict[str, Source]]:
        """Return the fields that are a key, and those that are computed."""
        accumulates = "reduces_each_micro_batch"
        if accumulates in self.values["job"] and "grad_accum" not in self.values["job"]:
            reason = f"`{accumulates}` needs `grad_accum`, which is not in [job]"
            raise self.fail(reason, "job", accumulates)
        renamed: dict[str, str] = {}
        computed = {name: _unsaid(name) for name in FIELDS if name not in _follows()}
        for name, said in self.values["job"].items():
            self.field(name, "job")
            text = name in _TEXTS_OF_A_JOB
            if isinstance(said, str) and said in self.keys:
                if text != (self.keys[said].base == "str"):
                    kind = "text" if text else "a number, or true or false"
                    reason = (
                        f"`{name}` is {kind}, but not `{said}`: write an expression"
                    )
                    raise self.fail(reason, "job", name, part="value")
                renamed[name] = said
            elif isinstance(said, str):
                meant = self.expression(name, said)
                compute = partial(_checked, name, meant.evaluate)
                computed[name] = _source(said, compute, meant.names)
            elif isinstance(said, (bool, int, float)) and abs(said) < 1 << 53:
                if text:
                    reason = f"`{name}` is text: write '\"...\"' or an expression"
                    raise self.fail(reason, "job", name, part="value")
                computed[name] = _source(said, partial(_constant, said))
            else:
                raise self.fail(
                    f"`{name}` must be a key or an expression in quotes, or a constant",
                    *("job", name),
                    part="value",
                )
        return renamed, computed

    def expression(self, name: str, source: str) -> Expression:
        """Compile the expression of a field."""
        functions = {"defined": ON_SCOPE["defined"]}
        try:
            return compile_expression(source, self.knows, functions)
        except ExpressionError as error:
            reason = error.reason
            match = re.fullmatch("unknown name `(.*)`", reason)
            if match and match[1] in FACTS:
                reason = f"`{match[1]}` is a fact; keys and fields can be used here"
            elif match:
                known = (*self.keys, *self.values["job"])
                text = f"; for the text write '\"{match[1]}\"'"
                reason += _meant(match[1], known) or text
            raise self.fail(f"`{name}`: {reason}", "job", name, part="value") from None

    def knows(self, name: str) -> bool:
        """Whether an expression may use a name: a key, a field, or the GPUs."""
        return name in self.keys or name in FIELDS

    def no_circle(self, name: str) -> None:
        """Refuse fields that follow from themselves."""
        words = trainer(name).vocabulary
        done: set[str] = set()

        def follow(each: str, above: tuple[str, ...]) -> None:
            each = words.spelled.get(each, each)
            if each in above:
                circle = (*above[above.index(each) :], each)
                field = next(f for f in circle if f in self.values["job"])
                way = " follows from ".join(f"`{one}`" for one in circle)
                raise self.fail(f"a circle: {way}", "job", field, part="value")
            if each not in done and each not in words.renamed:
                source = words.computed.get(each)
                for inner in source.parameters if source else ():
                    follow(inner, (*above, each))
            done.add(each)

        for field in self.values["job"]:
            follow(field, ())


def _source(
    said: Any, compute: Callable[[Job], Any], reads: tuple[str, ...] = ()
) -> Source:
    """The source of a field, whose documentation is what the file says."""

    def call(job: Job) -> Any:
        return compute(job)

    call.__doc__ = f"By the trainer's file: `{said}`."
    return Source(call, (), of_job=True, reads=reads)


def _follows() -> set[str]:
    """The fields that nobody has to say, and those that are given otherwise."""
    modules = (import_module(f"{PACKAGE}{DESCRIBED}.{name}") for name in WORDS)
    return {*_NOT_SAID, *(name for module in modules for name in sources(module))}


def _unsaid(field: str) -> Source:
    def call(_: Job) -> Any:
        raise Unknown(UNSAID + field)

    call.__doc__ = "The trainer's file does not say it."
    return Source(call, (), of_job=True)


def _constant(value: Any, _: Job) -> Any:
    return value


def _checked(name: str, compute: Callable[[Job], Any], job: Job) -> Any:
    """Compute a field; raises ``Unknown`` if it is of another type."""
    value = compute(job)
    kinds = str if name in _TEXTS_OF_A_JOB else (int, float)
    if not isinstance(value, kinds) or (
        not isinstance(value, str) and not abs(value) < LARGEST
    ):
        raise Unknown(name)
    return value


def resolved(name: str, folder: str = "") -> str:
    """Return the name of a trainer; that of a file's, which is added, by its path.

    Paths are relative to ``folder``. Raises ``BadTrainer``.
    """
    return add_trainer(os.path.join(folder, name)) if is_file(name) else name
