"""What trainers refuse of values together: the data, and how it is looked at."""

import pytest

from fp8tune.conditions.expression import compile_expression
from fp8tune.trainers.about import trainers
from fp8tune.trainers.axolotl.loader import OUTSIDE
from fp8tune.trainers.checks import ON_SCOPE, Checks, Refusal, conditions
from fp8tune.trainers.schema import parsed, schema_of
from fp8tune.trainers.trainer import trainer
from tests.each import each

IDS = [
    release
    for about in trainers().values()
    for release in about.ids
    if parsed(release).get("checks")
]

ELSEWHERE = {"file", "strict", *OUTSIDE}
"""Names that loaders add, and keys that a trainer reads beside its classes."""


@pytest.mark.parametrize("release", IDS)
def test_conditions_read_what_there_is(release):
    """A name that a release lacks would end a check without a word."""
    known = trainer(release)
    schema, checks = known.schema, known._loader.checks
    keys = {key for keys in schema.classes.values() for key in keys}
    there = keys | schema.sections.keys() | checks.derived.keys() | ELSEWHERE
    of_releases = {key for each in known.about.ids for key in keys_of(each)}
    for source in conditions({"checks": schema.checks}):
        names = compile_expression(source, lambda _: True, ON_SCOPE).names
        roots = {name.partition(".")[0] for name in names}
        assert roots <= there | of_releases, source


def keys_of(release):
    return [key for keys in parsed(release)["classes"].values() for key in keys]


def checks(*entries, derived=None, **more):
    data = dict.fromkeys(("title", "source"), "") | {
        **{key: {} for key in ("sections", "job", "variants", "classes")},
        "checks": {"check": list(entries), **more},
    }
    return Checks(schema_of(data), derived)


SUM = {"keys": ["a", "b"], "when": "a + b > 3", "reason": "{a} and {t.c} are many"}


@each(
    ("values", "written", "reasons"),
    [
        ({"a": 1, "b": 3, "t": {"c": 2}}, {"b"}, ["1 and 2 are many"]),
        ({"a": 1, "b": 2, "t": {}}, {"b"}, []),
        ({"a": 1, "b": 3, "t": {}}, {"t"}, []),  # neither is written
        ({"a": 1}, {"a"}, []),  # the release has no b
        ({"a": 1, "b": "x"}, {"a"}, ["it cannot add"]),
    ],
)
def test_a_check_is_looked_at_where_a_key_is_written(values, written, reasons):
    found = checks(SUM, cannot="it cannot add").refused(values, written)
    assert [refusal.reason for refusal in found] == reasons


def test_names_are_conditions_or_functions():
    entry = {"keys": ["a"], "when": "many and odd", "reason": "{odd}", "absent": True}
    found = checks(
        entry,
        names={"many": "len(a) > 1"},
        derived={"odd": lambda values: sum(each % 2 for each in values["a"])},
    )
    assert [*found.refused({"a": [1, 3]}, ())] == [Refusal(["a"], "2", "")]
    assert [*found.refused({"a": [1, "x"]}, ())] == []


def test_a_check_of_a_class_is_of_no_other():
    entry = SUM | {"in": ["Table"], "reason": "", "hint": "less"}
    values = {"a": 4, "b": 0}
    assert [*checks(entry).refused(values, {"a"}, "Table")] == [
        Refusal(["a", "b"], "", "less")
    ]
    assert [*checks(entry).refused(values, {"a"}, "Other")] == []


def test_a_check_whose_reason_reads_what_is_not_there_says_nothing():
    """A value with a fault of its own is missing: that fault is the finding."""
    of_reason = {"keys": ["a"], "when": "a > 3", "reason": "{a} of {b} layers"}
    assert not list(checks(of_reason).refused({"a": 4}, {"a"}))
    assert list(checks(of_reason).refused({"a": 4, "b": 2}, {"a"})) == [
        Refusal(["a"], "4 of 2 layers", "")
    ]
