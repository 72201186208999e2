"""The job: values on demand, names, and what unknown means."""

import types

import pytest

from fp8tune.facts import FACTS
from fp8tune.fields import FIELDS
from fp8tune.job import (
    TARGETS,
    Job,
    Source,
    Target,
    Unknown,
    sources,
    vocabulary,
)
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.each import each


def area(model_width, height):
    return model_width * height


def scaled(factor, area, offset=0):
    return factor * area + offset


def broken(height):
    return height / 0


def odd(height):
    return height.no_such_thing if height == 7 else int("x")


def mixed(height):
    return "a" + height


def undefined():
    raise Unknown("undefined")


COMPUTED = {
    "area": Source(area, ("model_width", "height")),
    "fact.scaled": Source(scaled, ("factor", "area"), ("offset",)),
    "broken": Source(broken, ("height",)),
    "odd": Source(odd, ("height",)),
    "mixed": Source(mixed, ("height",)),
    "undefined": Source(undefined, ()),
    "on_gpu": Source(lambda gpu, world_size: (gpu, world_size), ("gpu", "world_size")),
    "deep": Source(lambda fact_scaled: -fact_scaled, ("fact_scaled",)),
}
KEYS = frozenset({"model.width", "model.height", "model.factor", "model.other"})
WORDS = vocabulary(KEYS, {"height": "model.height", "factor": "model.factor"}, COMPUTED)
VALUES = {"model.width": 3, "model.height": 4, "model.factor": 2}


def job(values=VALUES, written=(), target=None):
    return Job(WORDS, values, set(written), target or Target())


@each(
    ("name", "value"),
    [
        ("height", 4),
        ("area", 12),
        ("fact.scaled", 24),
        ("fact_scaled", 24),
    ],
)
def test_value(name, value):
    assert job()[name] == value


@each(
    ("name", "missing"),
    [
        ("model.other", "model.other"),
        ("nosuch", "nosuch"),
        ("gpu", "gpu"),
        ("on_gpu", "gpu"),
        ("undefined", "undefined"),
        ("broken", "broken"),
        ("odd", "odd"),
        ("mixed", "mixed"),
    ],
)
def test_unknown_names_what_is_missing(name, missing):
    with pytest.raises(Unknown) as error:
        job()[name]
    assert error.value.args == (missing,)


@pytest.mark.parametrize("name", ["area", "fact.scaled", "deep", "height"])
def test_unknown_spreads(name):
    with pytest.raises(Unknown) as error:
        job({"model.width": 3, "model.factor": 2})[name]
    assert error.value.args == ("model.height",)


def test_a_value_of_an_odd_type_makes_a_fact_unknown():
    with pytest.raises(Unknown):
        job({**VALUES, "model.height": [1]} | {"model.width": [2]})["area"]


def test_a_mistake_in_a_formula_is_not_hidden():
    with pytest.raises(AttributeError):
        job({**VALUES, "model.height": 7})["odd"]


@each(
    ("name", "keys"),
    [
        ("height", ["model.height"]),
        ("area", ["model.width", "model.height"]),
        ("fact.scaled", ["model.factor", "model.width", "model.height"]),
        ("on_gpu", ["on_gpu"]),
        ("undefined", ["undefined"]),
        ("nosuch", ["nosuch"]),
    ],
)
def test_keys_of(name, keys):
    assert job().keys_of(name) == keys


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ((), "model.factor"),
        (("model.height",), "model.height"),
        (("model.height", "model.width"), "model.width"),
        (("model.other",), "model.factor"),
    ],
)
def test_key_prefers_what_is_written(written, key):
    assert job(written=written).key("deep") == key


@each(
    ("name", "known_"),
    [
        ("height", True),
        ("area", True),
        ("fact.scaled", True),
        ("fact_scaled", False),
        ("model_height", False),
        ("micro_batch", False),
    ],
)
def test_knows(name, known_):
    assert WORDS.knows(name) is known_


def test_sources_are_the_public_functions_of_a_module():
    module = types.ModuleType("a_module")
    code = """
import math
from os.path import join
CONSTANT = 5
class Thing: ...
def plain(a, b): ...
def optional(a, b=None, c=1):
    local = a
    return local
def nothing(): ...
def asks(job, a, b=None): ...
def _private(a): ...
"""
    exec(code, module.__dict__)  # a module made for this test
    assert {
        name: (source.parameters, source.optional, source.of_job)
        for name, source in sources(module, "m.").items()
    } == {
        "m.plain": (("a", "b"), (), False),
        "m.optional": (("a", "b", "c"), ("b", "c"), False),
        "m.nothing": ((), (), False),
        "m.asks": (("a", "b"), ("b",), True),
    }


def test_every_parameter_of_a_fact_is_a_name_of_some_trainer(kempnerforge):
    words = kempnerforge.vocabulary
    every = [trainer(name) for name in trainers()]
    packages = {name for each in every for name in each.about.packages}
    releases = {f"{x}_{what}" for x in packages for what in ("release", "at_most")}
    needed = {n for s in words.computed.values() for n in s.parameters} - releases
    names = {words.spelled.get(name, name) for name in needed}
    assert [n for n in names if not any(t.vocabulary.knows(n) for t in every)] == []


def test_every_field_that_an_adapter_gives_is_explained():
    given = set()
    for about in trainers().values():
        words = trainer(about.name).vocabulary
        own = [name for name in words.computed if name not in FACTS]
        given |= {*words.renamed, *own}
        assert all(words.computed[name].call.__doc__ for name in own)
    assert set(FIELDS) - set(TARGETS) <= given
    assert set(trainer("kempnerforge").vocabulary.renamed) <= set(FIELDS)


def test_a_fact_may_ask_what_other_values_give(kempnerforge):
    loaded = kempnerforge.load({"train": {"batch_size": 2}, "distributed": {"tp": 4}})
    given = kempnerforge.job(loaded, Target("h100", 8))
    other = given.with_values({"micro_batch": 16, "tp": 1, "head_dim": 5})
    names = ("train.batch_size", "micro_batch", "dp_shard", "head_dim", "gpu")
    assert [given[name] for name in names] == [2, 2, 2, 128, "h100"]
    assert [other[name] for name in names] == [16, 16, 8, 5, "h100"]
    assert other.written == given.written
