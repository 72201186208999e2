"""Did you mean: in the section, in others, for sections, variants, other trainers."""

import pytest

from fp8tune.trainers.hints import Hints
from tests.each import each


@pytest.fixture(scope="module")
def hints(kempnerforge):
    return Hints(kempnerforge.schema)


@each(
    ("path", "hint"),
    [
        (("train", "seqlen"), "`seq_len`"),
        (("train", "Batch_Size"), "`batch_size`"),
        (("checkpoint", "dyn_ckpt_windows"), "`dyn_ckpt_window`"),
    ],
)
def test_a_key_of_the_same_section(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("path", "hint"),
    [
        (("train", "dim"), "`model.dim`"),
        (("train", "lr"), "`optimizer.lr`"),
        (("train", "interval"), "`eval.interval` or `checkpoint.interval`"),
        (("train", "warmup_step"), "`scheduler.warmup_steps`"),
    ],
)
def test_a_key_of_another_section(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("path", "hint"),
    [
        (("trian",), "[train]"),
        (("optimiser",), "[optimizer]"),
        (("vision-encoder",), "[vision_encoder]"),
        (("seq_len",), "`train.seq_len`"),
        (("zzzz",), ""),
    ],
)
def test_a_section(hints, path, hint):
    assert hints.for_key(path) == (f"did you mean {hint}?" if hint else "")


@each(
    ("path", "hint"),
    [
        (("train", "gradient_checkpointing"), "`train.activation_checkpointing`"),
        (("distributed", "tensor_parallel_degree"), "`distributed.tp`"),
        (("precision",), "`train.mixed_precision`"),
        (("train", "use_fp8"), "`train.mixed_precision`"),
        (("model", "top_k"), "`model.moe_top_k`"),
        (("model", "attn_implementation"), "`model.sdpa_backend`"),
    ],
)
def test_a_key_that_other_trainers_call_otherwise(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("key", "value", "hint"),
    [
        ("train.mixed_precision", "FP8", "fp8"),
        ("train.mixed_precision", "e5m2", "fp8"),
        ("train.mixed_precision", "torch.bfloat16", "bf16"),
        ("train.mixed_precision", "bf16-true", "bf16"),
        ("train.mixed_precision", "transformer-engine", "fp8"),
        ("model.sdpa_backend", "flash_attention_2", "flash"),
        ("train.activation_checkpointing", True, "full"),
        ("train.activation_checkpointing", "SAC", "selective"),
        ("model.activation", "SiLU", "silu"),
        ("model.activation", [], ""),
    ],
)
def test_for_value(hints, key, value, hint):
    section, _, name = key.partition(".")
    schema = hints.schema
    spec = schema.classes[schema.section_class(section)][name]
    assert hints.for_value(spec, value) == (f'did you mean "{hint}"?' if hint else "")
