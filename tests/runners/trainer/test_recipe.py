"""How each trainer is run is checked when it is read."""

import os

import pytest

from fp8tune.runners.trainer.recipe import (
    INSIDE,
    INSIDE_PROFILE,
    BadRecipe,
    Keys,
    Losses,
    Profile,
    Recipe,
    filled,
    read,
    recipe_of,
)
from fp8tune.trainers.about import path_of, trainers
from fp8tune.trainers.trainer import trainer
from fp8tune.verify import patterns
from tests.each import each

SOUND = {"command": ["{python}", "{config}"]}
RECIPES = [n for n in trainers() if os.path.exists(path_of(n, "run.toml"))]
RUN = sorted(n for n in RECIPES if recipe_of(trainers()[n]).command)
VERSIONS = [
    version
    for name in RUN
    if name != "megatron_lm"  # whose trial is the user's script (test_config.py)
    for version in trainers()[name].ids
    if version.rpartition(".")[2] not in ("rl", "rl_trainer")  # no trial runs RL
]
OF_LAUNCHERS = {"nemo_run"}
"""Tables that the trainer's launcher reads, and its schema has not."""


def test_these_trainers_can_be_run():
    assert RUN == [
        "accelerate",
        "automodel",
        "axolotl",
        "kempnerforge",
        "llamafactory",
        "megatron_lm",
        "prime_rl",
        "torchtitan",
    ]


def keys_of(recipe):
    kinds = (recipe.trial, recipe.speed, recipe.synthetic, recipe.cpu or Keys())
    profile = (recipe.profile.keys,) if recipe.profile else ()
    for keys in (*kinds, *profile):
        yield from (*keys.set, *keys.unset)
    losses = recipe.losses
    yield from (*losses.seed, *losses.unset, *filter(None, [losses.data_seed]))


@each("name", RUN)
def test_each_key_is_of_some_version(name):
    known = {
        key
        for version in trainers()[name].ids
        for key, _ in trainer(version).schema.dotted_keys()
    }
    known |= {*trainers()[name].tables, *OF_LAUNCHERS}
    known |= {key.rpartition(".")[0] for key in known}
    assert set(keys_of(recipe_of(trainers()[name]))) - known == set()


@each("version", VERSIONS)
def test_each_version_writes_steps_profiles_and_checkpoints_where_it_is_told(version):
    """Some key of each group: they have other names in other versions."""
    known = trainer(version)
    recipe = recipe_of(known.about)
    own = dict(known.schema.dotted_keys())
    values = {**recipe.trial.set, **recipe.speed.set, **recipe.profile.keys.set}
    values = {key: value for key, value in values.items() if key in own}
    assert any("{scratch}" in str(value) for value in values.values())
    assert known.key_of("max_steps") in values
    assert set(recipe.losses.seed) & set(own)
    assert patterns.known()[INSIDE].peak == "reserved"
    if recipe.inside:  # it prints and profiles steps itself
        assert recipe.profile == INSIDE_PROFILE
        return
    assert {key for key in values if "log_" in key}
    assert any("profil" in key and value is True for key, value in values.items())
    assert patterns.known()[known.name].peak in ("allocated", "reserved")


def test_a_recipe_is_read():
    profile = {"steps": [2, 3], "set": {"a": True}}
    data = {
        **SOUND,
        "cpu": {"set": {"c": 1}},
        "trial": {"set": {"x.y": "{scratch}"}, "unset": ["z"]},
        "profile": profile,
        "losses": {"seed": "seed"},
    }
    assert read(data, "ours") == Recipe(
        "ours",
        command=("{python}", "{config}"),
        cpu=Keys({"c": 1}),
        trial=Keys({"x.y": "{scratch}"}, ("z",)),
        profile=Profile(Keys({"a": True}), 2, 3),
        losses=Losses(("seed",)),
    )


@each(
    ("data", "said"),
    [
        ({}, "ours: `command` is missing: an array of strings"),
        ({"command": "a {config}"}, "ours: `command` must be an array of strings"),
        ({"command": []}, "`command` must be an array of strings: a program"),
        ({"command": ["a"]}, "the command has no {config}"),
        ({"command": ["a", "{confg}"]}, "`command` has {confg}; there are {python}"),
        (
            {**SOUND, "comand": []},
            "ours: has no field `comand`; did you mean `command`?",
        ),
        ({**SOUND, "cpu": "yes"}, "`cpu` must be a table"),
        (
            {**SOUND, "trial": {"sets": {}}},
            "ours: `trial` has no field `sets`; did you",
        ),
        ({**SOUND, "trial": {"set": []}}, "`trial`: `set` must be a table"),
        ({**SOUND, "profile": {}}, "`profile` needs steps = [first, last]"),
        ({**SOUND, "profile": {"steps": [3, 2]}}, "must be [first, last]"),
        ({**SOUND, "losses": {}}, "`losses` needs the key of the seed"),
        ({**SOUND, "peak": "all"}, '`peak` must be "allocated" or "reserved"'),
        ({**SOUND, "line": {}}, "`line` must be an array of tables: [[run.line]]"),
        ({**SOUND, "environment": {"A": 1}}, "`environment` must be a string"),
    ],
)
def test_what_is_wrong_is_named(data, said):
    with pytest.raises(BadRecipe) as error:
        read(data, "ours")
    assert said in str(error.value)


def test_words_are_filled_in_once_and_stay_one_argument():
    values = {"config": "a b/{dir}.toml", "dir": "/x; rm"}
    assert filled("--config={config}", values) == "--config=a b/{dir}.toml"
    assert filled("{dir}/train.py {other}", values) == "/x; rm/train.py {other}"


def test_a_profiler_slows_the_step_after_what_it_writes_too():
    """For one that profiles again and again see test_output.py."""
    once = Profile(Keys(), 2, 3)
    assert [step for step in range(1, 20) if once.slows(step)] == [2, 3, 4]
