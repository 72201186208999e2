"""Values of TOML: every path, and how to compare them."""

import datetime
import math


def walk(value, path=()):
    """Every path of a value with what stands there, the root left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for part, inner in items:
        yield (*path, part), inner
        if isinstance(inner, (dict, list)):
            yield from walk(inner, (*path, part))


def canonical(value):
    """A value with types, for comparison: 1 is not 1.0 nor true, nan is nan."""
    if isinstance(value, dict):
        items = ((key, canonical(inner)) for key, inner in value.items())
        return "table", sorted(items, key=lambda item: item[0])
    if isinstance(value, list):
        return "array", [canonical(inner) for inner in value]
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else repr(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        return type(value).__name__, value.isoformat()
    return type(value).__name__, value


def without_empty(values):
    """Values without the tables that hold nothing."""
    if isinstance(values, list):
        return [without_empty(value) for value in values]
    if not isinstance(values, dict):
        return values
    kept = {key: without_empty(value) for key, value in values.items()}
    return {key: value for key, value in kept.items() if value != {}}
