"""Write the tuned files of a job and the exported trials, and check their paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TextIO

from fp8tune import atomic
from fp8tune.config.reader import Config
from fp8tune.formats import TITLES, format_of
from fp8tune.formats.edits import unified_diff
from fp8tune.search import CannotSearch
from fp8tune.search.answer.answer import Answer
from fp8tune.search.answer.stored import next_commands
from fp8tune.search.calibrate import NAME as CALIBRATION
from fp8tune.search.linting import (
    aftermath,
    aftermath_of_job,
    check_tuned,
    with_measured,
)
from fp8tune.search.options import TUNED, SearchOptions, is_same, notes_path, tuned
from fp8tune.search.plan import Plan, study_name
from fp8tune.search.storage import LOCK
from fp8tune.search.study import EXPORT, Study
from fp8tune.search.write.comments import choices, summary
from fp8tune.search.write.job_files import (
    OF_JOB,
    Name,
    Tuned,
    changing,
    name_of_job,
    write_job,
)
from fp8tune.search.write.writeback import MARK
from fp8tune.studies import JOURNAL
from fp8tune.words import write_patch

EVIDENCE = (JOURNAL, EXPORT, LOCK)
"""Files of a study's folder that no output may replace."""
_STUDY = re.compile(r"of (?:study|replay) (\S+)-[0-9a-f]{8}\b")
"""The beginning of a study's name in the comments of a tuned file."""
MOST = 1 << 20
"""What is read of a file that may be replaced [bytes]."""


def check_outputs(options: SearchOptions) -> None:
    """Raise ``CannotSearch`` if an output of a search cannot be written.

    This is checked before the search, so that no result is lost.
    """
    path, other = options.tuned_path, tuned(options.config)
    form = format_of(options.config)
    if options.output and format_of(path) != form and not atomic.is_stream(path):
        what = f"{options.config} is {TITLES[form]}, and so is its tuned version"
        raise CannotSearch(f"--output {path}: {what}")
    if options.overrides and is_same(path, options.config):
        meant = f"overrides are not written into the config itself: {other} gets them"
        raise CannotSearch(f"{path}: {meant} without --in-place and --output")
    read = {options.records: "the records"} if options.records else {}
    if not options.diff:
        check_place(path)
        check_apart(path, read, tuned(other) if is_same(path, other) else other)
    if options.export:
        read |= {options.config: "the config", path: "the tuned config"}
        check_place(options.export)
        beside = f"{os.path.splitext(options.config)[0]}.jsonl"
        check_apart(options.export, read, beside)


def check_files(options: SearchOptions, plan: Plan) -> None:
    """Raise ``CannotSearch`` if a file of the job could not be written.

    These are the one that is typed, and those that some value of a knob would change.
    Files that no search of this job wrote are kept.
    """
    if options.diff:
        return
    path, config = options.tuned_path, plan.config
    names = _names(path, plan)
    others = [*changing(config, _written_keys(plan), names)]
    for each in dict.fromkeys((config.typed_path, *others)):
        check_place(names(each))
        if not is_same(names(each), each):
            _check_own(names(each), each, plan)
        _check_notes(names(each))


def _written_keys(plan: Plan) -> Iterator[str]:
    """Yield the config keys that a search may write."""
    knobs = plan.config.trainer.knobs
    for key in plan.free_keys:
        listed = knobs[key].keys if key in knobs else {}
        yield from (name for keys in listed.values() for name in keys)
        if not listed:
            yield key


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


def _check_own(path: str, source: str, plan: Plan) -> None:
    """Raise ``CannotSearch`` if a tuned file would replace one of another origin.

    ``source`` is the file of the job of which it is a version.
    """
    text = _comments(path)
    if text is None or (text and _is_of_job(text, source, plan)):
        return
    wrote = "the search of another job" if text else "no search"
    raise CannotSearch(
        f"{path} exists and {wrote} wrote it: move it, or name another path with "
        "--output"
    )


def _comments(path: str) -> str | None:
    """Return what a search wrote into a file, or beside one without comments.

    ``""`` if it is not of a search; ``None`` if there is no file.
    """
    if atomic.is_stream(path) or not os.path.isfile(path):
        return None
    found = []
    for each in (path, *[notes_path(path)] * (format_of(path) == "json")):
        with suppress(OSError), open(each, "rb") as file:
            text = file.read(MOST).decode(errors="replace")
            if MARK in text:
                lines = (line.strip().removeprefix(MARK) for line in text.split("\n"))
                found += [line.removeprefix("- ") for line in lines]
    return " ".join(found)


