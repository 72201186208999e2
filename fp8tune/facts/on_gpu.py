"""Time of a step on a GPU, from published and fitted rates."""

from __future__ import annotations

from typing import Any

from fp8tune.job import Unknown

SWITCHED = ("h100-sxm", "h200")
"""GPUs with published runs that show what several of them lose to communication.

They have NVSwitch. PCIe boards and the NVL have NVLink in pairs, H800 less of it, and
GH200 are joined in several ways.
"""


def is_hopper(gpu: str) -> bool:
    """Whether H100 measurements apply: Hopper with 700 TFLOPS or more.

    An H20 has a seventh of the matmul rate at more bandwidth, so other shapes pay.
    """
    from fp8tune.facts.gpus import find

    found = find(gpu)
    hopper = found.vendor == "nvidia" and found.compute_capability == 9.0
    return hopper and (found.bf16_tflops or 0.0) >= 700


def seconds_on(
    gpu: str, step: Any, recipe: str, *, gather: bool = True, slower: float = 1.0
) -> Any:
    """The time of one micro-batch by part [s]; raises ``Unknown``.

    ``slower`` multiplies the fitted time of the collectives of weights; ``gather`` is
    that of ``steptime.seconds``.
    """
    from fp8tune.facts.gpus import find
    from fp8tune.facts.steptime import Rates, seconds

    chip, rates = _chip(gpu), Rates()
    if step.shards * step.tp * step.pp > 1 and find(gpu).name not in SWITCHED:
        raise Unknown("speed.switched")
    rates = rates._replace(
        network=rates.network / slower,
        contention=rates.contention * slower,
    )
    return seconds(step, chip, recipe, rates, gather=gather)


def _chip(gpu: str) -> Any:
    from fp8tune.facts.gpus import find
    from fp8tune.facts.steptime import Chip

    found = find(gpu)
    peak, memory = found.bf16_tflops or 0.0, found.hbm_gb_per_s or 0.0
    if not is_hopper(gpu) or not peak or not memory:
        raise Unknown("speed.bf16_seconds")
    return Chip(found.bf16_measured_tflops or 0.803 * peak, memory)
