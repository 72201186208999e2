"""Lint the config before a search, the tuned config, and recorded settings."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText
from fp8tune.formats.edits import apply
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.engine import check
from fp8tune.lint.engine import check_config as lint_config
from fp8tune.lint.ignores import with_ignores
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.written import new_findings, rules_for
from fp8tune.search import CannotSearch
from fp8tune.search.plan import Plan, left_out
from fp8tune.search.write.job_files import write_job
from fp8tune.search.write.writeback import MEASURED, Choice
from fp8tune.trials.record import Record
from fp8tune.trials.space import TRAITS, Point, Space, shown
from fp8tune.words import clean, counted

FAILS = {
    "rejected": "refuses this config",
    "crash": "crashes on this config",
    "silent": "does not run this config as it says",
}
"""What the trainer does, by the category of a finding that is an error."""
UNSEEN = {"whole-model-before-sharding": "runs out of memory"}
"""The same by rules on what a trial does not do: it builds its own share alone."""
PINNED = "versions-that-fail"
"""A rule on pinned versions; a search checks those that its trials run with."""
MOST_CHECKED = 300
"""Combinations of knobs that are checked before a search; of more, trials tell."""
UNKNOWN_KEY = "unknown-key"
"""The rule on keys that the trainer does not have."""
NO_CURE = "and no other value of a knob changes that"
PREDICTED = ("out-of-memory", "probably-out-of-memory", "may-not-fit")
"""Rules that predict whether a run fits."""


class Why(NamedTuple):
    """Why values cannot be had: in words, and by which rule, if it is one's."""

    text: str
    rule: str = ""


def check_config(config: Config, free: Container[str]) -> None:
    """Raise ``CannotSearch`` if the trainer cannot run it at any value of free keys."""
    if refused := list(refusals(config, free)):
        others = f" and {len(refused) - 1} more" * bool(refused[1:])
        command = command_on(config, "lint", _given(config.job.target))
        hint = f"fix that{others} first, see: {command}"
        raise CannotSearch(f"{refused[0]}; {hint}")


def command_on(config: Config, name: str, options: str = "") -> str:
    """Return the command ``lint`` or ``estimate`` with all files of a job."""
    files = dict.fromkeys((config.path, *(part.path for part in config.parts)))
    words = " --with ".join(map(quoted, files))
    if config.script:
        script = quoted(config.script.path)
        words = f"--script {script}" if name == "lint" else script
    behind = "".join(f" {quoted(word)}" for word in config.written)
    return f"fp8tune {name} {words}{options}{' --' * bool(behind)}{behind}"


def _given(target: Target) -> str:
    """Return the options that give what a command line gave of a target."""
    gpu, size = target.gpu_origin, target.world_size_origin
    options = f" --gpu {quoted(target.gpu)}" * bool(gpu.startswith("--") and target.gpu)
    return options + f" --world-size {target.world_size}" * size.startswith("--")


def quoted(text: str) -> str:
    """Return a word of a command line, harmless and quoted for a shell."""
    return shlex.quote(clean(text))


def refusals(config: Config, free: Container[str]) -> Iterator[str]:
    """Yield why the trainer cannot run a config, one line each.

    Reasons that involve a free key are left to the search, except a value that the
    trainer cannot read: no search can start from that. What runs otherwise than it says
    may be tuned.
    """
    for error in _errors(config):
        if error.category != "silent" and not _is_left(error, config, free):
            yield f"{_placed(error, config)}; {_fails(error, config)}"


def failing(plan: Plan) -> Iterator[str]:
    """Yield the errors of a config with which a search may start, one line each.

    A line says at which values of a knob the error is gone.
    """
    config, free = plan.config, plan.free_keys
    for error in _errors(config):
        refused = error.category != "silent" and not _is_left(error, config, free)
        if refused or error.rule in plan.told:
            continue
        text = f"{_placed(error, config, error.help)}; {_fails(error, config)}"
        cures = ", ".join(_cures(plan, error.rule))
        yield f"{text}, {f'but not with {cures}' if cures else NO_CURE}"


