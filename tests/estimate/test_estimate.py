"""Estimates: figures with their range, and 80 columns suffice."""

import pytest

from fp8tune.facts.memory.verdict import FITS, MAY_NOT_FIT, OUT, PROBABLY_OUT
from tests.estimate.configs import H200, JSON, SEVEN_B

VERDICTS = (FITS, MAY_NOT_FIT, PROBABLY_OUT, OUT)


def test_json(estimate):
    outcome = estimate("--output-format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    said = outcome.json
    memory, speed = said["memory"], said["speed"]
    assert said["version"] == 1
    assert memory["low_gib"] <= memory["peak_gib"] <= memory["high_gib"]
    assert memory["peak_gib"] == pytest.approx(
        sum(memory["breakdown_gib"].values()), rel=0.05
    )
    assert speed["low"] <= speed["tokens_per_second"] <= speed["high"]
    assert said["fit"] in ("unknown", *VERDICTS)
    assert said["fp8_pays"] in ("yes", "marginal", "no", "unknown")
    assert said["reasons"]
    assert {row["name"] for row in said["gemms"]} >= {"q_proj", "head", "attention"}
    assert sum(row["flop_share"] for row in said["gemms"]) == pytest.approx(1)


@pytest.mark.parametrize(
    "config", ["llama3_7b_16xh100_fp8", "moe_9b_8xh200_bf16", "rehearsal_cpu"]
)
def test_text_fits_80_columns(estimate, config):
    outcome = estimate(config=f"configs/{config}.toml")
    assert (outcome.code, outcome.err) == (0, "")
    _path, *lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80


def test_memory_of_fp32_is_covered(fp8tune, project):
    """Twice the bytes, but of what is fp32 all the same; the speed is not known."""
    project({"a.toml": SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp32'")})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    peaks = {
        cell["precision"]: (cell["peak_gib"], cell["tokens_per_second"])
        for cell in said["grid"]
        if (cell["micro_batch"], cell["ac"]) == (8, "full")
    }
    assert list(peaks) == ["fp32", "bf16", "fp8"]
    assert 1.5 < peaks["fp32"][0] / peaks["bf16"][0] < 2
    assert peaks["fp32"][1] is None
    assert peaks["bf16"][1] < peaks["fp8"][1]


def test_gains_above_one_and_a_half_are_flagged(fp8tune, project):
    large = SEVEN_B.replace("[model]", "[model]\ndim = 16384\nn_layers = 4")
    large = large.replace("14336", "57344").replace("steps = 4", "steps = 1")
    project({"a.toml": large})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    assert said["speed"]["fp8_gain"] > 1.5
    assert said["speed"]["fp8_gain_suspicious"]
    assert any("almost no published gain" in reason for reason in said["reasons"])
    text = fp8tune("estimate", "a.toml", *H200).out
    assert "! suspiciously fast" in " ".join(text.split())
    project({"b.toml": SEVEN_B})
    assert (
        "almost no published gain is above"
        not in fp8tune("estimate", "b.toml", *H200).out
    )


@pytest.mark.parametrize(
    ("line", "place", "rule"),
    [
        ('mixed_precision = "x"', (2, 19), "unknown-precision"),
        ('activation_checkpointing = "ful"', (2, 28), "value-not-allowed"),
        ("batch_size = 0", (2, 14), "value-out-of-range"),
    ],
)
def test_what_lint_refuses_is_said_with_its_place(fp8tune, project, line, place, rule):
    project({"a.toml": f"[train]\n{line}\n"})
    (finding,) = fp8tune("lint", "a.toml", "--select", rule, *JSON).json["diagnostics"]
    assert (finding["line"], finding["column"]) == place
    (refused,) = fp8tune("estimate", "a.toml", *JSON).json["refused"]
    shared = ("rule", "message", "help", "line", "column")
    assert {name: refused[name] for name in shared} == {
        name: finding[name] for name in shared
    }
    outcome = fp8tune("estimate", "a.toml")
    assert (outcome.code, outcome.err) == (1, "")
    assert "this cannot run: " in outcome.out
    assert "  --> a.toml:{}:{}\n".format(*place) in outcome.out


def test_a_peak_of_megabytes_has_figures(estimate):
    text = estimate("--world-size", "8", config="configs/rehearsal_cpu.toml").out
    peak = text.split("memory: ")[1].split()[0]
    assert 0 < float(peak) < 0.05
    assert " 0.0," not in text.split("fit:")[0]
