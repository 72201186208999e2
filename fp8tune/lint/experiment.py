"""Experiments: data on how to demonstrate a rule's claim on a machine.

``[[experiment]]`` in a rule file names a train config, a control, and the expected
observation. ``python -m benchmarks.rule_evidence`` runs them; this module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.lint.examples import plain_config

if TYPE_CHECKING:
    from fp8tune.lint.rules import Rule

DEVICES = ("cpu", "cuda")
MAX_RANKS = 64

FIELDS = {
    "config": "text",
    "control": "text",
    "device": "device",
    "ranks": "ranks",
    "needs": "text",
    "expect": "text",
}
"""What an experiment's table may hold, by kind."""

KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "device": ("cpu or cuda, or left out for both", lambda value: value in DEVICES),
    "ranks": (
        f"a number from 1 to {MAX_RANKS}",
        lambda value: type(value) is int and 0 < value <= MAX_RANKS,
    ),
}
"""The kinds of its own: what to call them, and which values they are."""

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


def faults(
    rule: Rule,
) -> Iterator[tuple[tuple[str, int, str], ExpressionError, Iterable[str]]]:
    """Yield the expressions of a rule's experiments that do not compile.

    Each comes with its place, the error, and the names that it may use.
    """
    for index, entry in enumerate(rule.data.get("experiment", ())):
        try:
            expectation(rule, entry["expect"])
        except ExpressionError as error:
            seen = (*OBSERVED, *(f"control.{name}" for name in OBSERVED))
            yield ("experiment", index, "expect"), error, (*seen, *rule.vocabulary())
        try:
            requirement(entry.get("needs", "true"))
        except ExpressionError as error:
            yield ("experiment", index, "needs"), error, MACHINE
