"""SARIF logs: valid by the published schema, and saying what was found."""

import os
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from fp8tune.lint.formats.sarif_rule import descriptor, message
from tests.each import each
from tests.lint.formats.samples import ODD_NAMES
from tests.lint.formats.sarif_log import checked
from tests.sample import GOOD, TP


def test_every_sample_is_valid(sample):
    said = sample("sarif")
    only = checked(said.json)
    assert said.out.isascii()
    levels = {r["level"] for r in only["results"] if not r["suppressions"]}
    successful = only["invocations"][0]["executionSuccessful"]
    assert said.code == (2 if not successful else int("error" in levels))


def test_a_result(project, log):
    project({"sub dir/a.toml": TP})
    only = log(".", "--select", "fp8-with-tensor-parallel")
    artifact = {"uri": "sub%20dir/a.toml", "uriBaseId": "%SRCROOT%"}
    (result,) = only["results"]
    fingerprint = result.pop("partialFingerprints")
    assert len(result.pop("fixes")) == 1
    assert result == {
        "ruleId": "fp8-with-tensor-parallel",
        "ruleIndex": 0,
        "level": "error",
        "message": {
            "text": "FP8 does not work with tensor parallelism in this trainer "
            "(`distributed.tp = 4`); set `distributed.tp = 1` and shard with FSDP "
            "only, or train in bf16"
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact,
                    "region": {
                        "startLine": 4,
                        "startColumn": 6,
                        "endLine": 4,
                        "endColumn": 7,
                    },
                },
                "logicalLocations": [
                    {"fullyQualifiedName": "distributed.tp", "kind": "property"}
                ],
                "message": {"text": "splits every linear over 4 GPUs"},
            }
        ],
        "relatedLocations": [
            {
                "id": 1,
                "physicalLocation": {
                    "artifactLocation": artifact,
                    "region": {
                        "startLine": 2,
                        "startColumn": 19,
                        "endLine": 2,
                        "endColumn": 24,
                    },
                },
                "logicalLocations": [
                    {"fullyQualifiedName": "train.mixed_precision", "kind": "property"}
                ],
                "message": {"text": "converts every linear to Float8Linear"},
            }
        ],
        "suppressions": [],
    }
    assert list(fingerprint) == ["pathRuleKey/v1"]


def test_a_rule(builtin):
    rule = next(r for r in builtin if r.name == "fp8-with-tensor-parallel")
    told = descriptor(rule)
    assert told["helpUri"] == rule.references[0]
    assert told["fullDescription"]["text"].startswith("KempnerForge converts every")
    assert "```toml\n[train]\nmixed_precision" in told["help"]["markdown"]
    assert "`" not in told["help"]["text"]
    assert told["defaultConfiguration"] == {"level": "error"}
    assert told["properties"] == {
        "code": "FP8101",
        "category": "rejected",
        "confidence": "certain",
        "precision": "very-high",
        "problem.severity": "error",
        "tags": ["fp8", "rejected"],
    }


def test_a_level_that_the_project_chose_is_the_results_own(project, log):
    project(
        {"a.toml": TP, "pyproject.toml": "[tool.fp8tune.severity]\nFP81 = 'note'\n"}
    )
    only = log("a.toml")
    assert [r["level"] for r in only["results"]] == ["note"]
    rule = only["tool"]["driver"]["rules"][0]
    assert rule["defaultConfiguration"] == {"level": "error"}


def test_what_cannot_be_read_is_a_notification(project, log):
    project({"a.toml": TP})
    only = log("a.toml", "gone{0}.toml")
    assert only["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [
                {
                    "level": "error",
                    "message": {"text": "gone{{0}}.toml: No such file or directory"},
                }
            ],
        }
    ]


def test_a_baseline(project, fp8tune, log):
    project({"a.toml": TP, "b.toml": TP})
    fp8tune("lint", ".", "--baseline", "known.json", "--update-baseline")
    project({"b.toml": GOOD})
    only = log(".", "--baseline", "known.json")
    assert [r["suppressions"] for r in only["results"]] == [
        [
            {
                "kind": "external",
                "status": "accepted",
                "justification": "in the baseline",
            }
        ]
    ]
    (stale,) = only["invocations"][0]["toolExecutionNotifications"]
    assert stale["level"] == "warning"
    assert stale["message"]["text"].startswith("stale: known.json:3: b.toml no longer")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_addresses_lead_back_to_the_file(project, log, name):
    project({name: TP})
    only = log(".")
    location = only["results"][0]["locations"][0]["physicalLocation"]
    uri = location["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == os.fsencode(name)
    assert not urlsplit(uri).scheme


def test_a_file_outside_has_a_whole_address(project, log, tmp_path, monkeypatch):
    project({"a b.toml": TP, "inside/x": ""})
    monkeypatch.chdir("inside")
    only = log("../a b.toml")
    artifact = only["results"][0]["locations"][0]["physicalLocation"]
    uri = f"file://{tmp_path}/a%20b.toml"
    assert artifact["artifactLocation"] == {"uri": uri}


@each(
    ("text", "said"),
    [
        ("plain", "plain"),
        ("{ image = 4 }", "{{ image = 4 }}"),
        ("{0}", "{{0}}"),
        ("[a](https://a.example)", "[a] (https://a.example)"),
        ("[0.9, 0.95]", "[0.9, 0.95]"),
        ("latin-\udce9", "latin-\\udce9"),
    ],
)
def test_messages_mean_what_they_say(text, said):
    assert message(text) == {"text": said}


def prints(only):
    return [r["partialFingerprints"]["pathRuleKey/v1"] for r in only["results"]]


def test_fingerprints_stay_when_lines_move(project, log):
    project({"a.toml": TP, "b.toml": TP})
    before = prints(log("."))
    project({"a.toml": "# one more line\n\n" + TP.replace("4", "  8")})
    assert prints(log(".")) == before
    assert len(set(before)) == 2
