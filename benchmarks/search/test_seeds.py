"""Verdicts of comparisons where the truth is known, on a few fixed seeds."""

import random

import pytest

from benchmarks.search.seed_worlds import STEPS, Case, cases, generated
from benchmarks.search.stability import CURVES, pool, recorded, verdict, verdict_row

ALIKE = [case for case in cases() if case.right == "inside"]
DIVERGED = [case for case in cases() if case.right == "diverged"]


def name(case):
    return f"{case.name} {case.spread}"


@pytest.mark.parametrize("case", ALIKE, ids=name)
def test_bf16_against_itself_is_rarely_called_worse(case):
    said = [verdict(generated(case, random.Random(n)), STEPS)[0] for n in range(120)]
    assert said.count("outside") + said.count("diverged") <= 6
    assert said.count("inside") >= 106


@pytest.mark.parametrize("case", DIVERGED, ids=name)
def test_divergence_is_found(case):
    said = [verdict(generated(case, random.Random(n)), STEPS) for n in range(40)]
    assert verdict_row(case.name, case.spread, case.right, said)["reached"], said


@pytest.mark.parametrize(("gap", "apart", "most"), [(2, 0.1, 6), (2, None, 10)])
def test_what_is_worse_by_two_deviations_is_mostly_not_inside(gap, apart, most):
    case = Case("worse", 0.005, gap=gap, apart=apart)
    said = [verdict(generated(case, random.Random(n)), STEPS)[0] for n in range(40)]
    assert said.count("inside") <= most


def test_a_large_gap_is_found():
    case = Case("FP8 20 deviations worse", 0.005, gap=20)
    said = [verdict(generated(case, random.Random(n)), STEPS)[0] for n in range(40)]
    assert said.count("outside") >= 38


@pytest.mark.parametrize(
    ("name", "said", "least"), [("alike", "inside", 34), ("wild", "diverged", 38)]
)
def test_real_runs_of_the_rehearsal(name, said, least):
    runs = pool(CURVES)
    steps = runs.bf16[0].loss_run.steps
    found = [verdict(recorded(runs, name, random.Random(n)), steps) for n in range(40)]
    assert sum(verdict == said for verdict, _ in found) >= least


def test_real_fp8_stays_inside_the_spread_of_real_bf16_seeds():
    runs = pool(CURVES)
    train = recorded(runs, "FP8", random.Random(0))
    assert verdict(train, runs.bf16[0].loss_run.steps) == ("inside", 6)
