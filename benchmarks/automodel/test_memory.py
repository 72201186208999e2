"""Estimates against the real recipe."""

from benchmarks.automodel.memory import MEASURED, estimated


def test_the_estimate_is_within_its_range_of_the_real_recipe():
    for case in MEASURED.cases():
        found, peak = estimated(case), max(case["peaks"].values())
        assert found["low_gib"] <= peak <= found["high_gib"], case
