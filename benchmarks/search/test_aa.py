"""Verdicts of whole searches where the truth is known.

Their shares are measured by ``benchmarks.search.aa`` on 100 seeds of every case and
recorded. A few seeds show here that a search still gives such verdicts.
"""

import json

import pytest

from benchmarks.paths import RESULTS
from benchmarks.search.aa import (
    CASES,
    GAIN,
    REAL,
    Case,
    Outcome,
    measured,
    run,
    summary,
)
from tests.search.tries import GIVEN, ran

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
