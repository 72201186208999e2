"""The job: a training run described by fields that all trainers share.

A job maps names to values that are computed when first read: config keys
(``train.batch_size``), fields of the job (``micro_batch``), and facts
(``memory.peak_gib``). A value that cannot be known raises ``Unknown``; it is never
guessed.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from fp8tune.fields import COUNTS, FIELDS, VARIABLES

T = TypeVar("T")


class Words(str):
    """Text that is prose or a name, shown without quotes in messages."""

    __slots__ = ()


class Prose(Words):
    """Text that fp8tune itself wrote: messages show it in full, whatever its length."""

    __slots__ = ()


class Unknown(Exception):
    """The value of the name ``args[0]`` is not known.

    ``args[1]``, if present, is a lower bound of the value.
    """


def known(name: str, value: T | None) -> T:
    """Return ``value``; raises ``Unknown(name)`` if it is ``None``."""
    if value is None:
        raise Unknown(name)
    return value


def ranks_left(gpus: int | None, *degrees: int) -> int:
    """GPUs that the other parallel degrees leave, if they divide the number of GPUs."""
    ranks, rest = divmod(known("world_size", gpus), math.prod(degrees))
    if rest or ranks < 1:
        raise Unknown("shards.product")
    return ranks


class Target(NamedTuple):
    """The GPUs that a run is meant for, and where each figure comes from.

    ``environment`` has the variables that its launch script certainly exports.
    """

    gpu: str = ""
    world_size: int = 0
    gpu_origin: str = ""
    world_size_origin: str = ""
    gpus_per_node: int = 0
    environment: tuple[tuple[str, str], ...] = ()

    def completed(self, other: "Target") -> "Target":
        """Return this target with its empty fields filled from another one."""
        gpu, size = (self if self.gpu else other), (self if self.world_size else other)
        origins = gpu.gpu_origin, size.world_size_origin
        nodes = self.gpus_per_node or other.gpus_per_node
        variables = self.environment or other.environment
        return Target(gpu.gpu, size.world_size, *origins, nodes, variables)


TARGETS = ("gpu", "world_size", "gpus_per_node")
"""The names in a job that come from its target."""


class Source(NamedTuple):
    """A function that computes a name of the job; its parameters name what it reads.

    A wheel gives the module and the name of the ``function``, so that the module is
    imported when a job first needs it. If ``of_job``, its first argument is the job
    itself, so that it can ask what other values would give; ``reads`` are names that it
    then asks for. Parameters are computed in order: those that a user may have to
    supply come first.
    """

    function: Callable[..., Any] | tuple[str, str]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    of_job: bool = False
    reads: tuple[str, ...] = ()

    @property
    def call(self) -> Callable[..., Any]:
        """The function itself."""
        if not isinstance(self.function, tuple):
            return self.function
        module, name = self.function
        loaded = sys.modules.get(module) or import_module(module)
        function: Callable[..., Any] = getattr(loaded, name)
        return function

    @property
    def parameters(self) -> tuple[str, ...]:
        """All names that the function reads."""
        return self.required + self.optional + self.reads


def sources(module: ModuleType, prefix: str = "") -> dict[str, Source]:
    """Return the public functions of a module as names of the job."""
    found = {}
    for name, value in vars(module).items():
        if name[0] != "_" and getattr(value, "__module__", "") == module.__name__:
            code = getattr(value, "__code__", None)
            if code is not None:
                names = code.co_varnames[: code.co_argcount]
                required = len(names) - len(value.__defaults__ or ())
                of_job = names[:1] == ("job",)
                found[prefix + name] = Source(
                    value, names[of_job:required], names[required:], of_job
                )
    return found


DEGREES = ("tp", "pp", "cp", "dp_replicate")
"""Parallel degrees that leave the others ranks for data."""

Plan = Callable[["Job"], Any]
"""A function that computes a name for a job."""

Setting = Callable[["Job", Any], dict[str, Any]]
"""The config keys and their values that give a job another value of a field.

