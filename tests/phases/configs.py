"""Configs of FP8 runs, and their phases."""

from fp8tune.config.reader import read_config
from fp8tune.job import Target
from fp8tune.phases.plan import plan

KEMPNERFORGE = """\
# fp8tune: gpu=h100 world-size=8
[model]
dim = 4096
n_layers = 32
n_heads = 32
n_kv_heads = 8
vocab_size = 128256
max_seq_len = 4096

[train]
batch_size = 8
seq_len = 4096
max_steps = 1000
mixed_precision = "fp8"    # the fast one
activation_checkpointing = "full"

[scheduler]
warmup_steps = 100

[data]
dataset_path = "/data/tokens"

[checkpoint]
dir = "runs/a b"
"""
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "assets"
converters = ["{converter}"]

[training]
local_batch_size = 1
seq_len = 8192
steps = 1000

[lr_scheduler]
warmup_steps = 10

[checkpoint]
{enable} = true

[{converter}]
filter_fqns = ["output"]
"""


def torchtitan(version):
    old = version == "0.1.0"
    text = TORCHTITAN.replace("{enable}", "enable_checkpoint" if old else "enable")
    return text.replace("{converter}", "float8" if old else "quantize.linear.float8")


def set_keys(text, keys):
    """The text with lines added right below the headers of their sections."""
    for key, value in keys.items():
        section, _, name = key.rpartition(".")
        line = f"{name} = {value}\n"
        head = f"[{section}]\n"
        text = (
            text.replace(head, head + line) if head in text else f"{text}{head}{line}"
        )
    return text


def planned(folder, text, warmup="", cooldown="", overrides=(), trainer=""):
    """The plan of a config's text."""
    path = folder / "train.toml"
    path.write_bytes(text.encode())
    config = read_config(str(path), Target(), overrides, trainer)
    return plan(config, warmup, cooldown)
