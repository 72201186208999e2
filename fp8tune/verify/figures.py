"""Figures of a run, from its logs and traces, that causes of poor runs are judged by.

Each function below is a figure: ``log.`` and its name if it reads a log, ``trace.`` and
its name if it reads traces. It returns None where the log or trace does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from fp8tune.facts.versions import Match, of_trials
from fp8tune.job import Prose, Unknown
from fp8tune.verify import disturbances
from fp8tune.verify.disturbances import STEADY_ROWS, WARMUP_ROWS
from fp8tune.verify.evidence import Curve, Log, Trace

Value = float | bool | str | None

MOST_RANKS = 40
"""Ranks of which each may report a time-out: as many lines of a cause are kept."""

VERSIONS = ("torch", "torchao")
"""Packages whose versions a log may print, as the settings ``torch_version``, ..."""

LONGEST_NUMBER = 12
"""Digits of a number of steps that is taken for one."""


def steps(log: Log) -> Value:
    """Steps that the last start of the run logged; unknown without a known trainer."""
    if not log.starts:
        return 0 if log.trainer else None
    return len(log.starts[-1])


def last_step(log: Log) -> Value:
    """The last step that the last start logged."""
    numbers = _finite(_last(log), "step")
    return numbers[-1] if numbers else None


def first_nan_step(log: Log) -> Value:
    """The step from which on no loss is finite, or the first infinite one."""
    curve = _last(log)
    for number, loss in zip(curve.step, curve.loss, strict=True):
        if math.isinf(loss):
            return number
    there = [row for row, loss in enumerate(curve.loss) if math.isfinite(loss)]
    if not there:
        return None
    gap = max((b - a for a, b in pairwise(there)), default=1)
    missing = len(curve) - 1 - there[-1]
    return curve.step[there[-1] + 1] if missing > 2 * gap else None


def diverged_step(log: Log) -> Value:
    """The step at which the loss diverged; see ``disturbances``."""
    return _part(disturbances.divergence(_last(log)), "step")


def diverged_loss(log: Log) -> Value:
    """The smoothed loss at that step [nats per token]."""
    return _part(disturbances.divergence(_last(log)), "loss")


def least_loss(log: Log) -> Value:
    """The smallest smoothed loss before the divergence [nats per token]."""
    return _part(disturbances.divergence(_last(log)), "least")


def early_diverged_step(log: Log) -> Value:
    """The step at which the loss diverged, if within 50 steps after a start."""
    return _part(disturbances.early_divergence(_last(log)), "step")


def early_diverged_loss(log: Log) -> Value:
    """The largest smoothed loss of that divergence [nats per token]."""
    return _part(disturbances.early_divergence(_last(log)), "loss")


def early_least_loss(log: Log) -> Value:
    """The smallest smoothed loss before it [nats per token]."""
    return _part(disturbances.early_divergence(_last(log)), "least")


def spikes(log: Log) -> Value:
    """Number of logged steps whose gradient norm is a spike; see ``disturbances``."""
    found = disturbances.spikes(_last(log))
    return None if found is None else len(found)


def spike_step(log: Log) -> Value:
    """The step of the first spike of the gradient norm."""
    found = disturbances.spikes(_last(log))
    return found[0][0] if found else None


def spike_ratio(log: Log) -> Value:
    """The largest spike over the median gradient norm of the steps before."""
    found = disturbances.spikes(_last(log))
    return max(ratio for _, ratio in found) if found else None


def first_step_s(log: Log) -> Value:
    """Wall time of the first logged step of the last start [s]."""
    times = _finite(_last(log), "step_s")
    return times[0] if times else None


def first_step_share(log: Log) -> Value:
    """Share of the logged wall time that the first step took, compilation included."""
    times = _finite(_last(log), "step_s")
    return times[0] / sum(times) if len(times) > 1 and sum(times) > 0 else None


def slowdown(log: Log) -> Value:
    """How much slower the last quarter of the steady steps is than the first [share].

    Of the medians of the step times, or of tokens/s where no step time is logged.
    """
    times = _steady(_last(log), "step_s")
    if not times:
        speeds = _steady(_last(log), "tokens_per_second")
        times = [1 / speed for speed in speeds if speed > 0]
    part = len(times) // 4
    if len(times) < STEADY_ROWS or not median(times[:part]):
        return None
    return median(times[-part:]) / median(times[:part]) - 1


def stalled_steps(log: Log) -> Value:
    """Steady steps that took more than twice the median."""
    return _part(disturbances.stalls(_last(log)), "number")


def stall_share(log: Log) -> Value:
    """Share of the steady wall time that stalled steps lost over the median."""
    return _part(disturbances.stalls(_last(log)), "share")


def stall_every(log: Log) -> Value:
    """Steps between two stalls if regular, else 0: checkpoints and evaluation are."""
    return _part(disturbances.stalls(_last(log)), "every")


def mfu(log: Log) -> Value:
    """Median MFU of the steady steps, as the trainer logs it [%]."""
    values = _steady(_last(log), "mfu")
    return median(values) if values else None


def fp8(log: Log) -> Value:
    """Whether the log says that FP8 was asked for or applied."""
    return (
        any(mention.says not in ("denies", "declines") for mention in log.mentions)
        or None
    )


def nan_versions(log: Log) -> Value:
    """The versions in the log with which compiled FP8 may become NaN, and why."""
    match = _unsafe(log)
    return match and Prose(match)


def nan_install(log: Log) -> Value:
    """What to install instead of these versions."""
    match = _unsafe(log)
    return match and Prose(match.combination.install)


def _unsafe(log: Log) -> Match | None:
    """Return the versions with which compiled FP8 on a GPU may become NaN."""
    if log.settings.get("compile") == "False":
        return None
    said = {name: log.settings.get(f"{name}_version", "") for name in VERSIONS}
    unsafe = (each for each in of_trials(said, "cuda") if each.checked)
    return next((e for e in unsafe if e.combination.consequence == "nan"), None)


def trainer(log: Log) -> Value:
    """The trainer whose lines the log has."""
    return log.trainer or None


def says_end(log: Log) -> Value:
    """Whether the log shows how the run ended; unknown without a known trainer."""
    return log.ended is not None if log.trainer else None


def checkpoints(log: Log) -> Value:
    """Checkpoints that the log reports as saved; unknown without a known trainer."""
    counted = log.sign_counts.get("checkpoint-saved", 0)
    saved = max(counted, log.events["checkpoint"])
    return saved if saved or log.trainer else None


def max_steps(log: Log) -> Value:
    """Steps that the run was to take, where the log prints its config."""
    text = log.settings.get("max_steps", "").replace(",", "")
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else None


def rank_without_timeout(log: Log) -> Value:
    """The one rank that did not report that a collective timed out, if all others did.

    Of at least 3 ranks, and where the log says how many there are.
    """
    size = log.settings.get("world_size", "")
    if not size.isdecimal() or not 3 <= int(size[:LONGEST_NUMBER]) <= MOST_RANKS:
        return None
    waited = {
        int(sign.values["who"])
        for sign in log.signs
        if sign.cause == "nccl-timeout" and sign.values.get("who", "").isdecimal()
    }
    missing = set(range(int(size))) - waited
    return missing.pop() if len(missing) == 1 else None


def idle_share(traces: Sequence[Trace]) -> Value:
    """Share of the traced time in which the GPU ran no kernel."""
    trace = _main(traces)
    return None if trace is None else max(0.0, 1 - trace.busy_us / trace.span_us)


def nccl_share(traces: Sequence[Trace]) -> Value:
    """Share of the traced time in which the GPU did nothing but communicate."""
    trace = _main(traces)
    return None if trace is None else trace.nccl_alone_us / trace.span_us


def waits_per_step(traces: Sequence[Trace]) -> Value:
    """Calls in which the host waited for the GPU, per traced step."""
    trace = _main(traces)
    if trace is None or not trace.steps:
        return None
    return sum(wait.calls for wait in trace.waits.values()) / trace.steps


def most_waits(traces: Sequence[Trace]) -> Value:
    """The call in which the host waited most often."""
    trace = _main(traces)
    if trace is None or not trace.waits:
        return None
    return max(trace.waits, key=lambda name: trace.waits[name].calls)


def data_share(traces: Sequence[Trace]) -> Value:
    """Share of the traced time in which the host waited for a batch."""
    trace = _main(traces)
    return None if trace is None else trace.data.us / trace.span_us


def kernel_us(traces: Sequence[Trace]) -> Value:
    """Mean time of a GPU kernel or copy [us]; a launch takes about 5 us."""
    trace = _main(traces)
    return None if trace is None or not trace.kernels else trace.gpu_us / trace.kernels


def recompiles(traces: Sequence[Trace]) -> Value:
    """Recompilations of the function that was recompiled most often, in the trace."""
    return max((trace.recompiles for trace in traces), default=None)


def slow_rank(traces: Sequence[Trace]) -> Value:
    """The rank that the others wait for; see ``slow_rank_excess``."""
    found = _straggler(traces)
    return None if found is None else found[0]


def slow_rank_excess(traces: Sequence[Trace]) -> Value:
    """Compute time of the slowest rank over the median of the others [share].

    Its own kernels, without NCCL, of the traces of at least 3 ranks: ranks that wait
    spend the same time in NCCL kernels.
    """
    found = _straggler(traces)
    return None if found is None else found[1]


def _straggler(traces: Sequence[Trace]) -> tuple[int, float] | None:
    """Return the slowest rank and its excess over the others; None below 3 ranks."""
    compute = {
        trace.rank: (trace.gpu_us - trace.nccl_us) / max(1, trace.steps)
        for trace in traces
        if trace.rank is not None and trace.gpu_us > 0
    }
    if len(compute) < 3:
        return None
    rank = max(compute, key=lambda each: compute[each])
    usual = median(time for each, time in compute.items() if each != rank)
    return (rank, compute[rank] / usual - 1) if usual > 0 else None


def _last(log: Log) -> Curve:
    """Return the last start that logged a step, else an empty curve."""
    return next((each for each in reversed(log.starts) if len(each)), Curve())


def _finite(curve: Curve, name: str) -> list[float]:
    """Return the logged values of a quantity, in order."""
    return [value for value in getattr(curve, name) if math.isfinite(value)]


def _steady(curve: Curve, name: str) -> list[float]:
    """Return the values of the steady steps; none if they are too few."""
    values = _finite(curve, name)[WARMUP_ROWS:]
    return values if len(values) >= STEADY_ROWS // 2 else []


def _part(whole: NamedTuple | None, name: str) -> Value:
    """Return one field of a result, None if there is no result."""
    value: float | None = getattr(whole, name, None)
    return value


def _main(traces: Sequence[Trace]) -> Trace | None:
    """Return the trace of a GPU with the lowest rank."""
    shown = [trace for trace in traces if trace.device == "cuda" and trace.span_us > 0]
    return min(shown, key=lambda trace: trace.rank or 0, default=None)


def _public(parameter: str) -> dict[str, Callable[..., Value]]:
    """Return the figures whose argument has this name."""
    return {
        name: value
        for name, value in globals().items()
        if name[0] != "_"
        and getattr(value, "__module__", "") == __name__
        and getattr(value, "__code__", None) is not None
        and value.__code__.co_varnames[0] == parameter
    }


FIGURES: dict[str, Callable[..., Value]] = {
    **{f"log.{name}": call for name, call in _public("log").items()},
    **{f"trace.{name}": call for name, call in _public("traces").items()},
}
"""All figures by the names that conditions use."""


class Figures:
    """The figures of one run, computed when first read.

    Those of the log are of the log with the most steps: one rank logs them.
    """

    def __init__(self, logs: Sequence[Log], traces: Sequence[Trace]) -> None:
        self._log = max(logs, key=_logged, default=None)
        self._traces = traces
        self._known: dict[str, Value] = {}

    def __getitem__(self, name: str) -> float | bool | str:
        """Return a figure; raises ``Unknown`` if the log or trace does not tell."""
        if name not in self._known:
            self._known[name] = self._compute(name)
        value = self._known[name]
        if value is None:
            raise Unknown(name)
        return value

    def _compute(self, name: str) -> Value:
        if name.startswith("trace."):
            return FIGURES[name](self._traces)
        return None if self._log is None else FIGURES[name](self._log)


def _logged(log: Log) -> int:
    """Return how many steps a log has."""
    return sum(map(len, log.starts))
