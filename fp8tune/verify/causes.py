"""Why a run failed or went wrong: the causes that its logs and traces show, in order.

``diagnose`` finds them, root first, each once. With the run's config each has the fix
that lint would offer, which ``fixed`` and ``diff`` apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fp8tune.document import InvalidText
from fp8tune.edits import CannotEdit
from fp8tune.job import Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.config import Config
from fp8tune.lint.diagnostic import Diagnostic, Fix
from fp8tune.lint.engine import check
from fp8tune.lint.fix import find_fix
from fp8tune.lint.formats.plain_json import fix_data
from fp8tune.lint.rules import SEVERITIES
from fp8tune.lint.ruleset import Rules
from fp8tune.verify.cause import Cause, Scope, causes, filled, texts
from fp8tune.verify.evidence import Log, Sign, Trace
from fp8tune.verify.figures import Figures


@dataclass(frozen=True)
class Diagnosis:
    """A cause of a run that failed or went wrong.

    ``line`` is its first line in the log ``path``, 0 for figures; ``count`` the lines
    that show it, ``ranks`` those of them. ``after`` is the cause that it follows from,
    ``""`` for a root. ``found`` are lint's findings that say the same of the config,
    ``fix`` is the change of the config, and ``withheld`` why there is none.
    """

    cause: Cause
    message: str
    help: str = ""
    path: str = ""
    line: int = 0
    count: int = 0
    ranks: tuple[int, ...] = ()
    after: str = ""
    fix: Fix | None = None
    withheld: str = ""
    found: tuple[Diagnostic, ...] = ()

    @property
    def code(self) -> str:
        """The name of the cause."""
        return self.cause.name


def diagnose(
    logs: Sequence[Log], traces: Sequence[Trace], config: Config | None = None
) -> list[Diagnosis]:
    """Return the causes that logs and traces of one run show, the root first.

    Then come others that stand by themselves, errors before warnings and in the order
    of the log, and last what follows from another cause.
    """
    figures = Figures(logs, traces)
    shown = _shown(logs, traces)
    found = []
    for cause in _fired(shown, figures, config):
        path, signs = shown.get(cause.of or cause.name, ("", []))
        each = diagnosis(cause, path, signs, figures, config)
        counted = sum(log.sign_counts.get(cause.of or cause.name, 0) for log in logs)
        found.append(replace(each, count=max(each.count, counted)))
    return _ordered(found)


def signs_of(line: str) -> Iterator[Sign]:
    """Yield the signs that one line of a log gives, as the reader of logs does."""
    for text in texts():
        match = text.pattern.search(line)
        if match:
            yield Sign(text.name, 1, line, captured(match.groupdict()))


def captured(groups: dict[str, str | None]) -> dict[str, str]:
    """Return what a pattern captured, without the groups that took no part."""
    return {name: value for name, value in groups.items() if value is not None}


def data(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis for programs."""
    return {
        "code": found.code,
        "severity": found.cause.severity,
        "message": found.message,
        "help": found.help,
        "path": found.path,
        "line": found.line,
        "count": found.count,
        "ranks": list(found.ranks),
        "after": found.after,
        "rules": [each.rule for each in found.found],
        "fix": found.fix and fix_data(found.fix),
    }


def fixed(config: Config, found: Iterable[Diagnosis], *, unsafe: bool) -> bytes:
    """Return the config's bytes with the fixes of the root causes.

    A fix that would overlap an earlier one, or after which lint finds a new error, is
    left out. Unsafe ones are applied only if asked.
    """
    from fp8tune.lint.rewrite import fixed_bytes

    chosen: list[Diagnostic] = []
    text = config.data
    errors = _errors(config, text)
    for each in found:
        if each.fix is None or each.after or (each.fix.safety != "safe" and not unsafe):
            continue
        with_this = [*chosen, _as_finding(config, each)]
        try:
            after = fixed_bytes(config.data, with_this)
            if _errors(config, after) <= errors:
                chosen, text = with_this, after
        except (CannotEdit, InvalidText):
            continue
    return text


def diff(config: Config, after: bytes) -> str:
    """Return what changed of a config as a unified diff."""
    from fp8tune.edits import unified_diff

    return unified_diff(config.path, config.data, after)


def write(config: Config, after: bytes) -> None:
    """Replace a config's file atomically.

    Raises ``OSError``, and ``rewrite.Changed`` if it was changed meanwhile.
    """
    from fp8tune.lint.rewrite import replace as replace_file

    if after != config.data:
        replace_file(config.path, config.data, after)


def _shown(
    logs: Sequence[Log], traces: Sequence[Trace]
) -> dict[str, tuple[str, list[Sign]]]:
    """Return the signs of each cause, with the file of the first one.

    Exceptions on lines that a known cause explains are left out.
    """
    known = causes()
    shown: dict[str, tuple[str, list[Sign]]] = {}
    sources: list[Log | Trace] = [*logs, *traces]
    for source in sources:
        trainer = source.trainer if isinstance(source, Log) else ""
        signs = [
            (known[sign.cause], sign) for sign in source.signs if sign.cause in known
        ]
        explained = {sign.line for cause, sign in signs if cause.role != "exception"}
        for cause, sign in signs:
            if trainer and not _is_for(cause, trainer):
                continue
            if cause.role == "exception" and sign.line in explained:
                continue
            shown.setdefault(cause.name, (source.path, []))[1].append(sign)
    return shown


