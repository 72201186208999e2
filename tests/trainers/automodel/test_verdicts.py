"""NeMo Automodel's own verdicts: what is refused, in FP8, and compiled.

``tests/data/automodel_verdicts.jsonl.gz`` holds generated recipes with what its
own set-up made of them (``tools.automodel.verdicts``).
"""

from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.automodel.verdicts import difference
from tools.judged import kept

DATA = Path(__file__).parents[2] / "data" / "automodel_verdicts.jsonl.gz"


def test_lint_says_what_the_set_up_makes():
    cases, rules = kept(DATA), Rules(read_builtin(), {})
    refused = sum(bool(case["error"]) for case in cases)
    assert min(refused, len(cases) - refused) > 60
    assert list(filter(None, (difference(rules, case) for case in cases))) == []
