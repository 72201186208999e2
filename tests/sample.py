"""Texts that several tests share: a rule of a user, models by size, whole configs.

Of those of KempnerForge one is good, one draws a warning, one an error. That of
torchtitan asks for FP8; those of Axolotl and LLaMA-Factory do not.
"""

NO_PIPELINE = """
name = "no-pipeline"
code = "ME301"
summary = "s"
severity = "warning"
confidence = "high"
since = "1"
when = "pp > 1"
message = "pp is {pp}"
references = ["https://example.org"]
[[at]]
key = "pp"
"""
SMALL_MODEL = """\
[model]
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 2
vocab_size = 128
max_seq_len = 32
"""
LLAMA_8B = """\
[model]
dim = 4096
n_layers = 32
n_heads = 32
n_kv_heads = 8
vocab_size = 128256
ffn_dim_multiplier = 1.3
"""
DEFAULT_8B = """\
[model]
n_kv_heads = 8
vocab_size = 128256
ffn_hidden_dim = 14336
max_seq_len = 4096
"""
"""Llama-3 8B, with the trainer's default width, blocks and heads."""
MOE_9B = """\
[model]
dim = 2048
n_layers = 24
n_heads = 16
n_kv_heads = 4
vocab_size = 128256
ffn_dim_multiplier = 1.3
num_experts = 8
"""
GOOD = "[train]\nseq_len = 2048\n[scheduler]\nwarmup_steps = 10\n"
WARNING = "[train]\nmax_steps = 20\n"
TP = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n'
"""FP8 with tensor parallelism, which the trainer refuses, on line 4."""
ERROR = TP
AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3.1-8B
datasets:
- path: tatsu-lab/alpaca
  type: alpaca
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 2e-5
"""
LLAMAFACTORY = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: full
dataset: identity
template: qwen
"""
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]
[training]
seq_len = 8192
"""
