"""Reports of users: the overrides that they gave, rebuilt, get the finding."""

from tests.each import each
from tests.support.verdicts import lint

RUN = """
train:
  train_iters: 1000
  micro_batch_size: 1
  global_batch_size: 128
model:
  tensor_model_parallel_size: 2
"""
CLASS = "_target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig"


def rules_of(text):
    report = lint("overrides.yaml", text, "")
    return [found.rule for found in report.diagnostics]


@each(
    ("more", "rules"),
    [
        # Megatron-Bridge#638: MXFP8 with E5M2 gradients diverges
        (
            f"mixed_precision:\n  {CLASS}\n  bf16: true\n  fp8: hybrid\n"
            "  fp8_recipe: mxfp8\n",
            ["e5m2-gradients-with-mxfp8"],
        ),
        # ms-swift#7290: LoRA on weights in blockwise FP8
        (
            f"mixed_precision:\n  {CLASS}\n  bf16: true\n  fp8: e4m3\n"
            "  fp8_recipe: blockwise\n  fp8_param_gather: true\npeft:\n  dim: 16\n",
            ["fp8-weights-with-lora"],
        ),
        ("  fp8: hybrid\n", ["precision-overwritten"]),
        (
            "mixed_precision: bf16_with_fp8_current_scaling_mixed\n"
            "ddp:\n  use_megatron_fsdp: true\n  megatron_fsdp_version: 2\n",
            ["refused-settings"],
        ),
        (
            f"mixed_precision:\n  {CLASS}\n  bf16: true\n  fp8: e4m3\n"
            "  fp8_recipe: mxfp8\n  fp8_param_gather: true\n"
            "  reuse_grad_buf_for_mxfp8_param_ag: false\n",
            ["refused-settings"],
        ),
        # whether layers are Megatron's own then depends on the recipe
        ("  transformer_impl: local\nmixed_precision: bf16_with_mxfp8_mixed\n", []),
        ("mixed_precision:\n  fp8: hybrid\n", ["precision-without-target"]),
    ],
)
def test_overrides(more, rules):
    assert rules_of(RUN + more) == rules
