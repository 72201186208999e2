"""Megatron-Bridge's own verdicts: what is refused, skipped, lost, and in FP8.

``tests/data/megatron_bridge_verdicts.jsonl.gz`` holds generated overrides with what
Bridge made of them in three recipes (``benchmarks.megatron_bridge.verdicts``).
"""

from pathlib import Path

from benchmarks.judged import kept
from benchmarks.megatron_bridge.verdicts import difference
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules

DATA = Path(__file__).parents[2] / "data" / "megatron_bridge_verdicts.jsonl.gz"


def test_lint_says_what_the_merge_makes():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    told = [difference(rules, case) for case in cases]
    assert sum(each is not None for each in told) > 300
    assert list(filter(None, told)) == []
