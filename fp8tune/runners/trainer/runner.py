"""Run trials with the trainer that runs the job, each in new processes."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import STDOUT
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats.document import HOLE
from fp8tune.job import Job, Unknown
from fp8tune.runners.counted import with_interval_and_energy, with_samples
from fp8tune.runners.process import SCRATCH, supervise
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.trainer.config import CannotWrite, UserConfig, not_known
from fp8tune.runners.trainer.launch import CannotLaunch, Launch
from fp8tune.runners.trainer.output import Output, Wanted
from fp8tune.runners.trainer.proof import profiles, proof
from fp8tune.runners.trainer.recipe import Keys
from fp8tune.runners.trainer.record import base_record, tokens_of
from fp8tune.runners.watch import Guard
from fp8tune.trainers.call import Program
from fp8tune.trials.record import LossRun, Record
from fp8tune.trials.runner import TrialLimits


class Setup(NamedTuple):
    """Device, data and duration of trials.

    ``synthetic`` says why the trainer makes its own data, or is empty. Files of a trial
    are in a folder below ``scratch``, else below the system's.
    """

    device: str = "cuda"
    synthetic: str = ""
    sampling: Sampling = Sampling()
    scratch: str = ""


class TrainerRunner:
    """A runner of real trials: each starts the trainer's own program."""

    def __init__(
        self,
        launch: Launch,
        config: UserConfig,
        setup: Setup,
        guard: Guard | None = None,
    ) -> None:
        self.launch = launch
        self.config = config
        self.setup = setup
        self.guard = guard
        self.hear: Callable[[dict[str, Any]], None] = lambda _line: None

    def __str__(self) -> str:
        """Return what runs, for people, with the program that it starts."""
        words = shlex.join(self.config.program.words).replace(HOLE, "_")
        return f"{self.launch}{f': {words}' if words else ''}"

    def now(self) -> float:
        """Return wall time [s]."""
        return time.monotonic()

    def ready(
        self, sampling: Sampling, scratch: str, guard: Guard | None
    ) -> TrainerRunner:
        """Return the runner with the rule of its steps, its folder and its GPU."""
        setup = self.setup._replace(sampling=sampling, scratch=scratch)
        return TrainerRunner(self.launch, self.config, setup, guard)

    @property
    def synthetic(self) -> str:
        """Why trials train on the trainer's own data, or ``""``."""
        return self.setup.synthetic

    @property
    def no_losses(self) -> str:
        """Why no loss runs are possible; ``""`` if they are."""
        synthetic = bool(self.setup.synthetic)
        return why_no_losses(self.launch, self.config.base, synthetic=synthetic)

    def run(self, knobs: dict[str, Any], limits: TrialLimits) -> Record:
        """Try one setting in new processes, within its limits."""
        recipe = self.launch.recipe
        added = [recipe.trial, recipe.speed]
        try:
            job = self.config.job(knobs)
            asks_fp8 = job.find("precision") == "fp8"
            profile = recipe.profile if asks_fp8 and not limits.matmuls else None
            sampling = self.setup.sampling
            if self.setup.device == "cuda":  # on a CPU there are no clocks to wait for
                least = max(sampling.least_s, limits.least_s)
                sampling = sampling._replace(least_s=least)
            wanted = self._wanted(job, limits, sampling)
            wanted.profile = profile
        except Unknown as missing:
            return _not_started(knobs, f"{missing} is not known from the config")
        if profile:
            added.append(profile.keys)
        return self._trial(knobs, wanted, added, limits)

    def train_for_losses(
        self, knobs: dict[str, Any], loss_run: LossRun, deadline_s: float
    ) -> Record:
        """Train one setting with the trainer, to compare losses."""
        recipe, limits = self.launch.recipe, TrialLimits(deadline_s)
        try:
            job = self.config.job(knobs)
            wanted = self._wanted(job, limits, self.setup.sampling)
        except Unknown as missing:
            found = _not_started(knobs, f"{missing} is not known from the config")
            return found._replace(loss_run=loss_run)
        wanted.losses = loss_run.steps
        keys = loss_keys(self.launch, self.config.base, loss_run)
        found = self._trial(knobs, wanted, [recipe.trial, keys], limits)
        tokens = int(wanted.tokens)
        return found._replace(loss_run=loss_run, tokens_per_step=tokens)

    def _wanted(self, job: Job, limits: TrialLimits, sampling: Sampling) -> Wanted:
        return Wanted(
            self.launch.prints,
            self.launch.ranks,
            tokens_of(job),
            sampling,
            limits.deadline_s,
            limits.stepping_s,
            compiles=bool(job.find("compile")),
        )

    def _trial(
        self,
        knobs: dict[str, Any],
        wanted: Wanted,
        added: list[Keys],
        limits: TrialLimits,
    ) -> Record:
        """Run the trainer once; return its record with the GPU's state."""
        start, began = time.monotonic(), time.time()
        before = self.guard.free(limits.deadline_s / 2) if self.guard else {}
        waited = time.monotonic() - start
        wanted.deadline_s -= waited
        where = self.setup.scratch or None
        with tempfile.TemporaryDirectory(
            prefix=SCRATCH, dir=where, ignore_cleanup_errors=True
        ) as folder:
            places = self.config.places(folder)
            traces = os.path.join(folder, "traces")
            values = {"scratch": folder, "traces": traces, **places}
            wanted.is_written = lambda: any(profiles(traces))
            added = [*added, *_of_setup(self.launch, self.setup)]
            ranks = str(self.launch.ranks)
            try:
                made = self.config.for_trial(knobs, added, {**values, "ranks": ranks})
            except CannotWrite as error:
                return _not_started(knobs, str(error))
            for name, data in made.files.items():
                Path(places[name]).write_bytes(data)
            output = Output(wanted, self.hear)
            found = self._ran(knobs, output, values, made.program, limits)
        found = found._replace(cost_s=found.cost_s + waited)
        if self.guard:
            found = self._with_gpu(found, output, before, began, limits.deadline_s)
        return with_interval_and_energy(found, 1)  # watts and tokens are of all GPUs

    def _ran(
        self,
        knobs: dict[str, Any],
        output: Output,
        values: dict[str, str],
        program: Program,
        limits: TrialLimits,
    ) -> Record:
        traced = values if output.wanted.profile else {**values, "traces": ""}
        ended = supervise(
            self.launch.command(traced, program),
            output,
            errors=STDOUT,
            environment=self.launch.environment(traced, program),
        )
        job = self.config.job(knobs)
        found = base_record(knobs, output, ended, job)._replace(
            rehearsal=self.setup.device == "cpu",
            synthetic_data=bool(self.setup.synthetic),
            versions=dict(self.launch.versions),
            environment=self._environment(output),
        )
        asks_fp8 = job.find("precision") == "fp8"
        if not found.ok or not asks_fp8 or output.wanted.losses:
            return found
        if limits.matmuls:
            more = {**found.extra, "float8_matmuls_counted_earlier": True}
            return found._replace(float8_matmuls=limits.matmuls, extra=more)
        seen = proof(output.log, values["traces"], job)
        if seen.missing:
            return found._replace(outcome="user", message=seen.missing[:500])
        return found._replace(float8_matmuls=seen.matmuls)

    def _environment(self, output: Output) -> str:
        gpu = self.guard.driver.gpu.name if self.guard else ""
        device = gpu or output.log.settings.get("gpu", "") or self.setup.device.upper()
        return f"{device}, torch {self.launch.versions.get('torch', '?')}"

    def _with_gpu(
        self,
        found: Record,
        output: Output,
        before: dict[str, Any],
        began: float,
        deadline_s: float,
    ) -> Record:
        """Add what the driver saw meanwhile, which may change the outcome."""
        assert self.guard is not None
        driver = self.guard.driver
        before = self.guard.free(deadline_s, before)
        if driver.gpu.memory_gib:
            found = found._replace(capacity_gib=driver.gpu.memory_gib)
        samples = driver.samples(began, time.time())
        used = [sample.used_gib for sample in samples if sample.used_gib is not None]
        if found.ok and not found.reserved_gib and used:
            # with the CUDA context: the trainer prints what is allocated, no more
            found = found._replace(reserved_gib=max(used))
        events = output.events()
        ends = [event["at"] for event in events] or [0.0]
        steady = ends[0], ends[-1]
        return with_samples(found, driver, events, before, began=began, steady=steady)

    def close(self) -> None:
        """Do nothing: no process is left after a trial."""


