"""Prepare real trials of a config on this machine: what they need, and their runner.

Each process of a search that runs trials uses this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fp8tune.config.directive import asked as named_gpu
from fp8tune.config.reader import Config
from fp8tune.facts.versions import Match
from fp8tune.lint.run import cores
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.gpu import Sample, allocator
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.trainer.config import UserConfig
from fp8tune.runners.trainer.launch import (
    CannotLaunch,
    checked,
    find_launch,
    releases_in,
)
from fp8tune.runners.trainer.recipe import BadRecipe, Recipe, recipe_of
from fp8tune.runners.trainer.runner import TrainerRunner, trainer_runner
from fp8tune.runners.watch import Guard
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import keys_to_free
from fp8tune.search.linting import check_config, failing, misread, without_refused
from fp8tune.search.losses.loss_runs import Conditions, conditions_for_trials
from fp8tune.search.machine import (
    TrialMachine,
    check_host,
    check_ranks,
    check_versions,
    check_watts,
    cpu_name,
    environment,
    installed_versions,
    larger_target_gib,
    unsafe_versions,
)
from fp8tune.search.objective import ENERGY
from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import config_asked, started, without_script
from fp8tune.search.plan import (
    Plan,
    check_planned,
    is_covered,
    plan_for_trials,
    ranks_of_trial,
    why_synthetic_data,
    without_idle,
)
from fp8tune.search.writable import without_unwritable
from fp8tune.trainers.packages import assuming, wanted

RealRunner = Builtin | TrainerRunner
PART = 1 / 60
"""If the steps of a trial take this part of the budget, it measures the fewest."""
ENOUGH_S = 30.0
"""The most of that time [s]: five steps of a quarter of it show their level, and runs
of a setting differ by more than its steps do."""
SAMPLED_S = 3.0
"""Steps of so many seconds have enough samples of the watts to compare these [s]."""


def this_machine(device: str, *, watts: bool = False, ranks: int = 1) -> TrialMachine:
    """Ask the driver of this machine's GPU; with ``watts`` whether it reports them.

    A trial runs on ``ranks`` GPUs. For ``cpu`` the driver is not asked.
    """
    if device == "cpu":
        return TrialMachine(device, f"{cpu_name()}, {cores()} cores")
    driver = current(ranks)
    seen = driver.look() if watts else Sample()
    return TrialMachine(
        device,
        name=driver.gpu.name,
        driver=driver.gpu.driver,
        allocator=allocator(),
        failure=driver.failed,
        has_watts=seen.energy_j is not None,
        gpus=driver.gpu.visible,
    )


@contextmanager
def read_as_installed(options: SearchOptions) -> Iterator[None]:
    """Read configs as for the packages of the Python that runs their own trainer."""
    releases: dict[str, str] = {}
    if options.runner == "trainer":
        try:
            releases = releases_in(options.python, options.trainer_dir, wanted())
        except CannotLaunch as error:
            raise CannotSearch(str(error)) from None
    with assuming(releases):
        yield


class RealTrials(NamedTuple):
    """Real trials of a config on a machine.

    ``ranks`` is how many data-parallel ranks one trial represents; ``options.ranks`` of
    the run's ranks run in it. ``own`` launches the config's own trainer; without it
    trials run fp8tune's model. ``unsafe`` are versions with which FP8 may fail.
    """

    options: SearchOptions
    config: Config
    machine: TrialMachine
    ranks: int
    own: TrainerRunner | None
    unsafe: list[Match]

    @property
    def synthetic_data(self) -> str:
        """Why trials do not read the config's data, ``""`` if they do."""
        return self.own.synthetic if self.own else why_synthetic_data(self.config)

    @property
    def gpus(self) -> int:
        """The GPUs of one trial."""
        if self.own:
            return int(self.config.job.target.world_size)
        return self.options.ranks

    @property
    def environment(self) -> dict[str, Any]:
        """What trials depend on besides the config."""
        job, synthetic = self.config.job, bool(self.synthetic_data)
        about = environment(job, self.machine, synthetic_data=synthetic)
        if self.options.ranks > 1:
            about["ranks"] = self.options.ranks
        if allowed := [each.combination.code for each in self.unsafe if each.checked]:
            about["allowed_versions"] = allowed
        return about | (self.own.launch.identity if self.own else {})

    @property
    def conditions(self) -> Conditions:
        """Whether, and how, these trials can compare losses."""
        allow = self.options.allow
        simulated = self.ranks if self.options.ranks == 1 else 1
        conditions = conditions_for_trials(self.config, allow, simulated)
        if self.own:
            refusal = self.own.no_losses or conditions.refusal
            return conditions._replace(refusal=refusal)
        return conditions

    def runner(self, scratch: str) -> RealRunner:
        """Return the runner; running trials keep their files below ``scratch``."""
        options, config, sampling = self.options, self.config, _sampling(self.options)
        guard = Guard(current(self.gpus)) if options.device == "cuda" else None
        if self.own:
            return self.own.ready(sampling, scratch, guard)
        setup = Setup(
            options.device,
            dp_shard=self.ranks,
            ranks=options.ranks,
            larger_gib=larger_target_gib(config.job, self.machine),
            synthetic_data=self.synthetic_data,
            sampling=sampling,
            scratch=scratch,
        )
        return Builtin(config, setup, guard=guard)


