"""Runs trials of our own model, each in a fresh process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.job import Job, Target
from fp8tune.runners.builtin.counted import summed_up, without_slowed
from fp8tune.runners.builtin.spec import CannotBuild, Spec, from_job
from fp8tune.runners.builtin.standin import as_many, depths, extrapolated
from fp8tune.runners.process import Heard, listen
from fp8tune.runners.watch import Guard, Sampler, beside, between, summary
from fp8tune.search.record import OUTCOMES, Record, tight
from fp8tune.search.stability.course import STAGE, Course, series
from fp8tune.trainers.faults import Loaded
from fp8tune.trainers.trainer import Trainer

SILENCE_S = {
    "start": 60.0,
    "import": 300.0,
    "build": 600.0,
    "first_step": 1800.0,
    "steady": 600.0,
    "profile": 300.0,
}
"""Longest silence of a worker by stage [s]; importing torch takes minutes on some
cluster file systems, the first step compiles. The search's own deadline is shorter."""

KEPT = (
    "capacity_gib",
    "alloc_retries",
    "recompiles",
    "float8_matmuls",
    "discarded",
    "settled",
)
"""What the worker says at its end that goes into the record as it is."""

VERSIONS = ("torch", "torchao", "cuda", "driver")
"""What the worker says of its software."""

WORKER = (sys.executable, "-m", "fp8tune.runners.builtin.worker")
"""The command of a trial; it gets the file of its spec and this process's id."""

_LATE = {"start": "launch", "import": "launch", "build": "launch"}


class Setup(NamedTuple):
    """Where and how long trials run; ``min_steps`` and so on as in ``Spec``.

    ``larger_gib`` is the memory of the GPU that the run is for, if that has more than
    this machine's; else 0.
    """

    device: str
    dp_shard: int = 1
    larger_gib: float = 0.0
    min_steps: int = 12
    max_steps: int = 40
    warm_steps: int = 3


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
        del given["larger_gib"]
        return from_job(self.job(knobs), **given)

    def run(self, knobs: dict[str, Any], deadline: float) -> Record:
        """Try one setting in a process of its own; never longer than ``deadline``."""
        try:
            spec = self.spec(knobs)
        except CannotBuild as error:
            return Record(knobs, "launch", more={"message": str(error)})
        until = self.now() + deadline
        found = self._trial(knobs, spec, deadline)
        if self.setup.larger_gib and (found.outcome == "oom" or tight(found)):
            found = self._in_part(knobs, spec, found, until)
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
                made = extrapolated(found, spec.layers)
                made.more["capacity_gib"] = self.setup.larger_gib
                fits = made.peak_gib <= self.setup.larger_gib
                return made._replace(outcome="ok" if fits else "oom", cost_s=spent)
            if found[0][1].outcome not in ("oom", "ok"):
                return found[0][1]._replace(cost_s=spent)
        return whole._replace(cost_s=spent)

    def _trial(self, knobs: dict[str, Any], spec: Spec, deadline: float) -> Record:
        """One worker's life, as a record of its rank alone, with the GPU beside it."""
        start = time.monotonic()
        before = self.guard.free(deadline / 2) if self.guard else {}
        waited = time.monotonic() - start
        sampler = Sampler() if self.guard and self.guard.sees else None
        with ExitStack() as held:
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="fp8tune-"))
            path, said = Path(folder) / "spec.json", Path(folder) / "stderr"
            path.write_text(json.dumps(spec._asdict()), encoding="utf-8")
            errors = held.enter_context(said.open("wb"))
            if sampler:
                held.enter_context(sampler.running())
            command = [*self.worker, str(path), str(os.getpid())]
            heard = listen(command, SILENCE_S, deadline - waited, errors, self.hear)
            found = record(knobs, spec, heard, _last_line(said))
        if self.guard:
            before |= self.guard.beside(before)
        found = found._replace(cost_s=found.cost_s + waited)
        samples = sampler.samples() if sampler else []
        found = without_slowed(found, heard.events, samples)
        return beside(found, before, summary(between(samples, *_steady(heard))))

    def close(self) -> None:
        """Every trial has ended with its own call."""


def _steady(heard: Heard) -> tuple[float, float]:
    """When the steady steps began and ended [s since 1970]."""
    at = {str(event.get("stage")): event.get("at") for event in heard.events}
    start, end = at.get("steady"), at.get("profile")
    if isinstance(start, float) and isinstance(end, float):
        return start, end
    return 0.0, 0.0


