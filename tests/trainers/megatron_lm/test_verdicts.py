"""Megatron-LM's own verdicts: what it refuses, and where FP8 is on.

``tests/data/megatron_lm_verdicts.jsonl.gz`` holds generated flags with what its parser,
``validate_args``, ``TransformerConfig`` and the model's forward pass made of them over
a stand-in for Transformer Engine (``tools.megatron_lm.verdicts``).
"""

from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.judged import fp8_claims, kept, wrong_claims
from tools.megatron_lm.verdicts import difference, fp8

DATA = Path(__file__).parents[2] / "data" / "megatron_lm_verdicts.jsonl.gz"


def test_refusals_are_those_of_megatron_lm():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    assert sum(bool(case["error"]) for case in cases) > 100
    assert list(filter(None, (difference(rules, case) for case in cases))) == []


def test_fp8_is_on_where_lint_says_so():
    claims = fp8_claims(kept(DATA), fp8)
    on = sum(ours for _, ours, _ in claims)
    assert min(on, len(claims) - on) > 70
    assert wrong_claims(claims) == []
