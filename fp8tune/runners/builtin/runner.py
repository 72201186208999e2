"""Runs trials of our own model, each in a fresh process."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.job import Job, Target
from fp8tune.runners.builtin.counted import power, summed_up, without_slowed
from fp8tune.runners.builtin.spec import CannotBuild, Spec, from_job
from fp8tune.runners.builtin.standin import as_many, depths, extrapolated
from fp8tune.runners.builtin.told import record, span
from fp8tune.runners.process import listen, own
from fp8tune.runners.watch import Guard, beside, summary
from fp8tune.search.record import Record, tight
from fp8tune.search.runner import WHOLE, Leeway
from fp8tune.search.stability.course import STAGE, Course
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer

SILENCE_S = {
    "start": 60.0,
    "import": 300.0,
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
"""How much longer than its last step the following ones may take."""

_NO_CAUSE = re.compile(
    r"\s*$|\s+(?!\s|what\(\))|frame #"
    r"|.*Warning: |\[?[VDIW]\d{4} |(?!ERROR)[A-Z]+:\d{4}-"
)
"""Lines on stderr that tell no cause: addresses, and what healthy trials say too in
the ways of Python, torch and its profiler."""

SCRATCH = "fp8tune-"
"""How the names of folders begin that hold the files of a running trial."""

WORKER = own("fp8tune.runners.builtin.worker")
"""The command of a trial; it gets the file of its spec and this process's id."""


class Setup(NamedTuple):
    """Where, on what and how long trials run; ``min_steps`` and so on as in ``Spec``.

    ``larger_gib`` is the memory of the GPU that the run is for, if that has more than
    this machine's; else 0. After ``enough_s`` seconds of steps the fewest have to do;
    for ``least_s`` seconds they go on, for watts to be sampled.
    ``made_up_data`` says why the config's data is not read, if so. The files of a
    running trial lie in a folder of ``scratch``, else of the system's.
    """

    device: str
    dp_shard: int = 1
    larger_gib: float = 0.0
    made_up_data: str = ""
    min_steps: int = 12
    max_steps: int = 40
    warm_steps: int = 3
    enough_s: float = math.inf
    least_s: float = 0.0
    scratch: str = ""


