"""Which experiments are run here, and what an outcome means."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from benchmarks.rule_evidence.config import shrink
from benchmarks.rule_evidence.experiment import (
    OBSERVED,
    Experiment,
    expectation,
    experiments,
    requirement,
)
from benchmarks.rule_evidence.launch import Seen
from fp8tune.config.directive import read_directive
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.rules import Rule
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer


class Task(NamedTuple):
    """An experiment on one device."""

    rule: Rule
    number: int
    device: str
    experiment: Experiment

    @property
    def digest(self) -> str:
        """Tells whether a recorded outcome is of this very experiment."""
        experiment = self.experiment
        texts = (experiment.config, experiment.control)
        run = [shrink(text, self.device) for text in texts]
        said = repr((*run, experiment.ranks, experiment.expect))
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    @property
    def key(self) -> tuple[str, int, str]:
        """What an outcome is kept under."""
        return self.rule.name, self.number, self.device


def tasks(rules: Iterable[Rule]) -> Iterator[Task]:
    """Every experiment of the rules on every device that can show it."""
    for rule in rules:
        for number, experiment in enumerate(experiments(rule), 1):
            for device in experiment.devices:
                yield Task(rule, number, device, experiment)


class Machine(NamedTuple):
    """What there is to run on: GPUs, and of the first one the figures."""

    gpus: int
    figures: dict[str, float]


def missing(task: Task, machine: Machine) -> str:
    """Why a task cannot run on this machine; empty if it can."""
    experiment = task.experiment
    if task.device == "cpu":
        return ""
    wanted = f"needs {experiment.ranks} GPU{'s' * (experiment.ranks > 1)}"
    wanted += f" of {experiment.needs}" if experiment.needs else ""
    if experiment.ranks > machine.gpus:
        return wanted
    met = requirement(experiment.needs or "true").evaluate(machine.figures)
    return "" if met else wanted


def needs_gpu_time(task: Task) -> bool:
    """Whether an experiment is one of ``gpu-only``: it times the steps of one GPU."""
    experiment = task.experiment
    timed = "step_ms" in observed(task)
    return timed and experiment.ranks == 1 and tuple(experiment.devices) == ("cuda",)


def observed(task: Task) -> list[str]:
    """The quantities that have to be watched."""
    names = expectation(task.rule, task.experiment.expect).names
    return sorted({name.removeprefix("control.") for name in names} & set(OBSERVED))


class Scope:
    """The names of an expectation: the run, its control, the config's own figures."""

    def __init__(self, run: Seen, control: Seen, job: Job) -> None:
        self.run, self.control, self.job = run, control, job

    def __getitem__(self, name: str) -> Any:
        if name.removeprefix("control.") not in OBSERVED:
            return self.job[name]
        seen = self.control if name.startswith("control.") else self.run
        if name.removeprefix("control.") not in seen:
            raise Unknown(name)
        return seen[name.removeprefix("control.")]


def verdict(task: Task, config: str, run: Seen, control: Seen) -> tuple[str, str]:
    """Shown, refuted or unclear, and why."""
    if control["error"]:
        return "unclear", f"the control failed: {control['error']}"
    expected = expectation(task.rule, task.experiment.expect)
    try:
        held = expected.evaluate(Scope(run, control, job(task, config)))
    except Unknown as error:
        why = run["error"] or "not seen"
        return "unclear", f"{error.args[0]} is unknown: {why}"
    return ("shown", "") if held else ("refuted", run["error"] or "as observed")


def job(task: Task, config: str) -> Job:
    """The job of a config as the rule sees it, on the experiment's ranks."""
    all_toml = (name for name, each in trainers().items() if "toml" in each.formats)
    owner = trainer(next(iter((*task.rule.trainers, *all_toml))))
    target = read_directive(config).complete(Target(world_size=task.experiment.ranks))
    return owner.job(owner.load(tomllib.loads(config)), target)
