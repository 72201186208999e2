"""Predicted speed against published runs, and where nothing is predicted."""

import pytest

from benchmarks.estimates import peaks, speeds
from benchmarks.estimates.fit import fit
from benchmarks.estimates.speed import NOISE, TARGET
from fp8tune.facts import speed
from fp8tune.facts.steptime import Rates
from fp8tune.job import Job, Unknown
from tests.each import each
from tests.facts.shapes import LLAMA_8B

RUN = LLAMA_8B.format(batch=4, accum=2, ac="full")
FP8 = 'mixed_precision = "fp8"\n'
GAINS = speeds.gains()


@each("run", [g for g in GAINS if g.group == "FSDP"], ids=lambda run: run.name)
def test_published_gains_under_fsdp_are_met_within_8_points(run):
    assert speeds.gain(run, Rates()) == pytest.approx(run.measured, abs=TARGET)


@each(
    "run",
    [g for g in GAINS if abs(g.measured - 1) >= NOISE],
    ids=lambda run: run.name,
)
def test_the_sign_of_every_published_gain_is_right(run):
    assert (speeds.gain(run, Rates()) > 1) is (run.measured > 1)


@each("run", speeds.steps(), ids=lambda run: run.name)
def test_published_tokens_per_second_are_met_within_the_band(run):
    predicted = speeds.tokens_per_second(run, Rates())
    assert predicted == pytest.approx(run.measured, rel=speed.SPEED_ERROR)


def test_the_rates_are_those_of_the_fit():
    assert tuple(fit()) == pytest.approx(tuple(Rates()), rel=0.01)


def test_through_a_config(job):
    """KempnerForge's 7B on 4 H200s: 38,983 tokens/s measured."""
    found = job(RUN, gpu="h200", world_size=4)
    assert found["speed.tokens_per_second"] == pytest.approx(38_983, rel=0.04)
    assert found["speed.tokens_low"] < 38_983 < found["speed.tokens_high"]
    parts = found["speed.bf16_seconds"]
    assert parts.total == pytest.approx(sum(parts))
    assert parts.linears > 0.6 * parts.total
    assert parts.bubble == 0


POINTS = [p for p in peaks.points() if p.tokens_per_second and "gpu" in p.job]
COVERED = [p for p in POINTS if p.name in {run.name for run in speeds.steps()}]


@each("point", COVERED, ids=lambda point: point.name)
def test_what_the_command_prints_is_what_the_document_says(point):
    (run,) = (run for run in speeds.steps() if run.name == point.name)
    printed = point.job["speed.tokens_per_second"]
    gpus = point.job["world_size"]
    assert speeds.tokens_per_second(run, Rates()) * gpus == pytest.approx(printed)


@each("point", COVERED, ids=lambda point: point.name)
def test_the_band_holds_the_measured_speed_also_where_nodes_are_not_said(point):
    unsaid = point.job.target._replace(gpus_per_node=0)
    job = Job(point.job.words, point.job.given, point.job.written, unsaid)
    measured = point.tokens_per_second
    assert job["speed.tokens_low"] <= measured <= job["speed.tokens_high"]


def test_nodes_of_four_are_slower_than_one_of_eight(job):
    one = job(RUN, gpu="h200", world_size=8)
    split = one.with_values({"gpus_per_node": 4})
    assert one["speed.on_small_nodes"]
    assert not split["speed.on_small_nodes"]
    assert split["speed.tokens_per_second"] < one["speed.tokens_per_second"]
    assert one["speed.tokens_low"] == pytest.approx(split["speed.tokens_low"])
    assert not job(RUN, gpu="h200", world_size=16)["speed.on_small_nodes"]


@pytest.mark.parametrize("gpu", ["h100-pcie", "h100-nvl", "h800", "gh200-96gb"])
def test_of_gpus_without_published_runs_only_one_has_a_speed(job, gpu):
    assert job(RUN, gpu=gpu, world_size=1)["speed.tokens_per_second"] > 0
    with pytest.raises(Unknown, match="switched"):
        job(RUN, gpu=gpu, world_size=8)["speed.tokens_per_second"]


@pytest.mark.parametrize(
    ("gpus", "error"),
    [(64, speed.SPEED_ERROR), (128, speed.FAR_SPEED_ERROR), (512, 0.30), (1024, None)],
)
def test_the_band_is_wider_on_more_gpus_than_were_published(job, gpus, error):
    found = job(RUN, gpu="h200", world_size=gpus)
    if error is None:
        with pytest.raises(Unknown, match=r"speed\.most_gpus"):
            _ = found["speed.tokens_low"]
    else:
        low, tokens = found["speed.tokens_low"], found["speed.tokens_per_second"]
        assert low == pytest.approx(tokens * (1 - error))


