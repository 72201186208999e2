"""DeepSpeed's own verdicts: `rejected` is found exactly where DeepSpeed refuses.

``tests/data/deepspeed_verdicts.jsonl.gz`` holds generated configs with what
``DeepSpeedConfig`` of each release said
(``python -m tools.deepspeed.verdicts``).
"""

from collections import Counter
from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.deepspeed.verdicts import difference
from tools.kempnerforge.verdicts import labelled

DATA = Path(__file__).parents[2] / "data" / "deepspeed_verdicts.jsonl.gz"


def test_rejected_is_found_exactly_where_deepspeed_refuses():
    cases = list(labelled(DATA))
    verdicts = Counter((case["release"], bool(case["error"])) for case in cases)
    assert len(verdicts) == 6
    assert min(verdicts.values()) > 100
    rules = Rules(read_builtin(), {})
    assert [text for case in cases if (text := difference(rules, case))] == []
