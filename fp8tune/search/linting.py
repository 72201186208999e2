"""Lint the config before a search, the tuned config, and recorded settings."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from fp8tune.config.reader import Config
from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText
from fp8tune.formats.edits import apply
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.diagnostic import Diagnostic
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
from fp8tune.trials.space import TRAITS, Space, shown
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


def check_config(config: Config, free: Container[str]) -> None:
    """Raise ``CannotSearch`` if the trainer cannot run it at any value of free keys."""
    found = list(refusals(config, free))
    if found:
        others = f" and {len(found) - 1} more" * bool(found[1:])
        command = command_on(config, "lint", _given(config.job.target))
        hint = f"fix that{others} first, see: {command}"
        raise CannotSearch(f"{found[0]}; {hint}")


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
    for found in _errors(config):
        if found.category != "silent" and not _is_left(found, config, free):
            yield f"{_placed(found, config)}; {_fails(found, config)}"


def failing(plan: Plan) -> Iterator[str]:
    """Yield the errors of a config with which a search may start, one line each.

    A line says at which values of a knob the error is gone.
    """
    config, free = plan.config, plan.free_keys
    for found in _errors(config):
        refused = found.category != "silent" and not _is_left(found, config, free)
        if refused or any(note.endswith(f"[{found.rule}]") for note in plan.notes):
            continue
        text = f"{_placed(found, config, _with_help(found))}; {_fails(found, config)}"
        cures = ", ".join(_cures(plan, found.rule))
        yield f"{text}, {f'but not with {cures}' if cures else NO_CURE}"


def _is_left(found: Diagnostic, config: Config, free: Container[str]) -> bool:
    """Return whether an error is left to the search, which may change its keys."""
    is_free = any(label.key in free for label in found.labels)
    return is_free and not _is_fault(found, rules_for(config.path))


def _fails(found: Diagnostic, config: Config) -> str:
    """Return what the trainer does with a config that has an error."""
    how = UNSEEN.get(found.rule) or FAILS[found.category]
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
    for found in _findings(config):
        if found.fix is not None and _is_fault(found, rules):
            yield _placed(found, config, _with_help(found))


def _placed(found: Diagnostic, config: Config, text: str = "") -> str:
    """Return a finding with its place in one line."""
    typed = config.written or found.region.line < 1
    line = "" if typed else f":{found.region.line}"
    return f"{found.path}{line}: {text or f'{found.message} [{found.rule}]'}"


def _with_help(found: Diagnostic) -> str:
    """Return a finding with what to do in one line."""
    hint = f": {found.help}" if found.help else ""
    return f"{found.message}{hint} [{found.rule}]"


def runnable(
    config: Config, records: Sequence[Record]
) -> tuple[list[Record], list[str]]:
    """Return the records of settings without an error, and why not the others.

    Errors of the config itself do not count. Knobs that every trial has are checked one
    by one, because these are known to work together.
    """
    odd = _why_refused(config)
    key_of = config.trainer.key_of
    usual = {key_of(name) for name, role in TRAITS.items() if role.always_accepted}

    @cache
    def alone(key: str, value: Any) -> str:
        return odd(_with_steps(config.job, key, value))

    def why(knobs: Mapping[str, Any]) -> str:
        pairs = tuple((k, v) for k, v in knobs.items() if config.job.can_set(k))
        first = next(filter(None, (alone(k, v) for k, v in pairs if k in usual)), "")
        return first or ("" if usual.issuperset(dict(pairs)) else odd(pairs))

    wrong = [why(record.knobs) for record in records]
    kept = [record for record, odd in zip(records, wrong, strict=True) if not odd]
    return kept, left_out(wrong)


def _with_steps(job: Job, key: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """Return another value of a knob, with the accumulation that keeps the tokens."""
    accum = job.words.renamed.get("grad_accum", "grad_accum")
    kept = job.keep_tokens({key: value}).find("grad_accum")
    steps = {accum: kept} if kept and job.can_set(accum) else {}
    return tuple({key: value, **steps}.items())


def _why_refused(
    config: Config, but: str = ""
) -> Callable[[tuple[tuple[str, Any], ...]], str]:
    """Return a function that says which error other values would bring.

    It takes keys with their values. Errors that the config itself has do not count,
    except that of the rule ``but``.
    """
    own = {found.rule for found in _errors(config)} - {but}

    @cache
    def why(pairs: tuple[tuple[str, Any], ...]) -> str:
        given = {key: value for key, value in pairs if value is not None}
        try:
            made = [Choice(*each) for each in config.job.keys_for(given).items()]
            found = _errors(write_job(config, made)[1])
        except (CannotSearch, Unknown) as error:
            return str(error)
        return next((_with_help(f) for f in found if f.rule not in own), "")

    return why


def without_refused(plan: Plan) -> Plan:
    """Return the plan without the settings that have an error.

    Only knobs that not every search has are asked about, at the other knobs' values of
    the config: these are known to work together.
    """
    space, baseline = plan.space, plan.baseline
    asked = [i for i, knob in enumerate(space.knobs) if not knob.traits.always_accepted]
    place = space.place("precision")
    asked += [] if place is None else [place]
    sizes = (range(len(knob.values)) for knob in space.knobs)
    every = space.only or frozenset(itertools.product(*sizes))
    cells = {tuple(point[i] for i in asked) for point in every}
    if len(cells) > MOST_CHECKED:
        return plan
    why, odd = _why_refused(plan.config), {}
    reasons: dict[str, str] = {}
    for cell in sorted(cells):
        changed = dict(zip(asked, cell, strict=True))
        point = tuple(changed.get(i, own) for i, own in enumerate(baseline))
        values = space.values(point).items()
        keys = {space.knobs[i].key for i in asked if point[i] != baseline[i]}
        if text := why(tuple((key, v) for key, v in values if key in keys)):
            odd[cell] = text
            if len(keys) == 1:
                (key,) = keys
                value = shown(space.params(point)[key])
                reasons.setdefault(key, f"with {key} = {value}: {text}")
    if not odd:
        return plan
    points = {p for p in every if tuple(p[i] for i in asked) not in odd}
    varied = {space.knobs[i].key for p in points for i in asked if p[i] != baseline[i]}
    kept = {key: text for key, text in reasons.items() if key not in varied}
    by_rule: dict[str, list[str]] = {}
    for text in odd.values():
        if not any(told.endswith(text) for told in kept.values()):
            by_rule.setdefault(text.rpartition(" [")[2], []).append(text)
    notes = [
        f"left out: {counted(len(texts), 'combination')} of knobs: {texts[0]}"
        for texts in by_rule.values()
    ]
    offers = [
        offer._replace(why=kept[knob.key], knob=knob._replace(frozen=True))
        if (knob := offer.knob).key in kept and not offer.why
        else offer
        for offer in plan.offers
    ]
    left = Space(space.knobs, points)
    return plan._replace(space=left, offers=tuple(offers), notes=(*plan.notes, *notes))


def _errors(config: Config) -> Iterator[Diagnostic]:
    """Yield lint's errors, except predictions that trials settle."""
    target = config.job.target
    if not target.world_size_origin:  # assumed for the trials only
        target = target._replace(world_size=0)
    for found in _findings(config.on(target)):
        fails = found.rule in UNSEEN or found.category in FAILS
        if fails and found.severity == "error" and found.rule != PINNED:
            yield found


