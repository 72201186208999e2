"""A rule as it is read: defaults, names, what its message rests on, its guard."""

import pytest

from fp8tune.conditions import parse
from tests.lint.every_rule import PACK, each_rule


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