def test_most_gpus_are_those_of_published_runs():
    rows = speeds.DATA["gain"] + speeds.DATA["speed"]
    theirs = [row["gpus"] for row in rows if row["chip"] == "h200"]
    ours = [point.job["world_size"] for point in COVERED]
    assert max(theirs + ours) == speed.NEAR_GPUS
    assert max(row["gpus"] for row in rows) == speed.MOST_GPUS


def test_fp8_is_faster_by_its_gain(job):
    base, fast = (job(RUN + extra, gpu="h200", world_size=4) for extra in ("", FP8))
    gain = base["speed.fp8_gain"]
    assert fast["speed.fp8_gain"] == gain
    assert fast["speed.tokens_per_second"] == pytest.approx(
        gain * base["speed.tokens_per_second"]
    )
    assert base["speed.fp8_gain_low"] < gain < base["speed.fp8_gain_high"]
    assert base["fp8.pays"] == "yes"
    assert not base["speed.fp8_gain_suspicious"]


@each(
    ("change", "target"),
    [
        (("", ""), {"gpu": "h200"}),
        (("", ""), {"world_size": 4}),
        (("", ""), {"gpu": "b200", "world_size": 4}),
        (("", ""), {"gpu": "h20", "world_size": 4}),
        (("", ""), {"gpu": "a100", "world_size": 4}),
        (("[train]", "num_experts = 8\n[train]"), {"gpu": "h200", "world_size": 4}),
        (("[train]", "[vision_encoder]\n[vlm]\n[train]"), {"gpu": "h200"}),
        (("[train]", "[distributed]\ncp = 2\n[train]"), {"gpu": "h200"}),
        (("[train]", "[data]\npack_sequences = true\n[train]"), {"gpu": "h200"}),
    ],
)
def test_unknown_where_nothing_was_measured(job, change, target):
    found = job(RUN.replace(*change), **target)
    for fact in ("speed.tokens_per_second", "speed.fp8_gain"):
        with pytest.raises(Unknown):
            found[fact]


@pytest.mark.parametrize(
    "change",
    [
        ("[train]", "dim = 512\nn_heads = 8\n[train]"),
        ("[train]", '[optimizer]\nname = "muon"\n[train]'),
        ("[train]", '[train]\nmixed_precision = "fp32"'),
    ],
)
def test_tokens_are_unknown_but_not_the_gain(job, change):
    found = job(RUN.replace(*change), gpu="h200", world_size=4)
    assert found["speed.fp8_gain"] > 0.5
    with pytest.raises(Unknown):
        found["speed.tokens_per_second"]


def test_more_gpus_never_slow_the_whole(job):
    speeds = [
        job(RUN, gpu="h200", world_size=gpus)["speed.tokens_per_second"]
        for gpus in (1, 2, 4, 8, 16, 64)
    ]
    assert speeds == sorted(speeds)


def test_a_larger_batch_gains_more(job):
    gains = [
        job(
            RUN.replace("batch_size = 4", f"batch_size = {size}"),
            gpu="h200",
            world_size=4,
        )["speed.fp8_gain"]
        for size in (1, 2, 4, 8)
    ]
    assert gains == sorted(gains)


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
    band = [speed.fp8_gain_low(1.2, near, 1.0), speed.fp8_gain_high(1.2, near)]
    assert band == pytest.approx([1.12, 1.31] if near else [1.05, 1.4])
    assert speed.fp8_gain_low(1.2, near, 1.2) == pytest.approx(1.0)


def test_the_band_holds_published_gains_that_were_left_out_of_the_fit():
    below, above = speed.GAIN_BAND
    for run in GAINS:
        if run.group == "FSDP":
            error = run.measured - speeds.gain(run, fit(without=run.source))
            assert -below <= error <= above


def test_the_band_far_away_holds_what_was_never_fitted():
    below, above = speed.FAR_GAIN_BAND
    others = [run for run in GAINS if run.recipe == "tensorwise" and run.measured]
    errors = [run.measured - speeds.gain(run, Rates()) for run in others]
    assert -below <= min(errors) <= max(errors) <= above


@each(
    ("gpu", "hopper"),
    [
        ("h100-sxm", True),
        ("h100-pcie", True),
        ("h200", True),
        ("gh200", True),
        ("h800", True),
        ("h20", False),
        ("b200", False),
        ("mi300x", False),
        ("l40s", False),
    ],
)
def test_whose_speed_the_h100_tells(gpu, hopper):
    assert speed.on_hopper(gpu) is hopper


@pytest.mark.parametrize(
    ("stages", "micro_batches", "share"),
    [(1, 4, 0.0), (4, 4, 3 / 7), (2, 4, 0.2), (2, 8, 1 / 9), (4, 16, 3 / 19)],
)
def test_bubble(stages, micro_batches, share):
    assert speed.bubble(stages, micro_batches) == share


def test_the_share_of_all_gather_is_among_the_reasons(job):
    said = job(RUN, gpu="h200", world_size=16)["fp8.reasons"]
    assert any("of the saving comes from FP8 all-gather" in reason for reason in said)
