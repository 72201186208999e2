"""What KempnerForge's loader makes of a value of another type."""

from tests.each import each
from tests.trainers.kempnerforge.loaded import faults, refusals


@each(
    ("written", "value"),
    [
        ("8", 8),
        ('"8"', 8),
        ('" 8 "', 8),
        ('"1_000"', 1000),
        ("3.9", 3),
        ("-0.9", 0),
        ("true", True),
        ("1e5", 100000),
    ],
)
def test_int(load, written, value):
    loaded = load(f"[train]\nseed = {written}\n")
    assert loaded.values["train.seed"] == value
    assert {kind for kind, _ in refusals(loaded)} <= {"value-truncated"}


@each(
    ("written", "value"),
    [
        ("1", 1.0),
        ('"1e-4"', 1e-4),
        ("true", 1.0),
        ("1e500", float("inf")),
    ],
)
def test_float(load, written, value):
    loaded = load(f"[model]\nrope_theta = {written}\n")
    assert (loaded.values["model.rope_theta"], refusals(loaded)) == (value, [])
    assert type(loaded.values["model.rope_theta"]) is float


@each(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ('"true"', True),
        ('"1"', True),
        ('"false"', False),
        ('"on"', False),
        ('""', False),
        ("0.0", False),
        ("[]", False),
        ("{}", False),
    ],
)
def test_bool(load, written, value):
    loaded = load(f"[train]\ncompile_model = {written}\n")
    assert loaded.values["train.compile_model"] is value
    assert {kind for kind, _ in faults(loaded)} <= {"read-as-false"}


@each(
    ("key", "written", "kinds"),
    [
        ("train.batch_size", "true", ["boolean-for-number"]),
        ("train.batch_size", "false", ["value-out-of-range"]),
        ("train.z_loss_weight", "true", ["boolean-for-number"]),
        ("optimizer.lr", "nan", ["not-a-number"]),
        ("optimizer.lr", "inf", []),
        ("checkpoint.dir", "5", ["not-text"]),
        ("data.tokenizer_path", '["gpt2"]', ["not-text"]),
    ],
)
def test_values_that_do_not_mean_what_they_say(load, key, written, kinds):
    section, _, name = key.partition(".")
    loaded = load(f"[{section}]\n{name} = {written}\n")
    assert faults(loaded) == [(kind, key) for kind in kinds]
