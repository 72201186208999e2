"""Reports of users: the config that they gave, rebuilt, gets the finding.

Between two values users are caught: FP8 refuses the efficient loading of weights, and
without it a run under FSDP gave NaN.
"""

import json

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


# axolotl#3077: with `cpu_ram_efficient_loading: false` loss and gradients are NaN
NAN = CHECKPOINTING.replace("  activation_checkpointing: true\n", "")
NAN_LOG = """\
{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '2e-06', 'epoch': '0.01'}
{'loss': '0', 'grad_norm': 'nan', 'learning_rate': '4e-06', 'epoch': '0.02'}
"""


def test_axolotl_3077(found, project, fp8tune):
    """No file shows it: `verify` finds it in the run's log.

    With true, which the file may have had before, FP8 does not start.
    """
    assert found(NAN) == {}
    project({"run.log": NAN_LOG, "train.yaml": NAN})
    said = fp8tune("verify", "run.log", "--output-format", "json")
    causes = [cause["code"] for cause in json.loads(said.out)["causes"]]
    assert (said.code, causes) == (1, ["nan-loss"])
    key = "fsdp_config.cpu_ram_efficient_loading"
    loading = NAN.replace("loading: false", "loading: true")
    assert found(loading) == {"fp8-fsdp-efficient-loading": key}
