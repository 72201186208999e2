"""LLaMA-Factory's own verdicts: what it refuses, and where FP8 is on.

``tests/data/llamafactory_verdicts.jsonl.gz`` holds generated configs with what
LLaMA-Factory did with them (``python -m benchmarks.llamafactory.verdicts``).
"""

from collections import Counter
from pathlib import Path

from benchmarks.llamafactory.verdicts import LLAMAFACTORY, depends
from benchmarks.setup_verdicts import claimed, difference, is_refused
from benchmarks.verdicts import labelled
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules

DATA = Path(__file__).parents[2] / "data" / "llamafactory_verdicts.jsonl.gz"
CASES = [case for case in labelled(DATA) if not depends(case)]


def test_there_are_enough_of_each():
    refused = Counter(map(is_refused, CASES))
    on = Counter(case["fp8"] > 0 for case in CASES if case["fp8"] is not None)
    assert min(refused.values()) > 90
    assert min(on.values()) > 30


def test_rejected_is_found_exactly_where_llama_factory_refuses():
    rules = Rules(read_builtin(), {})
    found = (difference(LLAMAFACTORY, rules, case) for case in CASES)
    assert list(filter(None, found)) == []


def test_fp8_is_on_where_llama_factory_converts_linears():
    known = [
        (case, on) for case in CASES if (on := claimed(LLAMAFACTORY, case)) is not None
    ]
    assert len(known) > 90
    assert [case["id"] for case, on in known if on != (case["fp8"] > 0)] == []
