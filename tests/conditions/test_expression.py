"""The rule language: what it takes, what it refuses, and what unknown means."""

import re

import pytest

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import compile_expression
from fp8tune.conditions.python_syntax import MAX_LENGTH
from fp8tune.job import Prose, Unknown
from tests.each import each

NAMES = ("a", "b", "z", "s", "l", "t", "f", "model.dim", "unset", "unset2")
VALUES = {
    "a": 3,
    "b": 4.0,
    "z": 0,
    "s": "fp8",
    "l": [1, 2],
    "t": True,
    "f": False,
    "model.dim": 64,
}


class Scope(dict):
    def __missing__(self, name):
        raise Unknown(name)


def known(scope, name):
    return name in scope


ON_SCOPE = {"defined": known, "key": lambda _scope, name: f"<{name}>"}


def evaluate(source):
    expression = compile_expression(source, NAMES.__contains__, ON_SCOPE)
    return expression.evaluate(Scope(VALUES))


@each(
    ("source", "value"),
    [
        ("1", 1),
        ("'x'", Prose("x")),
        ("true", True),
        ("True", True),
        ("(1, a)", [1, 3]),
        ("model.dim", 64),
        ("a + 1", 4),
        ("a * 2", 6),
        ("a // 2", 1),
        ("-a", -3),
        ("a + 2 * 3", 9),
        ("a == 3", True),
        ("a != 3", False),
        ("a <= 3", True),
        ("a >= 4", False),
        ("4 < a < 5", False),
        ("a in (1, 3)", True),
        ("a not in [1, 3]", False),
        ("s == 8", False),
        ("a == 3 and t", True),
        ("f or z", False),
        ("not (a > 3 or f)", True),
        ("len(l)", 2),
        ("len(s)", 3),
        ("max(1, 2, a)", 3),
        ("max(l)", 2),
        ("round(b / 3)", 1),
        ("defined(a)", True),
        ("defined(unset)", False),
        ("key(model.dim)", "<model.dim>"),
        ("not defined(unset) and a == 3", True),
        ("a ==\n  3", True),
        ("a == 3 # why", True),
        ("not " * 300 + "t", True),
    ],
)
def test_value(source, value):
    result = evaluate(source)
    assert (result, type(result)) == (value, type(value))


@each(
    ("source", "value"),
    [
        ("f and unset", False),
        ("unset and f", False),
        ("t or unset", True),
        ("unset or t", True),
        ("unset and unset2 and f", False),
        ("(unset and f) or t", True),
        ("1 if t else unset", 1),
        ("1 > 2 > unset", False),
    ],
)
def test_unknown_does_not_matter_where_another_part_decides(source, value):
    assert evaluate(source) == value


@each(
    ("source", "name"),
    [
        ("unset", "unset"),
        ("t and unset", "unset"),
        ("f or unset", "unset"),
        ("unset and unset2", "unset2"),
        ("not unset", "unset"),
        ("len(unset)", "unset"),
        ("[unset]", "unset"),
    ],
)
def test_unknown_names_the_missing_fact(source, name):
    with pytest.raises(Unknown) as error:
        evaluate(source)
    assert error.value.args == (name,)


@each(
    "source",
    [
        "a / z",
        "s + s",
        "a * s",
        "-s",
        "l > 1",
        "a in z",
        "min(a)",
        "min(a, s)",
        "round(s)",
    ],
)
def test_what_has_no_value_is_unknown(source):
    with pytest.raises(Unknown):
        evaluate(source)


