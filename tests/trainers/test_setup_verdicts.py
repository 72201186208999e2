"""Verdicts of trainers that were set up: what they refuse, and where FP8 is on.

``tests/data/NAME_verdicts.jsonl.gz`` holds generated configs with what the trainer did
with them (``python -m benchmarks.NAME.verdicts``).
"""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.axolotl.verdicts import AXOLOTL
from tools.kempnerforge.verdicts import labelled
from tools.llamafactory.verdicts import LLAMAFACTORY
from tools.setup_verdicts import claimed, difference, is_refused

DATA = Path(__file__).parents[1] / "data"

each_trainer = pytest.mark.parametrize(
    "of", [AXOLOTL, LLAMAFACTORY], ids=lambda of: of.name
)


@cache
def cases(of):
    kept = labelled(DATA / f"{of.name}_verdicts.jsonl.gz")
    return [case for case in kept if not of.depends(case)]


@each_trainer
def test_there_are_enough_of_each(of):
    refused = Counter(map(is_refused, cases(of)))
    on = Counter(case["fp8"] > 0 for case in cases(of) if case["fp8"] is not None)
    assert min(refused.values()) > 90
    assert min(on.values()) > 30


@each_trainer
def test_rejected_is_found_exactly_where_the_trainer_refuses(of):
    rules = Rules(read_builtin(), {})
    found = (difference(of, rules, case) for case in cases(of))
    assert list(filter(None, found)) == []


@each_trainer
def test_fp8_is_on_where_the_trainer_converts_linears(of):
    known = [(case, on) for case in cases(of) if (on := claimed(of, case)) is not None]
    assert len(known) > 90
    assert [case["id"] for case, on in known if on != (case["fp8"] > 0)] == []
