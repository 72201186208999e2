"""Fixes in SARIF logs: they change what --fix changes."""

import json

from fp8tune.lint.formats import sarif
from tests.lint.formats.conftest import SAFE, UNSAFE
from tests.lint.formats.sarif_log import checked


def test_fixes(fixable):
    only = checked(json.loads(sarif.render(fixable)))
    first, second, none = (result["fixes"] for result in only["results"])
    assert [fix["description"]["text"] for fix in (*first, *second)] == [
        "Set `distributed.tp = 1` (unsafe: one GPU holds {{all}} of it)",
        "Use the default (safe)",
    ]
    (change,) = first[0]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "a.toml"
    assert [
        (tuple(r["deletedRegion"].values()), r["insertedContent"]["text"])
        for r in change["replacements"]
    ] == [(tuple(edit.region), edit.text) for edit in UNSAFE.edits]
    (change,) = second[0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": SAFE.edits[0].text}
    assert none == []
