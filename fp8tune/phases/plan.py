"""Split a run into phases, and check that they are the run that it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.job import Job, Unknown
from fp8tune.lint.engine import check_config
from fp8tune.lint.written import rules_for
from fp8tune.phases import CannotPlan
from fp8tune.trainers.about import trainers
from fp8tune.trainers.phase import Phase, Setting
from fp8tune.words import shown

MOST = 10**7
"""Longest run of which every step is checked."""


class PhasedRun(NamedTuple):
    """The phases of a run, and the keys that each of them sets."""

    config: Config
    phases: tuple[Phase, ...]
    settings: tuple[tuple[Setting, ...], ...]

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.phases[-1].total

    def learning_rate(self) -> Callable[[int], float]:
        """The learning rate of a step of the unbroken run, counted from 1."""
        return self._rates(self.config.loaded.values)

    def rates(self) -> Iterator[tuple[Phase, Callable[[int], float]]]:
        """Yield each phase with the learning rates that its own config gives."""
        for number, phase in enumerate(self.phases):
            yield phase, self._rates(self.values(number))

    def values(self, number: int) -> dict[str, Any]:
        """Return the values of the config of a phase, counted from 0."""
        changed = {setting.key: setting.value for setting in self.settings[number]}
        return self.config.loaded.values | changed

    def _rates(self, values: dict[str, Any]) -> Callable[[int], float]:
        found: Callable[[int], float]
        found = self.config.trainer.phases.learning_rates(values)
        return found


def plan(config: Config, warmup: str, cooldown: str) -> PhasedRun:
    """Return the phases of a config; raises ``CannotPlan``.

    ``warmup`` and ``cooldown`` are steps, or a share of the run such as ``5%``.
    """
    _check_trainer(config)
    _check_runs(config)
    job = config.job
    total = _total(job)
    first, last = (
        steps(given, total, name) if given else 0
        for given, name in ((warmup, "--bf16-warmup"), (cooldown, "--bf16-cooldown"))
    )
    if not first and not last:
        raise CannotPlan("no bf16 phase: give --bf16-warmup or --bf16-cooldown")
    if first + last >= total:
        raise CannotPlan(
            f"{first + last:,} bf16 steps leave none for FP8: "
            f"{_key(job)} = {total} steps in all"
        )
    ends = [("bf16", first)] * bool(first) + [("fp8", total - last)]
    ends += [("bf16", total)] * bool(last)
    starts = [0, *(end for _, end in ends)]
    phases = tuple(
        Phase(number, precision, starts[number - 1], end, total)
        for number, (precision, end) in enumerate(ends, 1)
    )
    for refusal in config.trainer.phases.refusals(job, phases):
        raise CannotPlan(refusal)
    found = PhasedRun(
        config, phases, tuple(_settings(config, phase) for phase in phases)
    )
    _check_rates(found)
    return found


def steps(given: str, total: int, name: str) -> int:
    """Return the steps that an option gives, or a share of the run."""
    share = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", given)
    if share is not None:
        found = round(total * float(share[1]) / 100)
    elif re.fullmatch(r"[0-9]{1,9}", given):
        found = int(given)
    else:
        reason = f"{shown(given)} is no number of steps or share like 5%"
        raise CannotPlan(f"{name}: {reason}")
    if not 0 < found < total:
        reason = f"{found:,} steps" + f" ({given} of {total:,})" * bool(share)
        raise CannotPlan(f"{name}: {reason}; it must be between 1 and {total - 1:,}")
    return found


def _check_trainer(config: Config) -> None:
    """Raise ``CannotPlan`` if the trainer cannot run phases, or this is no FP8 run."""
    about, title = config.trainer.about, config.trainer.about.title
    if "program" not in about.phases:
        known = ", ".join(t.title for t in trainers().values() if "program" in t.phases)
        said = "it is not known how it resumes across precisions"
        reason = about.phases.get("refused", said)
        raise CannotPlan(f"{title}: {reason}; phases are for {known}")
    precision = config.job.find("precision")
    if precision is None:
        _check_runs(config)
        size = config.job.find("world_size")
        add = ": add --world-size N, the number of GPUs" if size is None else ""
        raise CannotPlan(f"it is not known whether this config trains in FP8{add}")
    if precision != "fp8":
        keys = config.job.keys_for({"precision": "fp8"}).items()
        sets = " and ".join(f"{key} = {shown(value)}" for key, value in keys)
        raise CannotPlan(f"this config trains in {precision}, not in FP8: set {sets}")


def _check_runs(config: Config) -> None:
    """Raise ``CannotPlan`` if the trainer refuses the config, or crashes on it."""
    report = check_config(config, rules_for(config.path))
    for found in report.diagnostics:
        if found.severity == "error" and found.category in ("rejected", "crash"):
            see = f"fix that first, see: fp8tune lint {config.path}"
            raise CannotPlan(f"{found.message} [{found.rule}]; {see}")


def _total(job: Job) -> int:
    try:
        total = job["max_steps"]
    except Unknown:
        total = None
    if type(total) is not int or total < 2:
        raise CannotPlan(f"the steps of the run are not known: set {_key(job)}")
    if total > MOST:
        raise CannotPlan(f"{_key(job)} = {total}: more than {MOST:,} steps")
    return total


def _key(job: Job) -> str:
    return job.key("max_steps")


def _settings(config: Config, phase: Phase) -> tuple[Setting, ...]:
    """Return the keys that a phase sets, without those that have the value already."""
    job = config.job
    every: list[Setting] = []
    if phase.precision != "fp8":
        for key, value in job.keys_for({"precision": phase.precision}).items():
            every.append(Setting(key, value, f"fp8 -> {phase.precision}"))
    every += config.trainer.phases.settings(job, phase)
    return tuple(s for s in every if job.given.get(s.key) != s.value)


def _check_rates(found: PhasedRun) -> None:
    """Raise ``CannotPlan`` if a step's learning rate is not that of the whole run."""
    whole = found.learning_rate()
    for phase, rate in found.rates():
        for step in range(phase.start + 1, phase.end + 1):
            one, other = whole(step), rate(step)
            if one != other:
                hint = found.config.trainer.phases.schedule_hint(found.config.job)
                raise CannotPlan(
                    f"the learning rate of step {step} would be {other:.6g} instead of "
                    f"{one:.6g}" + f": {hint}" * bool(hint)
                )
