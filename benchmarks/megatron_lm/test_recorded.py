"""Estimates of Megatron against recorded runs, by flags and in a Bridge file."""

from benchmarks.megatron_lm.recorded import rows, run_of, runs, worked
from fp8tune.trainers.megatron_lm.memory import BANDS
from tests.trainers.megatron_bridge.test_memory import NAME, job_of, whole


def test_recorded_runs_lie_in_the_band():
    recorded = runs()
    assert len(recorded) >= 30
    for run in recorded:
        below, above = BANDS[run.group]
        least, most = run.estimate_gib * (1 - below), run.estimate_gib * (1 + above)
        assert least <= run.gib <= most, run


def test_published_runs_that_worked_may_fit():
    fits = {run.test: run.job["memory.fit"] for run in worked()}
    assert len(fits) == 4
    assert set(fits.values()) <= {"fits", "may-not-fit"}


def test_as_the_flags_of_megatron_lm():
    theirs = run_of(next(row for row in rows() if row["test"] == NAME)).job
    assert job_of(whole())["memory.breakdown"] == theirs["memory.breakdown"]
