"""Verdicts of whole searches where the truth is known.

Their shares are measured by ``benchmarks.search.aa`` on 100 seeds of every case and
recorded. A few seeds show here that a search still gives such verdicts.
"""

import json
import random

import pytest

from benchmarks.paths import RESULTS
from benchmarks.search.aa import (
    CASES,
    GAIN,
    PRECISION,
    REAL,
    SPACES,
    Case,
    Outcome,
    markdown,
    measured,
    run,
    summary,
    winners,
)
from fp8tune.trials.space import Space
from tests.each import each
from tests.search.tries import GIVEN, every, ran

SEEDS = range(8)


def test_the_recorded_shares_are_of_every_case_and_high_enough():
    rows = json.loads((RESULTS / "verdicts_aa.json").read_text())["cases"]
    cases = [*CASES, *measured(REAL)]
    empty = [summary(case, [Outcome("same", True, 1, 1)]) for case in cases]
    names = ("space", "gain", "faster", "spread", "real", "drift", "when", "bad_runs")
    names += ("budget_minutes",)
    assert [[row[name] for name in names] for row in rows] == [
        [row[name] for name in names] for row in empty
    ]
    assert all(row["reached"] and row["searches"] >= 100 for row in rows)


def _is_shown(case):
    """Return whether a case is run here: one of each kind, those that are the hardest.

    The others have the same knobs and drifts with less noise.
    """
    if case.drift:
        return case.space == "two settings" or case.when == "for 20 min"
    return case.space == "two settings" and (case.spread == 0.01 or case.bad)


SHOWN = [*filter(_is_shown, CASES), *measured(REAL)]
LONE = Case("twelve settings", GAIN, 0.005, lone=True)


@pytest.mark.parametrize(
    "case",
    [*SHOWN, LONE],
    ids=lambda case: (
        f"{case.space} {case.gain:.0%} {case.spread:.1%}"
        + f" {case.when}" * bool(case.drift)
        + " bad runs" * bool(case.bad)
        + " lone" * case.lone
    ),
)
def test_a_verdict_is_right(case):
    """At most one may be wrong, as rounding of another CPU may lead a search astray."""
    said = summary(case, [run(case, seed) for seed in SEEDS])
    assert round((1 - said["right"]) * len(SEEDS)) <= 1, said


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


@each("case", [c for c in CASES if c.gain][-9::2])
@each("seed", SEEDS[:3])
def test_as_many_settings_gain_as_a_row_says_and_not_the_given_one(case, seed):
    draw, space = random.Random(seed), Space((*SPACES[case.space], PRECISION))
    given = draw.choice([p for p in every(space) if space.in_bf16(p)])
    found = winners(space, given, case, draw)
    assert len({p for p in found if space.in_bf16(p)}) == case.faster
    assert {space.in_bf16(p) or p for p in found} < found
    assert given not in found


def test_more_runs_where_they_differ_more():
    calm, shaky = (
        summary(case, [run(case, seed) for seed in SEEDS])["trials"]
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
