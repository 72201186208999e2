"""A later process reuses what torch compiled: AOTAutograd's cache, by its counters."""

import json
import os
import subprocess
import sys

from tests.conftest import REPOSITORY

COMPILE = """\
import json
import sys

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

from fp8tune.runners.builtin import compile_cache
from fp8tune.runners.builtin.convert import (
    avoid_slow_kernels, per_operator_contexts, to_float8
)
from tests.runners.builtin.small import spec


def outcome(precision, all_gather=False, batch=16, saved=None, torchao=""):
    made = spec()._replace(
        precision=precision, fp8_all_gather=all_gather, compile=True
    )
    avoid_slow_kernels(made)
    if torchao:
        compile_cache.version = lambda _name: torchao
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32, bias=False)).to(torch.bfloat16)
    to_float8(model, made)
    x = torch.randn(batch, 32, dtype=torch.bfloat16, requires_grad=True)

    def run(x):
        if saved is None:
            return model(x).float().square().sum()
        contexts = per_operator_contexts(saved)
        return checkpoint(
            lambda x: model(x).relu().amax(),
            x,
            use_reentrant=False,
            context_fn=contexts,
        )

    torch._dynamo.reset()
    counters.clear()
    loss = torch.compile(run)(x)
    loss.backward()
    cache = [
        name.removeprefix("autograd_cache_")
        for name, count in counters["aot_autograd"].items()
        if count and name in {f"autograd_cache_{n}" for n in ("hit", "miss", "bypass")}
    ]
    return *cache, loss.item(), x.grad.float().sum().item()


print(json.dumps([outcome(*case) for case in json.loads(sys.argv[1])]))
"""


def outcomes(folder, *cases):
    """What a process with that cache said of each case: hit or miss, loss, gradient."""
    ran = subprocess.run(
        [sys.executable, "-c", COMPILE, json.dumps(cases)],
        cwd=REPOSITORY,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_later_process_reuses_what_is_compiled_of_the_same_setting_alone(tmp_path):
    fp8, keeps_max = ("fp8",), ("bf16", False, 16, ["aten.max.default"])
    compiled = outcomes(tmp_path, fp8, keeps_max)
    assert [kind for kind, *_ in compiled] == ["miss", "miss"]
    reused = [["hit", *numbers] for _, *numbers in compiled]
    assert outcomes(tmp_path, fp8, keeps_max) == reused
    others = outcomes(
        tmp_path,
        ("fp8", True),
        ("fp8", False, 32),
        ("bf16", False, 16, ["aten.amax.default"]),
        ("fp8", False, 16, None, "another version"),
    )
    assert [kind for kind, *_ in others] == ["miss"] * 4
