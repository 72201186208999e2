"""The module that a wheel carries says what the TOML files say."""

import marshal
import os
import pickle

import pytest

from fp8tune.conditions import parse
from fp8tune.facts import FACTS, gpus, versions
from fp8tune.job import Source
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
def rules(shared):
    found = {}
    for category, name, head, stored in shared["RULES"]:
        path = os.path.join(builtin_folder(), category, name)
        found[path] = indexed(path, category, head, stored)
    return found


def test_rules_are_in_order(rules):
    assert list(rules) == [rule.path for rule in BUILTIN]


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_rule_is_the_same(rules, rule):
    other = rules[rule.path]
    for name in ("category", "name", "code", "severity", "trainers", "fault", "source"):
        assert getattr(other, name) == getattr(rule, name)
    assert other.builtin
    assert {k: other.front.get(k) for k in SPOKEN} == {
        k: rule.front.get(k) for k in SPOKEN
    }
    assert other.data == rule.data


@each("rule", BUILTIN, ids=lambda rule: rule.name)
def test_trees_lie_ready(rules, rule):
    trees = marshal.loads(rules[rule.path].stored[0])
    assert not rule.source or trees[rule.source] == parse(rule.source)


def located(computed):
    """The functions that a wheel holds as places, imported."""
    sources = {name: Source(*fields) for name, fields in computed.items()}
    return {name: each._replace(function=each.call) for name, each in sources.items()}


def test_facts_are_found_by_their_place(shared):
    assert located(shared["FACTS"]) == FACTS


def test_gpus_and_trainers_are_the_same(shared):
    assert shared["GPUS"] == gpus.parsed()
    assert shared["VERSIONS"] == versions.parsed()
    assert shared["TRAINERS"] == list(about.parsed())
    assert shared["FOREIGN"] == recognise.foreign_parsed()


def test_each_version_of_a_trainer_has_its_own_module(written):
    names = [name for known in about.trainers().values() for name in known.ids]
    wanted = {
        about.module_of(name): {
            "SCHEMA": schema.parsed(name),
            "NEEDS": needs_of(BUILTIN, trainer(name)),
            "COMPUTED": dict(trainer(name).vocabulary.computed),
        }
        for name in names
    }
    found = {
        name: {part: module[part] for part in ("SCHEMA", "NEEDS")}
        | {"COMPUTED": FACTS | located(module["COMPUTED"])}
        for name, module in written.items()
        if name != "fp8tune._index"
    }
    assert found == wanted


def test_another_process_reads_the_file(rules):
    rule = rules[BUILTIN[0].path]
    assert pickle.loads(pickle.dumps(rule)).front["message"] == rule.front["message"]
