"""``fp8tune rules`` from outside: lists, reference pages, tests of packs."""

from fp8tune.lint.rules import CATEGORIES
from tests.each import each
from tests.sample import NO_PIPELINE

RULE = (
    NO_PIPELINE
    + """\
[[bad]]
config = '''
[distributed]
pp = «2»
[train]
grad_accum_steps = 8
'''
[[good]]
config = '''
[train]
grad_accum_steps = 8
[distributed]
pp = 1
'''
"""
)


def test_rules_are_listed(fp8tune, builtin):
    said = fp8tune("rules")
    assert (said.code, said.err) == (0, "")
    heads = [tuple(line.split()[:3]) for line in said.out.splitlines()]
    wanted = [(rule.code, rule.name, rule.severity) for rule in builtin]
    assert [head for head in heads if head in set(wanted)] == wanted


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


def test_rules_test_of_a_pack_that_overrides_a_built_in_rule(fp8tune, repository):
    said = fp8tune("rules", "test", str(repository / "rules"))
    assert said.code == 0
    assert said.out.endswith(": all as expected\n")


def test_rules_test_shows_nothing_that_acts_on_the_terminal(fp8tune, project):
    text = RULE.replace("pp = 1\n", 'pp = 1\n"\\u001b[31m" = 1\n')
    project({"mine/silent/no-pipeline.toml": text})
    said = fp8tune("rules", "test", "mine")
    assert "\x1b" not in said.out
