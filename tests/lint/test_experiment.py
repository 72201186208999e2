"""Experiments as data: defaults, vocabulary, and what a rule pack gets wrong."""

import pytest

from fp8tune.lint.experiment import (
    Experiment,
    expectation,
    experiments,
)
from fp8tune.lint.packs import read_rule
from fp8tune.lint.rules import BadRule
from tests.each import each
from tests.sample import NO_PIPELINE

EXAMPLES = '[[bad]]\nconfig = "«x» = 1"\n[[good]]\nconfig = "y = 1"\n'


@pytest.fixture
def read(tmp_path):
    """Read a rule with more text at its end."""

    def read(text):
        path = tmp_path / "no-pipeline.toml"
        path.write_text(NO_PIPELINE + text, encoding="utf-8")
        return read_rule(str(path), "silent")

    return read


def test_examples_and_every_device_are_the_default(read):
    rule = read(f"{EXAMPLES}[[experiment]]\nexpect = 'error == \"\"'\n")
    assert experiments(rule) == [
        Experiment("x = 1", "y = 1", ("cpu", "cuda"), 1, "", 'error == ""')
    ]


def test_every_field_of_an_experiment(read):
    rule = read(
        '[[experiment]]\nconfig = "a = 1"\ncontrol = "b = 1"\ndevice = "cuda"\n'
        'ranks = 2\nneeds = "capability >= 8.9"\nexpect = "steps == 2"\n'
    )
    assert experiments(rule) == [
        Experiment("a = 1", "b = 1", ("cuda",), 2, "capability >= 8.9", "steps == 2")
    ]


@each(
    ("text", "place", "reason"),
    [
        ("ranks = 1", "13:3", "[[experiment]] has no `expect`"),
        (
            'expect = "steps"\nrank = 1',
            "15:1",
            "unknown key `rank`; did you mean `ranks`?",
        ),
        ('expect = "steps"\nranks = 0', "15:1", "ranks is a number from 1 to 64"),
        (
            'expect = "steps"\ndevice = "gpu"',
            "15:1",
            "device is cpu or cuda, or left out for both",
        ),
        (
            'expect = "steps > control.step_m"',
            "14:19",
            "unknown name `control.step_m`; did you mean `control.step_ms`?",
        ),
        (
            'expect = "steps"\nneeds = "capabilty > 8"',
            "15:10",
            "unknown name `capabilty`; did you mean `capability`?",
        ),
        (
            'expect = "steps"\nneeds = "steps > 8"',
            "15:10",
            "unknown name `steps`",
        ),
    ],
)
def test_what_is_wrong_with_an_experiment_is_said_with_its_place(
    read, text, place, reason
):
    with pytest.raises(BadRule) as error:
        read(f"[[experiment]]\n{text}\n")
    assert str(error.value).endswith(f"no-pipeline.toml:{place}: {reason}")


def test_an_expectation_speaks_of_runs_and_of_the_config(read):
    rule = read("")
    found = expectation(rule, "kept_gib > memory.activations_gib / control.steps * pp")
    assert found.names == ("kept_gib", "memory.activations_gib", "control.steps", "pp")