def _findings(config: Config) -> Iterator[Diagnostic]:
    """Yield lint's findings in all files of a job."""
    report = lint_config(config, rules_for(config.path))
    for each in (report, *report.beside):
        yield from each.diagnostics


def _is_fault(found: Diagnostic, rules: Rules) -> bool:
    return any(rule.fault for rule in rules.named((found.rule,)))


def aftermath(path: str, before: bytes, after: bytes, target: Target) -> Iterator[str]:
    """Yield new findings of a changed config, one line each.

    ``path`` is where it will be written; findings that the project ignores are left
    out.
    """
    for found in new_findings(path, before, after, target):
        yield f"{path}:{found.region.line}: {found.message} [{found.rule}]"


def check_tuned(before: Config, after: Config) -> None:
    """Raise ``CannotSearch`` if a tuned config has an error that it had not before.

    Keys of records that the trainer is not known to have do not count: a fork may have
    them, and a note names them.
    """
    old = {found.rule for found in _errors(before)} | {UNKNOWN_KEY}
    for found in _errors(after):
        if found.rule not in old:
            fails = _fails(found, before)
            raise CannotSearch(f"{fails}: {found.message} [{found.rule}]")


def aftermath_of_job(
    before: Config, after: Config, name: Callable[[str], str]
) -> Iterator[str]:
    """Yield the findings of a changed job of several files that are new.

    ``name`` says where each file is written.
    """
    old = Counter(found.rule for found in _findings(before))
    for found in _findings(after):
        old[found.rule] -= 1
        if old[found.rule] < 0:
            place = f"{name(found.path)}:{found.region.line}"
            yield f"{place}: {found.message} [{found.rule}]"


def with_measured(path: str, data: bytes, record: Record | None, to: Target) -> bytes:
    """Return the config with ignore comments above predictions that a trial refutes.

    A rehearsal refutes none, nor does a trial with other values.
    """
    if record is None or not _shows_memory(record):
        return data
    found = check(path, data, rules_for(path), to).diagnostics
    wrong = [finding for finding in found if finding.rule in PREDICTED]
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
    known = 0 < record.peak_gib < record.capacity_gib
    guessed = record.rehearsal or bool(record.extrapolated)
    return known and not guessed and not record.memory_shortage
