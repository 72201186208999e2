"""Configs, targets and readers of output that the tests of estimates share."""

from tests.sample import DEFAULT_8B

H200 = ("--gpu", "h200", "--world-size", "16")

JSON = ("--output-format", "json")

SEVEN_B = f"""\
{DEFAULT_8B}[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 4
activation_checkpointing = "full"
"""

CONFIG = "configs/llama3_7b_16xh100_fp8.toml"

ONE_GPU = "configs/llama3_7b_1xh200_fp8.toml"


def row(text, name):
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return line.removeprefix(name).split()
