"""The config whose measured runs the tests of calibration type."""

from tests.sample import DEFAULT_8B

CONFIG = f"""\
{DEFAULT_8B}dim = {{dim}}
[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 4
activation_checkpointing = "{{ac}}"
mixed_precision = "{{precision}}"
"""

FULL = {"dim": 4096, "ac": "full", "precision": "bf16"}
