"""Formulas are read from functions of any form."""

import pytest

from fp8tune.job import Unknown, Words, known
from fp8tune.lint.explain.formula import Formula, formula, unknown_if, working
from fp8tune.trainers.trainer import trainer
from tests.each import each

NAMES = {"model_dim": "model.dim", "memory_logits_gib": "memory.logits_gib"}
WORDS = trainer("kempnerforge").vocabulary
ALIGNMENT = 16
SHARE = 0.5


def _rounded(size):
    return size


def one_expression(model_dim: int, heads: int) -> int:
    """Doc."""
    return model_dim // heads


def constants(heads: int) -> float:
    """Doc."""
    return heads * ALIGNMENT * SHARE


def several(heads: int, experts: int) -> int:
    """Doc."""
    if experts > 1:
        raise Unknown("several")
    both = heads + experts
    return 3 * both


def branches(ac: str, heads: int) -> int:
    """Doc."""
    from math import floor

    if ac == "full":
        return 2 * heads
    if ac == "none":
        raise Unknown("branches")
    return floor(heads)


def nested(heads: int) -> int:
    """Doc."""
    if heads > 4:
        half = heads // 2
        return half - 1
    else:  # noqa: RET505 - both forms are read
        return heads


def wrapped(vlm: bool, heads: int | None = None) -> str:
    """Doc."""
    return Words(known("heads", heads)) if vlm else _rounded("")


def comprehension(tokens: tuple[int, ...], heads: int) -> int:
    """Doc."""
    even = 2
    total = sum(t if t % even else even for t in tokens)
    return total if all(t > even for t in tokens) else max(t or heads for t in tokens)


def a_loop(heads: int) -> int:
    """Doc."""
    total = 0
    for number in range(heads):
        total += number
    return total


def never(heads: int) -> int:
    """Doc."""
    raise Unknown("never")


@each(
    ("call", "lines"),
    [
        (one_expression, ["model.dim // heads"]),
        (several, ["unknown if experts > 1", "both = heads + experts", "= 3 * both"]),
        (
            branches,
            [
                'if ac == "full": 2 * heads',
                'unknown if ac == "none"',
                "otherwise: floor(heads)",
            ],
        ),
        (
            nested,
            [
                "if heads > 4:",
                "  half = heads // 2",
                "  half - 1",
                "otherwise:",
                "  heads",
            ],
        ),
        (wrapped, ['heads if vlm else rounded("")']),
        (
            a_loop,
            [
                "total = 0",
                "for number in range(heads):",
                "    total += number",
                "= total",
            ],
        ),
        (never, ["unknown"]),
    ],
)
def test_lines(call, lines):
    assert formula(call, NAMES).lines == tuple(lines)


def test_constants_are_told():
    assert formula(constants, {}) == Formula(
        ("heads * ALIGNMENT * SHARE",), {"ALIGNMENT": 16, "SHARE": 0.5}
    )


def _half(size):
    """Half of it, rounded down."""
    return size // 2


def calls(heads: int) -> int:
    """Doc."""
    return _half(heads) + _rounded(heads)


def test_functions_that_are_called_are_told_if_they_say_what_they_do():
    told = formula(calls, {})
    assert told.where() == ["where half(): Half of it, rounded down."]
    assert formula(constants, {}).where() == [
        "where ALIGNMENT = 16",
        "where SHARE = 0.5",
    ]


@each(
    ("call", "arguments", "told"),
    [
        (one_expression, {"model_dim": 4096, "heads": 32}, "4096 // 32"),
        (constants, {"heads": -2.5}, "(-2.5) * ALIGNMENT * SHARE"),
        (several, {"heads": 4, "experts": 1}, "3 * 5"),
        (branches, {"ac": "full", "heads": 4}, "2 * 4"),
        (branches, {"ac": "selective", "heads": 4}, "floor(4)"),
        (nested, {"heads": 9}, "4 - 1"),
        (wrapped, {"vlm": False}, ""),
        (a_loop, {"heads": 4}, ""),
        (never, {"heads": 4}, ""),
        (comprehension, {"tokens": (3, 5), "heads": 4}, ""),
        (comprehension, {"tokens": (2,), "heads": 4}, "max((t or 4 for t in tokens))"),
    ],
)
def test_working(call, arguments, told):
    assert working(call, arguments) == told


@pytest.mark.parametrize(
    ("call", "arguments", "told"),
    [
        (several, {"heads": 4, "experts": 2}, "experts > 1"),
        (branches, {"ac": "none", "heads": 4}, 'ac == "none"'),
        (never, {"heads": 4}, ""),
        (one_expression, {"model_dim": 1, "heads": 1}, ""),
    ],
)
def test_unknown_if(call, arguments, told):
    assert unknown_if(call, arguments, NAMES) == told


@each("name", WORDS.computed)
def test_every_fact_has_a_formula(name):
    source = WORDS.computed[name]
    lines = formula(source.call, WORDS.spelled).lines
    assert lines
    assert not [line for line in lines if "known(" in line and "unknown" not in line]
    dotted = [WORDS.spelled.get(each, each) for each in source.parameters]
    text = "\n".join(lines)
    spelled = {each: each.replace(".", "_") for each in dotted}  # as f-strings say it
    assert [n for n in dotted if n not in text and spelled[n] not in text] == []
