"""Write the tuned config and the exported trials, and check their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from fp8tune import atomic
from fp8tune.config.reader import Config
from fp8tune.formats.edits import unified_diff
from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.next_step import next_commands
from fp8tune.search.calibrate import NAME as CALIBRATION
from fp8tune.search.linting import aftermath, with_measured
from fp8tune.search.options import SearchOptions, is_same, tuned
from fp8tune.search.plan import Plan
from fp8tune.search.storage import LOCK
from fp8tune.search.study import EXPORT, Study
from fp8tune.search.write.comments import ChangedKey, choices, stale_comments, summary
from fp8tune.search.write.writeback import MARK, Choice, write_back
from fp8tune.studies import JOURNAL

EVIDENCE = (JOURNAL, f"{JOURNAL}.bak", EXPORT, LOCK)
"""Files of a study's folder that no output may replace."""
MOST = 1 << 20
"""What is read of a file that may be replaced [bytes]."""


def check_outputs(options: SearchOptions) -> None:
    """Raise ``CannotSearch`` if an output of a search cannot be written.

    This is checked before the search, so that no result is lost.
    """
    path, other = options.tuned_path, tuned(options.config)
    if options.overrides and is_same(path, options.config):
        meant = f"overrides are not written into the config itself: {other} gets them"
        raise CannotSearch(f"{path}: {meant} without --in-place and --output")
    read = {options.records: "the records"} if options.records else {}
    if not options.diff:
        check_place(path)
        if not (options.in_place or options.output):
            _check_own(path)
        check_apart(path, read, tuned(other) if is_same(path, other) else other)
    if options.export:
        read |= {options.config: "the config", path: "the tuned config"}
        check_place(options.export)
        beside = f"{options.config.removesuffix('.toml')}.jsonl"
        check_apart(options.export, read, beside)


def check_place(path: str) -> None:
    """Raise ``CannotSearch`` if a file cannot be written."""
    if atomic.is_stream(path):
        return
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    if os.path.isdir(place):
        raise CannotSearch(f"{path}: Is a directory")
    if not os.path.isdir(folder):
        raise CannotSearch(f"{path}: no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotSearch(f"{path}: no permission to write in {folder}")


def _check_own(path: str) -> None:
    """Raise ``CannotSearch`` if the default path has a file that no search wrote."""
    with suppress(OSError), open(path, "rb") as file:
        if MARK.encode() not in file.read(MOST):
            raise CannotSearch(
                f"{path} exists and no search wrote it: move it, or name another "
                "path with --output"
            )


def check_apart(path: str, read: Mapping[str, str], other: str) -> None:
    """Raise ``CannotSearch`` if an output would replace one of its inputs.

    ``read`` maps each input file to what it is; ``other`` is a path to suggest instead.
    An output must not replace the trials of any study either.
    """
    what = next((what for file, what in read.items() if is_same(path, file)), "")
    if what or _is_evidence(path):
        lost = what or "what trials have measured"
        raise CannotSearch(f"{path}: this would replace {lost}; try --output {other}")


def _is_evidence(path: str) -> bool:
    place = os.path.realpath(path)
    folder, name = os.path.split(place)
    if name == CALIBRATION:
        return os.path.exists(place)
    return name in EVIDENCE and os.path.exists(os.path.join(folder, JOURNAL))


class Written(NamedTuple):
    """The path of the tuned config, ``""`` if none was written, notes, and its text."""

    path: str
    notes: tuple[str, ...] = ()
    text: str = ""


def write_tuned(
    path: str,
    plan: Plan,
    outcome: Answer,
    name: str,
    about: Mapping[str, Any],
    diff_to: TextIO | None,
) -> Written:
    """Write the tuned config to ``path``, if any value changes.

    With ``diff_to`` only the diff is written, there. Raises ``CannotSearch``.
    """
    config, chosen = plan.config, choices(plan, outcome)
    if not chosen:
        if diff_to or is_same(path, config.path) or not os.path.isfile(path):
            return Written("")
        left = f"{path} is from an earlier run; this run wrote no config"
        return Written("", (left,))
    notes = []
    own = is_same(path, config.path) and not diff_to
    if own and _was_edited(config):
        path = tuned(path)
        left = f"{config.path} was changed during the search, so it was not overwritten"
        notes.append(f"{left}: see {path}")
    source = f"{'replay' if 'records' in about else 'study'} {name}"
    commands = next_commands(plan, about, outcome, "" if diff_to else path)
    after = write_back(config.data, chosen, summary(plan, outcome, source, commands))
    after = with_measured(path, after, outcome.record, config.job.target)
    if diff_to:
        diff_to.write(unified_diff(config.path, _before(config), after))
    else:
        _put(path, after, config.path)
    notes += _notes(path, config, after, chosen)
    return Written("" if diff_to else path, tuple(notes), after.decode())


def _notes(
    path: str, config: Config, after: bytes, choices: Iterable[Choice]
) -> Iterator[str]:
    """Yield what a user should check in a tuned config, lint's findings first."""
    found = list(aftermath(path, config.data, after, config.job.target))
    yield from found
    places = {line.split(": ", 1)[0] for line in found}
    before = config.loaded.values
    changes = [
        ChangedKey(key, before.get(key), value)
        for key, value, _ in choices
        if before.get(key) != value
    ]
    for line in stale_comments(path, after, changes):
        if line.split(": ", 1)[0] not in places:
            yield line


def _before(config: Config) -> bytes:
    """Return the config's bytes, without the overrides of the command line."""
    if not config.written:
        return config.data
    with open(config.path, "rb") as file:
        return file.read(MOST)


def _was_edited(config: Config) -> bool:
    """Return whether the config's file was changed since it was read."""
    try:
        with open(config.path, "rb") as file:
            return file.read(len(config.data) + 1) != config.data
    except OSError:
        return True


def _put(path: str, data: bytes, config: str) -> None:
    """Write the tuned config with the config's permissions; raises ``CannotSearch``."""
    try:
        atomic.write(path, data, like=config if os.path.exists(config) else "")
    except OSError as error:
        raise CannotSearch(f"{path}: {error.strerror}") from None


def export_trials(study: Study, path: str) -> None:
    """Write the trials as JSON lines into the study's folder, and to ``path`` if asked.

    Raises ``CannotSearch``.
    """
    with suppress(OSError):  # the storage has the trials
        study.export(os.path.join(study.folder, EXPORT))
    if path:
        try:
            study.export(path)
        except OSError as error:
            raise CannotSearch(f"{path}: {error.strerror}") from None
