"""Reports of users: the config that they gave, rebuilt, gets the finding.

The threads are those on GitHub that the comments name.
"""

from tests.each import each

# trl#3860: Accelerate's FP8 with SFTTrainer, whose config turns bf16 on
TRL_DEFAULT = """
distributed_type: MULTI_GPU
mixed_precision: fp8
num_processes: 8
training: {model_name_or_path: Qwen/Qwen2.5-7B, packing: true, max_length: 4096}
"""

# accelerate#3830: torchao by a config file
TORCHAO_BY_FILE = """
distributed_type: FSDP
mixed_precision: fp8
num_processes: 8
fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true, pad_inner_dim: true}
fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false}
"""

# accelerate#3710: Transformer Engine and FSDP2, as `accelerate config` writes it
TE_FSDP2 = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fp8_config:
  amax_compute_algorithm: most_recent
  amax_history_length: 1024
  backend: TE
  fp8_format: HYBRID
  interval: 1
  margin: 0
  use_autocast_during_eval: false
fsdp_config:
  fsdp_cpu_ram_efficient_loading: true
  fsdp_version: 2
mixed_precision: fp8
num_machines: 1
num_processes: 8
"""

# accelerate#3054, #3360: FP8 with DeepSpeed, in the Trainer
DEEPSPEED = """
distributed_type: DEEPSPEED
mixed_precision: fp8
num_processes: 8
deepspeed_config: {zero3_init_flag: true, zero_stage: 3}
fp8_config: {backend: TE, amax_history_length: 1024}
training: {output_dir: out, bf16: false}
"""

# Automodel#1085: trains, and fails when it saves; the same in Accelerate
ALL_GATHER = """
distributed_type: MULTI_GPU
mixed_precision: fp8
num_processes: 8
fp8_config: {backend: AO}
training: {output_dir: out, bf16: false, torch_compile: true, save_steps: 99}
"""


@each(
    ("text", "version", "rules"),
    [
        (TRL_DEFAULT, "1.10.1", {"fp8-off-by-arguments"}),
        (
            TORCHAO_BY_FILE,
            "1.11.0",
            {"launch-key-unread", "fp8-with-fsdp2-before-1-13"},
        ),
        (TORCHAO_BY_FILE, "1.13.0", set()),
        (
            TE_FSDP2,
            "1.9.0",
            {"launch-key-unread", "te-with-fsdp2", "most-recent-never-applied"},
        ),
        (DEEPSPEED, "1.9.0", {"launch-key-unread", "precision-differs-from-deepspeed"}),
        (ALL_GATHER, "1.13.0", {"fp8-weights-not-saved"}),
        (ALL_GATHER, "1.12.0", set()),
    ],
)
def test_reports(found, text, version, rules):
    assert set(found(text, version)) == rules
