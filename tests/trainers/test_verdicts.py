"""Trainers' own verdicts: lint says of each config what the trainer makes of it.

``tests/data/NAME_verdicts.jsonl.gz`` holds generated configs with what the trainer's
own code made of them (``python -m tools.verdicts NAME``).
"""

from collections import Counter

import pytest

from fp8tune.trainers.about import trainers
from tests.support.verdicts import COMPARISONS, Compared, cases, corpus

LEAST = {
    "accelerate": {"FP8": 140, "refused by": 23},
    "automodel": {"compiled": 40, "in FP8": 100, "refused": 100},
    "axolotl": {"in FP8": 70, "refused": 140},
    "deepspeed": {"refused by": 100},
    "kempnerforge": {"refused": 150},
    "llamafactory": {"in FP8": 40, "refused": 150},
    "megatron_bridge": {
        "format": 40,
        "in FP8": 60,
        "lost mapping": 100,
        "refused": 60,
        "skipped keys": 1,
    },
    "megatron_lm": {"built": 180, "in FP8": 70, "refused": 180},
    "prime_rl": {"refused as": 90},
    "torchtitan": {"refused by": 90},
}
"""The fewest cases with one answer, by the beginning of a question."""


def test_every_trainer_is_compared():
    assert LEAST.keys() == COMPARISONS.keys() == trainers().keys()


@pytest.mark.parametrize("name", COMPARISONS)
def test_lint_says_what_the_trainer_makes(name):
    compared = Compared(name, cases(corpus(name)))
    assert compared.different == []
    fewest = Counter()
    for (question, _), count in compared.counts.items():
        kind = next(each for each in LEAST[name] if question.startswith(each))
        fewest[kind] = min(count, fewest[kind] or count)
    assert fewest.keys() == LEAST[name].keys()
    assert all(fewest[kind] >= least for kind, least in LEAST[name].items()), fewest


@pytest.mark.parametrize("name", ["accelerate", "deepspeed", "torchtitan"])
def test_every_release_is_compared(name):
    about = trainers()[name]
    judged = {case.get("release") or case["version"] for case in cases(corpus(name))}
    assert judged == set(about.versions)
