"""Estimates against the real recipe."""

import json

from benchmarks.automodel.memory import RECORDED, cases, estimated


def test_the_estimate_is_within_its_range_of_the_real_recipe():
    measured = json.loads(RECORDED.read_text(encoding="utf-8"))
    names = {(case["family"], case["of"], case["name"]) for case in measured}
    assert names == {(case["family"], case["of"], case["name"]) for case in cases()}
    for case in measured:
        found, peak = estimated(case), max(case["peaks"].values())
        assert found["low_gib"] <= peak <= found["high_gib"], case
