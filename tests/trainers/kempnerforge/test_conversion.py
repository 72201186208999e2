"""What KempnerForge's loader makes of a value of another type."""

import pytest

from tests.each import each
from tests.trainers.kempnerforge.loaded import faults, refusals


@each(
    ("written", "value"),
    [
        ("8", 8),
        ('"8"', 8),
        ('" 8 "', 8),
        ('"1_000"', 1000),
        ('"+8"', 8),
        ("3.9", 3),
        ("-0.9", 0),
        ("true", True),
        ("false", False),
        ("1e5", 100000),
        ("0x10", 16),
    ],
)
def test_int(load, written, value):
    loaded = load(f"[train]\nseed = {written}\n")
    assert loaded.values["train.seed"] == value
    assert {kind for kind, _ in refusals(loaded)} <= {"value-truncated"}


@each("written", ['"8.0"', '"1e3"', '"0x10"', '""', '"a"', "nan"])
def test_not_an_int(load, written):
    loaded = load(f"[train]\nseed = {written}\n")
    assert faults(loaded) == [("value-not-convertible", "train.seed")]
    assert loaded.faults[0].facts["type"] == "a whole number"
    assert "train.seed" not in loaded.values


def test_infinity_is_no_int(load):
    loaded = load("[train]\nseed = inf\n")
    assert faults(loaded) == [("value-not-convertible", "train.seed")]


@each(
    ("written", "value"),
    [
        ("1", 1.0),
        ("1.5", 1.5),
        ('"1.5"', 1.5),
        ('"1e-4"', 1e-4),
        ("true", 1.0),
        ('"inf"', float("inf")),
        ("1e500", float("inf")),
    ],
)
def test_float(load, written, value):
    loaded = load(f"[model]\nrope_theta = {written}\n")
    assert (loaded.values["model.rope_theta"], refusals(loaded)) == (value, [])
    assert type(loaded.values["model.rope_theta"]) is float


@pytest.mark.parametrize("written", ['"half"', '""', "1" + "0" * 400])
def test_not_a_float(load, written):
    loaded = load(f"[model]\nrope_theta = {written}\n")
    assert faults(loaded) == [("value-not-convertible", "model.rope_theta")]


@each(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ('"true"', True),
        ('"True"', True),
        ('"YES"', True),
        ('"1"', True),
        ('"false"', False),
        ('"no"', False),
        ('"on"', False),
        ('"enabled"', False),
        ('""', False),
        ("0", False),
        ("2", True),
        ("0.0", False),
        ("[]", False),
        ("[0]", True),
        ("{}", False),
        ("2024-01-01", True),
    ],
)
def test_bool(load, written, value):
    loaded = load(f"[train]\ncompile_model = {written}\n")
    assert loaded.values["train.compile_model"] is value
    assert {kind for kind, _ in faults(loaded)} <= {"read-as-false"}


@pytest.mark.parametrize(
    ("key", "written", "facts"),
    [
        ("train.seed", "3.9", {"value": 3.9, "result": 3}),
        ("scheduler.warmup_steps", "0.1", {"value": 0.1, "result": 0}),
    ],
)
def test_a_fraction_is_cut_off(load, key, written, facts):
    section, _, name = key.partition(".")
    (fault,) = load(f"[{section}]\n{name} = {written}\n").faults
    assert (fault.kind, fault.facts) == ("value-truncated", {"key": key, **facts})


@pytest.mark.parametrize("written", ['"on"', '"enabled"', '"True "', '"y"'])
def test_a_word_that_is_read_as_false(load, written):
    loaded = load(f"[train]\ncompile_model = {written}\n")
    assert loaded.values["train.compile_model"] is False
    assert faults(loaded) == [("read-as-false", "train.compile_model")]


@each("written", ['"no"', '"off"', '"FALSE"', '""', '"yes"', "0"])
def test_words_that_mean_what_they_become(load, written):
    assert load(f"[train]\ncompile_model = {written}\n").faults == []


@each("written", ["5", "[1]", "{}", "true", "2024-01-01", "nan"])
def test_strings_are_taken_as_they_come(load, written):
    loaded = load(f"[optimizer]\nname = {written}\n")
    assert loaded.faults == []
    assert "optimizer.name" in loaded.values


@each(
    ("key", "written"),
    [
        ("train.seed", "[1]"),
        ("train.seed", "{}"),
        ("train.seed", "2024-01-01"),
        ("train.data_seed", "[1]"),
        ("model.moe_shared_experts", "[1]"),
        ("model.ffn_hidden_dim", "[1]"),
        ("scheduler.decay_steps", "[]"),
        ("distributed.nccl_timeout_sec", "{}"),
        ("model.init_std", "[1]"),
        ("checkpoint.keep_last_n", "[1]"),
    ],
)
def test_a_number_that_meets_no_comparison_may_be_anything(load, key, written):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert loaded.faults == []
    assert key not in loaded.values
    assert key in loaded.written


@each(
    ("key", "written", "kinds"),
    [
        ("train.batch_size", "true", ["boolean-for-number"]),
        ("train.batch_size", "false", ["value-out-of-range"]),
        ("train.z_loss_weight", "true", ["boolean-for-number"]),
        ("train.compile_model", "true", []),
        ("optimizer.lr", "nan", ["not-a-number"]),
        ("optimizer.lr", "inf", []),
        ("scheduler.min_lr_ratio", "nan", ["value-out-of-range"]),
        ("checkpoint.dir", "5", ["not-text"]),
        ("checkpoint.dir", '"5"', []),
        ("data.tokenizer_path", '["gpt2"]', ["not-text"]),
        ("metrics.wandb_run_name", "7", []),
        ("train.loss_fn", "5", []),
        ("model.sdpa_backend", "5", ["value-not-allowed"]),
    ],
)
def test_values_that_do_not_mean_what_they_say(load, key, written, kinds):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [(kind, key) for kind in kinds]


def test_a_string_for_a_list_is_taken(load):
    loaded = load("[checkpoint]\nexclude_from_loading = 'a'\n")
    assert loaded.values["checkpoint.exclude_from_loading"] == ["a"]
    assert loaded.faults == []
