"""A SARIF log held to the published schema, and to what a schema cannot say."""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from jsonschema import Draft4Validator

SCHEMA = Path(__file__).parents[2] / "data/schemas/sarif-2.1.0-rtm.5.json"
VALIDATOR = Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
URI = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-F]{2})+")


def walk(value):
    yield value
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list)):
        for child in children:
            yield from walk(child)


def checked(log):
    """The run of a log that keeps to the schema and to what a schema cannot say."""
    assert list(VALIDATOR.iter_errors(log)) == []
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert {r["ruleIndex"] for r in only["results"]} == set(range(len(rules)))
    prints = [tuple(r["partialFingerprints"].items()) for r in only["results"]]
    assert len(set(prints)) == len(prints)
    for part in filter(lambda one: isinstance(one, dict), walk(only)):
        if "uri" in part:
            assert URI.fullmatch(part["uri"])
            assert urlsplit(part["uri"]).scheme in ("", "file")
        if "startLine" in part:
            start = (part["startLine"], part["startColumn"])
            assert (1, 1) <= start <= (part["endLine"], part["endColumn"])
    return only
