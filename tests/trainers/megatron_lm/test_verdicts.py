"""Megatron-LM's own verdicts: `rejected` is found exactly where it refuses.

``tests/data/megatron_lm_verdicts.jsonl.gz`` holds generated flags with what its parser,
``validate_args`` and ``TransformerConfig`` said (``benchmarks.megatron_lm.verdicts``).
"""

from pathlib import Path

from benchmarks.judged import kept
from benchmarks.megatron_lm.verdicts import difference
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules

DATA = Path(__file__).parents[2] / "data" / "megatron_lm_verdicts.jsonl.gz"


def test_rejected_is_found_exactly_where_it_refuses():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    refused = sum(bool(case["error"]) for case in cases)
    assert min(refused, len(cases) - refused) > 100
    assert list(filter(None, (difference(rules, case) for case in cases))) == []