def real_trials(
    options: SearchOptions, config: Config, machine: TrialMachine
) -> RealTrials:
    """Return the trials of a config; raises ``CannotSearch`` if there can be none."""
    builtin = options.runner == "builtin"
    own = None if builtin else _trainer_runner(options, config, machine)
    ranks = 1 if own else ranks_of_own_trial(options, config)
    if machine.name and options.device == "cpu" and not own:
        check_host(config, options.ranks)
    unsafe: list[Match] = []
    if machine.name:  # else workers know their machines
        check_ranks(machine, options.ranks)
        check_watts(options.objective, machine)
        unsafe = versions_of_trials(options, config, own)
    return RealTrials(options, config, machine, ranks, own, unsafe)


def ranks_of_own_trial(options: SearchOptions, config: Config) -> int:
    """Return how many ranks fp8tune's own trial represents."""
    try:
        return ranks_of_trial(config, options.ranks)
    except CannotSearch as error:
        about = config.trainer.about
        if about.own is not None or is_covered(config):
            raise
        try:
            recipe = recipe_of(about)
        except BadRecipe:
            raise error from None
        if recipe.refused:
            raise
        if options.device == "cpu" and recipe.cpu is None:
            raise CannotSearch(f"{error}; {gpus_only(config, recipe)}") from None
        where = " --python PYTHON" * ("{python}" in recipe.command)
        where = " --trainer-dir CHECKOUT" if recipe.needs else where
        typed = f"--runner trainer{where}"
        raise CannotSearch(f"{error}; {typed} runs {about.title} itself") from None


def with_runner(options: SearchOptions, config: Config | None = None) -> SearchOptions:
    """Return the options with the runner that ``auto`` means for their config.

    fp8tune's own trial where it covers the config, else the config's trainer. Raises
    ``CannotSearch`` and as ``config_asked``.
    """
    if options.runner != "auto":
        return options
    if config is None:
        gpu = named_gpu(options.gpu, None).gpu
        config = config_asked(options, gpu, "--gpu" * bool(gpu), options.ranks)
    builtin = is_covered(config) or options.ranks > 1
    return options._replace(runner="builtin" if builtin else "trainer")


def check_start(
    options: SearchOptions, config: Config, *, python: bool = True
) -> Recipe | None:
    """Raise ``CannotSearch`` if no search of a config can start, on any machine.

    Returns how the config's own trainer is run, ``None`` for fp8tune's own trial.
    Without ``python``, the run's, what its packages tell may be unknown.
    """
    check_config(config, keys_to_free(config, options.allow, options.device))
    recipe = None
    if options.runner == "builtin":
        ranks_of_own_trial(options, config)
    else:
        recipe = recipe_of_trials(options, config)
    try:
        check_planned(config, builtin=recipe is None, python=python)
    except CannotSearch as error:
        why = "; ".join((*misread(config), str(error)))
        raise CannotSearch(why) from None
    return recipe


