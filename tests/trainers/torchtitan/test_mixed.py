"""Files with keys of several releases, and what the release says after the fixes.

``tests/data/torchtitan_mixed.jsonl.gz`` holds generated files, the text that the fixes
made of each, and the verdict of the release on that text.
"""

import pytest

from tests.support.verdicts import DATA, cases, migrated, torchtitan

CASES = cases(DATA / "torchtitan_mixed.jsonl.gz")
UNMOVED = ("which has another value: keep one of them", "set `job.custom_config_module")
"""What the help says of keys that no fix moves, and the release refuses."""


@pytest.mark.parametrize("version", sorted({case["version"] for case in CASES}))
def test_mixed_files_are_migrated(version):
    mine = [case for case in CASES if case["version"] == version]
    assert len(mine) >= 60
    for case in mine:
        after = migrated(case)
        assert after.data.decode() == case["toml"], case["id"]
        assert all(theirs == ours for _, theirs, ours in torchtitan(case))
        errors = [d for d in after.report.diagnostics if d.severity == "error"]
        assert all(any(words in d.help for words in UNMOVED) for d in errors)
        assert case["before"].count("#") == case["toml"].count("#")
