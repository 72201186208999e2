"""What is refused, and why."""

import pytest

from fp8tune.phases import CannotPlan
from fp8tune.phases.plan import steps
from tests.each import each
from tests.phases.configs import KEMPNERFORGE, planned, set_keys, torchtitan

STREAMING = {
    "data.hf_dataset_name": '"a/b"',
    "data.tokenizer_path": '"gpt2"',
    "data.hf_streaming": "true",
}
REFUSED = [
    ({"model.tie_embeddings": "true"}, "set model.tie_embeddings = false"),
    ({"checkpoint.load_path": '"runs/b/step_9"'}, "checkpoint.load_path continues"),
    (STREAMING, "data.hf_streaming = true starts over"),
    (
        {
            "profiling.enable": "true",
            "profiling.start_step": 60,
            "profiling.end_step": 70,
        },
        "the profiler of a phase of 50 steps fails",
    ),
]
TITAN = [
    ({"checkpoint.load_step": 5}, "checkpoint.load_step = 5"),
    ({"checkpoint.last_save_in_hf": "true"}, "last_save_in_hf = true writes no"),
    (
        {
            "checkpoint.initial_load_path": '"a"',
            "checkpoint.initial_load_model_only": "false",
        },
        "continues another run",
    ),
    (
        {
            "checkpoint.async_mode": '"async"',
            "quantize.linear.float8.enable_fsdp_float8_all_gather": "true",
        },
        "arbitrary memory",
    ),
    (
        {
            "experimental.custom_import": '"mine"',
            "quantize.linear.float8.enable_fsdp_float8_all_gather": "true",
        },
        "needed to import torchao.float8",
    ),
]


@each(("keys", "reason"), REFUSED)
def test_kempnerforge_could_not_continue(tmp_path, keys, reason):
    text = KEMPNERFORGE
    if keys is STREAMING:
        text = text.replace('dataset_path = "/data/tokens"\n', "")
    with pytest.raises(CannotPlan) as refused:
        planned(tmp_path, set_keys(text, keys), "50", "50")
    assert reason in str(refused.value)


@each(("keys", "reason"), TITAN)
def test_torchtitan_could_not_continue(tmp_path, keys, reason):
    with pytest.raises(CannotPlan) as refused:
        planned(tmp_path, set_keys(torchtitan("0.2.2"), keys), "50", "50")
    assert reason in str(refused.value)


def test_tensor_parallelism_needs_the_number_of_gpus(tmp_path):
    text = set_keys(
        torchtitan("0.2.2").replace('converters = ["quantize.linear.float8"]\n', ""),
        {"parallelism.tensor_parallel_degree": "8"},
    )
    with pytest.raises(CannotPlan, match=r"in FP8: add --world-size N"):
        planned(tmp_path, text, "50")


@each(
    ("given", "reason"),
    [
        ("0", "0 steps; it must be between 1 and 999"),
        ("1000", "1,000 steps; it must be between 1 and 999"),
        ("0.01%", r"0 steps (0.01% of 1,000)"),
        ("1e3", "is no number of steps"),
        ("9" * 5000, "is no number of steps"),
    ],
)
def test_an_option_that_is_no_number_of_steps(given, reason):
    with pytest.raises(CannotPlan) as refused:
        steps(given, 1000, "--bf16-warmup")
    assert reason in str(refused.value)


@each(
    ("warmup", "cooldown", "overrides", "reason"),
    [
        ("", "", (), "give --bf16-warmup or --bf16-cooldown"),
        ("50%", "500", (), "1,000 bf16 steps leave none for FP8"),
        ("5", "", ("--train.mixed_precision=bf16",), 'mixed_precision = "fp8"'),
        ("5", "", ("--train.batch_size=0",), "see: fp8tune lint"),
        ("5", "", ("--train.max_steps=20000000",), "more than 10,000,000 steps"),
    ],
)
def test_a_plan_that_is_none(tmp_path, warmup, cooldown, overrides, reason):
    with pytest.raises(CannotPlan) as refused:
        planned(tmp_path, KEMPNERFORGE, warmup, cooldown, overrides)
    assert reason in str(refused.value)
