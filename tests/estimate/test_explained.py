"""``explain`` has the target and the measured runs of ``estimate``."""

import pytest

from tests.estimate.configs import H200, JSON, SEVEN_B

TP4 = f"{SEVEN_B}[distributed]\ntp = 4\n"


@pytest.mark.parametrize(
    ("text", "size", "origin"),
    [
        (f"# 7B on 12 GPUs\n{TP4}", 12, "the title on line 1"),
        (f"{TP4}dp_shard = 3\n", 12, "the parallel degrees"),
        (TP4, 8, "assumed: add --world-size 16"),
    ],
)
def test_facts_have_the_gpus_of_an_estimate(estimated, fp8tune, text, size, origin):
    assert estimated(text, *JSON).json["target"]["world_size"] == size
    said = fp8tune("explain", "world_size", "a.toml", *JSON).json["derivation"]
    assert said["value"] == size
    assert said["origin"].startswith(origin)


@pytest.mark.parametrize(("size", "impossible"), [("16", False), ("10", True)])
def test_figures_of_no_run_are_said_to_be(fp8tune, project, size, impossible):
    project({"a.toml": TP4})
    where = ("memory.peak_gib", "a.toml", "--gpu", "h200", "--world-size", size)
    page = fp8tune("explain", *where, *JSON).json
    said = fp8tune("estimate", *where[1:], *JSON).json["refused"]
    assert page["refused"] == [one["message"] for one in said]
    assert bool(page["refused"]) == impossible


def test_rules_are_judged_as_in_lint(fp8tune, project):
    project({"a.toml": f"# 7B on 12 GPUs\n{TP4}"})
    said = fp8tune("explain", "out-of-memory", "a.toml", "--gpu", "h200", *JSON).json
    assert said["verdict"]["state"] == "unknown"


@pytest.mark.parametrize(
    ("fact", "figure", "part"),
    [
        ("memory.peak_gib", "peak_gib", "memory"),
        ("memory.low_gib", "low_gib", "memory"),
        ("memory.high_gib", "high_gib", "memory"),
        ("speed.tokens_per_second", "tokens_per_second", "speed"),
        ("speed.tokens_low", "low", "speed"),
    ],
)
def test_facts_are_corrected_as_in_an_estimate(estimated, fp8tune, fact, figure, part):
    measured = ("--measured", "78", "--measured-speed", "150000")
    said = estimated(SEVEN_B, *H200, *JSON, *measured).json
    page = fp8tune("explain", fact, "a.toml", *H200, *JSON).json
    assert page["corrected"]["value"] == said[part][figure]
    assert page["corrected"]["runs"] == 1
    assert page["derivation"]["value"] != said[part][figure]
    text = fp8tune("explain", fact, "a.toml", *H200).out
    assert "Corrected by measured runs" in text
    other = ("--calibration", "none.jsonl")
    page = fp8tune("explain", fact, "a.toml", *H200, *JSON, *other).json
    assert page["corrected"] is None


def test_the_verdict_is_corrected_too(estimated, fp8tune):
    nvl = ("--gpu", "h100-nvl", *H200[2:])
    estimated(SEVEN_B, *nvl, "--measured", "85")
    page = fp8tune("explain", "memory.fit", "a.toml", *nvl, *JSON).json
    assert page["derivation"]["value"] == "fits"
    assert page["corrected"]["value"] == "may-not-fit"


def test_a_file_that_holds_no_runs_is_said(fp8tune, project):
    project({"a.toml": SEVEN_B, ".fp8tune/calibration.jsonl": "{}\n"})
    outcome = fp8tune("explain", "memory.peak_gib", "a.toml", *H200)
    assert (outcome.code, outcome.out) == (2, "")
    assert "calibration.jsonl:1: not a measured run" in outcome.err
