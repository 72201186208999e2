"""A trial's step has allocated what the trainer's own step has."""

import gc
import json

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

from benchmarks.fake_mesh import reduce_without_temporaries
from benchmarks.paths import RESULTS
from fp8tune.job import Target
from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.spec import from_job
from fp8tune.runners.builtin.step import Training
from fp8tune.runners.sampling import Sampling
from fp8tune.search.plan import config_to_search
from tests.support.live_bytes import LiveBytes

MIB = 2**20

TABLE = 1.2
"""Made-up text's own tables on the host [MiB]."""
OTHER_CPU = 0.015
"""How far a peak on another CPU was from the recorded one: attention's own buffers."""
REDUCTIONS = (
    (_fsdp_collectives, "foreach_reduce_scatter_copy_in"),
    (FSDPParam, "accumulate_unsharded_grad_if_needed"),
)
"""What ``reduce_without_temporaries`` replaces, to be put back after a test."""
FEW = Sampling(min_steps=3, max_steps=6, warm_steps=1)
CASES = {
    case["name"]: case
    for case in json.loads((RESULTS / "step_memory.json").read_text())["cases"]
}


def trial_mib(job):
    """Return the peak of a trial's second step on the CPU [MiB].

    All tokens go to the first experts, as in the recorded steps of the trainer.
    """
    given = {"device": "cpu", "dp_shard": job["shards"], "seed": 0}
    spec = from_job(job, **given, sampling=FEW)
    gc.collect()  # or what others have left would be freed meanwhile
    with LiveBytes("build") as live:
        model, _ = build(spec)
        for layer in model.layers if spec.experts else ():
            router = getattr(layer.mlp, "router", None)
            if router is not None:
                router.register_forward_hook(
                    lambda _router, _inputs, logits: (
                        logits * 0 - torch.arange(logits.shape[-1])
                    )
                )
        training = Training(model, spec, batches(spec))
        live.enter("step")
        training.step()
        training.step()
    if spec.dp_shard > 1:
        torch.distributed.destroy_process_group()
    return live.peaks["step"] / MIB


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
    trial = trial_mib(config_to_search("a.toml", case["config"].encode(), target).job)
    step = (bytes_ for phase, bytes_ in case["peaks"].items() if phase != "init")
    needed = max(step) / MIB
    assert needed * (1 - OTHER_CPU) <= trial <= needed + TABLE
