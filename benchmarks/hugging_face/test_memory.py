"""Memory of Hugging Face's trainers against the real Trainer and published runs."""

import json
import sys

import pytest

from benchmarks.hugging_face import gpu
from benchmarks.hugging_face.memory import (
    EXPERTS,
    PUBLISHED_GIB,
    cases,
    estimated,
    predicted,
)
from fp8tune.trainers.hugging_face.instants import BANDS
from tests.each import each


@pytest.fixture(scope="module")
def measured(repository):
    path = repository / "benchmarks" / "results" / "hf_memory.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_estimate_is_within_its_range_of_the_real_trainer(measured):
    names = {(case["family"], case["of"], case["name"]) for case in measured}
    assert names == {(case["family"], case["of"], case["name"]) for case in cases()}
    for case in measured:
        found, peak = estimated(case), max(case["peaks"].values())
        low = found["peak_gib"] * (1 - BANDS[kind_of(case)][0])
        assert low <= peak <= found["high_gib"], case


def kind_of(case):
    kind = "zero" if case["mode"].startswith("zero") else case["mode"][:4].rstrip("1")
    return f"{kind}, mixture of experts" if case["family"] in EXPERTS else kind


def test_a_published_run_on_gpus():
    assert predicted() == pytest.approx(PUBLISHED_GIB, rel=0.03)


@each("case", gpu.cases(), lambda case: case["name"])
def test_what_is_measured_on_a_gpu_fits_in_an_h100(case):
    found = estimated(case, "h100")
    assert found["high_gib"] < 75 * 2**30
    assert found["fp8_gain"] > 1


def test_without_a_gpu_nothing_is_measured(capsys):
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit):
        gpu.main([sys.executable])
    assert "sees no GPU: nothing is measured" in capsys.readouterr().err
