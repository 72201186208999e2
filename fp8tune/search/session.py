"""One search from the command line: prepare, run, write back, say."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from fp8tune import atomic
from fp8tune.lint.directive import BadTarget
from fp8tune.lint.settings import BadSettings
from fp8tune.lint.wording import plain
from fp8tune.runners.builtin.runner import Builtin
from fp8tune.search.calibrate import keep
from fp8tune.search.comments import choices, summary
from fp8tune.search.coordinator import Limits, Search
from fp8tune.search.destination import (
    CannotPut,
    changed,
    check_apart,
    check_own,
    check_place,
    is_same,
    tuned,
)
from fp8tune.search.duration import BadDuration, parse_duration
from fp8tune.search.linting import notes, with_measured
from fp8tune.search.lock import Busy
from fp8tune.search.outcome import Finding, Outcome, machine_findings, with_config
from fp8tune.search.output import as_json, closing, display
from fp8tune.search.plan import CannotPlan
from fp8tune.search.prepare import CannotSearch, Prepared, Wishes, prepare
from fp8tune.search.real import timed_elsewhere
from fp8tune.search.retries import retried_settings, retries_all
from fp8tune.search.stop import CODE, Stop
from fp8tune.search.storage import BadStudy
from fp8tune.search.study import EXPORT, Study
from fp8tune.search.world import larger, standing
from fp8tune.search.writeback import MARK, CannotWrite, write_back
from fp8tune.streams import lasting
from fp8tune.toml.document import InvalidToml, Unreadable
from fp8tune.trials.record import BadRecord

UNREAD = "note: nobody reads stdout any more; the search goes to its end all the same"
"""Said where stdout is a pipe whose reader ended."""


def search(wishes: Wishes) -> int:
    """Run the search; the exit code. Raises ``CannotSearch``.

    A terminal or reader that is lost meanwhile changes nothing: the config is written.
    """
    with lasting(UNREAD) as streams:
        code = _heard(wishes)
    if code != CODE and streams.odd:
        raise CannotSearch(streams.odd)
    return code


def _heard(wishes: Wishes) -> int:
    """A search that signals end with what is known."""
    stop = Stop()
    try:
        with ExitStack() as held:
            held.enter_context(stop.heard())
            return _search(wishes, stop, held)
    except (BadDuration, BadSettings, BadTarget, CannotPlan, Unreadable) as error:
        raise CannotSearch(str(error)) from None
    except (BadRecord, BadStudy, Busy, CannotPut, CannotWrite) as error:
        raise CannotSearch(str(error)) from None
    except InvalidToml as error:
        line, column = error.position
        place = f"{wishes.config}:{line}:{column}"
        raise CannotSearch(f"{place}: {error.reason}") from None
    except OSError as error:  # a full disk, mostly
        place = error.filename or f"in {wishes.studies}"
        hint = "what ran is kept for the same command; --studies DIR is another place"
        raise CannotSearch(f"{place}: {error.strerror}; {hint}") from None


def _search(wishes: Wishes, stop: Stop, held: ExitStack) -> int:
    limits = Limits(parse_duration(wishes.budget))
    if not wishes.diff:
        _check_output(wishes)
    if wishes.export:
        _check_export(wishes)
    made = prepare(wishes, held)
    space, given = made.plan.space, made.plan.given
    out = sys.stderr if wishes.as_json else sys.stdout
    for line in _before(made):
        print(plain(line), file=out, flush=True)
    with display(made.plan, made.study, out, wishes.objective) as watch:
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
    stop.searching, stopped = False, stop.asked
    found = _whole(wishes, made, found, stopped=stopped)
    output, odd = _written(wishes, made, found)
    _say(wishes, made, found, output, stopped=stopped)
    with suppress(BadStudy):  # that is for the report alone
        made.study.note(output=output, ending=found.ending._asdict())
    _report(wishes, made)
    _export(wishes, made)
    if isinstance(made.runner, Builtin) and wishes.device == "cuda":
        _keep(wishes, made)
    if odd:
        raise CannotSearch(f"the tuned config was not written: {odd}")
    if stopped:
        return CODE
    proven = found.chosen == given and found.verdict != "inconclusive"
    return 0 if found.chosen not in (None, given) or proven or output else 1


def _report(wishes: Wishes, made: Prepared) -> None:
    """Write the report, if what it needs is installed."""
    try:
        from fp8tune.report.html import write_at_end
    except ModuleNotFoundError as error:
        hint = "pip install 'fp8tune[search]'"
        print(f"note: no report: it needs {error.name}: {hint}", file=sys.stderr)
        return
    out = sys.stderr if wishes.as_json else sys.stdout
    write_at_end(made.study.folder, out, wishes.storage)


def _export(wishes: Wishes, made: Prepared) -> None:
    """Leave the trials as JSON lines in the study's folder, and where it is asked."""
    with suppress(OSError):  # the storage has them
        made.study.export(os.path.join(made.study.folder, EXPORT))
    if wishes.export:
        try:
            made.study.export(wishes.export)
        except OSError as error:
            raise CannotSearch(f"{wishes.export}: {error.strerror}") from None


def _check_output(wishes: Wishes) -> None:
    """Raise ``CannotPut`` where the tuned config cannot go where it is wanted."""
    path, other = _asked(wishes), tuned(wishes.config)
    check_place(path)
    if not (wishes.in_place or wishes.output or wishes.diff):
        check_own(path, MARK)
    read = {wishes.records: "the records"} if wishes.records else {}
    check_apart(path, read, tuned(other) if is_same(path, other) else other)


