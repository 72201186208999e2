"""Run trials of fp8tune's built-in model, each in a new process."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.job import Job
from fp8tune.runners.builtin import launch
from fp8tune.runners.builtin.spec import CannotBuild, Spec, from_job
from fp8tune.runners.builtin.standin import depths, extrapolated, for_all_ranks
from fp8tune.runners.builtin.worker_record import stage_times, worker_record
from fp8tune.runners.counted import with_interval_and_energy, with_samples
from fp8tune.runners.process import SCRATCH, module_command, run_worker
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.watch import Guard
from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import TrialLimits

SILENCE_S = {
    "start": 60.0,
    "import": 300.0,
    "ranks": 600.0,
    "gpu": 300.0,
    "build": 600.0,
    "convert": 600.0,
    "compile": 1800.0,
    "first_step": 1800.0,
    "steady": 600.0,
    "profile": 300.0,
}
"""Longest silence of a worker by stage [s]; importing torch takes minutes on some
cluster file systems, a first step may compile once more. The search's own deadline is
shorter."""

SLACK = 2.0
"""How many times its last step's time each following step may take."""

_NO_CAUSE = re.compile(
    r"\s*$|\s+(?!\s|what\(\))|frame #"
    r"|.*Warning: |\[?[VDIW]\d{4} |(?!ERROR)[A-Z]+:\d{4}-"
)
"""Lines on stderr that tell no cause: addresses, and what healthy trials say too in
the ways of Python, torch and its profiler."""

WORKER = module_command("fp8tune.runners.builtin.worker")
"""The command of a trial; it takes the file of its spec and this process's id."""


class Setup(NamedTuple):
    """Device and data of trials, and how many steps they measure.

    A trial runs as ``ranks`` processes, each on a GPU of its own, or as rank 0 of
    ``dp_shard`` ranks that do not exist.
    ``larger_gib`` is the memory of the GPU that the run is for, if it has more than
    this machine's, else 0. ``synthetic_data`` says why the config's data is not read,
    or is empty. The files of a running trial are in a folder below ``scratch``, else
    below the system's.
    """

    device: str
    dp_shard: int = 1
    ranks: int = 1
    larger_gib: float = 0.0
    synthetic_data: str = ""
    sampling: Sampling = Sampling()
    scratch: str = ""


