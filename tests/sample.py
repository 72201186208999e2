"""Texts that several tests write to disk: a rule of a user, a model of 0.1 M."""

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
