"""What lint says of overrides, beyond the examples of its rules."""

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
    ],
)
def test_overrides(more, rules):
    assert rules_of(RUN + more) == rules
