"""What the loader makes of single values, and which it refuses or misreads.

Source: kempnerforge/config/loader.py at commit 5666d0d, ``_coerce_value``: numbers
and switches are coerced without a word, text is never looked at. Then the checks of
ranges in ``__post_init__``: the trainer's own operations run on whatever was written,
so that a value of an odd type passes or fails as it does there.
"""

# no future annotations: as strings, they double the import time of a NamedTuple
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fp8tune.formats.document import Path
from fp8tune.trainers.schema import Key

_TRUE = ("true", "1", "yes")
_WORDS = (*_TRUE, "false", "0", "no", "off", "none", "disabled", "n", "f", "")

NOTES = frozenset(("value-truncated", "boolean-for-number", "not-a-number"))
"""Kinds that say nothing new where the value is refused anyway."""

_PATHS = frozenset(
    (
        "checkpoint.dir",
        "checkpoint.load_path",
        "data.dataset_path",
        "data.tokenizer_path",
    )
)
"""Keys of text that the trainer makes paths of."""

LARGEST = 2**63
"""Larger numbers are unknown to the job, so that no arithmetic on them overflows.

TOML's integers end here; Python's parser takes longer ones."""


def plain(value: Any) -> bool:
    """Whether a value is a text, a switch, or a number that can be worked with."""
    kind = type(value)
    return (kind is str or kind is bool) or (
        (kind is int or kind is float) and -LARGEST <= value <= LARGEST
    )


def usable(value: Any) -> bool:
    """Whether a value is a number that can be worked with."""
    return isinstance(value, (int, float)) and not LARGEST < abs(value) < math.inf


def oddities(
    spec: Key, key: str, raw: Any, value: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and facts of what is odd about one value.

    ``key`` is its dotted name, ``value`` is ``raw`` coerced.
    """
    if spec.base in ("int", "float"):
        if isinstance(raw, bool):
            yield "boolean-for-number", {"value": raw, "result": int(raw)}
        elif spec.base == "int" and isinstance(raw, float) and raw != value:
            yield "value-truncated", {"value": raw, "result": value}
        elif isinstance(value, float) and value != value:
            yield "not-a-number", {"value": raw}
    elif spec.base == "bool":
        if isinstance(raw, str) and raw.lower() not in _WORDS:
            yield "read-as-false", {"value": raw}
    elif key in _PATHS and not isinstance(raw, str):
        yield "not-text", {"value": raw}


def _to_int(raw: Any) -> Any:
    return int(raw) if isinstance(raw, (str, float)) else raw


def _to_float(raw: Any) -> Any:
    return float(raw) if isinstance(raw, (str, int)) else raw


def _to_bool(raw: Any) -> bool:
    return raw.lower() in _TRUE if isinstance(raw, str) else bool(raw)


COERCIONS: dict[str, Callable[[Any], Any]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
}
"""How values are coerced, by type; the other types are taken as they are."""

PLAIN = {"int": int, "float": float, "bool": bool, "str": str}
"""Types whose values, written as such, are taken as they are."""


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
    return not spec.within or spec.contains(value)


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
