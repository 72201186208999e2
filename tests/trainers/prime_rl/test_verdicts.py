"""prime-rl's own verdicts: `rejected` is found exactly where prime-rl refuses.

``tests/data/prime_rl_verdicts.jsonl.gz`` holds generated configs with what prime-rl's
config classes said of them (``python -m tools.prime_rl.verdicts``).
"""

from collections import Counter
from pathlib import Path

import pytest

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.kempnerforge.verdicts import labelled
from tools.prime_rl.source import KINDS
from tools.prime_rl.verdicts import difference, is_clear

DATA = Path(__file__).parents[2] / "data" / "prime_rl_verdicts.jsonl.gz"
CASES = list(filter(is_clear, labelled(DATA)))


def test_there_are_enough_of_each():
    verdicts = Counter((case["kind"], bool(case["error"])) for case in CASES)
    assert len(CASES) > 1300
    assert min(verdicts[kind, no] for kind in KINDS for no in (False, True)) > 90


@pytest.mark.parametrize("kind", KINDS)
def test_rejected_is_found_exactly_where_prime_rl_refuses(kind):
    rules = Rules(read_builtin(), {})
    mine = [case for case in CASES if case["kind"] == kind]
    assert list(filter(None, (difference(rules, case) for case in mine))) == []
