"""One search from its options to its exit code: prepare, run, write, print."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from fp8tune.config.directive import asked as named_gpu
from fp8tune.config.reader import Config
from fp8tune.runners.process import SCRATCH
from fp8tune.runners.replay import Replay
from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.decide import with_config
from fp8tune.search.answer.stored import as_json, next_commands, to_store
from fp8tune.search.answer.wording import closing
from fp8tune.search.calibrate import (
    Calibration,
    choose_calibration,
    keep,
    stored_calibration,
)
from fp8tune.search.database import without_password
from fp8tune.search.description import COMPARES_LOSSES, SEARCHED_IN, Description
from fp8tune.search.knobs import keys_to_free
from fp8tune.search.linting import check_config
from fp8tune.search.loop import Event, Search
from fp8tune.search.losses.loss_runs import (
    Conditions,
    compares_losses,
    conditions_for_replay,
)
from fp8tune.search.machine import (
    TrialMachine,
    check_worker_gpu,
    other_gpu_note,
    target_gpu,
)
from fp8tune.search.objective import ENERGY, SPEED
from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import config_asked, one_line_errors
from fp8tune.search.plan import (
    Plan,
    study_name,
    world_size_note,
    world_size_warning,
)
from fp8tune.search.pool import NoWorkers, Peer, Pool, Watcher
from fp8tune.search.prior import card_gib
from fp8tune.search.real_trials import (
    RealRunner,
    RealTrials,
    check_installed,
    check_start,
    plan_search,
    read_as_installed,
    real_trials,
    this_machine,
    versions_of_trials,
    with_runner,
    without_gpu,
)
from fp8tune.search.recorded import plan_replay
from fp8tune.search.saved_study import (
    delete_study,
    load_study,
)
from fp8tune.search.say import note, say, say_next
from fp8tune.search.slurm import requeue_this_job
from fp8tune.search.start_workers import (
    check_workers,
    is_remote,
    is_shared,
    more_gpus_note,
    name_of_this_process,
    new_study_note,
    starter_of,
    study_to_join,
)
from fp8tune.search.stop import STOPPED, Stop
from fp8tune.search.storage import BadStudy, Searched, check_locks, errors_of
from fp8tune.search.strategy import Strategy, build_strategy
from fp8tune.search.study import Study, open_study
from fp8tune.search.writable import check_varied
from fp8tune.search.write.output import display
from fp8tune.search.write.places import check_files, check_outputs
from fp8tune.search.write.tuned_config import Written, export_trials, write_tuned
from fp8tune.streams import lasting
from fp8tune.trials.record import BadRecord
from fp8tune.trials.trial import retries_all, timed
from fp8tune.words import counted

WriteReport = Callable[[str, TextIO, str], None]
"""Writes the report of a study's folder and its URL, and says so on the stream."""
UNREAD = "note: the reader of stdout ended; the search continues to its end"
"""Said where stdout is a pipe whose reader ended."""


def search(options: SearchOptions, report: WriteReport) -> int:
    """Run a search and return the exit code; raises ``CannotSearch``.

    ``report`` writes the report of its study at the end. The config is written even if
    the terminal is lost.
    """
    with lasting(UNREAD) as streams:
        code = _with_one_line_errors(options, report)
    if code != STOPPED and streams.odd:
        raise CannotSearch(streams.odd)
    return code


def _with_one_line_errors(options: SearchOptions, report: WriteReport) -> int:
    stop = Stop()
    try:
        with ExitStack() as held, one_line_errors(options.config):
            held.enter_context(stop.takes_signals())
            return _search(options, report, stop, held)
    except BadRecord as error:
        raise CannotSearch(str(error)) from None
    except OSError as error:  # usually a full disk
        place = error.filename or f"in {options.studies}"
        hint = (
            "trials so far are kept, and the same command continues; --studies DIR "
            "uses another folder"
        )
        raise CannotSearch(f"{place}: {error.strerror or error}; {hint}") from None


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
            objective=options.objective,
            conditions=self.conditions,
        )


