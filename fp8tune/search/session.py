"""One search from its options to its exit code: prepare, run, write, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TextIO

from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.decide import with_config
from fp8tune.search.answer.stored import as_json, next_commands, to_store
from fp8tune.search.answer.wording import closing
from fp8tune.search.calibrate import keep
from fp8tune.search.description import Description
from fp8tune.search.loop import Search
from fp8tune.search.machine import other_gpu_note
from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import one_line_errors
from fp8tune.search.plan import Plan, world_size_note, world_size_warning
from fp8tune.search.pool import NoWorkers
from fp8tune.search.prepare import (
    Prepared,
    prepare_replay,
    prepare_to_join,
    prepare_trials,
)
from fp8tune.search.real_trials import (
    read_as_installed,
    with_runner,
)
from fp8tune.search.say import note, say, say_next
from fp8tune.search.slurm import requeue_this_job
from fp8tune.search.start_workers import (
    new_study_note,
)
from fp8tune.search.stop import STOPPED, Stop
from fp8tune.search.storage import BadStudy, Searched
from fp8tune.search.write.output import display
from fp8tune.search.write.places import check_outputs
from fp8tune.search.write.tuned_config import Written, export_trials, write_tuned
from fp8tune.streams import lasting
from fp8tune.trials.record import BadRecord
from fp8tune.trials.trial import retries_all
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


def _search(
    options: SearchOptions, report: WriteReport, stop: Stop, held: ExitStack
) -> int:
    if options.study:
        held.enter_context(read_as_installed(options))
        return _join(options, stop, held)
    options = with_runner(options)
    check_outputs(options)
    held.enter_context(read_as_installed(options))
    prepare = prepare_replay if options.runner == "replay" else prepare_trials
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
    prepared = prepare_to_join(options, held)
    plan, study = prepared.plan, prepared.study
    with display(plan, study, sys.stdout, study.about.objective) as watch:
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
