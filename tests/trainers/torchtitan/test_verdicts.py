"""torchtitan's own verdicts: `rejected` is found exactly where a release refuses.

``tests/data/torchtitan_verdicts.jsonl.gz`` holds generated configs with the stage of
the start at which each release ended, and its exception
(``python -m tools.torchtitan.verdicts``).
"""

from collections import Counter
from pathlib import Path

import pytest

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.torchtitan.verdicts import ENVIRONMENT, difference, kept
from tools.torchtitan.wheels import VERSIONS

DATA = Path(__file__).parents[2] / "data" / "torchtitan_verdicts.jsonl.gz"
CASES = [case for case in kept(DATA) if not case["error"].startswith(ENVIRONMENT)]


def test_there_are_enough_of_each():
    verdicts = Counter((case["version"], bool(case["error"])) for case in CASES)
    assert len(CASES) > 1500
    assert min(verdicts[version, no] for version in VERSIONS for no in (0, 1)) > 90
    assert {case["stage"] for case in CASES} > {"config", "degrees", "sharding"}


@pytest.mark.parametrize("version", VERSIONS)
def test_rejected_is_found_exactly_where_the_release_refuses(version):
    rules = Rules(read_builtin(), {})
    mine = [case for case in CASES if case["version"] == version]
    assert list(filter(None, (difference(rules, case) for case in mine))) == []
