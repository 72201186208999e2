"""Megatron-Bridge's own verdicts: what is refused, skipped, lost, and in FP8.

``tests/data/megatron_bridge_verdicts.jsonl.gz`` holds generated overrides with what
Bridge made of them in four recipes (``tools.megatron_bridge.verdicts``).
"""

from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.judged import fp8_claims, kept, wrong_claims
from tools.megatron_bridge.verdicts import difference, fp8

DATA = Path(__file__).parents[2] / "data" / "megatron_bridge_verdicts.jsonl.gz"


def test_lint_says_what_the_merge_makes():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    told = [difference(rules, case) for case in cases]
    assert sum(each is not None for each in told) > 300
    assert list(filter(None, told)) == []


def test_fp8_is_on_where_lint_says_so():
    claims = fp8_claims(kept(DATA), fp8)
    on = sum(ours for _, ours, _ in claims)
    assert min(on, len(claims) - on) > 50
    assert wrong_claims(claims) == []
