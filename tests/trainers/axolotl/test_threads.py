"""Reports of users: the config that they gave, rebuilt, gets the finding.

Between the last two keys users are caught: FP8 refuses the efficient loading, and
without it a run under FSDP gave NaN.
"""

# axolotl#2926: FP8 gains 10 to 15 % only without FSDP's activation checkpointing
CHECKPOINTING = """
base_model: NousResearch/Meta-Llama-3.1-8B
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 1
num_epochs: 1
optimizer: adamw_torch_fused
learning_rate: 2e-5
bf16: true
fp8: true
fp8_enable_fsdp_float8_all_gather: true
torch_compile: true
fsdp_version: 2
fsdp_config:
  offload_params: false
  cpu_ram_efficient_loading: false
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  transformer_layer_cls_to_wrap: LlamaDecoderLayer
  state_dict_type: FULL_STATE_DICT
  reshard_after_forward: true
  activation_checkpointing: true
"""


def test_axolotl_2926(found):
    checkpointing = {
        "fp8-with-fsdp-checkpointing": "fsdp_config.activation_checkpointing"
    }
    assert found(CHECKPOINTING) == found(CHECKPOINTING, "0.18.0") == checkpointing
    without = CHECKPOINTING.replace(
        "activation_checkpointing: true", "use_orig_params: false"
    )
    assert found(without) == {}


def test_axolotl_3077(found):
    loading = CHECKPOINTING.replace("loading: false", "loading: true")
    loading = loading.replace("  activation_checkpointing: true\n", "")
    key = "fsdp_config.cpu_ram_efficient_loading"
    assert found(loading) == {"fp8-fsdp-efficient-loading": key}
