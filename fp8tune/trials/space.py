"""The search space: knobs with their values, and the points they span."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fp8tune.trials.record import positive

Point = tuple[int, ...]
"""One setting of all knobs: which of its values each has, in the space's order.

Numbers and not the values, because to Python 1, 1.0 and True are one value.
"""


FP8 = "fp8"
"""The name by which ``--allow`` frees all knobs of FP8."""


class Traits(NamedTuple):
    """What the search may assume about the knobs of one role.

    A role that is not in ``TRAITS`` has the defaults, which assume nothing. ``label``
    names the knob in the report, else its key does. ``learns_alike``: its values do not
    change what a run learns, but for rounding, which ``rounds`` says.
    ``checked_alone``: lint is asked about its values at the config's other values, not
    about all its combinations. ``frozen_on``: the devices on which a search keeps the
    config's value, unless ``--allow`` frees it, by its role, its key or its ``group``.
    ``is_batch``: memory grows with it, and accumulation keeps the tokens of a step.
    ``of_fp8``: it means nothing where the linears run in bf16; there it has its first
    value, the config's own. ``spec`` is the field of ``Spec`` by which fp8tune's own
    trial runs its values; without it only the trainer does. ``changes`` says what else
    changes with it.
    """

    label: str = ""
    learns_alike: bool = False
    rounds: bool = False
    checked_alone: bool = False
    frozen_on: tuple[str, ...] = ("cuda", "cpu")
    group: str = ""
    is_batch: bool = False
    of_fp8: bool = False
    spec: str = ""
    changes: str = ""

    @property
    def changes_speed_alone(self) -> bool:
        """Whether its values change no number that a run computes."""
        return self.learns_alike and not self.rounds

    @property
    def by_default(self) -> bool:
        """Whether a search varies the role without being asked, on some device."""
        return {"cuda", "cpu"} > set(self.frozen_on)


def _of_fp8(label: str, changes: str, spec: str = "") -> Traits:
    return Traits(label, group=FP8, of_fp8=True, spec=spec, changes=changes)


def _kernel(label: str, changes: str, spec: str = "") -> Traits:
    traits = Traits(label, learns_alike=True, rounds=True, spec=spec)
    return traits._replace(group="kernels", changes=changes)


def _degree(label: str, changes: str) -> Traits:
    traits = Traits(label, learns_alike=True)
    return traits._replace(group="parallel", changes=changes)


TRAITS: Mapping[str, Traits] = {
    "micro_batch": Traits(
        "batch",
        learns_alike=True,
        checked_alone=True,
        frozen_on=(),
        is_batch=True,
        spec="micro_batch",
        changes="memory; gradient accumulation keeps the tokens of a step",
    ),
    "ac": Traits(
        "AC",
        learns_alike=True,
        checked_alone=True,
        frozen_on=(),
        spec="ac",
        changes="memory",
    ),
    "compile": Traits(
        learns_alike=True,
        rounds=True,
        checked_alone=True,
        frozen_on=("cpu",),  # takes a minute of a core; says nothing about a GPU
        spec="compile",
        changes="rounding, and the time until the first step",
    ),
    "precision": Traits(
        checked_alone=True,
        group=FP8,
        spec="precision",
        changes="numerics of the linears",
    ),
    "grad_accum": Traits(spec="grad_accum"),
    "fp8_recipe": _of_fp8(
        "recipe", "scales of FP8: one per tensor or one per row", "fp8_recipe"
    ),
    "te_recipe": _of_fp8("recipe", "scales of FP8: by the steps before or by now"),
    "fp8_all_gather": _of_fp8(
        "FP8 all-gather",
        "communication of FSDP, and scales of weights",
        "fp8_all_gather",
    ),
    "fp8_parameters": _of_fp8("FP8 parameters", "memory and gather of the weights"),
    "auto_filter": _of_fp8(
        "small linears in bf16", "which linears run in FP8", "fp8_auto_filter"
    ),
    "fp8_converts_head": _of_fp8(
        "FP8 head", "whether the output head runs in FP8", "bf16_linears"
    ),
    "reshard": Traits(
        "reshard",
        learns_alike=True,
        group="sharding",
        spec="reshards",
        changes="memory against communication of FSDP",
    ),
    "optimizer_kernel": _kernel("", "rounding of the optimizer's step", "fused"),
    "liger": _kernel("Liger", "memory; rounding of norms and loss"),
    "attention": _kernel("attention", "rounding of attention", "sdpa_backend"),
    "tp": _degree("TP", "communication, and the sizes of the GEMMs"),
    "pp": _degree("PP", "communication, and idle stages"),
    "cp": _degree("CP", "communication, and tokens per GPU"),
    "dp_replicate": _degree("replicas", "memory against communication (HSDP)"),
}
"""What the search may assume, by role; other roles have the defaults."""


def traits_of(role: str) -> Traits:
    """Return what the search may assume about the knobs of a role."""
    return TRAITS.get(role, Traits())


class Knob(NamedTuple):
    """A config key and the values to try, in their natural order.

    ``role`` is the job's field that it sets, such as ``micro_batch``, or ``""``.
    ``frozen`` knobs keep the baseline's value: they change what is learned, or a CPU
    cannot rank their values. ``None`` is the value of a key that is not set.
    """

    key: str
    values: tuple[Any, ...]
    role: str = ""
    frozen: bool = False

    @property
    def traits(self) -> Traits:
        """What the search may assume about the knob."""
        return traits_of(self.role)

    def index_of(self, value: Any) -> int:
        """Return the index of a value of the same type; raises ``ValueError``."""
        for index, known in enumerate(self.values):
            if type(known) is type(value) and known == value:
                return index
        raise ValueError(f"`{self.key}`: no value {value!r}")


class Space:
    """All knobs of a search.

    ``only`` has the points that exist if not all do, as in a replay. ``batch_place`` is
    the place of the batch in a point.
    """

    def __init__(self, knobs: Iterable[Knob], only: Iterable[Point] = ()) -> None:
        self.knobs = tuple(knobs)
        self.only = frozenset(only)
        batches = (i for i, knob in enumerate(self.knobs) if knob.traits.is_batch)
        self.batch_place = next(batches, None)
        self._index = [
            {(type(value), value): i for i, value in enumerate(knob.values)}
            for knob in self.knobs
        ]

    def point(self, values: dict[str, Any]) -> Point:
        """Return the point with these values; keys that are not knobs are ignored.

        Knobs of FP8 may be missing in bf16. Raises ``KeyError`` if another knob is, or
        has a value outside the space.
        """
        found = []
        precision = self.knob("precision")
        in_bf16 = precision is not None and values.get(precision.key) != "fp8"
        for knob, index in zip(self.knobs, self._index, strict=True):
            if in_bf16 and knob.traits.of_fp8 and knob.key not in values:
                found.append(0)
                continue
            value = values.get(knob.key)
            if (type(value), value) not in index:
                raise KeyError(knob.key)
            found.append(index[type(value), value])
        return tuple(found)

    def values(self, point: Point) -> dict[str, Any]:
        """Return each knob's value at a point, by key.

        Without keys that are not set, and in bf16 without knobs of FP8.
        """
        in_bf16 = self.value(point, "precision") not in (None, "fp8")
        pairs = zip(self.knobs, self.params(point).items(), strict=True)
        return {
            key: value
            for knob, (key, value) in pairs
            if value is not None and not (in_bf16 and knob.traits.of_fp8)
        }

    def params(self, point: Point) -> dict[str, Any]:
        """Return each knob's value at a point, by key; ``None`` if it is not set."""
        pairs = zip(self.knobs, point, strict=True)
        return {knob.key: knob.values[index] for knob, index in pairs}

    def has(self, point: Point) -> bool:
        """Return whether the point can be tried."""
        return not self.only or point in self.only

    def points(self, baseline: Point) -> Iterator[Point]:
        """Yield the points that can be tried, with frozen knobs as in the baseline."""
        if self.only:
            yield from sorted(p for p in self.only if self.allows(p, baseline))
            return
        pairs = zip(self.knobs, baseline, strict=True)
        yield from itertools.product(
            *((kept,) if k.frozen else range(len(k.values)) for k, kept in pairs)
        )

    def place(self, role: str) -> int | None:
        """Return the index in a point of the knob of this role, if there is one."""
        roles = (i for i, knob in enumerate(self.knobs) if knob.role == role)
        return next(roles, None)

    def knob(self, role: str) -> Knob | None:
        """Return the knob of this role, if there is one."""
        place = self.place(role)
        return None if place is None else self.knobs[place]

    @property
    def batch_knob(self) -> Knob | None:
        """The knob of the batch, if there is one."""
        return None if self.batch_place is None else self.knobs[self.batch_place]

    def value(self, point: Point, role: str) -> Any:
        """Return the value of the knob of this role; ``None`` without such a knob."""
        place = self.place(role)
        return None if place is None else self.knobs[place].values[point[place]]

    def in_precision(self, point: Point, precision: str) -> Point | None:
        """Return the point in another precision, whether or not it can be tried.

        Knobs of FP8 then have their first value, the config's own, in bf16.
        """
        place = self.place("precision")
        if place is None or precision not in self.knobs[place].values:
            return None
        index = self.knobs[place].index_of(precision)
        return tuple(
            index if i == place else 0 if self._rests(knob, precision) else kept
            for i, (knob, kept) in enumerate(zip(self.knobs, point, strict=True))
        )

    @staticmethod
    def _rests(knob: Knob, precision: str) -> bool:
        """Return whether a knob means nothing in a precision."""
        return knob.traits.of_fp8 and precision != "fp8"

    def with_precision(self, point: Point, precision: str) -> Point | None:
        """Return the point in another precision if it can be tried."""
        other = self.in_precision(point, precision)
        return other if other and self.has(other) else None

    def in_bf16(self, point: Point) -> Point | None:
        """Return the point in bf16; ``None`` if it is already, or if unknown."""
        other = self.with_precision(point, "bf16")
        return None if other == point else other

    def allows(self, point: Point, baseline: Point) -> bool:
        """Return whether the frozen knobs of a point are as in the baseline."""
        return all(
            a == b
            for knob, a, b in zip(self.knobs, point, baseline, strict=True)
            if knob.frozen
        )

    def cell(self, point: Point) -> Point:
        """Return the point without its batch: one memory model serves these."""
        place = self.batch_place
        return point if place is None else (*point[:place], *point[place + 1 :])

    def batch(self, point: Point) -> float:
        """Return the batch of a point; 0 if there is none."""
        place = self.batch_place
        value = None if place is None else self.knobs[place].values[point[place]]
        return float(value) if positive(value) else 0.0


def shown(value: Any) -> str:
    """Return a knob's value as people write it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
