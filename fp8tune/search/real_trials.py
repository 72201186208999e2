"""Prepare real trials of a config on this machine: what they need, and their runner.

The coordinator of a search uses this, and each of its workers. Only this module and the
session import the runners.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fp8tune.lint.run import cores
from fp8tune.runners import cpu
from fp8tune.runners.builtin.runner import SCRATCH as SCRATCH
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.gpu import Sample, allocator
from fp8tune.runners.watch import Guard
from fp8tune.search.machine import (
    TrialMachine,
    check_host,
    check_watts,
    environment,
    larger_target_gib,
)
from fp8tune.search.objective import ENERGY
from fp8tune.search.options import SearchOptions
from fp8tune.search.plan import TrainConfig, ranks_of_trial, why_synthetic_data
from fp8tune.search.stability.loss_runs import Conditions, conditions_for_trials

PART = 1 / 60
"""If the steps of a trial take this part of the budget, it measures the fewest."""
ENOUGH_S = 30.0
"""The most of that time [s]: five steps of a quarter of it show their level, and runs
of a setting differ by more than its steps do."""
SAMPLED_S = 3.0
"""Steps of so many seconds have enough samples of the watts to compare these [s]."""


def this_machine(device: str, *, watts: bool = False) -> TrialMachine:
    """Ask the driver of this machine's GPU; with ``watts`` whether it reports them.

    For ``cpu`` the driver is not asked.
    """
    if device == "cpu":
        return TrialMachine(device, f"{cpu.name()}, {cores()} cores")
    driver = current()
    seen = driver.look() if watts else Sample()
    return TrialMachine(
        device,
        name=driver.gpu.name,
        driver=driver.gpu.driver,
        allocator=allocator(),
        failure=driver.failed,
        has_watts=seen.power_w is not None or seen.energy_j is not None,
    )


class RealTrials(NamedTuple):
    """Real trials of a config on a machine.

    ``ranks`` is how many ranks one trial represents. ``synthetic_data`` says why trials
    do not read the config's data, or is ``""``.
    """

    options: SearchOptions
    config: TrainConfig
    machine: TrialMachine
    ranks: int
    synthetic_data: str

    @property
    def environment(self) -> dict[str, Any]:
        """What trials depend on besides the config."""
        job, synthetic = self.config.job, bool(self.synthetic_data)
        return environment(job, self.machine, synthetic_data=synthetic)

    @property
    def conditions(self) -> Conditions:
        """Whether, and how, these trials can compare losses."""
        return conditions_for_trials(self.config, self.options.allow, self.ranks)

    def runner(self, scratch: str) -> Builtin:
        """Return the runner; running trials keep their files below ``scratch``."""
        options, config = self.options, self.config
        setup = Setup(
            options.device,
            dp_shard=self.ranks,
            larger_gib=larger_target_gib(config.job, self.machine),
            synthetic_data=self.synthetic_data,
            enough_s=min(ENOUGH_S, PART * options.budget_s),
            least_s=SAMPLED_S if options.objective == ENERGY else 0.0,
            scratch=scratch,
        )
        if options.device == "cpu":
            setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
        guard = Guard(current()) if options.device == "cuda" else None
        target = config.job.target
        return Builtin(config.trainer, config.loaded, target, setup, guard=guard)


def real_trials(
    options: SearchOptions, config: TrainConfig, machine: TrialMachine
) -> RealTrials:
    """Return the trials of a config; raises ``CannotSearch`` if there can be none."""
    ranks = ranks_of_trial(config)
    if machine.name and options.device == "cpu":
        check_host(config, options.budget_s)
    if machine.name:  # else workers know their machines
        check_watts(options.objective, machine)
    synthetic_data = why_synthetic_data(config)
    return RealTrials(options, config, machine, ranks, synthetic_data)
