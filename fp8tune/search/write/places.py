"""Where a search writes, checked before it begins, so that no result is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache

from fp8tune import atomic
from fp8tune.formats import TITLES, format_of
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import keys_written
from fp8tune.search.options import TUNED, SearchOptions, is_same, notes_path, tuned
from fp8tune.search.plan import Plan, study_name
from fp8tune.search.write.job_files import OF_JOB, Name, changing, name_of_job
from fp8tune.search.write.writeback import MARK
from fp8tune.studies import CALIBRATION, EXPORT, JOURNAL, LOCK

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
        check_place(path, "; --output FILE names another place, --diff writes none")
        check_apart(path, read, tuned(other) if is_same(path, other) else other)
    if options.export:
        read |= {options.config: "the config", path: "the tuned config"}
        check_place(options.export)
        beside = f"{os.path.splitext(options.config)[0]}.jsonl"
        check_apart(options.export, read, beside)
    check_studies(options.studies)


def check_studies(folder: str) -> None:
    """Raise ``CannotSearch`` if a study could not be kept in a folder of studies."""
    place = os.path.abspath(folder)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    _check_permission(folder, place, "; --studies DIR uses another folder")


def check_files(options: SearchOptions, plan: Plan) -> None:
    """Raise ``CannotSearch`` if a file of the job could not be written.

    These are the one that is typed, and those that some value of a knob would change.
    Files that no search of this job wrote are kept.
    """
    if options.diff:
        return
    path, config = options.tuned_path, plan.config
    names = names_of(path, plan)
    others = [*changing(config, _written_keys(plan), names)]
    for each in dict.fromkeys((config.typed_path, *others)):
        check_place(names(each), "; --diff prints the changes instead")
        if not is_same(names(each), each):
            _check_own(names(each), each, plan)
        _check_notes(names(each))


def _written_keys(plan: Plan) -> Iterator[str]:
    """Yield the config keys that a search may write."""
    for knob in plan.space.knobs:
        yield from () if knob.frozen else keys_written(plan.config, knob)
    yield from filter(None, [plan.config.trainer.key_of("grad_accum")])


def check_place(path: str, instead: str = "") -> None:
    """Raise ``CannotSearch`` if a file cannot be written.

    ``instead`` says what to type where there is no permission.
    """
    if atomic.is_stream(path):
        return
    place = os.path.realpath(path)
    folder = os.path.dirname(place)
    if os.path.isdir(place):
        raise CannotSearch(f"{path}: Is a directory")
    if not os.path.isdir(folder):
        raise CannotSearch(f"{path}: no folder {folder}")
    _check_permission(path, folder, instead)


def _check_permission(path: str, folder: str, instead: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CannotSearch(f"{path}: no permission to write in {folder}{instead}")


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
    if name == os.path.basename(CALIBRATION):
        return os.path.exists(place)
    return name in EVIDENCE and os.path.exists(os.path.join(folder, JOURNAL))


def names_of(path: str, plan: Plan) -> Name:
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