def plan_search(options: SearchOptions, config: Config, gpu: str = "") -> Plan:
    """Return the plan of a search by trials, without what cannot be tried or written.

    ``gpu`` is the driver's name of the GPU that runs them. Raises ``CannotSearch``.
    """
    builtin = options.runner == "builtin"
    plan = plan_for_trials(config, options.allow, options.device, gpu, builtin=builtin)
    plan = without_idle(without_refused(without_unwritable(plan)))
    return plan._replace(notes=(*plan.notes, *failing(plan)))


def recipe_of_trials(options: SearchOptions, config: Config) -> Recipe:
    """Return how trials run the config's own trainer; raises ``CannotSearch``."""
    about, own = config.trainer.about, options.runner == "command"
    try:
        recipe = checked(about, options.trainer_dir, own=own)
    except CannotLaunch as error:
        raise CannotSearch(_with_refusal(error, config)) from None
    if options.device == "cpu" and recipe.cpu is None:
        raise CannotSearch(gpus_only(config, recipe))
    return recipe


def check_installed(options: SearchOptions, config: Config) -> None:
    """Raise ``CannotSearch`` if this machine lacks the config's own trainer."""
    about, ranks = config.trainer.about, config.job.target.world_size
    own = options.runner == "command"
    folder, python = options.trainer_dir, options.python
    try:
        find_launch(about, folder, ranks, options.device, own=own, python=python)
    except CannotLaunch as error:
        raise CannotSearch(_with_refusal(error, config)) from None


def _with_refusal(error: CannotLaunch, config: Config) -> str:
    """Return why a trainer cannot run, and why fp8tune's own trial does not either."""
    refusal = config.job.find("trial_refusal")
    own = f"; fp8tune's own trial cannot represent {refusal}" if refusal else ""
    return f"{error}{own}"


def gpus_only(config: Config, recipe: Recipe) -> str:
    """Return that a trainer needs GPUs, and what can be done without one."""
    title = config.trainer.about.title
    return f"{title} trains on GPUs only: {without_gpu(config, recipe)}"


def without_gpu(config: Config, recipe: Recipe | None) -> str:
    """Return what to type on a machine without a GPU."""
    if recipe is None or recipe.cpu is not None:
        return "rehearse with --device cpu"
    if is_covered(config):
        return "rehearse with --runner builtin --device cpu"
    replays = "search recorded trials with --runner replay --records FILE"
    return f"plan with --dry-run, or {replays}"


def versions_of_trials(
    options: SearchOptions, config: Config, own: TrainerRunner | None = None
) -> list[Match]:
    """Return the versions with which FP8 trials may fail.

    Raises ``CannotSearch`` for those with which they fail, unless these are allowed.
    """
    versions = own.launch.versions if own else installed_versions()
    unsafe = unsafe_versions(config, options.allow, versions, options.device)
    if not options.allow_versions:
        check_versions(unsafe, own.launch.python if own else "")
    return unsafe


def _sampling(options: SearchOptions) -> Sampling:
    """Return the rule of a trial's steps: a rehearsal makes few."""
    sampling = Sampling(
        enough_s=min(ENOUGH_S, PART * options.budget_s),
        least_s=SAMPLED_S if options.objective == ENERGY else 0.0,
    )
    few = sampling._replace(min_steps=3, max_steps=6, warm_steps=1)
    return few if options.device == "cpu" else sampling


def config_of_trials(config: Config, recipe: Recipe) -> UserConfig:
    """Return the config of a search as its trainer's trials start from it.

    Raises ``CannotSearch`` and ``Unreadable``.
    """
    if not recipe.launches:
        return UserConfig(without_script(config))
    overrides, program = started(config)
    program = config.trainer.program.program_of(program, config.parts)
    return UserConfig(config.having(overrides=overrides), program)


def _trainer_runner(
    options: SearchOptions, config: Config, machine: TrialMachine
) -> TrainerRunner:
    """Return the runner that launches the config's own trainer."""
    recipe_of_trials(options, config)
    try:
        launch = find_launch(
            config.trainer.about,
            options.trainer_dir,
            config.job.target.world_size,
            options.device,
            own=options.runner == "command",
            gpus=machine.gpus if machine.gpu else 0,
            python=options.python,
        )
        return trainer_runner(
            launch,
            config_of_trials(config, launch.recipe),
            device=options.device,
            data_missing=config.job.find("data_missing") or "",
        )
    except CannotLaunch as error:
        raise CannotSearch(_with_refusal(error, config)) from None
