"""Texts that several tests share: a rule of a user, models by size, whole configs.

Of the configs one is good, one draws a warning, one an error.
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
