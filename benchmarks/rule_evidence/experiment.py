"""Read the ``[[experiment]]`` of a rule: how to demonstrate its claim on a machine.

It names a train config, a control, and the expected observation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.lint.examples import plain_config
from fp8tune.lint.rules import Rule

DEVICES = ("cpu", "cuda")

OBSERVED = {
    "error": "the run's first error, type and message; empty if it ended well",
    "failed_at": "the line of the training script that the error left; else empty",
    "steps": "optimizer steps taken",
    "step_ms": "median time of the later half of the steps [ms]",
    "last_rate": "learning rate of the last optimizer step",
    "tokens_per_step": "tokens that the trainer counts per optimizer step",
    "all_parameters": "elements of all parameters, each counted once",
    "local_parameters": "elements of them that rank 0 holds",
    "norms_unset": "norm weights that are not 1 before the first step",
    "checkpointed": "modules that activation checkpointing wraps",
    "fp8_linears": "modules that FP8 training converted",
    "graphs": "graphs that torch.compile made",
    "graph_breaks": "places where torch.compile broke a graph",
    "kept_gib": "most that autograd kept at once, parameters apart [GiB]",
    "peak_gib": "most GPU memory allocated at once [GiB]",
    "slowest_gain": "least speed of a converted linear in that of bf16, one GPU",
    "refused_forward": "FP8 GEMM shapes that torch refuses on CUDA, forward",
    "refused_backward": "FP8 GEMM shapes that torch refuses on CUDA, backward alone",
}
"""What an experiment may speak of; ``control.`` before it means the control run."""

MACHINE = {
    "capability": "compute capability of the GPU, as 9.0",
    "gpu_gib": "memory of the GPU [GiB]",
    "host_gib": "memory of the host [GiB]",
}
"""What an experiment may need of the machine, next to its ranks."""


class Experiment(NamedTuple):
    """One experiment of a rule.

    ``config`` and ``control`` default to the first bad and the first good example;
    ``devices`` can show the claim, with ``ranks`` processes of one device each.
    ``needs`` is a condition on the machine, ``expect`` one on the observation.
    """

    config: str
    control: str
    devices: tuple[str, ...]
    ranks: int
    needs: str
    expect: str


def experiments(rule: Rule) -> list[Experiment]:
    """Return the experiments of a rule, with defaults filled in."""
    return [_experiment(rule, entry) for entry in rule.data.get("experiment", ())]


def _experiment(rule: Rule, entry: dict[str, Any]) -> Experiment:
    device = entry.get("device")
    return Experiment(
        entry.get("config") or plain_config(rule.bad[0]),
        entry.get("control") or plain_config(rule.good[0]),
        (device,) if device else DEVICES,
        entry.get("ranks", 1),
        entry.get("needs", ""),
        entry["expect"],
    )


def expectation(rule: Rule, source: str) -> Expression:
    """Compile the expectation on observations and on the config's own figures."""

    def knows(name: str) -> bool:
        return name.removeprefix("control.") in OBSERVED or rule.knows(name)

    return compile_expression(source, knows, {})


def requirement(source: str) -> Expression:
    """Compile the requirement on the machine."""
    return compile_expression(source, MACHINE.__contains__, {})