def _search(
    options: SearchOptions, report: WriteReport, stop: Stop, held: ExitStack
) -> int:
    if options.study:
        held.enter_context(read_as_installed(options))
        return _join(options, stop, held)
    options = with_runner(options)
    check_outputs(options)
    held.enter_context(read_as_installed(options))
    prepare = _prepare_replay if options.runner == "replay" else _prepare_trials
    try:
        prepared = prepare(options, held)
    except Searched as other:
        if options.storage.startswith("sqlite") or options.runner == "replay":
            raise
        if not options.storage:
            raise CannotSearch(f"{other}; --study {other.study} joins it") from None
        note(
            f"joins the search of {other.study}, whose first process writes the answer"
        )
        return _join(options._replace(study=other.study), stop, held)
    plan, study = prepared.plan, prepared.study
    about = study.about  # now, as a database may be gone at the end
    out = sys.stderr if options.as_json else sys.stdout
    for line in _opening_lines(prepared, options):
        say(line, out)
    with display(plan, study, out, options.objective) as watch:
        stop.show = watch.stopping
        if prepared.runner:
            prepared.runner.hear = watch.line
        outcome = _run(prepared.search(options, watch.event), prepared, stop)
    stop.searching, stopped = False, stop.asked
    alone = prepared.trials and not options.has_workers
    if alone and not (outcome.trials or stopped):
        raise CannotSearch(
            f"--budget {options.budget} ended before a trial began; try --budget 2h"
        )
    outcome = _with_findings(prepared, outcome, stopped=stopped)
    output = _finish(prepared, outcome, about, options, stop, report)
    return STOPPED if stopped else _exit_code(outcome, plan, output)


def _finish(
    prepared: Prepared,
    outcome: Answer,
    about: Description,
    options: SearchOptions,
    stop: Stop,
    report: WriteReport,
) -> str:
    """Write and print the outcome of a search; return the path of the tuned config.

    ``about`` describes the study.
    Raises ``CannotSearch`` if the config cannot be written, after all else.
    """
    plan, study = prepared.plan, prepared.study
    out = sys.stderr if options.as_json else sys.stdout
    written, unwritten = Written(""), ""
    try:
        written = write_tuned(
            options.tuned_path,
            plan,
            outcome,
            study.name,
            about,
            diff_to=out if options.diff else None,
        )
    except CannotSearch as error:  # the outcome is printed anyway
        unwritten = str(error)
    output = written.path
    commands = [] if stop.leaves else next_commands(plan, about, outcome, output)
    _print_outcome(prepared, outcome, written, stop, out)
    answer = as_json(
        outcome, plan, study.folder, output, about, commands, written.others
    )
    if prepared.trials:  # whether or not a trial ended
        answer["synthetic_data"] = bool(prepared.trials.synthetic_data)
    if options.as_json:
        print(json.dumps(answer, indent=2))
    for text in written.notes:
        note(text)
    if not stop.leaves:
        with suppress(BadStudy):  # only the report needs this
            stored, tuned = to_store(outcome, plan, answer), dict(written.texts)
            study.note(output=output, answer=stored, tuned=tuned, unwritten=unwritten)
    report(study.folder, out, options.storage)
    export_trials(study, options.export)
    if prepared.trials and prepared.trials.machine.gpu:
        records = [trial.record for trial in study.trials]
        if odd := keep(options.studies, plan.config.job, records):
            note(odd)
    for command in commands:
        say_next(command, out)
    if unwritten:
        raise CannotSearch(f"the tuned config was not written: {unwritten}")
    return output


def _run(search: Search, prepared: Prepared, stop: Stop) -> Answer:
    """Run a search; if nobody is left to run its trials, return what is known."""
    pool = prepared.pool
    stop.waits = lambda: pool.side_by_side and pool.goes_on(search.running)
    try:
        return search.run()
    except NoWorkers as error:
        if not prepared.study.trials:
            raise
        note(str(error))
    return search.outcome()


