"""Memory of Hugging Face's trainers against the real Trainer and published runs."""

import pytest

from benchmarks.hugging_face.memory import (
    EXPERTS,
    MEASURED,
    PUBLISHED_GIB,
    estimated,
    predicted,
)
from fp8tune.trainers.hugging_face.instants import BANDS


def test_the_estimate_is_within_its_range_of_the_real_trainer():
    for case in MEASURED.cases():
        found, peak = estimated(case), max(case["peaks"].values())
        low = found["peak_gib"] * (1 - BANDS[kind_of(case)][0])
        assert low <= peak <= found["high_gib"], case


def kind_of(case):
    kind = "zero" if case["mode"].startswith("zero") else case["mode"][:4].rstrip("1")
    return f"{kind}, mixture of experts" if case["family"] in EXPERTS else kind


def test_a_published_run_on_gpus():
    assert predicted() == pytest.approx(PUBLISHED_GIB, rel=0.03)
