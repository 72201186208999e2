"""What trials of a search tell later estimates."""

import pytest

from fp8tune.facts import calibration
from fp8tune.search.calibrate import (
    Calibration,
    choose_calibration,
    keep,
    measured,
    stored_calibration,
)
from fp8tune.search.description import Description
from fp8tune.search.prior import CORRECTED, prior_of_job
from fp8tune.search.sampler.memory import PRIOR_ERROR
from fp8tune.search.study import Study
from tests.report.studies import H200, MINE, config, plan, told
from tests.search.tries import BEST, GIVEN, OTHER, SPACE, ran


def test_a_rehearsal_corrects_nothing():
    rehearsed = [told(p, 100, more={"rehearsal": True}) for p in (GIVEN, BEST)]
    assert measured(MINE.config.job, rehearsed) == []


def test_a_setting_counts_once():
    again = [told(BEST, speed, peak_gib=70.0) for speed in (9000, 9100)]
    (peak, rate) = measured(MINE.config.job, again)
    assert (peak.measured, rate.measured) == (70.0, 9100.0)


def test_a_speed_that_cannot_be_leaves_the_peak():
    (run,) = measured(MINE.config.job, [told(BEST, 1e9, peak_gib=70.0)])
    assert (run.quantity, run.measured) == ("memory", 70.0)


def test_memory_that_is_reserved_is_no_peak():
    more = {"reserved_gib": 70.0}
    (run,) = measured(MINE.config.job, [told(BEST, 9100, peak_gib=70.0, more=more)])
    assert (run.quantity, run.measured) == ("speed", 9100.0)


@pytest.mark.parametrize(
    ("device", "counts"),
    [("NVIDIA H200", True), ("NVIDIA H100 PCIe", False), ("Odd 9", False), ("", True)],
)
def test_a_speed_counts_for_the_gpu_that_it_was_measured_on(device, counts):
    """Where ``--gpu`` names another: its memory is what it is."""
    more = {"environment": f"{device}, torch 2.13.0"}
    found = measured(MINE.config.job, [told(BEST, 9100, peak_gib=70.0, more=more)])
    assert [run.quantity for run in found] == ["memory"] + ["speed"] * counts


@pytest.mark.parametrize("peak", [45.0, 70.0])
@pytest.mark.parametrize("more", [{}, {"extrapolated": "rank 0 of 64"}])
def test_a_rank_that_never_held_the_whole_model_tells_no_peak_below_it(peak, more):
    target = H200._replace(world_size=64)
    job = plan(config(dim=8192, layers=40), target=target).config.job
    whole = peak > job["memory.init_gib"]
    found = measured(job, [told(GIVEN, 9000, peak_gib=peak, more=more)])
    assert [run.quantity for run in found] == ["memory"] * whole
    assert whole == (peak == 70.0)


def test_a_corrected_peak_is_surer():
    job = MINE.config.job
    plain = prior_of_job(SPACE, job)(BEST)
    predicted = plain.peak_gib
    runs = measured(job, [told(BEST, 150, peak_gib=1.1 * predicted)])
    found = prior_of_job(SPACE, job, [r for r in runs if r.quantity == "memory"])(BEST)
    assert plain.error == PRIOR_ERROR
    assert found.peak_gib == pytest.approx(1.1 * predicted)
    assert found.error == CORRECTED


def test_what_ran_out_makes_no_peak_surer():
    job = MINE.config.job
    (run,) = measured(job, [ran(OTHER, outcome="oom")])
    assert run.quantity == calibration.OUT
    expect = prior_of_job(SPACE, job, [run])
    assert expect(OTHER) == prior_of_job(SPACE, job)(OTHER)


HERE = {
    "device": "cuda",
    "gpu": "h200",
    "torch": "2.13.0",
    "torchao": "0.18.0",
}


def chosen(folder, **about):
    search = Description({**HERE, **about})
    return choose_calibration(search, f"{folder}/own", str(folder))


def test_only_runs_of_this_gpu_and_these_versions_correct_a_search(tmp_path):
    kept = [
        told(BEST, 150, more={"versions": {"torch": f"{version}+cu128"}})
        for version in ("2.13.0", "2.12.0")
    ]
    for record in kept:
        assert keep(str(tmp_path), MINE.config.job, [record]) == ""
    runs = tuple(measured(MINE.config.job, kept[:1]))
    assert chosen(tmp_path) == Calibration(runs)
    for other in ({"gpu": "h100"}, {"device": "cpu"}, {"torch": "2.11.0"}):
        assert chosen(tmp_path, **other) == Calibration()


def test_a_calibration_file_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "calibration.jsonl").write_text("nonsense\n")
    note = chosen(tmp_path).note
    assert note.startswith("the estimate is not corrected: ")
    assert note.endswith("calibration.jsonl:1: not a measured run")
    why = keep(str(tmp_path), MINE.config.job, [told(BEST, 150)])
    assert why.startswith("the estimate is not corrected by this study: ")


def test_a_search_that_continues_keeps_its_calibration(tmp_path):
    keep(str(tmp_path), MINE.config.job, [told(BEST, 150)])
    first = chosen(tmp_path)
    Study(MINE.space, f"{tmp_path}/own").describe(
        MINE.about(**HERE, calibration=first.data)
    )
    keep(str(tmp_path), MINE.config.job, [told(OTHER, 140)])
    assert chosen(tmp_path) == first
    assert first.runs


@pytest.mark.parametrize(
    "stored", [None, [], {}, 1, {"runs": 1}, {"runs": [1]}, {"runs": [{"gpu": 1}]}]
)
def test_a_calibration_that_anybody_wrote(stored):
    assert stored_calibration({"calibration": stored}) == Calibration()
