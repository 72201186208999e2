"""A model of 0.1 M parameters, and its trials on the CPU."""

from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.sampling import Sampling
from tests.sample import SMALL_MODEL

SMALL = (
    SMALL_MODEL
    + """\
[train]
batch_size = 2
seq_len = 32
grad_accum_steps = 2
compile_model = false
mixed_precision = "fp8"
activation_checkpointing = "full"
[optimizer]
lr = 0.003
[scheduler]
warmup_steps = 4
"""
)

MOE = "num_experts = 4\nmoe_frequency = 2\nmoe_shared_experts = 1\n"


def config(text=SMALL, ranks=1, gpu=""):
    target = Target(gpu, ranks)
    return config_of("a.toml", text.encode(), target, only="kempnerforge")


def runner(text=SMALL):
    return Builtin(config(text), Setup("cpu", sampling=Sampling(2, 3, 1)))


def spec(text=SMALL, **knobs):
    return runner(text).spec({f"train.{name}": value for name, value in knobs.items()})
