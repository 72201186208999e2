"""Predicted speed against published runs."""

import pytest

from benchmarks.estimates import peaks, speeds
from benchmarks.estimates.fit import (
    EAGER,
    EXPERTS,
    MEGATRON,
    TORCHAO,
    transformer_engine,
)
from benchmarks.estimates.fit import torchao as fit
from benchmarks.estimates.speed import NOISE, TARGET
from fp8tune.facts import speed
from fp8tune.facts.steptime import engines
from fp8tune.job import Job
from tests.each import each

GAINS = speeds.gains()


@each("run", [g for g in GAINS if g.group == "FSDP"], ids=lambda run: run.name)
def test_published_gains_under_fsdp_are_met_within_8_points(run):
    assert speeds.gain(run, speeds.TORCHAO) == pytest.approx(run.measured, abs=TARGET)


@each(
    "run",
    [g for g in GAINS if abs(g.measured - 1) >= NOISE],
    ids=lambda run: run.name,
)
def test_the_sign_of_every_published_gain_is_right(run):
    assert (speeds.gain(run, speeds.TORCHAO) > 1) is (run.measured > 1)


@each("run", speeds.steps(), ids=lambda run: run.name)
def test_published_tokens_per_second_are_met_within_the_band(run):
    predicted = speeds.tokens_per_second(run, speeds.TORCHAO)
    assert predicted == pytest.approx(run.measured, rel=speed.SPEED_ERROR)


def test_the_rates_are_those_of_the_fit():
    fitted = {"torchao": (fit(), TORCHAO)}
    te = transformer_engine()
    fitted["te-megatron"] = te["te-megatron"], MEGATRON | EXPERTS
    fitted["te"] = te["te"], EAGER
    for name, (rates, prior) in fitted.items():
        here = engines()[name]
        for rate in ("matmul", *prior):
            expected = pytest.approx(getattr(here, rate), rel=0.01)
            assert getattr(rates, rate) == expected, (name, rate)


POINTS = [p for p in peaks.points() if p.tokens_per_second and "gpu" in p.job]


COVERED = [p for p in POINTS if p.name in {run.name for run in speeds.steps()}]


@each("point", COVERED, ids=lambda point: point.name)
def test_what_the_command_prints_is_what_the_document_says(point):
    (run,) = (run for run in speeds.steps() if run.name == point.name)
    printed = point.job["speed.tokens_per_second"]
    gpus = point.job["world_size"]
    assert speeds.tokens_per_second(run, speeds.TORCHAO) * gpus == pytest.approx(
        printed
    )


@each("point", COVERED, ids=lambda point: point.name)
def test_the_band_holds_the_measured_speed_also_where_nodes_are_not_said(point):
    unsaid = point.job.target._replace(gpus_per_node=0)
    job = Job(point.job.words, point.job.given, point.job.written, unsaid)
    measured = point.tokens_per_second
    assert job["speed.tokens_low"] <= measured <= job["speed.tokens_high"]


def test_most_gpus_are_those_of_published_runs():
    rows = speeds.DATA["gain"] + speeds.DATA["speed"]
    theirs = [row["gpus"] for row in rows if row["chip"] == "h200"]
    ours = [point.job["world_size"] for point in COVERED]
    assert max(theirs + ours) == speed.NEAR_GPUS
    assert max(row["gpus"] for row in rows) == speed.most_gpus()


@each(
    ("gpu", "hidden", "tokens", "pp", "tp", "shards", "suspicious", "near"),
    [
        ("h200", 4096, 8192, 1, 1, 8, False, True),
        ("h100-sxm", 2048, 4096, 1, 1, 8, False, True),
        ("gh200-96gb", 4096, 8192, 1, 1, 8, False, False),
        ("h200", 1024, 8192, 1, 1, 8, False, False),
        ("h200", 4096, 2048, 1, 1, 8, False, False),
        ("h200", 4096, 32768, 1, 1, 8, False, False),
        ("h200", 4096, 8192, 2, 1, 8, False, False),
        ("h200", 4096, 8192, 1, 2, 8, False, False),
        ("h200", 4096, 8192, 1, 1, 8, True, False),
        ("h200", 4096, 8192, 1, 1, 512, False, True),
        ("h200", 4096, 8192, 1, 1, 1024, False, False),
    ],
)
def test_the_band_is_wider_far_from_published_rows(
    gpu, hidden, tokens, pp, tp, shards, suspicious, near
):
    step = speeds.steps()[0].step._replace(shards=shards, tp=tp, pp=pp)
    said = speed.fp8_gain_near(gpu, hidden, (tokens,), pp, tp, step, suspicious)
    assert said is near
    low, high = (
        speed.fp8_gain_low(1.2, near, 1.0),
        speed.fp8_gain_high({}, 1.2, near, 1.35, speed_fp8_reduces=False),
    )
    assert (low, high) == pytest.approx((1.12, 1.31) if near else (1.05, 1.35))
    assert speed.fp8_gain_low(1.2, near, 1.2) == pytest.approx(1.0)


def test_the_band_holds_published_gains_that_were_left_out_of_the_fit():
    below, above = speeds.TORCHAO.gain_band
    for run in GAINS:
        if run.group == "FSDP":
            error = run.measured - speeds.gain(run, fit(without=run.source))
            assert -below <= error <= above


def test_the_band_far_away_holds_what_was_never_fitted():
    below, above = speeds.TORCHAO.far_gain_band
    others = [run for run in GAINS if run.recipe == "tensorwise" and run.measured]
    errors = [run.measured - speeds.gain(run, speeds.TORCHAO) for run in others]
    assert -below <= min(errors) <= max(errors) <= above
