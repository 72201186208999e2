"""The config of each phase: the user's bytes with the changed values, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from fp8tune.formats.document import ConfigDocument, InvalidText, Path
from fp8tune.formats.edits import CannotEdit, Edit, apply
from fp8tune.job import Unknown
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.ignores import with_ignores
from fp8tune.lint.written import new_findings, rules_for
from fp8tune.phases import CannotPlan
from fp8tune.phases.plan import PhasedRun
from fp8tune.trainers.phase import Phase, Setting
from fp8tune.words import counted, plain

MARK = "# fp8tune phases: "
"""How every comment begins that is written here."""
SHORT = {
    "warmup-longer-than-run",
    "schedule-cut-short",
    "decay-after-the-run",
    "phase-after-the-run",
    "freeze-stage-never-applied",
    "profile-cut-short",
    "eval-interval-longer-than-run",
    "log-interval-longer-than-run",
    "checkpoint-window-after-run",
    "no-checkpoint-before-the-end",
    "fp8-table-without-converter",
}
"""Rules on what is meant to be so in a part of a run, and wrong in a whole one."""


class PhaseConfig(NamedTuple):
    """The config of a phase as it will be written, and notes for the user."""

    phase: Phase
    path: str
    data: bytes
    notes: tuple[str, ...]


def phase_configs(plan: PhasedRun, folder: str) -> Iterator[PhaseConfig]:
    """Yield the config of each phase, to be written in ``folder``.

    Raises ``CannotPlan`` for a layout that cannot be edited, and for a config that the
    trainer would refuse.
    """
    config = plan.config
    name = os.path.basename(config.path)
    stem, ending = os.path.splitext(name)
    for phase, settings in zip(plan.phases, plan.settings, strict=True):
        path = os.path.join(folder, f"{stem}.{phase.name}{ending}")
        head = _head(plan, phase, name)
        yield _linted(plan, phase, path, _text(plan, settings, head))


def _head(plan: PhasedRun, phase: Phase, name: str) -> str:
    span = f"steps {phase.start + 1} to {phase.end} of {phase.total}"
    of = f"phase {phase.number} of {len(plan.phases)} of {plain(name)}"
    known = plan.config.trainer
    release = f" ({known.about.title} {known.version})" * bool(known.version)
    return f"{of}: {phase.precision}, {span}{release}"


def _text(plan: PhasedRun, settings: Sequence[Setting], head: str) -> bytes:
    """Return the bytes of the config with the settings and their comments."""
    document = plan.config.document
    changes: dict[Path, Any] = {tuple(s.key.split(".")): s.value for s in settings}
    try:
        edited = apply(document.text, document.set_values(changes))
        changed = document.read(edited)
        text = _commented(changed, settings, head)
        if changed.read(text).values != changed.values:
            raise CannotEdit("a key is on a line that begins inside a string")
        _check(plan, text, settings)
    except (CannotEdit, InvalidText) as error:
        keys = ", ".join(setting.key for setting in settings)
        raise CannotPlan(f"{plan.config.path}: cannot write {keys}: {error}") from None
    return f"{chr(0xFEFF) * document.bom}{text}".encode()


def _commented(document: ConfigDocument, settings: Sequence[Setting], head: str) -> str:
    """Return the text with a line at its top, and one above each changed key."""
    newline = "\r\n" if "\r\n" in document.text else "\n"
    above: dict[int, list[str]] = {0: [f"{MARK}{head}{newline}"]}
    for setting in settings:
        span = document.span(tuple(setting.key.split(".")), "key")
        assert span is not None
        start = document.lines.offset(document.lines.position(span[0]).line)
        line = document.text[start : span[0]]
        indent = line[: len(line) - len(line.lstrip())]
        comment = f"{indent}{MARK}{plain(setting.reason)}{newline}"
        above.setdefault(start, []).append(comment)
    return apply(document.text, (Edit(at, at, "".join(c)) for at, c in above.items()))


def _check(plan: PhasedRun, text: str, settings: Sequence[Setting]) -> None:
    """Raise ``CannotPlan`` unless the trainer reads the text as it is meant."""
    config = plan.config
    loaded = config.having(document=config.document.read(text)).loaded
    wanted: dict[str, Any] = {s.key: s.value for s in settings}
    for key, value in (config.loaded.values | wanted).items():
        # a key that the loader cannot judge beside an imported module is missing
        if loaded.values.get(key, None if key in wanted else value) == value:
            continue
        if key in wanted and config.overrides:
            reason = "is on the command line too, which would override it"
            raise CannotPlan(f"`{key}` {reason}: set it in the config instead")
        raise CannotPlan(f"{config.path}: cannot write `{key}` in this layout")


def _linted(plan: PhasedRun, phase: Phase, path: str, data: bytes) -> PhaseConfig:
    """Return the config with ignore comments for what a phase is meant to be."""
    config = plan.config
    of = f"{phase.number} of {len(plan.phases)}"
    findings = list(_new(plan, path, data))
    meant = [found for found in findings if found.rule in SHORT]
    if meant:
        document = config.document.read(data.decode())
        words = f" -- phase {of}"
        text = apply(document.text, with_ignores(document, meant, words))
        data = f"{chr(0xFEFF) * document.bom}{text}".encode()
        findings = list(_new(plan, path, data))
    notes = []
    for found in findings:
        line = f"{path}:{found.region.line}: {found.message} [{found.rule}]"
        if found.severity == "error":
            raise CannotPlan(f"phase {of} of {config.path}: {found.message}")
        notes.append(line)
    return PhaseConfig(phase, path, data, tuple(notes))


def _new(plan: PhasedRun, path: str, data: bytes) -> Iterator[Diagnostic]:
    """Yield the findings that the config of a phase has and the input has not."""
    config = plan.config
    look = partial(
        check,
        path,
        rules=rules_for(path),
        target=config.target,
        only=config.trainer,
        overrides=config.overrides,
    )
    return new_findings(look(data=config.data), look(data=data))


def summary(plan: PhasedRun, configs: Sequence[PhaseConfig]) -> Iterator[str]:
    """Yield the lines that tell a user what was written."""
    steps = counted(plan.total, "step")
    yield f"{plan.config.path}: {steps} in {counted(len(configs), 'phase')}"
    wide = max(len(f"{c.phase.end:,}") for c in configs)
    for config in configs:
        phase = config.phase
        span = f"steps {phase.start + 1:>{wide},} to {phase.end:>{wide},}"
        yield f"  {phase.number}  {phase.precision:<4}  {span}  {config.path}"
    yield f"learning rate: that of the unbroken run at each of {steps}"
    known = plan.config.trainer
    if known.version:
        other = f"--trainer {known.name}==VERSION names another"
        yield f"trainer: {known.about.title} {known.version}; {other}"
    with suppress(Unknown):
        sequences = plan.config.job.rank_sequences
        starts = " and ".join(f"{p.start * sequences:,}" for p in plan.phases[1:])
        yield f"data: continues after {starts} sequences of each rank"
    for config in configs:
        yield from (f"note: {note}" for note in config.notes)
