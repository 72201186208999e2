"""Configs that are drawn for a trainer to judge."""

import pytest

from tests.support.verdicts import COMPARISONS, TEXTS, cases, corpus
from tools.generate import configs, overridden

VERDICTS = {"compiled", "dropped", "error", "failure", "fp8", "linears", "message"}
VERDICTS |= {"release", "stage", "te", "transformers", "verdict", "verdicts"}


@pytest.mark.parametrize("name", COMPARISONS)
def test_drawn_cases_are_recorded_ones_without_their_verdicts(name):
    recorded, field = cases(corpus(name)), TEXTS[name][0]
    drawn = list(configs(name, recorded, 20, 3))
    assert drawn == list(configs(name, recorded, 20, 3))
    asked = {key for case in recorded for key in case} - VERDICTS
    assert {key for case in drawn for key in case} - {"id"} == asked - {"id"}
    texts = [str(case[field]) for case in recorded]
    new = [case for case in drawn if str(case[field]) not in texts]
    assert len({str(case[field]) for case in new}) > len(drawn) // 2


def test_cases_of_a_release_that_is_not_recorded():
    drawn = list(configs("torchtitan", cases(corpus("torchtitan")), 5, 3, "0.2.2"))
    assert {case["version"] for case in drawn} == {"0.2.2"}


def test_overridden_cases_have_arguments():
    drawn = list(overridden(cases(corpus("kempnerforge")), 9, 3))
    assert all(case["arguments"] for case in drawn)
    words = [word for case in drawn for word in case["arguments"]]
    assert sum(word.startswith("--") and "=" in word for word in words) > len(drawn)