def _is_of_job(text: str, source: str, plan: Plan) -> bool:
    """Return whether comments of a search are of this job, as far as they say it."""
    if OF_JOB in text:
        name = name_of_job(plan.config, source)
        return bool(name) and name in text
    stem = study_name(plan, {}).rpartition("-")[0]
    return {stem}.issuperset(_STUDY.findall(text))


def _check_notes(path: str) -> None:
    """Raise ``CannotSearch`` if notes would replace a file that no search wrote."""
    if format_of(path) == "json" and not atomic.is_stream(path):
        notes = notes_path(path)
        if _comments(notes) == "":
            raise CannotSearch(f"{notes} exists and no search wrote it: move it")


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
    """The path of the tuned config, ``""`` if none was written, notes, and its text.

    ``others`` are the paths of the other files, and ``texts`` the texts of all by the
    files that they are versions of.
    """

    path: str
    notes: tuple[str, ...] = ()
    texts: Mapping[str, str] = {}
    others: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files that were written, the config first."""
        return (*filter(None, (self.path,)), *self.others)


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
    typed = config.typed_path
    if not chosen:
        if diff_to or is_same(path, typed) or not os.path.isfile(path):
            return Written("")
        left = f"{path} is from an earlier run; this run wrote no config"
        return Written("", (left,))
    messages = []
    own = is_same(path, typed) and not diff_to
    if own and (edited := _edited(config)):
        path = tuned(typed)
        left = f"{edited} was changed during the search, so it was not overwritten"
        messages.append(f"{left}: see {path}")
    source = f"{'replay' if 'records' in about else 'study'} {name}"
    names = _names(path, plan)
    renamed = (lambda each: each) if diff_to else names
    files, _ = write_job(config, chosen, (), renamed)
    output = "" if diff_to or not files else names(files[0].path)
    commands = next_commands(plan, about, outcome, output)
    block = summary(plan, outcome, source, commands)
    files, after = write_job(config, chosen, block, renamed)
    check_tuned(config, after)
    if not (config.script or config.files):
        record, target = outcome.record, config.job.target
        files = [
            each._replace(
                after=with_measured(names(each.path), each.after, record, target)
            )
            for each in files
        ]
    texts = {file.path: file.after.decode() for file in files}
    messages += _findings(config, after, files, names)
    if diff_to:
        for file in files:
            patch = unified_diff(file.path, _before(config, file), file.after)
            write_patch(patch, diff_to)
        return Written("", tuple(messages), texts)
    written: list[str] = []
    for file in reversed(files):  # the one that names the others comes last
        written = [*_put_all(file, names(file.path)), *written]
    return Written(written[0], tuple(messages), texts, tuple(written[1:]))


def _names(path: str, plan: Plan) -> Name:
    """Return where each file is written if the one that is typed goes to ``path``.

    Where the usual place of another one has a file of another job, which shares it, the
    name of this job is added.
    """
    typed = plan.config.typed_path
    in_place = is_same(path, typed)
    job = os.path.splitext(os.path.basename(path))[0].removesuffix(TUNED)

    @cache
    def name(other: str) -> str:
        if is_same(other, typed):
            return path
        if in_place:
            return other
        text, (stem, ending) = _comments(tuned(other)), os.path.splitext(other)
        is_taken = text and not _is_of_job(text, other, plan)
        return tuned(f"{stem}.{job}{ending}") if is_taken else tuned(other)

    return name


def _findings(
    config: Config, after: Config, files: Sequence[Tuned], names: Name
) -> Iterator[str]:
    """Return lint's new findings in the tuned files."""
    if config.script or config.files:
        return aftermath_of_job(config, after, names)
    (alone,) = files
    target = config.job.target
    return aftermath(names(alone.path), config.data, alone.after, target)


def _before(config: Config, file: Tuned) -> bytes:
    """Return a file's bytes, without the overrides of the command line."""
    if not config.written:
        return file.before
    with open(file.path, "rb") as opened:
        return opened.read(MOST)


def _edited(config: Config) -> str:
    """Return a file of the job that was changed since it was read, ``""`` if none."""
    for path, data in config.bytes_by_path.items():
        try:
            with open(path, "rb") as file:
                if file.read(len(data) + 1) != data:
                    return path
        except OSError:
            return path
    return ""


def _put_all(file: Tuned, path: str) -> Iterator[str]:
    """Write a tuned file and its notes; yield their paths."""
    others = []
    if file.notes and not atomic.is_stream(path):
        others = [notes_path(path)]
        _put(others[0], file.notes, file.path)
    _put(path, file.after, file.path)
    yield from (path, *others)


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
