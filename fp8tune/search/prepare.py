"""Prepare a search by real trials, by a replay, or by joining one."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.config.directive import asked as named_gpu
from fp8tune.config.reader import Config
from fp8tune.runners.process import SCRATCH
from fp8tune.runners.replay import Replay
from fp8tune.search import CannotSearch
from fp8tune.search.calibrate import (
    Calibration,
    choose_calibration,
    stored_calibration,
)
from fp8tune.search.database import without_password
from fp8tune.search.description import COMPARES_LOSSES, SEARCHED_IN
from fp8tune.search.knobs import keys_to_free
from fp8tune.search.linting import check_config
from fp8tune.search.loop import Event, Search
from fp8tune.search.losses.loss_runs import (
    Conditions,
    compares_losses,
    conditions_for_replay,
)
from fp8tune.search.machine import TrialMachine, check_worker_gpu, target_gpu
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import config_asked
from fp8tune.search.plan import Plan, study_name
from fp8tune.search.pool import NoWorkers, Peer, Pool, Watcher
from fp8tune.search.prior import card_gib
from fp8tune.search.real_trials import (
    RealRunner,
    RealTrials,
    check_installed,
    check_start,
    plan_search,
    real_trials,
    this_machine,
    versions_of_trials,
    with_runner,
    without_gpu,
)
from fp8tune.search.recorded import plan_replay
from fp8tune.search.saved_study import delete_study, load_study
from fp8tune.search.say import note
from fp8tune.search.start_workers import (
    check_workers,
    is_remote,
    is_shared,
    more_gpus_note,
    name_of_this_process,
    starter_of,
    study_to_join,
)
from fp8tune.search.storage import BadStudy, check_locks, errors_of
from fp8tune.search.strategy import Strategy, build_strategy
from fp8tune.search.study import Study, open_study
from fp8tune.search.writable import check_varied
from fp8tune.search.write.places import check_files
from fp8tune.trials.trial import timed


class Prepared(NamedTuple):
    """What a search needs; ``trials`` is ``None`` in a replay.

    ``runner`` is ``None`` too if other processes run the trials.
    """

    plan: Plan
    study: Study
    calibration: Calibration
    strategy: Strategy
    conditions: Conditions | None
    pool: Pool
    runner: RealRunner | None = None
    trials: RealTrials | None = None

    def search(self, options: SearchOptions, watch: Callable[[Event], None]) -> Search:
        """Return the search with the trials so far."""
        return Search(
            self.plan.space,
            self.plan.baseline,
            self.pool,
            strategy=self.strategy,
            study=self.study,
            budget_s=options.budget_s,
            watch=watch,
            objective=self.study.about.objective,
            conditions=self.conditions,
        )


def prepare_trials(options: SearchOptions, held: ExitStack) -> Prepared:
    """Prepare a search by real trials, here or on workers."""
    if options.has_workers:
        check_workers(options)
    machine = TrialMachine(options.device)
    if not is_remote(options):
        watts = options.objective == ENERGY
        machine = this_machine(options.device, watts=watts, ranks=options.ranks)
    config = _config_for_trials(options, machine)
    trials = real_trials(options, config, machine)
    if text := more_gpus_note(options, machine.gpus, trials.gpus):
        note(text)
    plan = plan_search(options, config, machine.gpu)
    check_varied(plan)
    check_files(options, plan)
    study, calibration, strategy = _open_study(
        options, plan, trials.environment, held, trials.conditions
    )
    held.push(_deletes_if_empty(study, options.storage))
    study.take_up()
    if options.storage:
        place = f"{socket.gethostname()}:{os.path.abspath(study.folder)}"
        study.describe({SEARCHED_IN: place})
    _remove_leftovers(study)
    runner = None
    if options.has_workers:
        check_locks(study.place)
        starter = starter_of(options, study, machine.gpus, trials.gpus)
        pool: Pool = Watcher(study, starter)
    else:
        runner = trials.runner(study.folder)
        name = name_of_this_process(options) if is_shared(options) else ""
        pool = Peer(study, runner, name)
    return Prepared(
        plan,
        study,
        calibration,
        strategy=strategy,
        conditions=trials.conditions,
        pool=pool,
        runner=runner,
        trials=trials,
    )


def prepare_replay(options: SearchOptions, held: ExitStack) -> Prepared:
    """Prepare a search that replays recorded trials."""
    if options.has_workers:
        raise CannotSearch("--runner replay needs no workers: no trial runs")
    gpu = named_gpu(options.gpu, None).gpu
    config = config_asked(options, gpu, "--gpu" if gpu else "", world_size=0)
    replay = plan_replay(config, options.records, options.allow, options.objective)
    plan = replay.plan
    check_files(options, plan)
    card = card_gib(config.job)
    runner = Replay(replay.speeds, plan.space, replay.learned, card)
    conditions = conditions_for_replay(
        config, replay.learned, options.allow, runner.offers
    )
    study, calibration, strategy = _open_study(
        options, plan, {"records": replay.digest}, held, conditions
    )
    for trial in timed(study.trials):
        runner.skip(plan.space.point(trial.record.knobs))
    for text in replay.notes:
        note(text)
    return Prepared(
        plan,
        study,
        calibration,
        strategy=strategy,
        pool=Peer(study, runner),
        conditions=conditions,
    )


def prepare_to_join(options: SearchOptions, held: ExitStack) -> Prepared:
    """Prepare to run trials of a study that another command began."""
    check_workers(options)
    folder, url = study_to_join(options)
    check_locks(url)
    saved = load_study(folder, url)
    plan, objective = saved.plan, saved.about.objective
    options = with_runner(options._replace(objective=objective), plan.config)
    watts = objective == ENERGY
    machine = this_machine(options.device, watts=watts, ranks=options.ranks)
    check_worker_gpu(machine)
    trials = real_trials(options, plan.config, machine)
    study = Study(plan.space, folder, url, options.beat_s)
    study.join(trials.environment)
    calibration = stored_calibration(saved.about)
    strategy = build_strategy(plan, study, calibration.runs, options.sampler)
    scratch = held.enter_context(tempfile.TemporaryDirectory(prefix=SCRATCH))
    pool = Peer(study, trials.runner(scratch), name_of_this_process(options))
    return Prepared(plan, study, calibration, strategy, trials.conditions, pool)


def _config_for_trials(options: SearchOptions, machine: TrialMachine) -> Config:
    """Return the config that trials start from; raises ``CannotSearch``."""
    gpu = named_gpu(options.gpu, None).gpu
    config = config_asked(options, gpu, "--gpu", world_size=options.ranks)
    recipe = check_start(options, config)
    if options.device == "cuda" and not is_remote(options):
        if not machine.name:  # what can be fixed without a GPU is said first
            check_here = check_installed if recipe else versions_of_trials
            check_here(options, config)
        gpu = target_gpu(machine, gpu, without_gpu(config, recipe))
        config = config_asked(options, gpu, "--gpu", world_size=options.ranks)
        check_config(config, keys_to_free(config, options.allow, options.device))
    return config


def _open_study(
    options: SearchOptions,
    plan: Plan,
    environment: dict[str, Any],
    held: ExitStack,
    conditions: Conditions | None,
) -> tuple[Study, Calibration, Strategy]:
    """Open the study of this search until ``held`` is closed.

    ``environment`` is what trials depend on besides the config. Also returns what
    corrects the estimate, and the strategy.
    """
    about = plan.about(**environment, allow=list(options.allow))
    if options.objective != SPEED:
        about["objective"] = options.objective
    if options.sampler != "auto":
        about["sampler"] = options.sampler
    studies, url = options.studies, options.storage
    folder = os.path.join(studies, study_name(plan, about))
    calibration = choose_calibration(about, folder, studies, url)
    study = open_study(folder, plan.space, held, url, options.beat_s)
    typed = options._replace(storage=without_password(options.storage)).kept
    more = {"calibration": calibration.data, "options": typed}
    study.describe({**about, **more, COMPARES_LOSSES: compares_losses(conditions)})
    strategy = build_strategy(plan, study, calibration.runs, options.sampler)
    return study, calibration, strategy


def _deletes_if_empty(study: Study, url: str) -> Callable[..., None]:
    """Return an end of a search that leaves no study if it could not be started."""

    def delete(_kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, CannotSearch):
            return
        if isinstance(error, (NoWorkers, BadStudy)):  # the logs in it say why
            return
        with suppress(CannotSearch, OSError), errors_of(study.place):
            if not study.optuna.get_trials(deepcopy=False):
                delete_study(study.folder, url)

    return delete


def _remove_leftovers(study: Study) -> None:
    """Remove the files of trials of a search that was killed."""
    for left in Path(study.folder).glob(f"{SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)  # which follows no link
