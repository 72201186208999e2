"""Measured runs correct the estimate."""

import json

import pytest

from tests.each import each
from tests.estimate.configs import H200, JSON, SEVEN_B


def test_measured_runs_correct_the_estimate(fp8tune, project):
    project({"a.toml": SEVEN_B})
    command = ("estimate", "a.toml", *H200, *JSON)
    before = fp8tune(*command).json
    assert before["memory"]["calibration"] is None
    peak, speed = before["memory"]["peak_gib"], before["speed"]["tokens_per_second"]
    typed = ("--measured", f"{1.02 * peak}", "--measured-speed", f"{0.9 * speed}")
    typed += ("--measured-torch", "2.9.1")
    after = fp8tune(*command, *typed).json
    assert after["memory"]["peak_gib"] == pytest.approx(1.02 * peak, rel=1e-3)
    assert after["speed"]["tokens_per_second"] == pytest.approx(0.9 * speed)
    assert after["memory"]["calibration"] == {
        "runs": 1,
        "beside": 0,
        "factor": pytest.approx(1.02, abs=1e-3),
    }
    assert after == fp8tune(*command).json
    lines = (project({}) / ".fp8tune" / "calibration.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert all(json.loads(line)["versions"]["torch"] == "2.9.1" for line in lines)


def test_trials_of_a_search_correct_the_estimate(fp8tune, project):
    trial = {
        "knobs": {"train.batch_size": 4},
        "outcome": "ok",
        "tokens_per_second": 50000.0,
        "peak_gib": 60.0,
        "environment": "NVIDIA H200, torch 2.13.0",
        "grad_accum": 8,
        "extrapolated": "rank 0 of 16, without communication",
    }
    how = {"seed": 42, "warmup_steps": 8, "steps": 32, "given_warmup": 8, "free": False}
    unlike = [{**trial, "rehearsal": True}, {**trial, "stability": how}]
    lines = [trial, *unlike, {"knobs": {}, "outcome": "oom"}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    folder = project({"a.toml": SEVEN_B, ".fp8tune/s/trials.jsonl": text})
    said = fp8tune("estimate", "a.toml", *H200, *JSON, "--study", ".fp8tune/s").json
    assert said["memory"]["calibration"]["runs"] == 1
    assert said["speed"]["calibration"] is None
    lines = (folder / ".fp8tune" / "calibration.jsonl").read_text().splitlines()
    stored, out = map(json.loads, lines)
    assert (stored["gpu"], stored["measured"]) == ("h200", 60.0)
    assert stored["versions"]["torch"] == "2.13.0"
    assert (out["quantity"], out["measured"]) == ("out-of-memory", 139.8)
    assert said["fit"] == "may-not-fit"


@pytest.mark.parametrize("text", ["", '{"knobs": {}, "outcome": "hang"}\n'])
def test_trials_that_tell_nothing_are_said_to(fp8tune, project, text):
    project({"a.toml": SEVEN_B, "s/trials.jsonl": text})
    outcome = fp8tune("estimate", "a.toml", *H200, "--study", "s")
    many = "1 trial" if text else "0 trials"
    words = f"none of {many} in s/trials.jsonl measured this config's"
    assert words in " ".join(outcome.err.split())
    assert outcome.code == 0


@each(
    ("arguments", "said"),
    [
        (("--measured", "50"), "ran on: name it with --gpu"),
        (("--measured", "50", "--gpu", "a100"), "measured on, a100-40gb or a100-80gb"),
        (("--measured", "50", *H200[:2]), "give it with --world-size"),
        (("--measured", "900", *H200), "--measured 900: more than the GPU has, 139.8"),
        (("--measured", "9", *H200), "alone are 62.2 GiB per GPU"),
        (("--measured", "100", *H200), "--measured 100 is too far from the estimate"),
        (("--measured", "100", *H200), "nvidia-smi shows the allocator's cache"),
        (("--measured-speed", "9", *H200), "a speed of 9.0 is too far from"),
        (("--measured-torch", "2.9.1"), "needs --measured or --measured-speed"),
        (("--measured", "0"), "0.0 is not in the range"),
        (("--measured", "x"), "'x' is not a valid float"),
        (
            ("--study", "none"),
            ".fp8tune; give the path of one elsewhere (`fp8tune studies FOLDER` lists",
        ),
        (("--study", "bad"), "trials.jsonl: line 1: no JSON"),
        (("--study", "odd"), "trials.jsonl: not a regular file"),
        (("--calibration", "bad/trials.jsonl"), "trials.jsonl:1: not a measured run"),
    ],
)
def test_what_cannot_correct_it(fp8tune, project, arguments, said):
    project({"a.toml": SEVEN_B, "bad/trials.jsonl": "x\n", "odd/trials.jsonl/x": ""})
    outcome = fp8tune("estimate", "a.toml", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


SHARDED = ("--gpu", "h200", "--world-size", "64", "--measured")


@pytest.mark.parametrize(
    ("gib", "code", "said"),
    [
        ("14", 2, "the whole model alone is 15.0 GiB while it is built"),
        ("14.96", 2, "memory peaks while the model is built, at 15.0 GiB"),
        ("15.6", 0, ""),
    ],
)
def test_what_may_be_the_building_corrects_nothing(estimated, gib, code, said):
    sizes = {"batch_size = 8": "batch_size = 3", "steps = 4": "steps = 1"}
    text = SEVEN_B
    for old, new in sizes.items():
        text = text.replace(old, new)
    outcome = estimated(text, *SHARDED, gib)
    assert outcome.code == code
    assert said in outcome.err


def test_no_part_is_less_than_nothing(fp8tune, project):
    """Where a peak was measured that is less than what arithmetic has."""
    project({"a.toml": SEVEN_B.replace("batch_size = 8", "batch_size = 1")})
    command = ("estimate", "a.toml", *H200, *JSON)
    exact = sum(fp8tune(*command).json["memory"]["breakdown_gib"].values())
    outcome = fp8tune(*command, "--measured", f"{0.972 * exact:.2f}")
    found = outcome.json["memory"]["breakdown_gib"]
    assert min(found.values()) >= 0
    assert sum(found.values()) == pytest.approx(0.972 * exact, rel=1e-3)


def test_nothing_was_measured_of_what_cannot_run(fp8tune, project):
    odd = SEVEN_B.replace("vocab_size = 128256", "vocab_size = 50257")
    project({"a.toml": odd.replace("[train]\n", '[train]\nmixed_precision = "fp8"\n')})
    outcome = fp8tune("estimate", "a.toml", *H200, "--measured", "60")
    assert (outcome.code, outcome.out) == (2, "")
    assert "this config cannot run, so it cannot have been measured" in outcome.err


def test_a_measured_peak_outside_the_band_is_taken_with_a_warning(estimated):
    peak = estimated(SEVEN_B, *H200, *JSON).json["memory"]["peak_gib"]
    for times, warned in ((1.01, False), (1.1, True)):
        typed = ("--measured", f"{times * peak}")
        outcome = estimated(SEVEN_B, *H200, *typed)
        assert outcome.code == 0
        assert (
            "what counts is torch.cuda.max_memory_allocated" in outcome.err
        ) == warned


def test_advice_where_nothing_fits_counts_measured_runs(fp8tune, project):
    """On the GPU as it would be without what the runs add."""
    once = SEVEN_B.replace("batch_size = 8", "batch_size = 1")
    once = once.replace("grad_accum_steps = 4", "grad_accum_steps = 32")
    project({"a.toml": SEVEN_B, "one.toml": once})
    gpu = ("--gpu", "l40s", "--world-size", "16", *JSON)
    peak = fp8tune("estimate", "one.toml", *gpu).json["memory"]["peak_gib"]
    fp8tune("estimate", "one.toml", *gpu, "--measured", f"{1.1 * peak}")
    said = fp8tune("estimate", "a.toml", *gpu).json
    assert said["start"] is None
    assert "`train.batch_size = 6`" in said["instead"]
    assert "its GiB leave out the correction from measured runs" in said["instead"]
