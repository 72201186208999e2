"""The module that a wheel carries says what the TOML files say."""

import os
import pickle

import pytest

from fp8tune.conditions.syntax import parse
from fp8tune.facts import gpus
from fp8tune.lint import index
from fp8tune.lint.builtin import builtin_folder, indexed, read_builtin
from fp8tune.lint.needs import needs_of
from fp8tune.trainers import about, recognise, schema
from fp8tune.trainers.trainer import trainer
from tests.each import each

BUILTIN = read_builtin()
SPOKEN = ("message", "help", "at", "references", "fix")


@pytest.fixture(scope="module")
def written():
    found = {}
    for name, text in index.sources():
        found[name] = {}
        exec(compile(text, name, "exec"), found[name])
    return found


@pytest.fixture(scope="module")
def shared(written):
    return written["fp8tune._index"]


@pytest.fixture(scope="module")
def rest(written):
    return written["fp8tune._index_not_toml"]


@pytest.fixture(scope="module")
def rules(shared, rest):
    found = {}
    for category, name, head in shared["RULES"]:
        path = os.path.join(builtin_folder(), category, name)
        front = rest["FRONTS"].get(head["name"], head)
        found[path] = indexed(path, category, front)
    return found


def test_rules_are_in_order(rules):
    assert list(rules) == [rule.path for rule in BUILTIN]


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_rule_is_the_same(rules, rule):
    other = rules[rule.path]
    for name in ("category", "name", "code", "severity", "trainers", "fault", "source"):
        assert getattr(other, name) == getattr(rule, name)
    assert (other.guard, other.builtin) == (rule.guard, True)
    assert {k: other.front.get(k) for k in SPOKEN} == {
        k: rule.front.get(k) for k in SPOKEN
    }
    assert other.data == rule.data


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_conditions_lie_ready(shared, rest, rule):
    wanted = [source for source in (rule.source, *rule.parts) if source]
    trees = shared["TREES"] | rest["TREES"]
    assert [trees[source] for source in wanted] == list(map(parse, wanted))


def test_rules_without_toml_are_apart(shared, rest):
    """The index has their names; whatever else a finding needs is in the other."""
    toml = {name for name, known in about.trainers().items() if "toml" in known.formats}
    others = {
        rule.name: {"name": rule.name, "code": rule.code, "severity": rule.severity}
        for rule in BUILTIN
        if rule.trainers and toml.isdisjoint(rule.trainers)
    }
    heads = {head["name"]: head for _, _, head in shared["RULES"]}
    assert {name: heads[name] for name in rest["FRONTS"]} == others
    assert shared["TREES"].keys().isdisjoint(rest["TREES"])


def test_gpus_and_trainers_are_the_same(shared):
    assert shared["GPUS"] == gpus.parsed()
    assert shared["TRAINERS"] == list(about.parsed())
    assert shared["FOREIGN"] == recognise.foreign_parsed()


def test_each_version_of_a_trainer_has_its_own_module(written):
    names = [name for known in about.trainers().values() for name in known.ids]
    wanted = {
        about.module_of(name): {
            "SCHEMA": schema.parsed(name),
            "NEEDS": needs_of(BUILTIN, trainer(name)),
        }
        for name in names
    }
    found = {
        name: {part: module[part] for part in ("SCHEMA", "NEEDS")}
        for name, module in written.items()
        if name not in ("fp8tune._index", "fp8tune._index_not_toml")
    }
    assert found == wanted


def test_another_process_reads_the_file(rules):
    rule = rules[BUILTIN[0].path]
    assert pickle.loads(pickle.dumps(rule)).front["message"] == rule.front["message"]
