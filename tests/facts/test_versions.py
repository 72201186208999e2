"""Which versions of packages are unsafe together."""

import datetime

import pytest

from fp8tune.facts import FACTS
from fp8tune.facts.versions import (
    Range,
    combinations,
    matches,
    of_trials,
    order,
)
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.each import each

NAN = ("compiled-fp8-nan", True)
OTHER = ("other-compiled-fp8-nan", True)


def test_versions_are_ordered_as_pep_440_says():
    versions = [
        "2.9.1",
        "2.10.0.dev1",
        "2.10a1",
        "2.10.0b2",
        "2.10.0rc1",
        "2.10",
        "2.10.0.post1",
        "2.10.1",
        "2.14.0.dev20260613+cu130",
        "2.14.0.dev20260614+cu130",
        "2.14.0+cu130",
        "10",
    ]
    assert sorted([*versions[6:], *versions[:6]], key=order) == versions
    assert order("2.10") == order("2.10.0+cpu") == order("v2.10.0")
    assert [order(text) for text in ("", "main", "2.x", "2.10.0-git")] == [None] * 4


@each(
    ("version", "holds"),
    [
        ("1.9", False),
        ("2", True),
        ("2.5.1", True),
        ("2.6", None),
        ("2.9", None),
        ("3.0.dev1", None),
        ("3", False),
        ("main", False),
    ],
)
def test_a_range_does_not_guess_at_versions_after_the_newest(version, holds):
    assert Range(since="2", until="3", newest="2.5.1").holds(version) is holds


@each(
    ("versions", "found"),
    [
        ({"torch": "2.14.1", "torchao": "0.17.0"}, [NAN, OTHER]),
        ({"torch": "2.14.0.dev20260614+cu126", "torchao": "0.17.0"}, [NAN, OTHER]),
        ({"torch": "2.14.0.dev20260613+cu126", "torchao": "0.17.0"}, []),
        ({"torch": "2.14.1", "torchao": "0.18.0"}, [OTHER]),
        ({"torch": "2.13.0+cu130", "torchao": "0.17.0"}, []),
        (
            {"torch": "2.16.0", "torchao": "0.17.0"},
            [("compiled-fp8-nan", False), ("other-compiled-fp8-nan", False)],
        ),
        (
            {"torch": "2.10.0", "torchao": "0.17.0"},
            [("torchao-extensions-not-loaded", True)],
        ),
        (
            {"torch": "2.9.1", "torchao": "0.18.0"},
            [("torchao-for-newer-torch", True)],
        ),
        ({"triton": "3.7.1"}, [("own-kernels-transpose-fp8", True)]),
        ({"cuda": "12.9"}, []),
        (
            {"transformer-engine": "1.0", "nvidia-cublas-cu12": "12.1.0.26"},
            [("te-on-ada-before-cublas-12-1-3", True)],
        ),
        ({"nvidia-cublas": "13.4.0.1"}, []),
        ({}, []),
    ],
)
def test_the_combinations_of_an_environment(versions, found):
    of_trainers = {each.code for each in combinations() if each.when} - {
        "compiled-fp8-nan",
        "torchao-for-newer-torch",
    }
    said = [
        (match.combination.code, match.checked)
        for match in matches(versions)
        if match.combination.code not in of_trainers
    ]
    assert said == found


def test_what_is_not_checked_is_said():
    (match,) = of_trials({"torch": "2.16.0", "torchao": "0.17.0"}, "cuda")
    assert str(match).startswith(
        "torch 2.16.0 with torchao 0.17.0: not checked: newer than torch 2.15.0, with"
    )


def test_a_rehearsal_on_a_cpu_compiles_without_triton():
    assert of_trials({"torch": "2.14.1", "torchao": "0.17.0"}, "cpu") == []


@each("one", combinations(), ids=[each.code for each in combinations()])
def test_each_combination_is_whole(one):
    assert one.consequence in ("nan", "crash", "silent", "note")
    assert one.device in ("", "cuda")
    assert datetime.date.fromisoformat(one.date)
    assert all(source.startswith("https://") for source in one.sources)
    assert all((one.what, one.symptom, one.certainty, one.install, one.sources))
    ends = [e for r in one.packages.values() for e in r if e]
    assert ends
    assert None not in map(order, ends)
    assert bool(one.when) == (one.consequence != "note")


@pytest.mark.parametrize(
    "name", sorted({name for each in combinations() for name in each.when})
)
def test_each_condition_is_a_name_of_some_job(name):
    known = (trainer(each) for about in trainers().values() for each in about.ids)
    assert name in FACTS or any(one.vocabulary.knows(name) for one in known)