def _join(options: SearchOptions, stop: Stop, held: ExitStack) -> int:
    """Run trials of a study until nothing is left to run; return the exit code.

    The command that began the study writes the answer.
    """
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
    calibration = stored_calibration(study.about)
    strategy = build_strategy(plan, study, calibration.runs, options.sampler)
    scratch = held.enter_context(tempfile.TemporaryDirectory(prefix=SCRATCH))
    pool = Peer(study, trials.runner(scratch), name_of_this_process(options))
    conditions = trials.conditions
    prepared = Prepared(plan, study, calibration, strategy, conditions, pool)
    with display(plan, study, sys.stdout, objective) as watch:
        _run(prepared.search(options, watch.event), prepared, stop)
    if stop.requeues:
        requeue_this_job()
    elif not stop.asked:
        writes = "the process that began it writes the answer"
        again = "if it is gone, type its command again"
        say(f"nothing is left to run in {study.name}: {writes}; {again}", sys.stdout)
    return STOPPED if stop.asked else 0


def _exit_code(outcome: Answer, plan: Plan, output: str) -> int:
    """Return 0 if a config was written or the user's is the best, else 1."""
    proven = outcome.chosen == plan.baseline and outcome.verdict != "inconclusive"
    changed = outcome.chosen not in (None, plan.baseline)
    return 0 if changed or proven or output else 1


def _prepare_trials(options: SearchOptions, held: ExitStack) -> Prepared:
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


def _remove_leftovers(study: Study) -> None:
    """Remove the files of trials of a search that was killed."""
    for left in Path(study.folder).glob(f"{SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)  # which follows no link


def _prepare_replay(options: SearchOptions, held: ExitStack) -> Prepared:
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


def _open_study(
    options: SearchOptions,
    plan: Plan,
    about: dict[str, Any],
    held: ExitStack,
    conditions: Conditions | None,
) -> tuple[Study, Calibration, Strategy]:
    """Open the study of this search until ``held`` is closed.

    ``about`` is what trials depend on besides the config. Also returns what
    corrects the estimate, and the strategy.
    """
    about = Description(plan.about(**about, allow=list(options.allow)))
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


def _opening_lines(prepared: Prepared, options: SearchOptions) -> Iterator[str]:
    """Yield the lines that a search prints before its first trial."""
    config, study, trials = prepared.plan.config, prepared.study, prepared.trials
    if trials:
        own, data = trials.own, "trials train on synthetic data"
        if own:
            yield f"trials run {own}"
        if why := trials.synthetic_data:
            yield f"{why}: {data}; that changes losses, not speeds"
        yield from map(str, trials.unsafe)
        notes = (
            world_size_note(config),
            other_gpu_note(config.job, trials.machine, extrapolates=not own),
            world_size_warning(config),
        )
        yield from filter(None, notes)
        yield from prepared.plan.notes
    for name, why in prepared.plan.kept.items():
        yield f"{name} is kept: {why}"
    if prepared.calibration.note:
        yield prepared.calibration.note
    if count := len(study.trials):
        again = retries_all(study.trials, study.process)
        retry = "; none of them ran, so your config is retried" * again
        known = counted(count, "trial")
        yield f"continues study {study.name}, which has {known}{retry}"
    elif trials and (text := new_study_note(study, options)):
        yield text


def _with_findings(prepared: Prepared, outcome: Answer, *, stopped: bool) -> Answer:
    """Add the findings that need the config, and what to do if nothing succeeded."""
    if stopped and outcome.chosen is None:
        return outcome
    plan, study, trials = prepared.plan, prepared.study, prepared.trials
    device = trials.machine.device if trials else ""
    process = 0 if stopped else study.process
    return with_config(outcome, plan, study.trials, device, process)


def _print_outcome(
    prepared: Prepared,
    outcome: Answer,
    written: Written,
    stop: Stop,
    out: TextIO,
) -> None:
    """Print the outcome for people."""
    for line in closing(outcome, prepared.plan, written.paths):
        say(line, out)
    if stop.leaves:
        say("left: the same command shows the search again", out)
    elif stop.asked:
        say("stopped: the same command continues from here", out)