def trainer_runner(
    launch: Launch,
    config: UserConfig,
    *,
    device: str = "cuda",
    data_missing: str = "",
) -> TrainerRunner:
    """Return the runner of a trainer for a config; raises ``CannotLaunch``.

    ``data_missing`` says which of its data files are not here. A config that cannot
    hold the keys of a trial is refused here, and not by each trial.
    """
    releases = {
        f"{name}_release": release
        for name in config.base.trainer.about.packages
        if (release := launch.versions.get(name))
    }
    loaded = config.base.loaded
    loaded = loaded._replace(values=loaded.values | releases)
    config = config._replace(base=config.base.having(loaded=loaded))
    _check_module(launch, config)
    recipe, synthetic = launch.recipe, ""
    if recipe.synthetic != Keys():
        synthetic = data_missing
        if not synthetic and _is_synthetic(launch, config.base):
            synthetic = "the config names no training data"
    setup = Setup(device, synthetic)
    added = [recipe.trial, recipe.speed, *_of_setup(launch, setup)]
    added += [recipe.profile.keys] if recipe.profile else []
    try:
        config.for_trial({}, added, {"ranks": str(launch.ranks)})
        tokens_of(config.job({}))
    except CannotWrite as error:
        raise CannotLaunch(f"a trial {error}") from None
    except Unknown as missing:
        raise CannotLaunch(not_known(config.base.trainer, missing)) from None
    return TrainerRunner(launch, config, setup)


