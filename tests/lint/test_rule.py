"""A rule as it is read: defaults, the names that it may use."""

import pytest

from tests.lint.every_rule import PACK


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
