"""From what the command line asks for to all that a search needs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Container, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fp8tune.job import Target
from fp8tune.lint.directive import asked
from fp8tune.lint.wording import plain
from fp8tune.runners.builtin.runner import SCRATCH, Builtin, Setup
from fp8tune.runners.driver import current
from fp8tune.runners.replay import Replay
from fp8tune.runners.watch import Guard
from fp8tune.search.aim import ENERGY, SPEED, check_machine, check_records
from fp8tune.search.duration import parse_duration
from fp8tune.search.linting import check_config, refusals, runnable
from fp8tune.search.opening import opened
from fp8tune.search.plan import (
    CannotPlan,
    Config,
    Plan,
    plan_for_records,
    read_config,
    study_name,
    warmup_key,
    warmup_names,
)
from fp8tune.search.prior import card_gib
from fp8tune.search.real import (
    check_host,
    circumstances,
    free_keys,
    larger_gib,
    plan_for_trials,
    ranks,
    synthetic_data,
    this_gpu,
)
from fp8tune.search.recorded import MAX_BYTES, recorded
from fp8tune.search.stability.plan import (
    Conditions,
    conditions_for_replay,
    conditions_for_trials,
)
from fp8tune.search.start import Start, start, strategy
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import Study
from fp8tune.search.writeback import CannotWrite, Choice, write_back
from fp8tune.trials.runner import Runner
from fp8tune.trials.trial import timed

PART = 1 / 60
"""Of the budget: the time of steps from which a trial makes do with the fewest."""
ENOUGH_S = 30.0
"""The most of that time [s]: five steps of a quarter of it show their level, and runs
of a setting differ by more than its steps do."""
SAMPLED_S = 3.0
"""Time of steps in which watts are sampled often enough to aim at them [s]."""


def _clear(folder: str) -> None:
    """Remove what trials of a killed search left in its folder, which is ours alone."""
    for left in Path(folder).glob(f"{SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)  # which follows no link


class CannotSearch(Exception):
    """The search cannot start, or its outcome cannot be written: one line."""


class Wishes(NamedTuple):
    """What the command line asks for."""

    config: str
    budget: str
    gpu: str
    world_size: int
    trainer: str
    runner: str
    device: str
    records: str
    allow: tuple[str, ...]
    output: str
    in_place: bool
    diff: bool
    studies: str
    as_json: bool
    objective: str = SPEED
    start_from: str = ""
    sampler: str = "auto"
    storage: str = ""
    export: str = ""


class Prepared(NamedTuple):
    """Everything that a search needs."""

    plan: Plan
    runner: Runner
    strategy: Strategy
    study: Study
    begun: Start
    conditions: Conditions | None


def prepare(wishes: Wishes, held: ExitStack) -> Prepared:
    """Read the config, plan, and open the study; raises ``CannotSearch`` and others."""
    config = _config(wishes)
    if wishes.runner == "replay":
        return _replayed(wishes, config, held)
    check_config(config, free_keys(config, wishes.allow, wishes.device))
    standing_for = ranks(config)
    if wishes.device == "cpu":
        check_host(config, parse_duration(wishes.budget))
    synthetic = synthetic_data(config)
    for name in ("torch", "torchao"):
        if find_spec(name) is None:
            raise CannotSearch(f"trials need {name}: pip install 'fp8tune[search]'")
    check_machine(wishes.objective, wishes.device)
    plan = plan_for_trials(config, wishes.allow, wishes.device)
    _check_keys(plan)
    more = circumstances(config.job, wishes.device, synthetic_data=bool(synthetic))
    about = plan.about(allow=list(wishes.allow), **more)
    study, begun = _opened(wishes, plan, about, held)
    study.take_up()
    enough_s = min(ENOUGH_S, PART * parse_duration(wishes.budget))
    _clear(study.folder)
    setup = Setup(wishes.device, standing_for, 0.0, synthetic, enough_s=enough_s)
    if wishes.objective == ENERGY:
        setup = setup._replace(least_s=SAMPLED_S)
    setup = setup._replace(scratch=study.folder)
    if wishes.device == "cpu":
        setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
    else:
        setup = setup._replace(larger_gib=larger_gib(config.job))
    target = config.job.target
    guard = Guard(current()) if wishes.device == "cuda" else None
    runner = Builtin(config.trainer, config.loaded, target, setup, guard=guard)
    guide = strategy(plan, about, begun, wishes.objective, study, wishes.sampler)
    conditions = conditions_for_trials(config, wishes.allow, standing_for)
    return Prepared(plan, runner, guide, study, begun, conditions)


def _opened(
    wishes: Wishes, plan: Plan, about: dict[str, Any], held: ExitStack
) -> tuple[Study, Start]:
    """The study of this search, for us alone until ``held`` is closed; its start."""
    if wishes.objective != SPEED:
        about["objective"] = wishes.objective
    if wishes.sampler != "auto":
        about["sampler"] = wishes.sampler
    if wishes.start_from:
        about["start_from"] = wishes.start_from
    folder = os.path.join(wishes.studies, study_name(plan, about))
    url = wishes.storage
    begun = start(plan, about, folder, wishes.studies, wishes.start_from, url)
    study = opened(folder, plan.space, held, url)
    study.describe({**about, "start": begun.about()})
    return study, begun


def _replayed(wishes: Wishes, config: Config, held: ExitStack) -> Prepared:
    found = recorded(wishes.records)
    speeds = [record for record in found.records if not record.loss_run]
    learned = [record for record in found.records if record.loss_run]
    check_records(wishes.objective, speeds)
    plan, speeds = plan_for_records(config, speeds, wishes.allow)
    _check_keys(plan)
    speeds, refused = runnable(config, speeds)
    if refused:
        if not speeds:
            raise CannotPlan(f"the records hold no trial to replay: {refused[0]}")
        plan, speeds = plan_for_records(config, speeds, wishes.allow)
    about = plan.about(
        records=found.digest, budget=wishes.budget, allow=list(wishes.allow)
    )
    study, begun = _opened(wishes, plan, about, held)
    runner = Replay(speeds, plan.space, learned, card_gib(config.job))
    for trial in timed(study.trials):
        runner.skip(plan.space.point(trial.record.knobs))
    keys = {knob.key for knob in plan.space.knobs}
    odd = _no_warmup(wishes, config, keys) if not learned else ()
    for note in (*found.notes, *refusals(config, keys), *refused, *plan.notes, *odd):
        print(f"note: {plain(note)}", file=sys.stderr)
    guide = strategy(plan, about, begun, wishes.objective, study, wishes.sampler)
    conditions = conditions_for_replay(config, learned, wishes.allow, runner.offers)
    return Prepared(plan, runner, guide, study, begun, conditions)


def _no_warmup(wishes: Wishes, config: Config, keys: Container[str]) -> Iterator[str]:
    """That no warmup is tried, by records that compare no losses."""
    for name in {*warmup_names(config.trainer)}.intersection(wishes.allow):
        if warmup_key(config.trainer) not in keys:
            why = "no record is of a run for its losses, so no warmup is tried"
            yield f"--allow {name} changes nothing: {why}"


def _check_keys(plan: Plan) -> None:
    """Raise ``CannotPlan`` where a value of a knob could not be written in the end."""
    for knob in plan.space.knobs:
        value = next((value for value in knob.values if value is not None), None)
        made = [] if value is None else [Choice(knob.key, value)]
        try:
            write_back(plan.config.data, made)
        except CannotWrite as error:
            odd = f"{plan.config.path}: the result of a search could not be written"
            raise CannotPlan(f"{odd}: {error}") from None


def _config(wishes: Wishes) -> Config:
    try:
        with open(wishes.config, "rb") as file:
            data = file.read(MAX_BYTES)
    except OSError as error:
        raise CannotSearch(f"{wishes.config}: {error.strerror}") from None
    replayed = wishes.runner == "replay"
    elsewhere = replayed or wishes.device == "cpu"
    gpu = asked(wishes.gpu, None).gpu
    target = Target(
        gpu if elsewhere else this_gpu(gpu),
        wishes.world_size,
        "" if replayed and not gpu else "--gpu",
        "--world-size" if wishes.world_size else "",
    )
    alone = 0 if replayed else 1
    return read_config(wishes.config, data, target, wishes.trainer, alone)