def _is_left(error: Diagnostic, config: Config, free: Container[str]) -> bool:
    """Return whether an error is left to the search, which may change its keys."""
    is_free = any(label.key in free for label in error.labels)
    return is_free and not _is_fault(error, rules_for(config.path))


def _fails(error: Diagnostic, config: Config) -> str:
    """Return what the trainer does with a config that has an error."""
    how = UNSEEN.get(error.rule) or FAILS[error.category]
    return f"{config.trainer.schema.title} {how}"


def _cures(plan: Plan, rule: str) -> Iterator[str]:
    """Yield the knobs that a search varies, with the values that have no such error."""
    job = plan.config.job
    why = _why_refused(plan.config, rule)
    for knob in plan.space.knobs:
        others = () if knob.frozen else knob.values
        fine = [
            shown(value)
            for value in others
            if value != job.find(knob.key)
            and not why(_with_steps(job, knob.key, value))
        ]
        if fine:
            yield f"{knob.key} = {' or '.join(fine)}"


def misread(config: Config) -> Iterator[str]:
    """Yield what the trainer does not read as it is meant, one line each.

    A misspelt key explains why a value is not known.
    """
    rules = rules_for(config.path)
    for finding in _findings(config):
        if finding.fix is not None and _is_fault(finding, rules):
            yield _placed(finding, config, finding.help)


def _placed(finding: Diagnostic, config: Config, hint: str = "") -> str:
    """Return a finding with its place in one line."""
    typed = config.written or finding.region.line < 1
    line = "" if typed else f":{finding.region.line}"
    return f"{finding.path}{line}: {_said(finding, hint)}"


def _said(finding: Diagnostic, hint: str = "") -> str:
    """Return a finding, with what to do or without, in one line."""
    return f"{finding.message}{f': {hint}' * bool(hint)} [{finding.rule}]"


def runnable(
    config: Config, records: Sequence[Record]
) -> tuple[list[Record], list[str]]:
    """Return the records of settings without an error, and why not the others.

    Errors of the config itself do not count. Knobs that every trial has are checked one
    by one, because these are known to work together.
    """
    refused = _why_refused(config)
    key_of = config.trainer.key_of
    usual = {key_of(name) for name, role in TRAITS.items() if role.checked_alone}

    @cache
    def alone(key: str, value: Any) -> Why | None:
        return refused(_with_steps(config.job, key, value))

    def why(knobs: Mapping[str, Any]) -> str:
        pairs = tuple((k, v) for k, v in knobs.items() if config.job.can_set(k))
        first = next(filter(None, (alone(k, v) for k, v in pairs if k in usual)), None)
        if first is None and not usual.issuperset(dict(pairs)):
            first = refused(pairs)
        return first.text if first else ""

    wrong = [why(record.knobs) for record in records]
    kept = [record for record, text in zip(records, wrong, strict=True) if not text]
    return kept, left_out(wrong)