@each(
    ("source", "offset", "reason"),
    [
        ("nosuch", 0, "unknown name `nosuch`"),
        ("a and\n  model.nosuch > 1", 8, "unknown name `model.nosuch`"),
        ("defined(a, b)", 0, "defined() takes one name"),
        ("defined(1)", 0, "defined() takes one name"),
        ("defined(not a)", 0, "defined() takes one name"),
        ("len(l=1)", 0, "functions take no named arguments"),
        ("open(a)", 0, "no such function; there are defined, key, len, min, max, "),
        ("a.b(1)", 0, "no such function"),
        ("a is 3", 0, "`is` is not part of the rule language; write =="),
        ("a | 2", 0, "this operator is not part of the rule language"),
        ("~a", 0, "this operator is not part of the rule language"),
        ("None", 0, "only numbers, strings and true or false are constants"),
        ("l[0]", 0, "Subscript is not part of the rule language"),
        ("lambda: 1", 0, "Lambda is not part of the rule language"),
        ("[x for x in l]", 0, "ListComp is not part of the rule language"),
        ("len(*l)", 4, "Starred is not part of the rule language"),
        ("a ==== 3", 4, "invalid syntax"),
        ("(a", 0, "was never closed"),
        ("'a", 0, "unterminated string literal"),
    ],
)
def test_error(source, offset, reason):
    with pytest.raises(ExpressionError) as error:
        compile_expression(source, NAMES.__contains__, ON_SCOPE)
    assert reason in error.value.reason
    assert error.value.offset == offset


@each(
    ("source", "offset", "reason"),
    [
        # an offset counts characters, not bytes
        ("s == 'é' and nosuch", 13, "unknown name `nosuch`"),
        ("s == 'é' and\n 'é' + 1 == nosuch", 25, "unknown name `nosuch`"),
        # the bracket that is put around a condition does not balance its own
        ("a > 1) and (b > 1", 5, "unmatched ')'"),
        ("", 0, "empty"),
        ("# nothing", 0, "empty"),
        (" " * (MAX_LENGTH + 1), 0, f"longer than {MAX_LENGTH} characters"),
    ],
)
def test_refused_at_its_place(source, offset, reason):
    with pytest.raises(ExpressionError) as error:
        compile_expression(source, NAMES.__contains__, ON_SCOPE)
    assert (error.value.offset, error.value.reason) == (offset, reason)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 300 + "1" + ")" * 300,
        "-" * 1500 + "1",
        "a\0",
        "'\ud800'",
        "a" + ".b" * 900,
    ],
)
def test_odd_depth_and_bytes_are_refused(source):
    with pytest.raises(ExpressionError) as error:
        compile_expression(source, NAMES.__contains__, ON_SCOPE)
    assert error.value.offset in range(len(source))


def test_names_are_listed_once_in_order():
    source = "b > a and model.dim > a or defined(unset)"
    expression = compile_expression(source, NAMES.__contains__, ON_SCOPE)
    assert expression.names == ("b", "a", "model.dim", "unset")


class Counting(Scope):
    """A scope of a job: it knows what each name rests on, and what was read."""

    def __init__(self, missing, **values):
        super().__init__(values)
        self.missing, self.words, self.read = missing, self, []

    def __getitem__(self, name):
        self.read.append(name)
        if name == "a":
            raise Unknown(self.missing)
        return super().__getitem__(name)

    def origins(self, name):
        return {"b": ("gpu",), "z": ("world_size",), "s": ("train.lr",)}.get(name, ())


@each(
    ("missing", "condition", "read"),
    [
        # what rests on the missing GPU is not worked out: it may be dear
        ("gpu", "a > 1 and b > 1 and z > 1 and s > 1", ["a", "z", "s"]),
        ("world_size", "a > 1 and b > 1 and z > 1 and s > 1", ["a", "b", "s"]),
        # a function may do without the value of its name
        ("gpu", "a > 1 and abs(b) > 1", ["a", "b"]),
        ("gpu", "abs(s) > 1 and a > 1 and b > 1", ["s", "a"]),
        ("gpu", "a > 1 and (s > 1 or b > 1)", ["a"]),
        # any other fact may be missing while the part is known to be false
        ("train.lr", "a > 1 and b > 1 and s > 1", ["a", "b", "s"]),
    ],
)
def test_what_rests_on_a_missing_target_is_not_worked_out(missing, condition, read):
    scope = Counting(missing, b=2, z=2, s=2)
    expression = compile_expression(condition, NAMES.__contains__, ON_SCOPE)
    with pytest.raises(Unknown, match=f"^{missing}$"):
        expression.evaluate(scope)
    names = dict.fromkeys(re.findall(r"\b[abzs]\b", condition))
    assert (scope.read, expression.names) == (read, tuple(names))
