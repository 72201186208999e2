"""The module that a wheel carries says what the TOML files say."""

import os
import pickle

import pytest

from fp8tune.facts import gpus
from fp8tune.lint import index
from fp8tune.lint.builtin import builtin_folder, indexed, read_builtin
from fp8tune.lint.syntax import parse
from fp8tune.trainers import schema
from fp8tune.trainers.trainer import NAMES
from tests.each import each

BUILTIN = read_builtin()
SPOKEN = ("message", "help", "at", "references", "fix")


@pytest.fixture(scope="module")
def written():
    found = {}
    exec(compile(index.source(), "_index.py", "exec"), found)
    return found


@pytest.fixture(scope="module")
def rules(written):
    folder = builtin_folder()
    places = (
        (os.path.join(folder, category, name), category, front)
        for category, name, front in written["RULES"]
    )
    return {path: indexed(path, *rest) for path, *rest in places}


def test_rules_are_in_order(rules):
    assert list(rules) == [rule.path for rule in BUILTIN]


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_rule_is_the_same(rules, rule):
    other = rules[rule.path]
    for name in ("category", "name", "code", "severity", "trainer", "fault", "source"):
        assert getattr(other, name) == getattr(rule, name)
    assert (other.guard, other.builtin) == (rule.guard, True)
    assert {k: other.front.get(k) for k in SPOKEN} == {
        k: rule.front.get(k) for k in SPOKEN
    }
    assert other.data == rule.data


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_conditions_lie_ready(written, rule):
    wanted = [source for source in (rule.source, *rule.parts) if source]
    assert [written["TREES"][source] for source in wanted] == list(map(parse, wanted))


def test_gpus_are_the_same(written):
    assert written["GPUS"] == gpus.parsed()


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_the_same(written, name):
    assert written["SCHEMAS"][name] == schema.parsed(name)


def test_another_process_reads_the_file(rules):
    rule = rules[BUILTIN[0].path]
    assert pickle.loads(pickle.dumps(rule)).front["message"] == rule.front["message"]
