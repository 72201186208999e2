"""Record profiler traces of tiny models on the CPU: ``python record.py FOLDER``.

Each case is two steps of training, if it does not say otherwise. The model has two
linears that torchao converts, and a head that it does not.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
M, HEAD = 48, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64, bias=False)
        self.second = nn.Linear(64, 32, bias=False)
        self.head = nn.Linear(32, HEAD)

    def forward(self, x):
        x = functional.relu(self.first(x))
        return self.head(functional.relu(self.second(x)))


class ForwardOnly(torch.autograd.Function):
    """A linear in FP8 whose gradients are computed in bf16."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        one = torch.ones(())
        fp8 = (x.to(torch.float8_e4m3fn), weight.to(torch.float8_e4m3fn).t())
        return torch._scaled_mm(*fp8, one, one, out_dtype=torch.bfloat16)

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        return gradient @ weight, gradient.t() @ x


def converted(config, keep=lambda name: name != "head"):
    torch.manual_seed(0)
    model = Model().bfloat16()
    if config is not None:
        chosen = lambda module, name: keep(name)  # noqa: E731
        convert_to_float8_training(model, config=config, module_filter_fn=chosen)
    return model


def record(path, model, forward=None, optimizer=None, batch=(M, 32)):
    """Record two training steps, after one that is not recorded."""
    forward = model if forward is None else forward
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(torch.randn(3 * batch[0], batch[1]).bfloat16()), M)

    def step(x):
        optimizer.zero_grad()
        forward(x).float().sum().backward()
        optimizer.step()

    step(torch.randn(batch).bfloat16())
    with profiler() as recorded:
        for (x,) in data:
            step(x)
            recorded.step()
    recorded.export_chrome_trace(str(path))


def profiler():
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    return profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True)


def main(folder):
    # some CPUs have FP8 GEMMs in oneDNN, which others compute as GEMMs in 32 bit
    torch.backends.mkldnn.set_flags(_enabled=False)
    recipe = Float8LinearConfig.from_recipe_name
    configs = {name: recipe(name) for name in RECIPES} | {"bf16": None}
    for name, config in configs.items():
        record(folder / f"{name}-eager.json", converted(config))
        torch._dynamo.reset()
        model = converted(config)
        record(folder / f"{name}-compiled.json", model, torch.compile(model))
    emulated = Float8LinearConfig(emulate=True)
    record(folder / "casts-only.json", converted(emulated))
    tensorwise = configs["tensorwise"]
    record(folder / "empty-filter.json", converted(tensorwise, lambda name: False))
    model = converted(tensorwise)
    again = lambda x: checkpoint(model, x, use_reentrant=False)  # noqa: E731
    record(folder / "checkpointed.json", model, again)
    only = nn.Linear(32, 64, bias=False).bfloat16()

    def twice(x):
        inner = lambda x: ForwardOnly.apply(x, only.weight)  # noqa: E731
        return checkpoint(inner, x, use_reentrant=False).relu()

    record(folder / "forward-only.json", only, twice)
    muon = torch.optim.Muon(only.parameters(), lr=0.1)
    record(folder / "muon.json", only, optimizer=muon)
    with torch.no_grad(), profiler() as recorded:
        for _ in range(3):
            model(torch.randn(M, 32).bfloat16())
            recorded.step()
    recorded.export_chrome_trace(str(folder / "inference.json"))
    grouped(folder / "grouped.json")
    recompiled(folder / "recompiled.json", model)
    compiled_autograd(folder / "compiled-autograd.json", converted(tensorwise))


def grouped(path):
    """Two experts in bf16, forward and backward, in one step."""
    x = torch.randn(32, 64).bfloat16().requires_grad_()
    weights = torch.randn(2, 64, 48).bfloat16().requires_grad_()
    ends = torch.tensor([16, 32], dtype=torch.int32)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        torch._grouped_mm(x, weights, offs=ends).float().sum().backward()
    recorded.export_chrome_trace(str(path))


def recompiled(path, model):
    """Two steps with another shape each, compiled while they are recorded."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        for rows in (48, 32):
            compiled(torch.randn(rows, 32).bfloat16()).float().sum().backward()
    recorded.export_chrome_trace(str(path))


def compiled_autograd(path, model):
    """Two steps whose backward pass is compiled without the autograd engine."""
    torch._dynamo.reset()
    forward = torch.compile(model, backend="aot_eager")
    compiler = lambda graph: torch.compile(graph, backend="aot_eager")  # noqa: E731
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        for _ in range(2):
            loss = forward(torch.randn(M, 32).bfloat16()).float().sum()
            with torch._dynamo.compiled_autograd._enable(compiler):
                loss.backward()
    recorded.export_chrome_trace(str(path))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
