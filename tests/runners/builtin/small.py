"""A model of 0.1 M parameters, and its trials on the CPU."""

import tomllib

from fp8tune.job import Target
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.sampling import Sampling
from fp8tune.trainers.trainer import trainer
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


def runner(text=SMALL):
    known = trainer("kempnerforge")
    loaded = known.load(tomllib.loads(text))
    setup = Setup("cpu", sampling=Sampling(2, 3, 1))
    return Builtin(known, loaded, Target("", 1), setup)


def spec(text=SMALL, **knobs):
    return runner(text).spec({f"train.{name}": value for name, value in knobs.items()})