def _check_module(launch: Launch, config: UserConfig) -> None:
    """Raise ``CannotLaunch`` if the package of a module that starts is not there."""
    flag, module, *_ = (*config.program.words, "", "")
    package = module.partition(".")[0] if flag == "-m" else ""
    asked = config.base.trainer.about.packages
    if package in asked and package not in launch.versions:
        raise CannotLaunch(f"{launch.python} finds no package {package}")


def _of_setup(launch: Launch, setup: Setup) -> list[Keys]:
    """Return the keys of every trial on a device, and without data."""
    recipe = launch.recipe
    keys = [recipe.cpu] if setup.device == "cpu" and recipe.cpu else []
    return [*keys, recipe.synthetic] if setup.synthetic else keys


def _is_synthetic(launch: Launch, config: Config) -> bool:
    """Whether the config names no data, so that the trainer makes its own."""
    keys, values = launch.recipe.synthetic, config.loaded.values
    wanted: Mapping[str, Any] = {**dict.fromkeys(keys.unset), **keys.set}
    return all(values.get(key) == v for key, v in wanted.items())


def why_no_losses(launch: Launch, config: Config, *, synthetic: bool) -> str:
    """Return why the trainer cannot run for losses; ``""`` if it can."""
    recipe, keys = launch.recipe, dict(config.trainer.schema.dotted_keys())
    if recipe.losses is None:
        return f"{recipe.origin} names no key of a seed"
    if not any(key in keys for key in recipe.losses.seed):
        return f"no key of {launch.title} sets the seed"
    if synthetic and recipe.synthetic != Keys():
        return f"{launch.title} makes random data, from which nothing can be learned"
    if not config.trainer.key_of("warmup_steps"):
        return f"no key of {launch.title} sets the warmup"
    return ""


def loss_keys(launch: Launch, config: Config, run: LossRun) -> Keys:
    """Return the keys of a loss run: seed, warmup, and the run's length if shorter.

    The order of the data stays that of the config's own seed.
    """
    losses, values = launch.recipe.losses, config.loaded.values
    assert losses is not None
    keys: dict[str, Any] = dict.fromkeys(losses.seed, run.seed)
    if losses.data_seed:
        own = values.get(losses.data_seed)
        seeds = (values.get(key) for key in losses.seed)
        first = next((seed for seed in seeds if seed is not None), None)
        keys[losses.data_seed] = first if own is None else own
    keys |= config.job.keys_for({"warmup_steps": run.warmup_steps})
    length = config.trainer.key_of("max_steps")
    if length and 0 < (values.get(length) or 0) < run.steps:
        keys[length] = run.steps
    given = {key: value for key, value in keys.items() if value is not None}
    return Keys(given, losses.unset)


def _not_started(knobs: dict[str, Any], message: str) -> Record:
    return Record(knobs, "launch", message=message)
