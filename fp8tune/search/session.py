"""One search from the command line: find the config, plan, run, write back, say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, NamedTuple

from fp8tune import atomic
from fp8tune.lint.settings import BadSettings
from fp8tune.lint.wording import plain
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.replay import Replay
from fp8tune.runners.watch import Guard
from fp8tune.search.aftermath import notes
from fp8tune.search.aim import SPEED, check_machine, check_records
from fp8tune.search.answer import Answer
from fp8tune.search.calibrate import keep
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.destination import CannotPut, changed, check_place, tuned
from fp8tune.search.display import display
from fp8tune.search.duration import parse_duration
from fp8tune.search.lock import Busy
from fp8tune.search.opening import opened
from fp8tune.search.output import advice, as_json, closing
from fp8tune.search.plan import (
    CannotPlan,
    Config,
    Plan,
    plan_for_records,
    study_name,
)
from fp8tune.search.real import (
    circumstances,
    free_keys,
    larger_gib,
    plan_for_trials,
    ranks,
)
from fp8tune.search.reasons import choices
from fp8tune.search.record import BadRecord
from fp8tune.search.recorded import recorded
from fp8tune.search.refused import check_config, refusals
from fp8tune.search.refuted import with_measured
from fp8tune.search.report.write import write_at_end
from fp8tune.search.runner import Runner
from fp8tune.search.stability.conditions import for_records, for_trials, split
from fp8tune.search.stability.plan import Conditions
from fp8tune.search.start import Start, start, strategy
from fp8tune.search.stop import CODE, Stop
from fp8tune.search.strategy import Strategy
from fp8tune.search.study import BadStudy, Study, timed
from fp8tune.search.wishes import Wishes, config_of, place_of
from fp8tune.search.writeback import CannotWrite, write_back
from fp8tune.toml.document import InvalidToml, Unreadable

PART = 1 / 60
"""Of the budget: the time of steps from which a trial makes do with the fewest."""


class CannotSearch(Exception):
    """The search cannot start, or its outcome cannot be written: one line."""


class Prepared(NamedTuple):
    """Everything that a search needs."""

    plan: Plan
    runner: Runner
    strategy: Strategy
    study: Study
    begun: Start
    conditions: Conditions | None


def search(wishes: Wishes) -> int:
    """Run the search; the exit code. Raises ``CannotSearch``."""
    stop = Stop()
    try:
        with ExitStack() as held:
            held.enter_context(stop.heard())
            return _search(wishes, stop, held)
    except (BadSettings, CannotPlan, Unreadable) as error:
        raise CannotSearch(str(error)) from None
    except (BadRecord, BadStudy, Busy, CannotPut, CannotWrite) as error:
        raise CannotSearch(str(error)) from None
    except InvalidToml as error:
        line, column = error.position
        place = f"{wishes.config}:{line}:{column}"
        raise CannotSearch(f"{place}: {error.reason}") from None
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, mostly
        place = f"{error.filename}: " if error.filename else ""
        raise CannotSearch(f"{place}{error.strerror}") from None
    except ValueError as error:
        raise CannotSearch(str(error)) from None


def _search(wishes: Wishes, stop: Stop, held: ExitStack) -> int:
    limits = Limits(parse_duration(wishes.budget))
    if not wishes.diff:
        check_place(place_of(wishes))
    made = _prepare(wishes, held)
    space, given = made.plan.space, made.plan.given
    out = sys.stderr if wishes.as_json else sys.stdout
    for line in _before(made):
        print(plain(line), file=out, flush=True)
    with display(made.plan, made.study, out) as watch:
        if isinstance(made.runner, Builtin):
            made.runner.hear = watch.line
        found = Search(
            space,
            given,
            made.runner,
            made.strategy,
            made.study,
            limits,
            watch.event,
            wishes.objective,
            made.conditions,
        ).run()
    stop.searching = False
    output = _write(wishes, made, found)
    _say(wishes, made, found, output, stopped=stop.asked)
    write_at_end(made.study.folder, out)
    if isinstance(made.runner, Builtin) and wishes.device == "cuda":
        _keep(wishes, made)
    if stop.asked:
        return CODE
    return 0 if found.chosen is not None else 1


def _before(made: Prepared) -> Iterator[str]:
    """What a search knows before its first trial."""
    if made.begun.said:
        yield made.begun.said
    if count := len(made.study.trials):
        known = f"{count} trial{'s' * (count != 1)}"
        yield f"goes on with study {made.study.name}, which has {known}"


def _prepare(wishes: Wishes, held: ExitStack) -> Prepared:
    config = config_of(wishes)
    if wishes.runner == "replay":
        return _replayed(wishes, config, held)
    check_config(config, free_keys(config, wishes.allow, wishes.device))
    for name in ("torch", "torchao"):
        if find_spec(name) is None:
            raise CannotSearch(f"trials need {name}: pip install 'fp8tune[search]'")
    standing_for = ranks(config)
    check_machine(wishes.objective, wishes.device)
    plan = plan_for_trials(config, wishes.allow, wishes.device)
    more = circumstances(config.job, wishes.device)
    about = plan.about(allow=list(wishes.allow), **more)
    study, begun = _opened(wishes, plan, about, held)
    enough_s = PART * parse_duration(wishes.budget)
    setup = Setup(wishes.device, standing_for, enough_s=enough_s)
    if wishes.device == "cpu":
        setup = setup._replace(min_steps=3, max_steps=6, warm_steps=1)
    else:
        setup = setup._replace(larger_gib=larger_gib(config.job))
    target = config.job.target
    guard = Guard() if wishes.device == "cuda" else None
    runner = Builtin(config.trainer, config.loaded, target, setup, guard=guard)
    guide = strategy(plan, about, begun, wishes.objective)
    conditions = for_trials(config, wishes.allow, standing_for)
    return Prepared(plan, runner, guide, study, begun, conditions)


def _opened(
    wishes: Wishes, plan: Plan, about: dict[str, Any], held: ExitStack
) -> tuple[Study, Start]:
    """The study of this search, for us alone until ``held`` is closed; its start."""
    if wishes.objective != SPEED:
        about["objective"] = wishes.objective
    if wishes.start_from:
        about["start_from"] = wishes.start_from
    folder = os.path.join(wishes.studies, study_name(plan, about))
    begun = start(plan, about, folder, wishes.studies, wishes.start_from)
    about["start"] = begun.about()
    return opened(folder, plan.space, about, held), begun


def _replayed(wishes: Wishes, config: Config, held: ExitStack) -> Prepared:
    records, digest = recorded(wishes.records)
    speeds, learned = split(records)
    check_records(wishes.objective, speeds)
    plan, speeds = plan_for_records(config, speeds, wishes.allow)
    about = plan.about(records=digest, budget=wishes.budget, allow=list(wishes.allow))
    study, begun = _opened(wishes, plan, about, held)
    runner = Replay(speeds, plan.space, learned)
    for trial in timed(study.trials):
        runner.skip(plan.space.point(trial.record.knobs))
    keys = {knob.key for knob in plan.space.knobs}
    for note in (*refusals(config, keys), *plan.notes):
        print(f"note: {plain(note)}", file=sys.stderr)
    guide = strategy(plan, about, begun, wishes.objective)
    conditions = for_records(config, learned, wishes.allow, runner.offers)
    return Prepared(plan, runner, guide, study, begun, conditions)


def _write(wishes: Wishes, made: Prepared, found: Answer) -> str:
    """Write the tuned config, or show it; the path that was written, or ``""``."""
    config = made.plan.config
    chosen = choices(made.plan, found, made.study.name)
    if not chosen:
        return ""
    path, target = place_of(wishes), config.job.target
    after = write_back(config.data, chosen)
    after = with_measured(path, after, found.record, target)
    if wishes.in_place and not wishes.diff and changed(path, config.data):
        path = tuned(path)
        edited = f"{config.path} was changed during the search and is left alone"
        print(f"note: {plain(edited)}: see {path}", file=sys.stderr)
    for line in notes(path, config, after, chosen):
        print(f"note: {plain(line)}", file=sys.stderr)
    if wishes.diff:
        from fp8tune.toml.diff import unified_diff

        out = sys.stderr if wishes.as_json else sys.stdout
        out.write(unified_diff(config.path, config.data, after))
        return ""
    try:
        known = os.path.exists(config.path)
        atomic.write(path, after, like=config.path if known else "")
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None
    return path


def _keep(wishes: Wishes, made: Prepared) -> None:
    """Leave what was measured to later estimates."""
    records = [trial.record for trial in made.study.trials]
    odd = keep(wishes.studies, made.plan.config.job, records)
    if odd:
        print(f"note: {plain(odd)}", file=sys.stderr)


def _advice(wishes: Wishes, made: Prepared, found: Answer) -> list[str]:
    if found.chosen is not None:
        return []
    return list(advice(made.plan, made.study.trials, parse_duration(wishes.budget)))


def _say(
    wishes: Wishes, made: Prepared, found: Answer, output: str, *, stopped: bool
) -> None:
    out = sys.stderr if wishes.as_json else sys.stdout
    hint = [] if stopped else _advice(wishes, made, found)
    for line in (*closing(found, made.plan, output), *hint):
        print(plain(line), file=out)
    if stopped:
        print("stopped: the same command goes on from here", file=out)
    if wishes.as_json:
        said = as_json(found, made.plan.space, output, made.study.folder)
        said["starts_from"] = made.begun.study or None
        print(json.dumps(said, indent=2))
