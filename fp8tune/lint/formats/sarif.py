"""SARIF 2.1.0, for GitHub code scanning and editors.

Standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. The log
describes only the rules that have results.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fp8tune import __version__
from fp8tune.lint.diagnostic import Diagnostic, Label, Region, Suppressed
from fp8tune.lint.formats.address import fingerprints, from_root, well_formed
from fp8tune.lint.formats.sarif_rule import descriptor, message
from fp8tune.lint.run import Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"


def render(result: Result) -> str:
    """The log of one run."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result)]}
    return json.dumps(log, indent=2) + "\n"


def _run(result: Result) -> dict[str, Any]:
    rules = sorted(result.rules.values(), key=lambda rule: rule.code)
    driver = {
        "name": "fp8tune",
        "version": __version__,
        "rules": list(map(descriptor, rules)),
    }
    index = {rule.name: number for number, rule in enumerate(rules)}
    found = _everything(result)
    prints = fingerprints(entry.finding for entry in found)
    return {
        "tool": {"driver": driver},
        "invocations": [_invocation(result)],
        "originalUriBaseIds": {
            ROOT: {"description": message("The root of the checkout.")}
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(*entry, index) for entry in zip(found, prints, strict=True)
        ],
    }


def _everything(result: Result) -> list[Suppressed]:
    """Return all findings in the order of the files; active ones have no kind."""
    found = []
    for report in result.reports:
        here = [Suppressed(finding, "", "") for finding in report.diagnostics]
        here += report.suppressed
        found += sorted(here, key=lambda one: (one.finding.region, one.finding.code))
    return found


def _invocation(result: Result) -> dict[str, Any]:
    said = [*((line, "error") for line in result.unread)]
    said += [(f"stale: {line}", "warning") for line in result.stale]
    notifications = [{"level": level, "message": message(line)} for line, level in said]
    return {
        "executionSuccessful": not result.unread,
        "toolExecutionNotifications": notifications,
    }


def _result(
    entry: Suppressed, fingerprint: str, index: dict[str, int]
) -> dict[str, Any]:
    found = entry.finding
    return {
        "ruleId": found.rule,
        "ruleIndex": index[found.rule],
        "level": found.severity,
        "message": message(f"{found.message}{'; ' * bool(found.help)}{found.help}"),
        "locations": [_location(found, found.labels[0])],
        "relatedLocations": [
            {"id": number, **_location(found, label)}
            for number, label in enumerate(found.labels[1:], 1)
        ],
        "partialFingerprints": {"pathRuleKey/v1": fingerprint},
        "fixes": list(_fixes(found)),
        "suppressions": [_suppression(entry)] if entry.kind else [],
    }


def _location(found: Diagnostic, label: Label) -> dict[str, Any]:
    file = _artifact(label.path or found.path)
    place = {"artifactLocation": file, "region": _region(label.region)}
    location: dict[str, Any] = {"physicalLocation": place}
    if label.key:
        name = {"fullyQualifiedName": label.key, "kind": "property"}
        location["logicalLocations"] = [name]
    if label.text:
        location["message"] = message(label.text)
    return location


def _artifact(path: str) -> dict[str, str]:
    name = from_root(path)
    address = quote(os.fsencode(name))
    if os.path.isabs(name):
        return {"uri": f"file://{address}"}
    return {"uri": address, "uriBaseId": ROOT}


def _region(region: Region) -> dict[str, int]:
    names = ("startLine", "startColumn", "endLine", "endColumn")
    return dict(zip(names, region, strict=True))


def _fixes(found: Diagnostic) -> Iterator[dict[str, Any]]:
    """Yield the fix of a finding, except of a byte-order mark, which has no column."""
    fix = found.fix
    if fix is None or any(edit.start < 0 for edit in fix.edits):
        return
    risk = f"{fix.safety}: {fix.changes}" if fix.changes else fix.safety
    replacements = [
        {"deletedRegion": _region(edit.region), "insertedContent": {"text": edit.text}}
        for edit in fix.edits
    ]
    change = {
        "artifactLocation": _artifact(found.path),
        "replacements": replacements,
    }
    yield {
        "description": message(f"{fix.title} ({risk})"),
        "artifactChanges": [change],
    }


def _suppression(entry: Suppressed) -> dict[str, str]:
    reason = {"justification": well_formed(entry.reason)} if entry.reason else {}
    return {"kind": entry.kind, "status": "accepted", **reason}
