"""A trial's step has allocated what the trainer's own step has."""

import json

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

from benchmarks.depths import MIB, trial_mib
from benchmarks.fake_mesh import reduce_without_temporaries
from benchmarks.paths import RESULTS
from fp8tune.job import Target
from fp8tune.search.plan import read_config

TABLE = 1.2
"""Made-up text's own tables on the host [MiB]."""
OTHER_CPU = 0.015
"""How far a peak on another CPU was from the recorded one: attention's own buffers."""
REDUCTIONS = (
    (_fsdp_collectives, "foreach_reduce_scatter_copy_in"),
    (FSDPParam, "accumulate_unsharded_grad_if_needed"),
)
"""What ``reduce_without_temporaries`` replaces, to be put back after a test."""
CASES = {
    case["name"]: case
    for case in json.loads((RESULTS / "step_memory.json").read_text())["cases"]
}


@pytest.fixture
def one_thread():
    """Each thread of a matmul has a buffer of its own."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.mark.parametrize(
    "name",
    [
        "dense, fsdp8",
        "selective AC, fsdp8",
        "chunked, fsdp8",
        "MoE dense, fsdp8",
        "MoE gelu, fsdp8",
        "MoE no AC, fsdp8",
        "MoE accumulated thrice, fsdp8",
    ],
)
def test_a_trial_needs_what_the_trainer_needs(name, monkeypatch, one_thread):
    for module, function in REDUCTIONS:
        monkeypatch.setattr(module, function, getattr(module, function))
    reduce_without_temporaries()
    case = CASES[name]
    target = Target("h100-sxm", case["world_size"])
    trial = trial_mib(read_config("a.toml", case["config"].encode(), target).job)
    step = (bytes_ for phase, bytes_ in case["peaks"].items() if phase != "init")
    needed = max(step) / MIB
    assert needed * (1 - OTHER_CPU) <= trial <= needed + TABLE
