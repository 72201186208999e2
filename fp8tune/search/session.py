"""One search from the command line: find the config, plan, run, write back, say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from fp8tune import atomic
from fp8tune.job import Target
from fp8tune.search.answer import Answer
from fp8tune.search.coordinator import Event, Limits, Search
from fp8tune.search.duration import parse_duration
from fp8tune.search.output import as_json, closing, progress
from fp8tune.search.plan import (
    CannotPlan,
    Config,
    Plan,
    plan_for_records,
    read_config,
    study_name,
)
from fp8tune.search.reasons import choices
from fp8tune.search.record import BadRecord, Record, parse_all
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
            _watcher(made.plan, wishes),
        )
        found = searching.run()
        output = _write(wishes, made, found)
    except (CannotPlan, BadRecord, BadStudy, CannotWrite, Unreadable) as error:
        raise CannotSearch(str(error)) from None
    except (ValueError, InvalidToml) as error:
        raise CannotSearch(_reason(wishes, error)) from None
    _say(wishes, made, found, output)
    if found.chosen is None:
        return 1
    return 130 if searching.interrupted else 0


def _reason(wishes: Wishes, error: Exception) -> str:
    if isinstance(error, InvalidToml):
        line, column = error.position
        return f"{wishes.config}:{line}:{column}: {error.reason}"
    return str(error)


def _prepare(wishes: Wishes) -> Prepared:
    from fp8tune.runners.replay import Replay
    from fp8tune.search.default import Default

    config = _config(wishes)
    records, digest = _records(wishes)
    plan = plan_for_records(config, records, wishes.allow)
    about = plan.about(records=digest, budget=wishes.budget, allow=list(wishes.allow))
    study = Study(os.path.join(wishes.studies, study_name(plan, about)))
    study.open(about)
    runner = Replay(records, plan.space)
    for trial in study.trials:
        runner.skip(plan.space.point(trial.record.knobs))
    return Prepared(plan, runner, Default(plan.space, plan.given), study)


def _config(wishes: Wishes) -> Config:
    target = Target(wishes.gpu, wishes.world_size)
    try:
        with open(wishes.config, "rb") as file:
            data = file.read(MAX_RECORDS)
    except OSError as error:
        raise CannotSearch(f"{wishes.config}: {error.strerror}") from None
    return read_config(wishes.config, data, target, wishes.trainer)


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


def _watcher(plan: Plan, wishes: Wishes) -> Callable[[Event], None]:
    out = sys.stderr if wishes.as_json else sys.stdout

    def watch(event: Event) -> None:
        print(progress(event, plan), file=out, flush=True)

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
        like = os.stat(config.path)
        atomic.write(path, after, like)
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None
    return path


def _output(wishes: Wishes) -> str:
    if wishes.in_place:
        return wishes.config
    return wishes.output or f"{wishes.config.removesuffix('.toml')}.tuned.toml"


def _say(wishes: Wishes, made: Prepared, found: Answer, output: str) -> None:
    if wishes.as_json:
        print(json.dumps(as_json(found, output, made.study.folder), indent=2))
        return
    for line in closing(found, made.plan, output):
        print(line)
