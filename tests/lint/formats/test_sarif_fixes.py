"""Fixes in SARIF logs: they change what --fix changes."""

import json
import re
from pathlib import Path

from fp8tune.config.settings import Options
from fp8tune.lint.formats import sarif
from fp8tune.lint.rewrite import fixed_bytes
from fp8tune.lint.run import run
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


def applied(text, replacements):
    """A text after replacements, as an editor that counts characters makes them."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def offset(region, end):
        line, column = region[f"{end}Line"], region[f"{end}Column"]
        return starts[line - 1] + column - 1

    spans = [
        (*(offset(r["deletedRegion"], e) for e in ("start", "end")), r)
        for r in replacements
    ]
    for start, end, replacement in sorted(spans, key=lambda s: s[:2], reverse=True):
        text = text[:start] + replacement["insertedContent"]["text"] + text[end:]
    return text


def test_fixes_of_every_rule_change_what_fix_changes(examples, fp8tune):
    only = checked(json.loads(sarif.render(run(tuple(examples), Options()))))
    told = {}
    for result in only["results"]:
        for fix in result["fixes"]:
            (change,) = fix["artifactChanges"]
            told[(change["artifactLocation"]["uri"], result["ruleId"])] = change
    assert len(told) > 20
    reports = run(tuple(examples), Options()).reports
    for found in (found for report in reports for found in report.diagnostics):
        change = told.pop((found.path, found.rule), None)
        if change:
            data = Path(found.path).read_bytes()
            text = applied(data.decode(), change["replacements"])
            assert text.encode() == fixed_bytes(data, [found])
    assert told == {}
