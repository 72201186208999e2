"""The JSON object: the contract's keys, fixes, and what was held back."""

import json

import pytest

from fp8tune.lint.formats import plain_json
from tests.sample import TP

KEYS = [
    *("version", "files", "diagnostics", "unjudged", "skipped"),
    *("suppressed", "fixed", "stale"),
]
FINDING = [
    *("path", "rule", "code", "category", "severity", "key"),
    *("line", "column", "end_line", "end_column", "message", "labels", "help"),
    *("fix", "url"),
]


def test_every_sample_keeps_the_contract(sample):
    said = sample("json")
    data = said.json
    assert list(data) == KEYS
    for found in data["diagnostics"]:
        assert list(found) == FINDING
        place = {name: found[name] for name in ("line", "column", "key")}
        assert place.items() <= found["labels"][0].items()
    for held in data["suppressed"]:
        assert list(held) == [*FINDING, "kind", "reason"]
    json.dumps(data, ensure_ascii=False).encode()  # no lone surrogates
    assert said.out.isascii()


def test_fixes(fixable):
    data = json.loads(plain_json.render(fixable, statistics=False))
    assert [found["fix"] for found in data["diagnostics"]] == [
        {
            "safety": "unsafe",
            "title": "Set `distributed.tp = 1`",
            "changes": "one GPU holds {all} of it",
            "edits": [
                {"line": 4, "column": 6, "end_line": 4, "end_column": 7, "text": "1"},
                {
                    "line": 1,
                    "column": 1,
                    "end_line": 1,
                    "end_column": 1,
                    "text": "# \u6f22\n",
                },
            ],
        },
        {
            "safety": "safe",
            "title": "Use the default",
            "edits": [
                {"line": 4, "column": 1, "end_line": 5, "end_column": 1, "text": ""}
            ],
        },
        None,
    ]


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_statistics(project, fp8tune, options):
    project({"a.toml": TP, "b.toml": TP})
    said = fp8tune("lint", ".", "--statistics", "--output-format", "json", *options)
    assert list(said.json) == [*KEYS, "statistics"]
    assert said.json["statistics"] == {
        "findings": 2,
        "files": 2,
        "rules": [
            {
                "rule": "fp8-with-tensor-parallel",
                "code": "FP8101",
                "category": "rejected",
                "severity": "error",
                "findings": 2,
                "files": 2,
            }
        ],
    }
    assert said.err == ""
