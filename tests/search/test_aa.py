"""Verdicts of whole searches where the truth is known, on a few fixed seeds."""

import random

import pytest

from benchmarks.search.aa import Outcome, markdown, run, summary, winners
from benchmarks.search.aa_cases import (
    CASES,
    GAIN,
    PRECISION,
    REAL,
    SPACES,
    Case,
    measured,
)
from fp8tune.search.space import Space
from tests.search.tries import GIVEN, ran

SEEDS = range(40)
PAIRS = [c for c in CASES if c.space == "two settings" and not c.bad]
DRIFTING = [case for case in CASES if case.drift]
BAD = [case for case in CASES if case.bad]


@pytest.mark.parametrize("case", PAIRS, ids=lambda c: f"{c.gain:.0%}-{c.spread:.1%}")
def test_what_is_the_same_is_called_so_and_a_gain_is_found(case):
    said = summary(case, [run(case, seed) for seed in SEEDS])
    assert said["reached"], said


@pytest.mark.parametrize("case", measured(REAL), ids=lambda c: f"{c.gain:.0%}")
def test_real_runs_on_a_cpu_tell_the_same_from_a_gain(case):
    said = summary(case, [run(case, seed) for seed in SEEDS[:20]])
    assert said["reached"], said


def test_a_setting_that_alone_gains_is_come_upon():
    """Before the given one is called the best the few that are left are tried."""
    case = Case("twelve settings", 0.02, 0.005, lone=True)
    said = summary(case, [run(case, seed) for seed in SEEDS[:15]])
    assert said["reached"], said


@pytest.mark.parametrize("case", DRIFTING, ids=lambda c: f"{c.gain:.0%}")
def test_a_gpu_that_becomes_slower_is_no_gain(case):
    said = summary(case, [run(case, seed) for seed in SEEDS[:10]])
    assert said["reached"], said


@pytest.mark.parametrize("case", BAD, ids=lambda c: f"{c.gain:.0%}")
def test_a_bad_run_now_and_then_hides_no_gain_and_makes_none(case):
    said = summary(case, [run(case, seed) for seed in SEEDS])
    assert said["reached"], said


@pytest.mark.parametrize(
    ("case", "truth"),
    [
        (Case("two settings", 0.0, 0.005), "all the same"),
        (Case("two settings", 0.02, 0.005), "one of two +2%"),
        (Case("twelve settings", 0.02, 0.005), "six of twelve +2%"),
        (Case("twelve settings", 0.02, 0.005, lone=True), "one of twelve +2%"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_says_how_many_settings_are_faster(case, truth):
    row = summary(case, [Outcome("faster", True, 20, 5)])
    assert f"| {case.space} | {truth} | 0.5 % |" in markdown([row], 5000)


@pytest.mark.parametrize("case", [c for c in CASES if c.gain][-9::2])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_as_many_settings_gain_as_a_row_says_and_not_the_given_one(case, seed):
    draw, space = random.Random(seed), Space((*SPACES[case.space], PRECISION))
    given = draw.choice([p for p in space.every() if space.twin(p)])
    found = winners(space, given, case, draw)
    assert len({p for p in found if space.twin(p)}) == case.faster
    assert {space.twin(p) or p for p in found} < found
    assert given not in found


def test_more_runs_where_they_differ_more():
    calm, shaky = (
        summary(case, [run(case, seed) for seed in SEEDS[:10]])["trials"]
        for case in (Case("two settings", 0.0, 0.003), Case("two settings", 0.0, 0.01))
    )
    assert calm < shaky


def test_a_search_of_a_seed_is_the_same_again():
    case = Case("twelve settings", 0.02, 0.005)
    assert run(case, 1) == run(case, 1)


def test_real_runs_of_one_setting_are_drawn_from(tmp_path):
    records = [ran(GIVEN, speed) for speed in (99.0, 100.0, 101.0)]
    records.append(ran(GIVEN, outcome="hang"))
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(f"{record.line()}\n" for record in records))
    cases = measured(path)
    assert [case.gain for case in cases] == [0.0, GAIN]
    assert cases[0].spread == pytest.approx(0.01)
    assert cases[0].luck == pytest.approx((0.99, 1.0, 1.01))
    assert run(cases[0], 1).verdict == "same"
