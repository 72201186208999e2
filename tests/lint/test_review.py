"""What a sceptical reader found, and must not come back."""

import os
import re

import pytest

from tests.sample import NO_PIPELINE


@pytest.mark.parametrize(
    ("window", "found"),
    [
        ("start_step = [9]\nend_step = [8]", ["wrong-type"] * 2),
        ("end_step = 2026-01-01", ["wrong-type"]),
    ],
)
def test_a_profiling_window_of_no_numbers(fired, window, found):
    """What is no number is no step, also where the trainer could compare it."""
    assert fired(f"[profiling]\nenable = false\n{window}\n") == found


def test_another_programs_config_says_how_to_check_it_anyway(fp8tune, project):
    text = "[model]\na = 1\n[runner]\nb = 1\n[parallel]\nc = 1\n[solver]\nd = 1\n"
    project({"a.toml": text})
    assert "--trainer kempnerforge checks it" in fp8tune("lint", "a.toml").err


def test_a_long_pyproject_key_is_refused_not_parsed(fp8tune, project):
    key = ".".join("a" * 60_000)
    project({"pyproject.toml": f"[tool.fp8tune]\n{key} = 1\n", "a.toml": "[train]\n"})
    said = fp8tune("lint", "a.toml")
    assert (said.code, "dotted parts" in said.err) == (2, True)


def test_a_huge_round_is_bounded(fp8tune, project):
    rule = NO_PIPELINE.replace("pp > 1", "round(9, -200000000) == 0")
    rule = rule.replace('"warning"', '"error"')
    project({"pack/hygiene/no-pipeline.toml": rule, "a.toml": "[train]\n"})
    assert fp8tune("lint", "a.toml", "--rules", "pack").code == 1


@pytest.mark.parametrize("name", ["x\x1b[31m", "a b", "é"])
def test_names_of_rules_are_plain(fp8tune, project, name):
    rule = NO_PIPELINE.replace("no-pipeline", name.replace("\x1b", "\\u001b"))
    project({"pack/hygiene/r.toml": rule, "a.toml": "[train]\n"})
    said = fp8tune("lint", "a.toml", "--rules", "pack")
    assert (said.code, "letters, digits and dashes" in said.err) == (2, True)
    assert "\x1b" not in said.err


def test_a_pipe_in_a_pack_does_not_block(fp8tune, project):
    project({"pack/hygiene/.keep": "", "a.toml": "[train]\n"})
    os.mkfifo("pack/hygiene/f.toml")
    said = fp8tune("lint", "a.toml", "--rules", "pack")
    assert (said.code, "not a regular file" in said.err) == (2, True)


def test_the_size_that_is_advised_is_one_that_the_trainer_takes(lint):
    text = "[model]\ndim = 4104\nn_heads = 24\nn_kv_heads = 24\n"
    found = lint(f'{text}[train]\nmixed_precision = "fp8"\n').diagnostics
    (hidden,) = (d for d in found if d.rule == "fp8-hidden-size-not-16")
    assert hidden.help == "use 4080 or 4128, which the 24 heads also divide"
    assert 4080 % 24 == 4128 % 24 == 4080 % 16 == 4128 % 16 == 0


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_a_fragment_of_a_model_is_no_run(fired, gpu):
    text = "[model]\ndim = 8192\nn_layers = 80\nn_heads = 64\nn_kv_heads = 8\n"
    assert fired(text, gpu=gpu, world_size=4) == []
    assert fired(f"{text}[train]\nmax_steps = 100\n", gpu=gpu, world_size=4) != []


OUT_OF_MEMORY = """
# fp8tune: gpu=h100 world-size=24
[model]
num_experts = 8
[train]
batch_size = 2
seq_len = 4096
compile_model = false
activation_checkpointing = "none"
[distributed]
tp = 4
""".lstrip()


def test_no_part_is_more_than_the_total(fp8tune, project):
    """The least that a mixture of experts needs was said with the parts of the most."""
    project({"a.toml": OUT_OF_MEMORY})
    said = fp8tune("lint", "a.toml", "--output-format", "json").json
    found = {d["rule"]: d["message"] for d in said["diagnostics"]}
    total, low, high, _, *parts = numbers(found["out-of-memory"])
    assert low < total < high
    assert sum(parts) <= total + 1.5
    assert max(parts) > low


def test_sizes_that_differ_look_different(fp8tune, project):
    project(
        {
            "a.toml": "[model]\nvocab_size = 128256\nn_kv_heads = 8\n"
            "ffn_hidden_dim = 14336\n[train]\n"
        }
    )
    said = fp8tune("lint", "a.toml", "--gpu", "t4", "--output-format", "json").json
    found = {d["rule"]: d["message"] for d in said["diagnostics"]}
    weights, memory = numbers(found["whole-model-before-sharding"])
    assert weights > memory


def numbers(message):
    return [float(text) for text in re.findall(r"\b\d+(?:\.\d+)?\b", message)]
