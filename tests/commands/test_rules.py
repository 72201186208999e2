"""``fp8tune rules`` from outside: lists, reference pages, tests of packs."""

from fp8tune.lint.rules import CATEGORIES
from tests.each import each


@each("category", CATEGORIES)
def test_rules_of_a_category(fp8tune, builtin, category):
    listed = fp8tune("rules", "--category", category, "--output-format", "json").json
    names = [rule["name"] for rule in listed["rules"]]
    assert names == [rule.name for rule in builtin if rule.category == category]
    assert fp8tune("rules", "--category", category).code == 0


def test_rules_as_json(fp8tune, builtin):
    listed = fp8tune("rules", "--output-format", "json").json
    assert listed["version"] == 1
    assert [rule["name"] for rule in listed["rules"]] == [rule.name for rule in builtin]
    first = next(r for r in listed["rules"] if r["name"] == "gpu-without-fp8")
    assert first == {
        "name": "gpu-without-fp8",
        "code": "FP8201",
        "category": "crash",
        "severity": "error",
        "confidence": "certain",
        "since": "0.1.0",
        "trainer": None,
        "summary": "FP8 on a GPU without FP8 matrix units",
        "references": next(r.references for r in builtin if r.code == "FP8201"),
    }