class Builtin:
    """A runner of real trials on this machine's GPU, or on its CPU as a rehearsal."""

    def __init__(
        self,
        config: Config,
        setup: Setup,
        worker: Sequence[str] = WORKER,
        guard: Guard | None = None,
    ) -> None:
        self.config = config
        self.setup = setup
        self.worker = worker
        self.guard = guard
        self.hear: Callable[[dict[str, Any]], None] = lambda _line: None

    def now(self) -> float:
        """Return wall time [s]."""
        return time.monotonic()

    def job(self, knobs: dict[str, Any]) -> Job:
        """Return the config's job with other knobs and the same tokens per step."""
        return self.config.job.keep_tokens(knobs)

    def spec(self, knobs: dict[str, Any]) -> Spec:
        """Return what a trial of these knobs builds; raises ``CannotBuild``."""
        given = self.setup._asdict()
        del given["larger_gib"], given["synthetic_data"], given["scratch"]
        spec = from_job(self.job(knobs), **given)
        return spec._replace(data_files=[]) if self.setup.synthetic_data else spec

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Try one setting in a new process, within its limits."""
        try:
            spec = self.spec(knobs)
        except CannotBuild as error:
            return Record(knobs, "launch", message=str(error))
        until = self.now() + limits.deadline_s
        if spec.device == "cuda":  # on a CPU there are no clocks to wait for
            least_s = max(spec.sampling.least_s, limits.least_s)
            sampling = spec.sampling._replace(least_s=least_s)
            spec = spec._replace(sampling=sampling)
        spec = spec._replace(float8_matmuls=limits.matmuls)
        if self._is_too_large_here(knobs, spec):
            found = Record(knobs, "oom", message="predicted not to fit into this GPU")
        else:
            found = self._trial(knobs, spec, limits)
        if self.setup.larger_gib:
            found = self._on_larger(knobs, spec, found, until)
        if spec.ranks > 1:  # all have run: watts and tokens are those of all
            speed = found.tokens_per_second * spec.dp_shard
            found = found._replace(tokens_per_second=speed)
            return with_interval_and_energy(found, 1)
        found = for_all_ranks(found, self.job(knobs), spec.dp_shard)
        return with_interval_and_energy(found, spec.dp_shard)

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Train one setting in a new process, to compare losses."""
        try:
            spec = self.spec({**knobs, "warmup_steps": loss_run.warmup_steps})
        except CannotBuild as error:
            message = str(error)
            return Record(knobs, "launch", message=message, loss_run=loss_run)
        training: dict[str, Any] = loss_run.training()
        limits = TrialLimits(deadline_s)
        found = self._trial(knobs, spec._replace(**training), limits)
        return found._replace(
            loss_run=loss_run,
            tokens_per_step=spec.tokens_per_step(),
            synthetic_data=spec.synthetic_data,
        )

    def _is_too_large_here(self, knobs: dict[str, Any], spec: Spec) -> bool:
        """Return whether a trial of the whole model would only run out of memory.

        Its compile alone may take minutes, and shallower models can be measured at
        once: the run is for a larger GPU, and even the low end of the estimate is more
        than this one has.
        """
        if not self.setup.larger_gib or not self.guard or not _depths(spec):
            return False
        low = self.job(knobs).find("memory.low_gib")
        here = self.guard.driver.gpu.memory_gib
        return bool(low and here and low > here)

    def _on_larger(
        self, knobs: dict[str, Any], spec: Spec, found: Record, until: float
    ) -> Record:
        """Return a trial's record, adapted to the larger GPU that the run is for."""
        if found.outcome == "oom" or found.memory_shortage:
            found = self._in_part(knobs, spec, found, until)
        if not found.capacity_gib:
            return found
        return found._replace(capacity_gib=self.setup.larger_gib)

    def _in_part(
        self, knobs: dict[str, Any], spec: Spec, whole: Record, until: float
    ) -> Record:
        """Extrapolate a setting that does not fit from two shallower models."""
        spent = whole.cost_s
        for pair in _depths(spec):
            found: list[tuple[int, Record]] = []
            for layers in reversed(pair):
                left = TrialLimits(until - self.now())
                part = self._trial(knobs, spec._replace(layers=layers), left)
                spent += part.cost_s
                found.insert(0, (layers, part))
                if not part.ok or part.memory_shortage:
                    break
            if all(part.ok and not part.memory_shortage for _, part in found):
                full = extrapolated(found, spec.layers, self.job(knobs))
                fits = full.peak_gib <= self.setup.larger_gib
                return full._replace(outcome="ok" if fits else "oom", cost_s=spent)
            if found[0][1].outcome not in ("oom", "ok"):
                return found[0][1]._replace(cost_s=spent)
        return whole._replace(cost_s=spent)

    def _trial(self, knobs: dict[str, Any], spec: Spec, limits: TrialLimits) -> Record:
        """Run one worker; return the record of its rank with the GPU's state."""
        start, deadline = time.monotonic(), limits.deadline_s

        before_stage = 0  # earlier output does not explain how the steps ended

        def needs(line: dict[str, Any]) -> float:
            left = start + limits.stepping_s - time.monotonic()
            return min(still_needed(spec, line), left)

        def hear(line: dict[str, Any]) -> None:
            nonlocal before_stage
            if "stage" in line:
                before_stage = stderr.stat().st_size
            self.hear(line)

        began = time.time()
        before = self.guard.free(deadline / 2) if self.guard else {}
        waited = time.monotonic() - start
        with ExitStack() as held:
            where = self.setup.scratch or None
            scratch = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=where)
            folder = held.enter_context(scratch)
            path, stderr = Path(folder) / "spec.json", Path(folder) / "stderr"
            path.write_text(json.dumps(spec._asdict()), encoding="utf-8")
            errors = held.enter_context(stderr.open("wb"))
            command = self._command(str(path), spec.ranks)
            left = deadline - waited
            result = run_worker(command, SILENCE_S, left, errors, hear, needs)
            cause = last_line(stderr, before_stage)
            found = worker_record(knobs, spec, result, cause)
        found = found._replace(cost_s=found.cost_s + waited)
        if not self.guard:
            return found
        before = self.guard.free(deadline, before)
        steady = stage_times(result, "steady", "profile")
        return with_samples(
            found, self.guard.driver, result.events, before, began=began, steady=steady
        )

    def _command(self, path: str, ranks: int) -> list[str]:
        """Return the command of a trial with its spec in a file."""
        if ranks > 1:
            return [*launch.COMMAND, str(os.getpid()), str(ranks), *self.worker, path]
        return [*self.worker, path, str(os.getpid())]

    def close(self) -> None:
        """Do nothing: no process is left after a trial."""


def _depths(spec: Spec) -> list[tuple[int, int]]:
    """Return the pairs of depths from which a whole model is extrapolated."""
    return list(depths(spec.layers, spec.moe_every if spec.experts else 1))


def still_needed(spec: Spec, line: dict[str, Any]) -> float:
    """Return an upper bound of a trial's remaining time [s], by its last step."""
    step, took = line.get("step"), line.get("ms")
    if not isinstance(step, int) or not isinstance(took, (int, float)):
        return 0.0
    left = spec.sampling.warm_steps + spec.sampling.max_steps + 2 - step
    return SLACK * max(0, left) * took / 1e3


def last_line(path: Path, start: int = 0) -> str:
    """Return the last line after ``start`` that may name a cause, of the last 4 KiB."""
    with path.open("rb") as file:
        file.seek(max(start, os.path.getsize(path) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    causes = (line for line in reversed(lines) if not _NO_CAUSE.match(line))
    return next(causes, "").strip()[:200]