def _is_for(cause: Cause, trainer: str) -> bool:
    """Return whether a cause may show in a log of this trainer."""
    return not cause.trainers or trainer in cause.trainers


def _fired(
    shown: dict[str, tuple[str, list[Sign]]],
    figures: Figures,
    config: Config | None,
) -> Iterator[Cause]:
    """Yield the causes that a run shows; a special case stands in for the general."""
    special: dict[str, Cause] = {}
    for cause in sorted(causes().values(), key=lambda each: (each.order, each.name)):
        if cause.of not in shown or cause.of in special:
            continue
        if _holds(cause, _scope(shown[cause.of][1], figures, config)):
            special[cause.of] = cause
    for cause in causes().values():
        if cause.name in special:
            yield special[cause.name]
        elif cause.role == "event" or cause.of:
            continue
        elif cause.name in shown or _holds(cause, _scope([], figures, config)):
            yield cause


def _holds(cause: Cause, scope: Scope) -> bool:
    """Return whether the condition of a cause is known to hold."""
    try:
        return cause.when is not None and bool(cause.when.evaluate(scope))
    except Unknown:
        return False


def _scope(signs: list[Sign], figures: Figures, config: Config | None) -> Scope:
    values = signs[0].values if signs else {}
    return Scope(figures, values, config and config.job)


def diagnosis(
    cause: Cause,
    path: str,
    signs: list[Sign],
    figures: Any,
    config: Config | None = None,
) -> Diagnosis:
    """Return one cause with its words, and with the fix of the config.

    ``signs`` are its lines in the file ``path``, ``figures`` those of the run.
    """
    scope = _scope(signs, figures, config)
    found = Diagnosis(
        cause,
        filled(cause.messages, scope) or cause.title,
        filled(cause.helps, scope),
        path,
        signs[0].line if signs else 0,
        len(signs),
        tuple(sorted({sign.rank for sign in signs if sign.rank is not None})),
    )
    return found if config is None else _with_fix(found, scope, config)


def _with_fix(found: Diagnosis, scope: Scope, config: Config) -> Diagnosis:
    """Add the fix of the config: the cause's own, else that of a rule of lint."""
    cause = found.cause
    told = tuple(_findings(config, cause.rules)) if cause.rules else ()
    if cause.fixes:
        offer = find_fix(
            cause,
            scope,
            config.job,
            None,
            config.document,
            config.trainer,
            config.loaded,
            config.overrides,
        )
        if offer.fix:
            return replace(found, fix=offer.fix, found=told)
        found = replace(found, withheld=offer.withheld or offer.kept)
    fix = next((each.fix for each in told if each.fix), None)
    return replace(found, fix=fix, found=told)


def _findings(config: Config, names: tuple[str, ...] = ()) -> list[Diagnostic]:
    """Return what lint finds in the config by some rules, by default by all."""
    rules = [rule for rule in read_builtin() if not names or rule.name in names]
    return _lint(config, config.data, rules)


def _errors(config: Config, text: bytes) -> set[tuple[str, str]]:
    """Return the errors that lint finds in a text of the config."""
    found = _lint(config, text, read_builtin())
    return {(each.rule, each.key) for each in found if each.severity == "error"}


def _lint(config: Config, text: bytes, rules: list[Any]) -> list[Diagnostic]:
    report = check(
        config.path,
        text,
        Rules(rules, {}),
        config.target,
        only=config.trainer.id,
        overrides=config.overrides,
    )
    return report.diagnostics


def _as_finding(config: Config, found: Diagnosis) -> Diagnostic:
    """Return a diagnosis in the form whose fixes lint applies."""
    cause = found.cause
    return Diagnostic(
        config.path,
        cause.name,
        "",
        cause.category,
        cause.severity,
        found.message,
        found.help,
        "",
        (),
        fix=found.fix,
    )


def _ordered(found: list[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses in order, each consequence with the cause that it follows."""
    ranked = sorted(found, key=_weight)
    after = {
        each.code: next((o.code for o in ranked if _explains(o, each)), "")
        for each in ranked
    }
    placed = [replace(each, after=_root(each.code, after)) for each in ranked]
    return sorted(placed, key=lambda each: bool(each.after))


def _root(name: str, after: dict[str, str]) -> str:
    """Return the cause at the beginning of a chain, ``""`` if it is this one."""
    seen = name
    while after[seen]:
        seen = after[seen]
    return seen if seen != name else ""


def _weight(found: Diagnosis) -> tuple[bool, int, int, str]:
    """Order by role, severity and line: symptoms come after everything else."""
    cause = found.cause
    return (
        cause.role == "symptom",
        SEVERITIES.index(cause.severity),
        found.line or 1 << 60,
        cause.name,
    )


def _explains(first: Diagnosis, then: Diagnosis) -> bool:
    """Return whether a cause is why another one shows."""
    names = {then.cause.name, then.cause.of} - {""}
    if names & _implied(first.cause):
        return True
    if first.cause.severity != "error" or first.cause.role == "symptom":
        return False
    if then.cause.role == "exception":
        return first.cause.role == "root" and 0 < first.line < then.line
    return then.cause.role == "symptom"


def _implied(cause: Cause) -> set[str]:
    """Return the names of all causes that follow from one, directly or not."""
    known = causes()
    names: set[str] = set()
    waiting = [cause.name, cause.of]
    while waiting:
        each = known.get(waiting.pop())
        for name in each.implies if each else ():
            if name not in names:
                names.add(name)
                waiting.append(name)
    return names