def _with_steps(job: Job, key: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Return another value of a knob, with the accumulation that keeps the tokens."""
    accum = job.words.renamed.get("grad_accum", "grad_accum")
    kept = job.keep_tokens({key: value}).find("grad_accum")
    steps = {accum: kept} if kept and job.can_set(accum) else {}
    return tuple({key: value, **steps}.items())


def _why_refused(
    config: Config, but: str = "", same: tuple[tuple[str, Any], ...] = ()
) -> Callable[[tuple[tuple[str, Any], ...]], Why | None]:
    """Return a function that says which error other values would bring.

    It takes keys with their values. Errors that the config itself has do not count,
    except that of the rule ``but``. ``same`` are values of the config itself: errors
    that come with them are its own. A file with a model and no training settings shows
    them only once it has some.
    """

    def errors_with(pairs: tuple[tuple[str, Any], ...]) -> list[Diagnostic]:
        given = {key: value for key, value in pairs if value is not None}
        made = [Choice(*each) for each in config.job.keys_for(given).items()]
        return list(_errors(write_job(config, made)[1]))

    old = {error.rule for error in _errors(config)} - {but}
    if same:
        with suppress(CannotSearch, Unknown):
            old.update(error.rule for error in errors_with(same))

    @cache
    def why(pairs: tuple[tuple[str, Any], ...]) -> Why | None:
        try:
            errors = errors_with(pairs)
        except (CannotSearch, Unknown) as error:
            return Why(str(error))
        new = (Why(_said(e, e.help), e.rule) for e in errors if e.rule not in old)
        return next(new, None)

    return why


Moved = frozenset[tuple[int, int]]
"""Knobs that are not at the config's value: their places and those of their values."""


def without_refused(plan: Plan) -> Plan:
    """Return the plan without the settings that have an error.

    Knobs that every search has are checked one by one in each precision, because these
    are known to work together; the others and the precision in all their combinations.
    """
    space, baseline = plan.space, plan.baseline
    every = space.only or frozenset(
        itertools.product(*(range(len(knob.values)) for knob in space.knobs))
    )
    usual = {i for i, knob in enumerate(space.knobs) if knob.traits.checked_alone}
    place = space.place("precision")
    usual -= {place}
    asked = {i for i in usual if not space.knobs[i].frozen}

    def changed(point: Point) -> Moved:
        pairs = zip(enumerate(point), baseline, strict=True)
        return frozenset(pair for pair, start in pairs if pair[1] != start)

    def together(moved: Moved) -> Moved:
        return frozenset(pair for pair in moved if pair[0] not in usual)

    def by_itself(moved: Moved) -> Iterator[Moved]:
        precision = {pair for pair in moved if pair[0] == place}
        return (frozenset({pair, *precision}) for pair in moved if pair[0] in asked)

    cells = {together(changed(point)) for point in every}
    if len(cells) > MOST_CHECKED:
        return plan
    cells.update(*(by_itself(changed(point)) for point in every))
    odd = _refused(plan, sorted(cells, key=sorted))
    if not odd:
        return plan
    points = {
        point
        for point in every
        if together(moved := changed(point)) not in odd
        and odd.keys().isdisjoint(by_itself(moved))
    }
    varied = {i for point in points for i, _ in changed(point)}
    return _left(plan, Space(space.knobs, points), odd, varied)


def _refused(plan: Plan, cells: Iterable[Moved]) -> dict[Moved, Why]:
    """Return which changes of knobs bring an error, and which one."""
    space, odd = plan.space, dict[Moved, Why]()
    batch, start = space.batch_knob, space.params(plan.baseline)
    same = ((batch.key, start[batch.key]),) if batch else ()
    refused = _why_refused(plan.config, same=same)
    for moved in cells:
        places = dict(moved)
        point = tuple(places.get(i, index) for i, index in enumerate(plan.baseline))
        keys = {space.knobs[i].key for i in places}
        values = {key: v for key, v in space.values(point).items() if key in keys}
        if batch and batch.key in values:
            values |= _with_steps(plan.config.job, batch.key, values[batch.key])
        if why := refused(tuple(values.items())):
            odd[moved] = why
    return odd


def _left(
    plan: Plan, space: Space, odd: Mapping[Moved, Why], varied: Container[int]
) -> Plan:
    """Return the plan with the settings that are left, and what was left out and why.

    A knob that no setting varies any more is kept.
    """
    kept: dict[str, tuple[str, Why]] = {}
    for moved, why in odd.items():
        if len(moved) == 1:
            ((place, index),) = moved
            knob = space.knobs[place]
            if place not in varied:
                value = shown(knob.values[index])
                kept.setdefault(
                    knob.key, (f"with {knob.key} = {value}: {why.text}", why)
                )
    told = {why for _, why in kept.values()}
    by_rule: dict[str, list[str]] = {}
    for why in odd.values():
        if why not in told:
            by_rule.setdefault(why.rule or why.text, []).append(why.text)
    notes = [
        f"left out: {counted(len(texts), 'combination')} of knobs: {texts[0]}"
        for texts in by_rule.values()
    ]
    offers = [
        offer._replace(why=kept[knob.key][0], knob=knob._replace(frozen=True))
        if (knob := offer.knob).key in kept and not offer.why
        else offer
        for offer in plan.offers
    ]
    return plan._replace(space=space, offers=tuple(offers), notes=(*plan.notes, *notes))


def _errors(config: Config) -> Iterator[Diagnostic]:
    """Yield lint's errors, except predictions that trials settle."""
    target = config.job.target
    if not target.world_size_origin:  # assumed for the trials only
        target = target._replace(world_size=0)
    for finding in _findings(config.on(target)):
        fails = finding.rule in UNSEEN or finding.category in FAILS
        if fails and finding.severity == "error" and finding.rule != PINNED:
            yield finding


def _findings(config: Config) -> Iterator[Diagnostic]:
    """Yield lint's findings in all files of a job."""
    report = _report(config)
    for each in (report, *report.beside):
        yield from each.diagnostics


def _report(config: Config) -> Report:
    return lint_config(config, rules_for(config.path))


def _is_fault(finding: Diagnostic, rules: Rules) -> bool:
    return any(rule.fault for rule in rules.named((finding.rule,)))


def aftermath(path: str, before: bytes, after: bytes, target: Target) -> Iterator[str]:
    """Yield new findings of a changed config, one line each.

    ``path`` is where it will be written; findings that the project ignores are left
    out.
    """
    rules = rules_for(path)
    old, new = (check(path, data, rules, target) for data in (before, after))
    for finding in new_findings(old, new):
        yield f"{finding.path}:{finding.region.line}: {_said(finding)}"


def check_tuned(before: Config, after: Config) -> None:
    """Raise ``CannotSearch`` if a tuned config has an error that it had not before.

    Keys of records that the trainer is not known to have do not count: a fork may have
    them, and a note names them.
    """
    old = {error.rule for error in _errors(before)} | {UNKNOWN_KEY}
    for error in _errors(after):
        if error.rule not in old:
            raise CannotSearch(f"{_fails(error, before)}: {_said(error)}")


def aftermath_of_job(
    before: Config, after: Config, name: Callable[[str], str]
) -> Iterator[str]:
    """Yield the findings of a changed job of several files that are new.

    ``name`` says where each file is written.
    """
    for finding in new_findings(_report(before), _report(after)):
        yield f"{name(finding.path)}:{finding.region.line}: {_said(finding)}"


def with_measured(path: str, data: bytes, record: Record | None, to: Target) -> bytes:
    """Return the config with ignore comments above predictions that a trial refutes.

    A rehearsal refutes none, nor does a trial with other values.
    """
    if record is None or not _shows_memory(record):
        return data
    report = check(path, data, rules_for(path), to)
    wrong = [each for each in report.diagnostics if each.rule in PREDICTED]
    if not wrong:
        return data
    document = parse(data, path)
    words = f" -- {MEASURED} {record.peak_gib:.1f} of {record.capacity_gib:.1f} GiB"
    text = apply(document.text, with_ignores(document, wrong, words))
    try:
        if document.read(text).values != document.values:
            return data  # a line that cannot have a comment above it
    except InvalidText:  # JSON has none
        return data
    return f"{chr(0xFEFF) * document.bom}{text}".encode()


def _shows_memory(record: Record) -> bool:
    measured = 0 < record.peak_gib < record.capacity_gib
    guessed = record.rehearsal or bool(record.extrapolated)
    return measured and not guessed and not record.memory_shortage
