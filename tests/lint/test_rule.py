"""A rule as it is read: defaults, names, what its message rests on, its guard."""

import pytest

from fp8tune.conditions import parse
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.rules import Rule
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.lint.every_rule import PACK, each_rule

WORDS = trainer("kempnerforge").vocabulary


def test_a_rule_without_optional_fields():
    head = {"name": "n", "code": "c", "severity": "note"}
    rule = Rule("p.toml", "silent", head, 'message = "m"')
    assert (rule.why, rule.references, rule.at) == ("", [], [])
    assert (rule.bad, rule.good) == ([], [])
    assert (rule.trainers, rule.fault, rule.source) == ((), "", "")
    assert rule.help.fill({}) == ""
    assert rule.message.fill({}) == "m"


@pytest.mark.parametrize(
    ("rule", "known", "unknown"),
    [
        ("unknown-key", ["fault.key", "fault.hint", "tp"], ["fault.value", "nosuch"]),
        ("fp8-with-tensor-parallel", ["distributed.tp", "gpu"], ["fault.key"]),
        ("fp8-without-compile", ["compile", "gpu.title"], ["train.seq_len"]),
    ],
)
def test_names_that_a_rule_may_use(rule, known, unknown):
    found = next(r for r in PACK if r.name == rule)
    assert {name: found.knows(name) for name in (*known, *unknown)} == {
        **dict.fromkeys(known, True),
        **dict.fromkeys(unknown, False),
    }
    assert set(known) <= {*found.vocabulary(), "gpu"}


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("gpu-without-fp8", ("gpu",)),
        ("world-size-not-divisible", ("world_size",)),
        ("degrees-do-not-match-world-size", ("world_size",)),
        ("fp8-with-tensor-parallel", ()),
        ("unknown-key", ()),
    ],
)
def test_what_a_message_rests_on(name, targets):
    assert next(rule for rule in PACK if rule.name == name).targets(WORDS) == targets


def test_the_front_of_a_file_is_the_file_without_its_examples():
    for rule in read_builtin():
        front = dict(rule.front)
        examples = {"bad", "good", "experiment"}
        assert front == {k: v for k, v in rule.data.items() if k not in examples}


@each(
    ("source", "guard"),
    [
        ("tp > 1", ""),
        ("tp > 1 and pp > 1", "tp > 1"),
        ('precision == "fp8" and tp > 1 and pp > 1', 'precision == "fp8"'),
        ("tp > 1 and pp > 1 or cp > 1", ""),
        ("(tp > 1 and pp > 1) and cp > 1", ""),
        ('optimizer == "a and b" and tp > 1', ""),
        ("tp in [1, 2] and pp > 1", "tp in [1, 2]"),
        ("not vlm and pp > 1", "not vlm"),
    ],
)
def test_the_guard_of_a_condition(source, guard):
    head = {"name": "n", "code": "c", "severity": "note", "when": source}
    assert Rule("p", "silent", head, "").guard == guard


@each_rule
def test_the_guard_is_the_first_part_of_an_and(rule):
    plain = _without_offsets(parse(rule.source or "true"))
    found = [_without_offsets(parse(part)) for part in rule.parts]
    first, *more = plain[1:] if plain[0] == "and" else [None]
    rest = more[0] if len(more) == 1 else ("and", *more)
    assert found == ([first, rest] if more else [])


def _without_offsets(tree):
    """The tree of an expression, wherever its names stand."""
    if tree[0] in ("name", "call"):
        tree = (*tree[:2], *tree[3:])
    return tuple(_without_offsets(t) if isinstance(t, tuple) else t for t in tree)