def record(knobs: dict[str, Any], spec: Spec, heard: Heard, said: str) -> Record:
    """What a worker's lines amount to; ``said`` is its last word on stderr."""
    base = Record(knobs, "launch", cost_s=heard.seconds)
    done, failed = _event(heard, "done"), _event(heard, "failed")
    try:
        if done is not None:
            return _measured(base, spec, heard, done)
        if failed is not None:
            return _failed(base, heard, failed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the worker's report cannot be read: {type(error).__name__} {error}"
        return base._replace(more={"message": message[:500]})
    outcome, message = _unfinished(spec, heard)
    said = said if heard.ended == "exit" else ""  # else it was cut off, not ended
    more = {"message": f"{message} {said}".strip(), "stage_reached": heard.stage}
    return base._replace(outcome=outcome, more=more)


def _failed(base: Record, heard: Heard, failed: dict[str, Any]) -> Record:
    message = f"{failed['error']}: {failed['message']}"
    more: dict[str, Any] = {"message": message[:500], "stage_reached": heard.stage}
    kind = "launch" if heard.stage == "import" else failed["kind"]
    if kind not in OUTCOMES:
        raise ValueError(kind)
    if kind == "nan":
        more |= series(heard.events)
    return base._replace(outcome=kind, more=more)


def _unfinished(spec: Spec, heard: Heard) -> tuple[str, str]:
    """The outcome of a worker that neither finished nor said why."""
    if heard.ended == "late":
        late = _LATE.get(heard.stage, "hang")
        if heard.stage == "first_step" and spec.compile:
            late = "compile"
        return late, f"nothing more in stage {heard.stage}"
    if heard.code == -9:
        return "launch", "killed by the system, probably for host memory"
    return "launch", f"the worker ended with code {heard.code}"


def _measured(base: Record, spec: Spec, heard: Heard, done: dict[str, Any]) -> Record:
    built: dict[str, Any] = _event(heard, "float8_linears", whole=True) or {}
    about: dict[str, Any] = _event(heard, "torch", whole=True) or {}
    more: dict[str, Any] = {
        **series(heard.events),
        "all_step_ms": [event["ms"] for event in heard.events if "step" in event],
        "environment": _environment(heard),
        "versions": {name: about[name] for name in VERSIONS if name in about},
        "float8_linears": built.get("float8_linears", 0),
        "checkpointed": built.get("checkpointed", 0),
        "grad_accum": spec.grad_accum,
        "rehearsal": spec.device == "cpu",
        **{name: done[name] for name in KEPT if name in done},
    }
    outcome = "ok"
    if why := _missing_float8(spec, more):
        outcome, more["message"] = "user", why
    return base._replace(
        outcome=outcome,
        tokens_per_second=done["tokens_per_second_per_rank"],
        step_ms=tuple(done["step_ms"]),
        peak_gib=done["peak_gib"],
        reserved_gib=done["reserved_gib"],
        more=more,
    )


def _missing_float8(spec: Spec, more: dict[str, Any]) -> str:
    """Why a trial was not in FP8 though that was asked for; ``""`` where it was.

    Each FP8 linear has a matmul forward and one for each gradient, in every
    micro-batch; activation checkpointing adds to them. The recipe that keeps the
    weights' gradient in high precision has one less.
    """
    if spec.precision != "fp8":
        return ""
    ran = more.get("float8_matmuls", 0)
    if not ran:
        return "FP8 was asked for, and no FP8 matmul ran"
    each = 2 if spec.fp8_recipe == "rowwise_with_gw_hp" else 3
    least = more["float8_linears"] * spec.grad_accum * each
    missing = f"only {ran} FP8 matmuls ran in a step, of {least} of its FP8 linears"
    return missing if ran < least else ""


def _environment(heard: Heard) -> str:
    about = _event(heard, "torch", whole=True) or {}
    return f"{about.get('device', '?')}, torch {about.get('torch', '?')}"


def _event(heard: Heard, name: str, *, whole: bool = False) -> dict[str, Any] | None:
    """The event with that field: the field's value, or the event itself."""
    for event in heard.events:
        if name in event:
            return event if whole else event[name]
    return None


def _last_line(path: Path) -> str:
    """The last line of a file, of its last 4 KiB."""
    with path.open("rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
