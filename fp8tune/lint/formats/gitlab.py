"""GitLab's code quality report.

Fields: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import json
from typing import Any

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.formats.address import fingerprints, from_root, well_formed
from fp8tune.lint.run import Result

_SEVERITY = {"error": "critical", "warning": "major", "note": "info"}


def render(result: Result) -> str:
    """Return the findings as GitLab shows them in a merge request."""
    findings = list(result.diagnostics)
    issues = map(_issue, findings, fingerprints(findings))
    return json.dumps(list(issues), indent=2) + "\n"


def _issue(found: Diagnostic, fingerprint: str) -> dict[str, Any]:
    region = found.region
    return {
        "description": f"{found.message}{'; ' * bool(found.help)}{found.help}",
        "check_name": found.rule,
        "fingerprint": fingerprint,
        "severity": _severity(found),
        "location": {
            "path": well_formed(from_root(found.path)),
            "lines": {"begin": region.line, "end": region.end_line},
        },
    }


def _severity(found: Diagnostic) -> str:
    """Return GitLab's severity; ``blocker`` if the run cannot start."""
    stops = found.severity == "error" and found.category in ("rejected", "crash")
    return "blocker" if stops else _SEVERITY[found.severity]