class Builtin:
    """A runner of real trials on this machine's GPU, or on its CPU as a rehearsal."""

    def __init__(
        self,
        trainer: Trainer,
        loaded: Loaded,
        target: Target,
        setup: Setup,
        worker: Sequence[str] = WORKER,
        guard: Guard | None = None,
    ) -> None:
        self.trainer = trainer
        self.loaded = loaded
        self.target = target
        self.setup = setup
        self.worker = worker
        self.guard = guard
        self.hear: Callable[[dict[str, Any]], None] = lambda _line: None

    def now(self) -> float:
        """Wall time [s]."""
        return time.monotonic()

    def job(self, knobs: dict[str, Any]) -> Job:
        """The config's job with other knobs, and the tokens per step kept."""
        values = {**self.loaded.values, **knobs}
        given = self.trainer.job(self.loaded, self.target)
        changed = self.trainer.job(self.loaded._replace(values=values), self.target)
        rows = given["micro_batch"] * given["grad_accum"]
        key = self.trainer.schema.job["grad_accum"]
        if key not in knobs:
            values[key] = max(1, round(rows / changed["micro_batch"]))
        return self.trainer.job(self.loaded._replace(values=values), self.target)

    def spec(self, knobs: dict[str, Any]) -> Spec:
        """What a trial of these knobs builds; raises ``CannotBuild``."""
        given = self.setup._asdict()
        del given["larger_gib"], given["made_up_data"], given["scratch"]
        spec = from_job(self.job(knobs), **given)
        return spec._replace(data_files=[]) if self.setup.made_up_data else spec

    def run(
        self, knobs: dict[str, Any], deadline: float, leeway: Leeway = WHOLE
    ) -> Record:
        """Try one setting in a process of its own; never longer than ``deadline``.

        One that makes steps may go on for as long as its leeway says.
        """
        try:
            spec = self.spec(knobs)
        except CannotBuild as error:
            return Record(knobs, "launch", more={"message": str(error)})
        until = self.now() + deadline
        wanted = asked(spec, leeway)
        found = self._trial(knobs, wanted, deadline, leeway)
        if found.ok and not found.measured and found.tokens_per_second >= wanted.floor:
            # without its throttled steps it is not that slow
            found = found._replace(outcome="throttled")
        if self.setup.larger_gib:
            found = self._on_larger(knobs, wanted._replace(floor=0.0), found, until)
        found = as_many(found, self.job(knobs), spec.dp_shard)
        return summed_up(found, spec.dp_shard)

    def learn(self, knobs: dict[str, Any], course: Course, deadline: float) -> Record:
        """Train one setting for its losses, in a process of its own."""
        told: dict[str, Any] = {STAGE: course._asdict()}
        try:
            spec = self.spec(knobs)
        except CannotBuild as error:
            return Record(knobs, "launch", more={"message": str(error), **told})
        told |= spec.data()
        found = self._trial(knobs, spec._replace(**course.training()), deadline)
        return found._replace(more={**found.more, **told})

    def _on_larger(
        self, knobs: dict[str, Any], spec: Spec, found: Record, until: float
    ) -> Record:
        """A trial as one on the larger GPU, whose memory is what there is to fill."""
        if found.outcome == "oom" or tight(found):
            found = self._in_part(knobs, spec, found, until)
        if "capacity_gib" not in found.more:
            return found
        memory = {"capacity_gib": self.setup.larger_gib}
        return found._replace(more={**found.more, **memory})

    def _in_part(
        self, knobs: dict[str, Any], spec: Spec, whole: Record, until: float
    ) -> Record:
        """A setting that this GPU cannot hold, from two depths that it can."""
        spent = whole.cost_s
        for pair in depths(spec.layers, spec.moe_every if spec.experts else 1):
            found: list[tuple[int, Record]] = []
            for layers in reversed(pair):
                part = self._trial(
                    knobs, spec._replace(layers=layers), until - self.now()
                )
                spent += part.cost_s
                found.insert(0, (layers, part))
                if not part.ok or tight(part):
                    break
            if all(part.ok and not tight(part) for _, part in found):
                made = extrapolated(found, spec.layers, self.job(knobs))
                fits = made.peak_gib <= self.setup.larger_gib
                return made._replace(outcome="ok" if fits else "oom", cost_s=spent)
            if found[0][1].outcome not in ("oom", "ok"):
                return found[0][1]._replace(cost_s=spent)
        return whole._replace(cost_s=spent)

    def _trial(
        self,
        knobs: dict[str, Any],
        spec: Spec,
        deadline: float,
        leeway: Leeway = WHOLE,
    ) -> Record:
        """One worker's life, as a record of its rank alone, with the GPU beside it."""
        start = time.monotonic()

        before_stage = 0  # what was written until then is no cause of an end in it

        def needs(line: dict[str, Any]) -> float:
            left = start + leeway.most - time.monotonic()
            return min(still_needed(spec, line), left)

        def hear(line: dict[str, Any]) -> None:
            nonlocal before_stage
            if "stage" in line:
                before_stage = said.stat().st_size
            self.hear(line)

        began = time.time()
        before = self.guard.free(deadline / 2) if self.guard else {}
        waited = time.monotonic() - start
        with ExitStack() as held:
            where = self.setup.scratch or None
            made = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=where)
            folder = held.enter_context(made)
            path, said = Path(folder) / "spec.json", Path(folder) / "stderr"
            path.write_text(json.dumps(spec._asdict()), encoding="utf-8")
            errors = held.enter_context(said.open("wb"))
            command = [*self.worker, str(path), str(os.getpid())]
            left = deadline - waited
            heard = listen(command, SILENCE_S, left, errors, hear, needs)
            cause = last_line(said, before_stage)
            found = record(knobs, spec, heard, cause, leeway.matmuls)
        found = found._replace(cost_s=found.cost_s + waited)
        if not self.guard:
            return found
        before = self.guard.free(deadline, before)
        samples = self.guard.driver.samples(began, time.time())
        found = without_slowed(found, heard.events, samples)
        steady = self.guard.driver.samples(*span(heard, "steady", "profile"))
        seen = summary(steady) | power(found, heard.events, samples)
        return beside(found, before, seen, self.guard.driver.gpu.driver)

    def close(self) -> None:
        """Every trial has ended with its own call."""


def asked(spec: Spec, leeway: Leeway) -> Spec:
    """The spec of a trial with that leeway.

    Communication is added later: without it a rank is the faster. A rehearsal on a CPU
    has no clocks to wait for.
    """
    least_s = spec.least_s
    if spec.device == "cuda":
        least_s = max(least_s, leeway.least_s)
    floor = leeway.floor / max(1, spec.dp_shard)
    return spec._replace(floor=floor, least_s=least_s)


def still_needed(spec: Spec, line: dict[str, Any]) -> float:
    """Seconds that a trial surely ends within, by the time of its last step."""
    step, took = line.get("step"), line.get("ms")
    if not isinstance(step, int) or not isinstance(took, (int, float)):
        return 0.0
    left = spec.warm_steps + spec.max_steps + 2 - step
    return SLACK * max(0, left) * took / 1e3


def last_line(path: Path, start: int = 0) -> str:
    """The last line from there on that may tell a cause, of a file's last 4 KiB."""
    with path.open("rb") as file:
        file.seek(max(start, os.path.getsize(path) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    told = (line.strip()[:200] for line in reversed(lines) if not _NO_CAUSE.match(line))
    return next(told, "")
