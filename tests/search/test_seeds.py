"""Verdicts of comparisons where the truth is known, on a few fixed seeds."""

import random

import pytest

from benchmarks.search.curves import CURVES
from benchmarks.search.seeds import (
    STEPS,
    Case,
    cases,
    generated,
    measured,
    pool,
    recorded,
    row,
    verdict,
)

KNOWN = [case for case in cases() if case.right]


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: f"{case.name} {case.spread}")
def test_bf16_against_itself_is_inside_and_divergence_is_found(case):
    said = [verdict(generated(case, random.Random(n)), STEPS) for n in range(40)]
    assert row(case.name, case.spread, case.right, said)["reached"], said


def test_a_large_gap_is_found():
    case = Case("FP8 20 deviations worse", 0.005, gap=20)
    said = [verdict(generated(case, random.Random(n)), STEPS)[0] for n in range(40)]
    assert said.count("outside") >= 38


@pytest.mark.parametrize(("name", "said"), [("alike", "inside"), ("wild", "diverged")])
def test_real_runs_of_the_rehearsal(name, said):
    runs = pool(CURVES)
    steps = runs.bf16[0].course.steps
    found = [verdict(recorded(runs, name, random.Random(n)), steps) for n in range(40)]
    assert sum(verdict == said for verdict, _ in found) >= 38


def test_real_fp8_stays_inside_the_spread_of_real_bf16_seeds():
    runs = pool(CURVES)
    train = recorded(runs, "FP8", random.Random(0))
    assert verdict(train, runs.bf16[0].course.steps) == ("inside", 6)


def test_without_real_runs_the_generated_ones_are_there(tmp_path):
    rows = list(measured(2, 0, tmp_path / "none.jsonl"))
    assert [row["world"] for row in rows] == [case.name for case in cases()]
    assert all(row["searches"] == 2 for row in rows)
