"""Megatron-LM's own verdicts: what it refuses, and where FP8 is on.

``tests/data/megatron_lm_verdicts.jsonl.gz`` holds generated flags with what its parser,
``validate_args``, ``TransformerConfig`` and the model's forward pass made of them over
a stand-in for Transformer Engine (``benchmarks.megatron_lm.verdicts``).
"""

from pathlib import Path

from benchmarks.judged import kept
from benchmarks.megatron_lm.verdicts import difference
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules

DATA = Path(__file__).parents[2] / "data" / "megatron_lm_verdicts.jsonl.gz"


def test_refusals_and_fp8_are_those_of_megatron_lm():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    refused = sum(bool(case["error"]) for case in cases)
    on = sum(case.get("fp8", 0) > 0 for case in cases)
    off = sum(case.get("fp8") == 0 for case in cases)
    assert refused > 100
    assert min(on, off) > 70
    assert list(filter(None, (difference(rules, case) for case in cases))) == []
