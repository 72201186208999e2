"""A code quality report, held to GitLab's table of fields."""

import json

from jsonschema import Draft202012Validator

TEXT = {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": [
            "description",
            "check_name",
            "fingerprint",
            "severity",
            "location",
        ],
        "properties": {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": TEXT,
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": TEXT,
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {
                            "begin": {"type": "integer", "minimum": 1},
                            "end": {"type": "integer", "minimum": 1},
                        },
                    },
                },
            },
        },
    },
}
"""https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""


def checked(text):
    issues = json.loads(text)
    assert list(Draft202012Validator(SCHEMA).iter_errors(issues)) == []
    assert text.isascii()  # which is no byte-order mark either
    fingerprints = [issue["fingerprint"] for issue in issues]
    assert len(set(fingerprints)) == len(fingerprints)
    json.dumps(issues, ensure_ascii=False).encode()  # no lone surrogates
    return issues
