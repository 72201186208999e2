"""One search from the command line: find the config, plan, run, write back, say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.facts.gpus import UnknownGpu, resolve
from fp8tune.job import Target
from fp8tune.lint.wording import plain
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.replay import Replay
from fp8tune.search.answer import Answer
from fp8tune.search.coordinator import Event, Limits, Search
from fp8tune.search.duration import parse_duration
from fp8tune.search.guided import Guided
from fp8tune.search.journal import Journal
from fp8tune.search.output import advice, as_json, closing, progress
from fp8tune.search.plan import (
    CannotPlan,
    Config,
    Plan,
    plan_for_records,
    read_config,
    study_name,
)
from fp8tune.search.prior import card_gib, from_job
from fp8tune.search.real import gpu_name, larger_gib, plan_for_trials
from fp8tune.search.reasons import choices
from fp8tune.search.record import BadRecord, Record, parse_all
from fp8tune.search.report.write import write_at_end
from fp8tune.search.runner import Runner
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import BadStudy, Study
from fp8tune.search.writeback import CannotWrite, write_back
from fp8tune.toml.document import InvalidToml, Unreadable

MAX_RECORDS = 1 << 28


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


class Prepared(NamedTuple):
    """Everything that a search needs."""

    plan: Plan
    runner: Runner
    strategy: Strategy
    study: Study


def search(wishes: Wishes) -> int:
    """Run the search; the exit code. Raises ``CannotSearch``."""
    try:
        limits = Limits(parse_duration(wishes.budget))
        made = _prepare(wishes)
        searching = Search(
            made.plan.space,
            made.plan.given,
            made.runner,
            made.strategy,
            made.study,
            limits,
            _watcher(made, wishes),
        )
        found = searching.run()
        output = _write(wishes, made, found)
    except (CannotPlan, BadRecord, BadStudy, CannotWrite, Unreadable) as error:
        raise CannotSearch(str(error)) from None
    except InvalidToml as error:
        line, column = error.position
        place = f"{wishes.config}:{line}:{column}"
        raise CannotSearch(f"{place}: {error.reason}") from None
    except ValueError as error:
        raise CannotSearch(str(error)) from None
    _say(wishes, made, found, output)
    write_at_end(made.study.folder, sys.stderr if wishes.as_json else sys.stdout)
    if searching.interrupted:
        return 130
    return 0 if found.chosen is not None else 1


def _prepare(wishes: Wishes) -> Prepared:
    config = _config(wishes)
    if wishes.runner == "replay":
        return _replayed(wishes, config)
    refusal = config.job["trial_refusal"]
    if refusal:
        raise CannotSearch(f"{config.path}: no trial can stand for {refusal}")
    plan = plan_for_trials(config, wishes.allow)
    about = plan.about(device=wishes.device, allow=list(wishes.allow))
    study = Study(os.path.join(wishes.studies, study_name(plan, about)))
    study.open(about)
    setup = Setup(wishes.device, config.job["dp_shard"])
    if wishes.device == "cpu":
        setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
    else:
        setup = setup._replace(larger_gib=larger_gib(config.job))
    target = config.job.target
    runner = Builtin(config.trainer, config.loaded, target, setup)
    prior = from_job(plan.space, config.job)
    strategy = Guided(plan.space, plan.given, prior, card_gib(config.job))
    return Prepared(plan, runner, strategy, study)


def _replayed(wishes: Wishes, config: Config) -> Prepared:
    records, digest = _records(wishes)
    plan, records = plan_for_records(config, records, wishes.allow)
    about = plan.about(records=digest, budget=wishes.budget, allow=list(wishes.allow))
    study = Study(os.path.join(wishes.studies, study_name(plan, about)))
    study.open(about)
    runner = Replay(records, plan.space)
    for trial in study.trials:
        runner.skip(plan.space.point(trial.record.knobs))
    for note in plan.notes:
        print(f"note: {plain(note)}", file=sys.stderr)
    prior = from_job(plan.space, config.job)
    strategy = Guided(plan.space, plan.given, prior, card_gib(config.job))
    return Prepared(plan, runner, strategy, study)


def _config(wishes: Wishes) -> Config:
    try:
        with open(wishes.config, "rb") as file:
            data = file.read(MAX_RECORDS)
    except OSError as error:
        raise CannotSearch(f"{wishes.config}: {error.strerror}") from None
    target = Target(_gpu(wishes), wishes.world_size or _one(wishes))
    return read_config(wishes.config, data, target, wishes.trainer)


def _one(wishes: Wishes) -> int:
    """GPUs of the run where nobody says: one for real trials."""
    return 0 if wishes.runner == "replay" else 1


def _gpu(wishes: Wishes) -> str:
    """The GPU as the table knows it: the one named, else this machine's."""
    if wishes.runner == "replay" or wishes.device == "cpu":
        return wishes.gpu
    found = gpu_name()
    if not found:
        hint = "run on a GPU node, or rehearse with --device cpu"
        raise CannotSearch(f"no NVIDIA GPU found; {hint}")
    try:
        return resolve(wishes.gpu or found)
    except UnknownGpu:
        return ""


def _records(wishes: Wishes) -> tuple[list[Record], str]:
    import hashlib

    if not wishes.records:
        raise CannotSearch("--runner replay needs --records FILE")
    try:
        with open(wishes.records, "rb") as file:
            data = file.read(MAX_RECORDS + 1)
    except OSError as error:
        raise CannotSearch(f"{wishes.records}: {error.strerror}") from None
    if len(data) > MAX_RECORDS:
        raise CannotSearch(f"{wishes.records}: larger than {MAX_RECORDS >> 20} MiB")
    lines = iter(data.decode(errors="replace").split("\n"))
    try:
        records = list(parse_all(lines))
    except BadRecord as error:
        raise CannotSearch(f"{wishes.records}: {error}") from None
    return records, hashlib.sha256(data).hexdigest()


def _watcher(made: Prepared, wishes: Wishes) -> Callable[[Event], None]:
    out = sys.stderr if wishes.as_json else sys.stdout
    journal = Journal(made.study.folder, made.plan.space)

    def watch(event: Event) -> None:
        print(plain(progress(event, made.plan)), file=out, flush=True)
        if event.trial is not None:
            journal.write(made.study.trials)

    return watch


def _write(wishes: Wishes, made: Prepared, found: Answer) -> str:
    """Write the tuned config, or show it; the path that was written, or ``""``."""
    config = made.plan.config
    chosen = choices(made.plan, found, made.study.name)
    if not chosen:
        return ""
    after = write_back(config.data, chosen)
    path = _output(wishes)
    if wishes.diff:
        from fp8tune.toml.diff import unified_diff

        sys.stdout.write(unified_diff(config.path, config.data, after))
        return ""
    try:
        atomic.write(path, after, like=config.path)
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None
    return path


def _output(wishes: Wishes) -> str:
    if wishes.in_place:
        return wishes.config
    return wishes.output or f"{wishes.config.removesuffix('.toml')}.tuned.toml"


def _say(wishes: Wishes, made: Prepared, found: Answer, output: str) -> None:
    lines = list(closing(found, made.plan, output))
    if found.chosen is None:
        budget = parse_duration(wishes.budget)
        lines += advice(made.plan, made.study.trials, budget)
    out = sys.stderr if wishes.as_json else sys.stdout
    for line in lines:
        print(plain(line), file=out)
    if wishes.as_json:
        said = as_json(found, made.plan.space, output, made.study.folder)
        print(json.dumps(said, indent=2))
