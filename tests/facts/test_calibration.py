"""Measured peaks that correct estimates."""

import itertools

import pytest

from benchmarks.memory_points import points
from fp8tune.facts.calibration import (
    ONE_POINT,
    BadCalibration,
    Calibration,
    Corrected,
    Measured,
    corrected,
    read,
    written,
)

ESTIMATE = ("dense", 50.0, 40.0, 60.0)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], Corrected(50.0, 40.0, 60.0)),
        ([("moe", 1.0, 2.0)], Corrected(50.0, 40.0, 60.0)),
        ([("dense", 10.0, 11.0)], Corrected(55.0, 55 * 0.97, 55 * 1.03)),
        (
            [("dense", 10.0, 11.0), ("dense", 20.0, 22.0), ("moe", 1.0, 9.0)],
            Corrected(55.0, 55 * 0.98, 55 * 1.02),
        ),
        (
            [("dense", 10.0, 10.0), ("dense", 10.0, 11.0)],
            Corrected(52.5, 52.5 * 0.95, 52.5 * 1.05),
        ),
        (
            [("dense", 10.0, 5.0), ("dense", 10.0, 15.0)],
            Corrected(50.0, 40.0, 60.0),
        ),
    ],
)
def test_corrected(runs, expected):
    found = corrected(*ESTIMATE, [Measured(*run) for run in runs])
    assert found == pytest.approx(expected)


def test_one_run_corrects_all_others_of_its_family_within_the_band():
    runs = {}
    for point in points():
        if point.measured and point.group != "small":
            run = Measured(point.group, point.job["memory.peak_gib"], point.measured)
            runs.setdefault(point.group, []).append((point.name, run))
    wrong = []
    for group, pairs in runs.items():
        for (_, one), (name, other) in itertools.permutations(pairs, 2):
            peak = other.predicted_gib
            found = corrected(group, peak, 0.5 * peak, 1.5 * peak, [one])
            if not found.low_gib <= other.measured_gib <= found.high_gib:
                wrong.append(name)
    outliers = {"4B, 8 B200, 65536", "vlm_7b_siglip2_cross_attn"}
    assert {name for name in wrong if wrong.count(name) > 1} <= outliers
    assert 0 < ONE_POINT < 0.05


def test_it_is_stored_with_gpu_and_versions():
    runs = (Measured("dense", 10.0, 11.0), Measured("mixture of experts", 1.0, 2.5))
    calibration = Calibration("h200", {"torch": "2.13.0"}, runs)
    assert read(written(calibration)) == calibration


RUN = '{"family": "dense", "predicted_gib": %s, "measured_gib": 1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "gpu": "h200", "versions": {}, "runs": []}',
        '{"version": 1, "gpu": "h200", "versions": [], "runs": []}',
        '{"version": 1, "gpu": "h200", "versions": {}}',
        *(
            f'{{"version": 1, "gpu": "x", "versions": {{}}, "runs": [{RUN % value}]}}'
            for value in ("0", "-1", '"1"', "NaN", "Infinity", "null", "true")
        ),
        "[" * 100_000,
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(BadCalibration):
        read(text)
