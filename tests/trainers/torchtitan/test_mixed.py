"""Files with keys of several releases, and what the release says after the fixes.

``tests/data/torchtitan_mixed.jsonl.gz`` holds generated files, the text that the fixes
made of each, and the verdict of the release on that text
(``python -m tools.torchtitan.mixed``).
"""

from pathlib import Path

import pytest

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.ruleset import Rules
from tools.torchtitan.mixed import kept, migrated, migrating
from tools.torchtitan.verdicts import difference
from tools.torchtitan.wheels import VERSIONS

DATA = Path(__file__).parents[2] / "data" / "torchtitan_mixed.jsonl.gz"
CASES = kept(DATA)
UNMOVED = ("which has another value: keep one of them", "set `job.custom_config_module")
"""What the help says of keys that no fix moves, and the release refuses."""


@pytest.mark.parametrize("version", VERSIONS)
def test_mixed_files_are_migrated(version):
    rules = Rules(read_builtin(), {})
    mine = [case for case in CASES if case["version"] == version]
    assert len(mine) >= 60
    for case in mine:
        after = migrated(migrating(), case | {"toml": case["before"]})
        assert after.data.decode() == case["toml"], case["id"]
        assert difference(rules, case) == ""
        errors = [d for d in after.report.diagnostics if d.severity == "error"]
        assert all(any(words in d.help for words in UNMOVED) for d in errors)
        assert case["before"].count("#") == case["toml"].count("#")
