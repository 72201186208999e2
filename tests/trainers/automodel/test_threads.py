"""Reports of users: the config that they gave, rebuilt, gets the finding."""

from tests.each import each
from tests.support.verdicts import lint

# Automodel#1085: FP8 trains, and dies when the first checkpoint is saved
SAVES = """
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 32
  local_batch_size: 1
  ckpt_every_steps: 100
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
checkpoint:
  enabled: true
  model_save_format: safetensors
distributed:
  strategy: fsdp2
  enable_compile: true
fp8:
  enabled: true
  recipe_name: tensorwise
  enable_fsdp_float8_all_gather: true
  precompute_float8_dynamic_scale_for_fsdp: true
  filter_fqns: ["lm_head"]
packed_sequence:
  packed_sequence_size: 8192
"""


def rules_of(text):
    report = lint("recipe.yaml", text, "")
    return [found.rule for found in report.diagnostics]


@each(
    ("old", "new", "rules"),
    [
        (
            "model_save_format: safetensors",  # is what it is by default
            "save_consolidated: false",
            ["fp8-all-gather-with-safetensors"],
        ),
        ("  enabled: true\n  model", "  enabled: false\n  model", []),
    ],
)
def test_all_gather_and_safetensors(old, new, rules):
    assert rules_of(SAVES.replace(old, new)) == rules


def test_a_section_that_is_no_table():
    text = SAVES[: SAVES.index("fp8:")] + "fp8: 3\n"
    assert rules_of(text) == ["section-not-a-table"]


# components/quantization/fp8.py: the check of the GPU is skipped with emulation
@each(
    ("settings", "rules"),
    [
        ("emulate: true", ["fp8-emulated"]),
        ("emulate: false", ["gpu-without-fp8"]),
        (
            "emulate: true\n  recipe_name: rowwise",
            ["gpu-without-fp8", "tensorwise-settings-with-recipe"],
        ),
        (
            "filter_fqns: lm_head",
            ["filter-is-text", "fp8-filters-skip-every-linear"],
        ),
        ("filter_fqns: [layers, lm_head]", ["fp8-filters-skip-every-linear"]),
        ("filter_fqns: [lm_head]", ["gpu-without-fp8"]),
    ],
)
def test_fp8_on_a_gpu_without_it(settings, rules):
    head = "# fp8tune: gpu=a100-80gb\n" + SAVES[: SAVES.index("fp8:")]
    text = f"{head}fp8:\n  enabled: true\n  {settings}\n"
    found = rules_of(f"{text}packed_sequence:\n  packed_sequence_size: 8192\n")
    assert sorted(found) == rules
