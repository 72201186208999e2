"""Estimates: figures with their range, what is unknown is said, 80 columns suffice."""

import pytest

CONFIG = "configs/llama3_7b_16xh100_fp8.toml"


@pytest.fixture
def estimate(fp8tune, repository):
    def run(*arguments, config=CONFIG):
        return fp8tune("estimate", str(repository / config), *arguments)

    return run


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
    assert said["fit"] in ("fits", "tight", "out-of-memory", "unknown")
    assert said["fp8_pays"] in ("yes", "marginal", "no", "unknown")
    assert said["reasons"]
    assert {row["name"] for row in said["gemms"]} >= {"q_proj", "head", "attention"}
    assert sum(row["flop_share"] for row in said["gemms"]) == pytest.approx(1)


def test_the_grid_keeps_the_sequences_of_a_step(estimate):
    cells = estimate("--output-format", "json").json["grid"]
    assert {cell["micro_batch"] * cell["grad_accum"] for cell in cells} == {16}
    assert {cell["precision"] for cell in cells} == {"fp8", "bf16"}
    assert {cell["ac"] for cell in cells} == {"none", "full", "selective"}


def test_memory_grows_with_the_micro_batch(estimate):
    cells = estimate("--output-format", "json").json["grid"]
    for mode in ("none", "full", "selective"):
        peaks = [
            cell["peak_gib"]
            for cell in cells
            if (cell["ac"], cell["precision"]) == (mode, "bf16")
        ]
        assert peaks == sorted(peaks)


def test_the_start_fits(estimate):
    said = estimate("--output-format", "json").json
    assert said["start"]["fit"] == "fits"
    fast = [c["tokens_per_second"] for c in said["grid"] if c["fit"] == "fits"]
    assert said["start"]["tokens_per_second"] <= max(fast)


def test_savings_are_largest_first(estimate):
    freed = [
        s["freed_gib"] for s in estimate("--output-format", "json").json["savings"]
    ]
    assert freed == sorted(freed, reverse=True)
    assert freed[0] == pytest.approx(29.9, abs=0.1)  # fp32 gradients: 4 bytes x 8.03e9


@pytest.mark.parametrize(
    "config", ["llama3_7b_16xh100_fp8", "moe_9b_8xh200_bf16", "rehearsal_cpu"]
)
def test_text_fits_80_columns(estimate, config):
    outcome = estimate(config=f"configs/{config}.toml")
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) <= 80 or "/" in outcome.out
    lines = outcome.out.splitlines()[1:]
    assert max(map(len, lines)) <= 80


def test_what_is_unknown_is_said(fp8tune, project):
    project({"a.toml": '[train]\nmixed_precision = "fp8"\n'})
    outcome = fp8tune("estimate", "a.toml")
    assert "unknown without the GPU: add --gpu h100" in outcome.out
    said = fp8tune("estimate", "a.toml", "--output-format", "json").json
    assert said["fit"] == "unknown"
    assert said["speed"]["tokens_per_second"] is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.toml", None, "gone.toml: No such file or directory"),
        ("a.toml", "[train\n", "a.toml:1:"),
        ("a.toml", "[project]\nname = 'x'\n", "a.toml: a Python project file"),
        ("a.toml", '[train]\nmixed_precision = "x"\n', "`precision` is not one"),
    ],
)
def test_what_cannot_be_estimated(fp8tune, project, name, text, said):
    project({} if text is None else {name: text})
    outcome = fp8tune("estimate", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