Raises ``Unknown`` where that cannot be said.
"""


class Vocabulary(NamedTuple):
    """All names that the jobs of one trainer know.

    ``keys`` are the trainer's config keys, ``renamed`` maps fields to keys,
    ``computed`` has the fields and facts that are functions, ``settings`` how to set
    those of them that a search may change. ``trainer`` is its name. The fields that are
    ``listed`` are set by lists of values. ``found`` and ``plans`` are caches of origins
    and plans.
    """

    keys: frozenset[str]
    renamed: dict[str, str]
    computed: dict[str, Source]
    spelled: dict[str, str]
    found: dict[str, list[str]]
    plans: dict[str, Plan]
    settings: dict[str, Setting] = {}
    trainer: str = ""
    listed: frozenset[str] = frozenset()

    def knows(self, name: str) -> bool:
        """Return whether a job of this trainer can have the name."""
        return (
            name in self.renamed
            or name in self.computed
            or name in self.keys
            or name in TARGETS
            or name in VARIABLES
        )

    def names(self) -> Iterator[str]:
        """Yield every name, for suggestions."""
        yield from (*FIELDS, *self.computed, *self.keys)

    def origins(self, name: str) -> list[str]:
        """Return the config keys, ``gpu`` and ``world_size`` that a name depends on."""
        origins = self.found.get(name)
        if origins is None:
            origins = self.found[name] = self._origins(self.spelled.get(name, name))
        return origins

    def _origins(self, name: str) -> list[str]:
        if name in self.renamed:
            return [self.renamed[name]]
        if name not in self.computed:
            return [name]
        found: dict[str, None] = {}
        for each in self.computed[name].parameters:
            found |= dict.fromkeys(self.origins(each))
        return list(found)

    def asks_job(self, name: str) -> bool:
        """Return whether a name depends on a function that gets the whole job."""
        source = self.computed.get(self.spelled.get(name, name))
        return source is not None and (
            source.of_job or any(map(self.asks_job, source.parameters))
        )

    def plan(self, name: str) -> Plan:
        """Return the function that computes a name that is not a config key."""
        plan = self.plans[name] = self._planned(name)
        return plan

    def _planned(self, name: str) -> Plan:
        source = self.computed.get(name)
        if name in self.renamed or source is None:
            other = self.renamed.get(name) or self.spelled.get(name, name)
            return _unknown(name) if other == name else operator.itemgetter(other)
        required = [self.key(each) for each in source.required]
        values = _getter(required)

        def first(job: "Job") -> Any:
            values(job)  # where they are unknown, the function is not imported
            plan = self.plans[name] = _with(source, required, self.key)
            return plan(job)

        return first

    def key(self, name: str) -> str:
        """Return the name under which a job stores a value: a renamed field's key."""
        name = self.spelled.get(name, name)
        return self.renamed.get(name, name)


