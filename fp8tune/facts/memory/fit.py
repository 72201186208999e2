"""Whether the peak fits the GPU: its error band from measured runs, and the verdict."""

from __future__ import annotations

from fp8tune.facts.memory import GIB
from fp8tune.facts.memory.verdict import FULLEST, RAN_OUT, band, too_much, verdict
from fp8tune.job import Job, Prose


def low_gib(
    job: Job,
    estimate_family: str,
    balanced_routing: dict[str, int],
    stage_layers: int,
    memory_init_gib: float,
    memory_peak_gib: float,
    memory_gather_gib: float,
    memory_forward_gib: float,
    memory_loss_gib: float,
    memory_regather_gib: float,
    memory_backward_gib: float,
    memory_backward_end_gib: float,
    memory_embedding_gib: float,
    memory_reduce_gib: float,
    memory_optimizer_gib: float,
    memory_spare_gib: float,
) -> float:
    """Lower end of the peak's band, by the errors measured so far [GiB].

    With balanced routing for mixtures of experts. Without the activations that compiled
    blocks may not keep: of all blocks until the backward pass begins, of one at its
    end. Building the model has no error.
    """
    share = 1 - band(estimate_family)[0]
    if balanced_routing:
        least: float = job.with_values(balanced_routing)["memory.peak_gib"]
        return max(memory_init_gib, min(least, memory_peak_gib) * share)
    spare = memory_spare_gib
    begin = max(memory_forward_gib, memory_loss_gib, memory_regather_gib) - spare
    blocks = max(
        memory_backward_gib - spare, memory_backward_end_gib - spare / stage_layers
    )
    tables = max(memory_gather_gib, memory_embedding_gib, memory_reduce_gib)
    step = max(begin, blocks, tables, memory_optimizer_gib)
    return max(memory_init_gib, step * share)


def high_gib(
    estimate_family: str, memory_peak_gib: float, memory_cached_weights_gib: float
) -> float:
    """Upper end of the peak's band, by the errors measured so far [GiB]."""
    return memory_peak_gib * (1 + band(estimate_family)[1]) + memory_cached_weights_gib


def cached_weights_gib(
    precision: str, estimate_family: str, params_decoder: int
) -> float:
    """FP8 weights that the compiler may keep for the backward pass [GiB].

    Of blocks that are not checkpointed (https://github.com/pytorch/ao/issues/936).
    """
    kept = precision == "fp8" and estimate_family.endswith("kept compiled")
    return params_decoder / GIB if kept else 0.0


def least_gib(job: Job, memory_low_gib: float | None = None) -> float:
    """Lower end of the peak's band, or of what is modelled of it [GiB].

    Some parts are not modelled, such as the mask of packed sequences. Without them the
    estimate is a lower bound, which can only show that the run is out of memory.
    """
    if memory_low_gib is not None:
        return memory_low_gib
    found: float = _at_least(job)["memory.low_gib"]
    return found


def least_peak_gib(job: Job, memory_peak_gib: float | None = None) -> float:
    """The peak, or the part of it that is modelled [GiB]."""
    if memory_peak_gib is not None:
        return memory_peak_gib
    found: float = _at_least(job)["memory.peak_gib"]
    return found


def _at_least(job: Job) -> Job:
    """The job with lower bounds in place of what no model covers."""
    bounded = job.at_least()
    return bounded.with_values(bounded["lower_bounds"])


def usable_gib(gpu_memory_gib: float) -> float:
    """Memory that a run can allocate without trouble [GiB]."""
    return FULLEST * gpu_memory_gib


def first_stage_only(pp: int) -> bool:
    """Whether the peak is of the first stage of a pipeline, and not of the last."""
    return pp > 1


def fit(
    job: Job,
    memory_first_stage_only: bool,
    gpu_memory_limit_gib: float,
    memory_least_gib: float,
    memory_least_peak_gib: float,
    gpu_memory_gib: float | None = None,
) -> str:
    """Memory verdict, by where the band of the peak lies.

    ``out-of-memory``: the whole band is above the GPU's memory.
    ``probably-out-of-memory``: the estimate is above what a run had allocated when it
    ran out. ``may-not-fit``: else, if the band reaches above the usable memory.
    ``fits``: the whole band is usable.

    Lower bounds are enough for the first two. Unknown if the GPU's memory is unknown.
    Also unknown for a pipeline that is not out of memory, if no estimate covers its
    last stage.
    """
    least, middle = memory_least_gib, memory_least_peak_gib
    found = too_much(gpu_memory_limit_gib, gpu_memory_gib, least, middle)
    if found is not None:
        return found
    high = job["memory.high_gib"]
    band = (least, middle, high)
    return verdict(memory_first_stage_only, gpu_memory_limit_gib, gpu_memory_gib, band)


def needs(
    job: Job,
    gpu_memory_limit_gib: float,
    memory_least_gib: float,
    memory_least_peak_gib: float,
    memory_peak_gib: float | None = None,
) -> str:
    """How much of the GPU's memory [GiB] the run needs, and its largest parts."""
    limit, middle = gpu_memory_limit_gib, memory_least_peak_gib
    if memory_peak_gib is None:
        from fp8tune.facts.gaps import beyond

        bounded = _at_least(job)
        need = f"about {_gib(middle)} GiB or more (at least {_gib(memory_least_gib)})"
        parts, over = bounded["memory.largest_parts"], beyond(bounded.bounded or ())
        return Prose(f"{need} of {_gib(limit)}; largest parts: {parts}; {over}")
    band = f"{_gib(memory_least_gib)} to {_gib(job['memory.high_gib'])}"
    room, full = _gib(limit), RAN_OUT * limit
    if middle <= full:
        room = f"{_gib(FULLEST * limit)} usable ({room} in all)"
    elif middle <= limit:
        room += f"; a published run ran out of memory at {_gib(full)}"
    parts = job["memory.largest_parts"]
    return Prose(f"about {_gib(middle)} GiB ({band}) of {room}; largest parts: {parts}")


def _gib(gib: float) -> str:
    return f"{gib:.{int(gib < 100)}f}"
