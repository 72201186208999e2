"""The checks of KempnerForge's ``__post_init__`` methods that data cannot say.

They run the trainer's own operations on whatever was written, so that a value of
an odd type passes or fails as it does there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.formats.document import Path
from fp8tune.trainers.faults import Fault, dotted
from fp8tune.trainers.kempnerforge.coercion import LARGEST, PLAIN
from fp8tune.trainers.schema import IN_WORDS, Key, Schema

Check = Callable[[dict[str, Any], Path, object], Iterator[Fault]]


class Unbuilt(dict[str, Any]):
    """A table that the loader wraps in a list but never makes a config object."""


class Problem(NamedTuple):
    """A value outside its range, or of a type that no number compares with."""

    value: Any
    type: str
    bound: str | None
    path: Path = ()


def out_of_range(spec: Key, value: Any) -> Iterable[Problem]:
    """Why ``__post_init__`` refuses the value of a number, pair or weight table."""
    if spec.base == "tuple[float, float]":
        return _pair(spec, value)
    if spec.base == "dict[str, float]":
        return _weights(spec, value)
    return _number(spec, value)


class Usual(NamedTuple):
    """Values of a key that are taken as they are: of one type, and within bounds.

    Of texts the ``allowed`` ones, if there are any. All other values are looked at.
    """

    type: type | None
    low: Any
    high: Any
    allowed: list[Any] | None


def usual(spec: Key) -> Usual:
    """Return the values of a key that no check refuses and no coercion changes."""
    kind = str if spec.allowed else PLAIN.get(spec.base)
    if kind is str:
        return Usual(kind, "", "\U0010ffff", spec.allowed or None)
    if kind is bool:
        return Usual(kind, low=False, high=True, allowed=None)
    low, high = -float(LARGEST), float(LARGEST)
    if spec.within:
        low, high = map(float, spec.within[1:-1].split(","))
    if spec.above is not None:
        low = spec.above
    if spec.min is not None:
        low = 0.0 if spec.nonzero else math.nextafter(spec.min, -math.inf)
    inside = math.nextafter(low, math.inf), math.nextafter(high, -math.inf)
    return Usual(kind, *inside, allowed=None)


def _number(spec: Key, value: Any) -> tuple[Problem, ...]:
    if not isinstance(value, (int, float)):
        return (Problem(value, spec.kind, None),)
    if not _inside(spec, value):
        return (Problem(value, spec.kind, spec.bound),)
    return ()


def _pair(spec: Key, value: Any) -> Iterator[Problem]:
    kind = "an array of two numbers"
    try:
        fine = _inside(spec, value[0]) and _inside(spec, value[1])
    except (TypeError, IndexError, KeyError):
        yield Problem(value, kind, None)
    else:
        if not fine:
            yield Problem(value, kind, spec.bound)


def _weights(spec: Key, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(value, "table", None)
        return
    for name, weight in value.items():
        for problem in _number(spec._replace(base="float"), weight):
            yield problem._replace(path=(name,))


def _inside(spec: Key, value: Any) -> bool:
    """Whether a number passes; nan passes every check but ``within``."""
    if spec.above is not None and value <= spec.above:
        return False
    if spec.min is not None and value < spec.min:
        return False
    if spec.nonzero and value == 0:
        return False
    return not spec.within or _within(spec.within, value)


def _within(interval: str, value: Any) -> bool:
    low, high = (float(edge) for edge in interval[1:-1].split(","))
    above = low <= value if interval[0] == "[" else low < value
    return bool(above and (value <= high if interval[-1] == "]" else value < high))


def headerless(raw: dict[str, Any], schema: Schema) -> tuple[str, list[str]] | None:
    """The section whose header is missing above two or more of its keys.

    Returns the section and the stray keys, if all unknown top-level keys belong
    to one section that the file does not have.
    """
    stray = [name for name in raw if name not in schema.sections]
    if len(stray) < 2:
        return None
    for section in schema.sections:
        keys = schema.classes[schema.section_class(section)]
        if section not in raw and all(name in keys for name in stray):
            return section, stray
    return None


def _sources(values: dict[str, Any], path: Path, faulty: object) -> Iterator[Fault]:
    """Every dataset of ``data.datasets`` names a path or a hub dataset."""
    for here, source in _entries(values, "datasets", path, faulty):
        if not _built(source):
            yield _not_a_table(here, source, "data.datasets")
        elif not source.get("path") and not source.get("hf_name"):
            yield Fault("dataset-without-source", here, {"key": dotted(here)})


def _phases(values: dict[str, Any], path: Path, faulty: object) -> Iterator[Fault]:
    """``data.phases`` start later and later."""
    yield from _increasing(values, "phases", path, faulty, default=0)


def _freeze_schedule(
    values: dict[str, Any], path: Path, faulty: object
) -> Iterator[Fault]:
    """``vlm.freeze_schedule`` stages start later and later."""
    yield from _increasing(values, "freeze_schedule", path, faulty, default=None)


def _entries(
    values: dict[str, Any], key: str, path: Path, faulty: object
) -> list[tuple[Path, Any]]:
    entries = values.get(key)
    if entries is faulty or not isinstance(entries, list):
        return []
    return [((*path, key, index), entry) for index, entry in enumerate(entries)]


def _built(entry: Any) -> bool:
    return isinstance(entry, dict) and not isinstance(entry, Unbuilt)


def _not_a_table(path: Path, value: Any, table: str) -> Fault:
    facts = {"key": dotted(path), "value": value, "table": table}
    return Fault("entry-not-a-table", path, facts)


def _increasing(
    values: dict[str, Any], key: str, path: Path, faulty: object, *, default: Any
) -> Iterator[Fault]:
    entries = _entries(values, key, path, faulty)
    bad = [(here, entry) for here, entry in entries if not _built(entry)]
    for here, entry in bad:
        yield _not_a_table(here, entry, dotted((*path, key)))
    steps = [entry.get("start_step", default) for _, entry in entries if not bad]
    if not steps or faulty in steps or None in steps:
        return
    try:
        fine = steps == sorted(steps) and len(steps) == len(set(steps))
    except TypeError:
        fine = False
    if not fine:
        here = (*path, key)
        facts = {"key": dotted(here), "value": steps}
        yield Fault("steps-not-increasing", here, facts)


def _modalities(
    key: str,
) -> Check:
    def check(values: dict[str, Any], path: Path, faulty: object) -> Iterator[Fault]:
        if key not in values or values[key] is faulty:
            return
        value = values[key]
        reason = _modality_problem(value)
        if reason:
            here = (*path, key)
            facts = {"key": dotted(here), "value": value, "reason": reason}
            values[key] = faulty
            yield Fault("bad-modalities", here, facts)

    return check


def _modality_problem(value: Any) -> str:
    try:
        if len(value) < 2:
            return "needs at least two entries"
        for name in ("text", "image"):
            if name not in value:
                return f'has no "{name}"'
        if len(set(value)) != len(value):
            return "contains a duplicate"
    except TypeError:
        return "is not an array of names"
    return ""


def _experts(values: dict[str, Any], path: Path, faulty: object) -> Iterator[Fault]:
    """MoMa has experts for each modality, and for nothing else."""
    modalities = values.get("moma_modalities", ("image", "text"))
    experts = values.get("moma_experts_per_modality", {"image": 4, "text": 4})
    if faulty in (modalities, experts):
        return
    reason = _experts_problem(modalities, experts)
    if reason:
        written = "moma_experts_per_modality" in values
        name = "moma_experts_per_modality" if written else "moma_modalities"
        here = (*path, name)
        facts = {"key": dotted(here), "value": experts, "reason": reason}
        if written:
            values[name] = faulty
        yield Fault("bad-experts", here, facts)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else "a modality that is not a name"


def _experts_problem(modalities: Any, experts: Any) -> str:
    if not isinstance(experts, dict):
        return "is not a table of expert counts"
    missing = sorted(map(_name, set(modalities) - set(experts)))
    extra = sorted(map(_name, set(experts) - set(modalities)))
    if missing or extra:
        words = "has no count for" if missing else "has an unknown modality:"
        return f"{words} {', '.join(missing or extra)}"
    for name, count in experts.items():
        if not isinstance(count, (int, float)):
            return f"needs a number for {name}"
        if count <= 0:
            return f"needs at least one expert for {name}"
    return ""


def _profiling(values: dict[str, Any], path: Path, faulty: object) -> Iterator[Fault]:
    """The window ends after it starts, where that is no matter of two numbers."""
    start, end = values.get("start_step", 5), values.get("end_step", 8)
    odd = [n for n in ("start_step", "end_step") if _odd_number(values.get(n, 0))]
    if not odd or faulty in (start, end):
        return
    here = (*path, odd[0])
    facts = {"key": dotted(here), "value": values[odd[0]]}
    try:
        backwards = end <= start
    except TypeError:
        yield Fault("wrong-type", here, {**facts, "type": IN_WORDS["int"]})
    else:
        if backwards:
            bound = "a whole number, with end_step above start_step"
            yield Fault(
                "value-out-of-range", here, {**facts, "bound": bound, "hint": ""}
            )


def _odd_number(value: Any) -> bool:
    return not isinstance(value, (int, float))


BY_CLASS: dict[str, tuple[Check, ...]] = {
    "DataConfig": (_sources, _phases),
    "ProfilingConfig": (_profiling,),
    "VLMConfig": (_freeze_schedule,),
    "JointDecoderConfig": (_freeze_schedule,),
    "CrossAttentionConfig": (_freeze_schedule,),
    "MoTConfig": (_freeze_schedule, _modalities("mot_modalities")),
    "MoMaConfig": (_freeze_schedule, _modalities("moma_modalities"), _experts),
}
"""Checks by config class, in the order of the trainer's ``__post_init__``."""


def default(spec: Key) -> str:
    """What to write instead of a value out of range, if there is a default."""
    value = spec.effective_default
    return "" if value is None else f"remove it for the default, {value}"


def as_written(problem: Problem, raw: Any) -> dict[str, Any]:
    """The value and the bound, with what the value becomes if it is coerced."""
    value = problem.value
    if problem.path or not isinstance(raw, (bool, float, str)):
        return {"value": value, "bound": problem.bound}
    was, is_now = str(raw).lower()[:20], str(value).lower()[:20]
    becomes = "" if was == is_now else f" ({was} becomes {is_now})"
    return {"value": raw, "bound": f"{problem.bound}{becomes}"}