def _getter(names: list[str]) -> Callable[["Job"], tuple[Any, ...]]:
    """Return a function that reads the values of names in order."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda job: tuple([job[name] for name in names])


def _with(source: Source, required: list[str], key: Callable[[str], str]) -> Plan:
    """Return the plan of a function, with defaults for parameters that are unknown."""
    call, of_job, values = source.call, source.of_job, _getter(required)
    if not (source.optional or of_job):
        if len(required) == 1:
            only = required[0]
            return lambda job: call(job[only])
        return lambda job: call(*values(job))
    defaults = call.__defaults__ or ()
    optional = [*zip(map(key, source.optional), defaults, strict=True)]

    def plan(job: "Job") -> Any:
        arguments = [job] if of_job else []
        arguments += values(job)
        for name, default in optional:
            try:
                value = default if name in job.lacking else job[name]
            except Unknown:
                value = default
            arguments.append(value)
        return call(*arguments)

    return plan


def _unknown(name: str) -> Plan:
    def plan(_: Mapping[str, Any]) -> Any:
        raise Unknown(name)

    return plan


def vocabulary(
    keys: frozenset[str],
    renamed: dict[str, str],
    computed: dict[str, Source],
    settings: dict[str, Setting] | None = None,
    trainer: str = "",
    listed: frozenset[str] = frozenset(),
) -> Vocabulary:
    """Build a vocabulary; a function's parameter ``a_b`` reads the name ``a.b``.

    A field of the job is read by its own name, whatever keys there are.
    """
    spelled = {name.replace(".", "_"): name for name in (*keys, *computed)}
    spelled |= {name: name for name in (*renamed, *spelled) if name in FIELDS}
    more = settings or {}, trainer, listed
    return Vocabulary(keys, renamed, computed, spelled, {}, {}, *more)


class Job(dict[str, Any]):
    """The values of one config, computed on demand.

    ``job["tp"]`` gives the value or raises ``Unknown``; ``written`` are the config keys
    that the file sets, ``lacking`` maps each name that turned out unknown to the name
    that is missing.
    """

    __slots__ = ("bounded", "given", "lacking", "plans", "target", "words", "written")

    def __init__(
        self,
        words: Vocabulary,
        values: dict[str, Any],
        written: set[str],
        target: Target,
    ) -> None:
        super().__init__(values)
        self.given = values
        self.words = words
        self.plans = words.plans
        self.written = written
        self.target = target
        self.bounded: list[str] | None = None
        self.lacking: dict[str, str] = {}
        if target.gpu:
            self["gpu"] = target.gpu
        if target.world_size:
            self["world_size"] = target.world_size
        if target.gpus_per_node:
            self["gpus_per_node"] = target.gpus_per_node
        self.update(target.environment)
        for name in COUNTS:  # as text, which a product would repeat, it is unknown
            key = words.renamed.get(name, name)
            if isinstance(values.get(key), (str, list)):
                del self[key]
                self.lacking |= {name: name, key: name}

    def __missing__(self, name: str) -> Any:
        if name in self.lacking:
            raise Unknown(self.lacking[name])
        plan = self.plans.get(name) or self.words.plan(name)
        try:
            value = plan(self)
        except Unknown as missing:
            if self.bounded is None or len(missing.args) == 1:
                self.lacking[name] = missing.args[0]
                raise
            self.bounded.append(missing.args[0])
            value = missing.args[1]
        except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
            self.lacking[name] = name
            raise Unknown(name) from error
        self[name] = value
        return value

    def find(self, name: str) -> Any:
        """Return a field or a fact; ``None`` where it is not known."""
        try:
            return self[name]
        except Unknown:
            return None

    @property
    def rank_sequences(self) -> Any:
        """Sequences per data-parallel rank and optimizer step; raises ``Unknown``."""
        return self["micro_batch"] * self["grad_accum"]

    def with_values(self, changes: dict[str, Any], world_size: int = 0) -> "Job":
        """Return the job with other values of fields, or on another number of GPUs.

        A field that is listed has the value, whatever else its keys depend on.
        """
        gpus = world_size or self.target.world_size
        target = self.target._replace(world_size=gpus)
        listed = {n: value for n, value in changes.items() if n in self.words.listed}
        others = {n: value for n, value in changes.items() if n not in listed}
        given = self.given | self.keys_for(others)
        for name, value in listed.items():
            with suppress(Unknown):
                given |= self.keys_for({name: value})
        return self._like(given | listed, target)

    def keys_for(self, changes: dict[str, Any]) -> dict[str, Any]:
        """The config keys to set for other values of fields; raises ``Unknown``.

        A field that is no single key is set after those that are, if it differs or did.
        """
        renamed, settings = self.words.renamed, self.words.settings
        keys = {
            renamed.get(name, name): value
            for name, value in changes.items()
            if name not in settings
        }
        for name in filter(settings.__contains__, changes):
            job, value = self._like(self.given | keys, self.target), changes[name]
            # another change may already imply it, and its own key still say otherwise
            before = [each.find(name) for each in (self, job)]
            flag = isinstance(value, bool)
            if any(old != value or isinstance(old, bool) != flag for old in before):
                keys |= settings[name](job, value)
        return keys

    def can_set(self, name: str) -> bool:
        """Return whether a field can be set: by a key, or by several."""
        words = self.words
        return words.renamed.get(name, name) in words.keys or name in words.settings

    def keep_tokens(self, changes: dict[str, Any]) -> "Job":
        """Return the job with other values and accumulation that keeps the tokens.

        A step has the same tokens as far as the micro-batch and the number of
        data-parallel ranks allow. Accumulation stays as it is if ``changes`` sets it,
        or if the fields are not known.
        """
        changed, key = self.with_values(changes), "grad_accum"
        named = {key, self.words.renamed.get(key, key)}
        if not self.can_set(key) or not named.isdisjoint(changes):
            return changed
        try:
            accum = self.rank_sequences / changed["micro_batch"]
            degrees = {self.words.renamed.get(name, name) for name in DEGREES}
            if not degrees.union(DEGREES).isdisjoint(changes):
                of_micro_batch = changed["step.tokens"] / changed["grad_accum"]
                accum = self["step.tokens"] / of_micro_batch
            return changed.with_values({key: max(1, round(accum))})
        except (ArithmeticError, TypeError, Unknown):
            return changed

    def on_gpu(self, name: str) -> "Job":
        """Return the job on another GPU."""
        return self._like(self.given, self.target._replace(gpu=name))

    def at_least(self) -> "Job":
        """Return the job with lower bounds in place of values that no model covers.

        Its ``bounded`` names the values replaced so far. Facts that grow with each of
        them, such as peak memory, are then lower bounds.
        """
        job = self._like(self.given, self.target)
        job.bounded = []
        return job

    def _like(self, given: dict[str, Any], target: Target) -> "Job":
        job = Job(self.words, given, self.written, target)
        job.bounded = self.bounded
        return job

    def writes(self, name: str) -> bool:
        """Return whether the file sets a config key that ``name`` depends on."""
        return not self.written.isdisjoint(self.words.origins(name))

    def key(self, name: str) -> str:
        """Return a config key that ``name`` depends on, one in the file if any."""
        keys = self.keys_of(name)
        return next((key for key in keys if key in self.written), keys[0])

    def keys_of(self, name: str) -> list[str]:
        """Return the config keys that a name depends on, or the name itself."""
        origins = self.words.origins(name)
        return [key for key in origins if key in self.words.keys] or [name]
