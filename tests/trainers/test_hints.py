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
        (("train", "batchsize"), "`batch_size`"),
        (("train", "Batch_Size"), "`batch_size`"),
        (("train", "mixed-precision"), "`mixed_precision`"),
        (("optimizer", "muon_momentun"), "`muon_momentum`"),
        (("vlm", "max_text_length"), "`max_text_len`"),
        (("checkpoint", "dyn_ckpt_windows"), "`dyn_ckpt_window`"),
    ],
)
def test_a_key_of_the_same_section(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("path", "hint"),
    [
        (("train", "dim"), "`model.dim`"),
        (("train", "tp"), "`distributed.tp`"),
        (("train", "lr"), "`optimizer.lr`"),
        (("model", "seq_len"), "`train.seq_len`"),
        (("train", "interval"), "`eval.interval` or `checkpoint.interval`"),
        (("train", "warmup_step"), "`scheduler.warmup_steps`"),
        (("model", "pool_window"), "`adapter.pool_window`"),
    ],
)
def test_a_key_of_another_section(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("path", "hint"),
    [
        (("trian",), "[train]"),
        (("Train",), "[train]"),
        (("optimiser",), "[optimizer]"),
        (("vision-encoder",), "[vision_encoder]"),
        (("data_",), "[data]"),
        (("seq_len",), "`train.seq_len`"),
        (("tp",), "`distributed.tp`"),
        (("zzzz",), ""),
    ],
)
def test_a_section(hints, path, hint):
    assert hints.for_key(path) == (f"did you mean {hint}?" if hint else "")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (("train", "model"), "[model], a separate section"),
        (("vlm", "vision_encoder"), "[vision_encoder], a separate section"),
        (("vlm", "adapter"), "[adapter], a separate section"),
    ],
)
def test_a_section_inside_another(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (("vlm", "mot_modalities"), '`arch = "mot"`, which has it'),
        (("vlm", "moma_gumbel_noise"), '`arch = "moma"`, which has it'),
        (
            ("vlm", "cross_attention_n_heads"),
            '`arch = "cross_attention"`, which has it',
        ),
    ],
)
def test_a_key_of_another_variant(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@each(
    ("path", "hint"),
    [
        (("optimizer", "learning_rate"), "`optimizer.lr`"),
        (("train", "gradient_checkpointing"), "`train.activation_checkpointing`"),
        (("distributed", "tensor_parallel_degree"), "`distributed.tp`"),
        (("train", "learning_rate"), "`optimizer.lr`"),
        (("precision",), "`train.mixed_precision`"),
        (("train", "use_fp8"), "`train.mixed_precision`"),
        (("train", "bf16"), "`train.mixed_precision`"),
        (("model", "top_k"), "`model.moe_top_k`"),
        (("train", "top_k"), "`model.moe_top_k`"),
        (("model", "num_experts_per_tok"), "`model.moe_top_k`"),
        (("model", "attn_implementation"), "`model.sdpa_backend`"),
    ],
)
def test_a_key_that_other_trainers_call_otherwise(hints, path, hint):
    assert hints.for_key(path) == f"did you mean {hint}?"


@pytest.mark.parametrize(
    "path",
    [
        ("train", "zzzzzz"),
        ("data", "datasets", 0, "pth"),
        ("checkpoint", "dyn_ckpt_window", "stp"),
    ],
)
def test_no_hint(hints, path):
    assert hints.for_key(path) == ""


@pytest.mark.parametrize(
    ("name", "key", "table", "some"),
    [
        ("VLMConfig", "mot_modalities", {"arch": "zzz"}, True),
        ("VLMConfig", "nosuch", {"arch": "zzz"}, False),
        ("VLMConfig", "mot_modalities", {}, False),
        ("TrainConfig", "mot_modalities", {"arch": "zzz"}, False),
    ],
)
def test_in_some_variant(hints, name, key, table, some):
    assert hints.in_some_variant(name, key, table) is some


@each(
    ("key", "value", "hint"),
    [
        ("train.mixed_precision", "FP8", "fp8"),
        ("train.mixed_precision", "e5m2", "fp8"),
        ("train.mixed_precision", "torch.bfloat16", "bf16"),
        ("train.mixed_precision", 16, "fp16"),
        ("train.mixed_precision", "bf16-true", "bf16"),
        ("train.mixed_precision", "16-true", "fp16"),
        ("train.mixed_precision", "32-true", "fp32"),
        ("train.mixed_precision", "transformer-engine", "fp8"),
        ("model.sdpa_backend", "flash_attention_2", "flash"),
        ("train.mixed_precision", "off", "fp32"),
        ("train.activation_checkpointing", True, "full"),
        ("train.activation_checkpointing", False, "none"),
        ("train.activation_checkpointing", "SAC", "selective"),
        ("checkpoint.export_dtype", "fp32", "float32"),
        ("model.activation", "SiLU", "silu"),
        ("model.activation", "swiglu", "silu"),
        ("model.activation", [], ""),
        ("model.activation", 5.0, ""),
        ("model.activation", None, ""),
    ],
)
def test_for_value(hints, key, value, hint):
    section, _, name = key.partition(".")
    schema = hints.schema
    spec = schema.classes[schema.section_class(section)][name]
    assert hints.for_value(spec, value) == (f'did you mean "{hint}"?' if hint else "")