def _check_export(wishes: Wishes) -> None:
    """Raise ``CannotPut`` where the trials cannot go where they are wanted."""
    read = {wishes.config: "the config", _asked(wishes): "the tuned config"}
    if wishes.records:
        read[wishes.records] = "the records"
    check_place(wishes.export)
    check_apart(wishes.export, read, f"{wishes.config.removesuffix('.toml')}.jsonl")


def _written(wishes: Wishes, made: Prepared, found: Outcome) -> tuple[str, str]:
    """The path of the tuned config, or why there is none."""
    try:
        return _write(wishes, made, found), ""
    except (CannotSearch, CannotWrite) as error:
        return "", str(error)


def _before(made: Prepared) -> Iterator[str]:
    """What a search knows before its first trial."""
    why = made.runner.setup.synthetic_data if isinstance(made.runner, Builtin) else ""
    if why:
        yield f"{why}: trials train on synthetic data; losses are not of your data"
    if isinstance(made.runner, Builtin):
        yield standing(made.plan.config)
        on_gpu = made.runner.setup.device == "cuda"
        if on_gpu and (said := timed_elsewhere(made.plan.config.job)):
            yield said
    if isinstance(made.runner, Builtin) and (said := larger(made.plan.config)):
        yield said
    if made.begun.said:
        yield made.begun.said
    study = made.study
    if count := len(study.trials):
        known = f"{count} trial{'s' * (count != 1)}"
        again = retries_all(study.trials, study.process)
        retry = "; none ran, so your config is retried" * again
        yield f"goes on with study {study.name}, which has {known}{retry}"


def _write(wishes: Wishes, made: Prepared, found: Outcome) -> str:
    """Write the tuned config, or show it; the path that was written, or ``""``."""
    config = made.plan.config
    chosen = choices(made.plan, found)
    path, target = _asked(wishes), config.job.target
    if not chosen:
        if not (wishes.diff or is_same(path, config.path)) and os.path.isfile(path):
            left = f"{path} was there before and is not the answer of this run"
            print(f"note: {plain(left)}, which writes none", file=sys.stderr)
        return ""
    block = summary(made.plan, found, made.study.name)
    after = write_back(config.data, chosen, block)
    after = with_measured(path, after, found.record, target)
    own = is_same(path, config.path) and not wishes.diff
    edited = own and changed(config.path, config.data)
    if edited:
        path = tuned(path)
    if not wishes.diff:
        _put(path, after, config.path)
    if edited:
        said = f"{config.path} was changed during the search and is left alone"
        print(f"note: {plain(said)}: see {path}", file=sys.stderr)
    for line in notes(path, config, after, chosen):
        print(f"note: {plain(line)}", file=sys.stderr)
    if wishes.diff:
        from fp8tune.toml.diff import unified_diff

        out = sys.stderr if wishes.as_json else sys.stdout
        out.write(unified_diff(config.path, config.data, after))
        return ""
    return path


def _put(path: str, data: bytes, config: str) -> None:
    """Write the tuned config, like the user's; raises ``CannotSearch``."""
    try:
        atomic.write(path, data, like=config if os.path.exists(config) else "")
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None


def _keep(wishes: Wishes, made: Prepared) -> None:
    """Leave what was measured to later estimates."""
    records = [trial.record for trial in made.study.trials]
    odd = keep(wishes.studies, made.plan.config.job, records)
    if odd:
        print(f"note: {plain(odd)}", file=sys.stderr)


def _asked(wishes: Wishes) -> str:
    """The path to write, if nothing speaks against it."""
    if wishes.in_place:
        return wishes.config
    return wishes.output or tuned(wishes.config)


def _whole(
    wishes: Wishes, made: Prepared, outcome: Outcome, *, stopped: bool
) -> Outcome:
    """Add the findings that need the config, and what to do where nothing succeeded."""
    trials, budget = made.study.trials, parse_duration(wishes.budget)
    if stopped and outcome.chosen is None:
        return outcome
    outcome = with_config(outcome, made.plan, trials, budget)
    more: list[Finding] = []
    if outcome.chosen is None and isinstance(made.runner, Builtin):
        more += machine_findings(trials, on_cpu=made.runner.setup.device == "cpu")
    if outcome.chosen is not None and not stopped:
        more += _failed_before(made.study)
    return outcome._replace(findings=(*outcome.findings, *more))


def _failed_before(study: Study) -> Iterator[Finding]:
    """Yield how many settings are not retried because they failed before."""
    count = retried_settings(study.trials, study.process)
    if count and all(trial.process < study.process for trial in study.trials):
        yield Finding("failed-before", {"count": count})


def _say(
    wishes: Wishes, made: Prepared, found: Outcome, output: str, *, stopped: bool
) -> None:
    out = sys.stderr if wishes.as_json else sys.stdout
    for line in closing(found, made.plan, output):
        print(plain(line), file=out)
    if stopped:
        print("stopped: the same command goes on from here", file=out)
    if wishes.as_json:
        told = as_json(found, made.plan, output, made.study.folder)
        told["starts_from"] = made.begun.study or None
        if isinstance(made.runner, Builtin):  # whether or not a trial ended
            told["synthetic_data"] = bool(made.runner.setup.synthetic_data)
        print(json.dumps(told, indent=2))
