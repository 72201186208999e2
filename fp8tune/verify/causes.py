"""Why a run failed or went wrong: the causes that its logs and traces show, in order.

``diagnose`` finds them, root first, each once. With the run's config each has the fix
that lint would offer, which ``fixed`` applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.formats.document import InvalidText
from fp8tune.formats.edits import CannotEdit
from fp8tune.job import Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.engine import check
from fp8tune.lint.fix import find_fix
from fp8tune.lint.repair import Repair
from fp8tune.lint.ruleset import Rules
from fp8tune.verify.cause import Cause, Scope, causes, filled
from fp8tune.verify.diagnosis import Diagnosis, ordered
from fp8tune.verify.evidence import Log, Sign, Trace
from fp8tune.verify.figures import Figures

FAILURES = ("rejected", "crash", "memory")
"""Categories of causes after which a run does not go on."""


class OneFix(NamedTuple):
    """One fix of a cause: where it does not fit the GPU, the next one may."""

    category: str
    fixes: list[Repair]


@dataclass
class Shown:
    """The signs of a cause, the file of the first, how many there were in all.

    ``several`` is whether other files have some too, ``survived`` whether the run went
    on, and ``counts`` whether the cause is reported.
    """

    path: str = ""
    signs: list[Sign] = field(default_factory=list)
    count: int = 0
    several: bool = False
    survived: bool = False
    counts: bool = True


def diagnose(
    logs: Sequence[Log], traces: Sequence[Trace], config: Config | None = None
) -> list[Diagnosis]:
    """Return the causes that logs and traces of one run show, the root first.

    Then come others that stand by themselves, errors before warnings and in the order
    of the log, and last what follows from another cause.
    """
    figures = Figures(logs, traces)
    shown = _shown(logs)
    found = []
    for cause in _fired(shown, figures, config):
        seen = shown.get(cause.of or cause.name, Shown())
        each = diagnosis(cause, seen.path, seen.signs, figures, config)
        count = max(each.count, seen.count)
        found.append(replace(each, count=count, survived=seen.survived))
    return ordered(found)


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


def _shown(logs: Sequence[Log]) -> dict[str, Shown]:
    """Return the signs of each cause.

    Exceptions on lines that a known cause explains, or quotes, are left out, and so are
    failures that the run survived without a restart.
    """
    known = causes()
    shown: dict[str, Shown] = {}
    for log in logs:
        signs = [(known[sign.cause], sign) for sign in log.signs if sign.cause in known]
        explained = {sign.line for cause, sign in signs if cause.role != "exception"}
        signs = list(_quoted(signs, explained))
        for cause, sign in signs:
            if log.trainer and not _is_for(cause, log.trainer):
                continue
            if cause.role == "exception" and sign.line in explained:
                continue
            seen = shown.setdefault(cause.name, Shown(log.path))
            seen.signs.append(sign)
            seen.several |= seen.path != log.path
    for name, seen in shown.items():
        if known[name].role != "exception":  # some of those have another cause
            seen.count = sum(log.sign_counts.get(name, 0) for log in logs)
        if not seen.several:
            log = next(each for each in logs if each.path == seen.path)
            seen.survived = _survived(known[name], seen, log)
            again = log.continued or len(log.starts) > 1
            seen.counts = not seen.survived or again
    return {name: seen for name, seen in shown.items() if seen.counts}


def _quoted(
    signs: list[tuple[Cause, Sign]], explained: set[int]
) -> Iterator[tuple[Cause, Sign]]:
    """Yield signs; those that wrap an unknown exception quote it as ``inner``.

    The lines of these exceptions are added to ``explained``.
    """
    unknown = [
        sign
        for cause, sign in signs
        if cause.role == "exception" and sign.line not in explained
    ]
    for cause, sign in signs:
        inner = next(
            (
                each
                for each in unknown
                if 0 < each.line - sign.line <= cause.wraps and each.rank == sign.rank
            ),
            None,
        )
        if inner is None or cause.role == "exception":
            yield cause, sign
            continue
        explained.add(inner.line)
        reason = inner.values.get("reason")
        text = inner.values["kind"] + (f": {reason}" if reason else "")
        yield cause, replace(sign, values={**sign.values, "inner": text})


def _survived(cause: Cause, seen: Shown, log: Log) -> bool:
    """Return whether the run went on after the last sign of a failure.

    A start logged its first step after it; or the run reached its end, and nothing
    that is known to end a run had failed.
    """
    if cause.category not in FAILURES or seen.count > len(seen.signs):
        return False
    if log.continued:
        return True
    first = max((curve.line for curve in log.starts if len(curve)), default=0)
    unknown = cause.role in ("exception", "symptom")
    return seen.signs[-1].line < first or (unknown and log.ended is True)


def _is_for(cause: Cause, trainer: str) -> bool:
    """Return whether a cause may show in a log of this trainer."""
    return not cause.trainers or trainer in cause.trainers


def _fired(
    shown: dict[str, Shown],
    figures: Figures,
    config: Config | None,
) -> Iterator[Cause]:
    """Yield the causes that a run shows; a special case stands in for the general."""
    special: dict[str, Cause] = {}
    for cause in sorted(causes().values(), key=lambda each: (each.order, each.name)):
        seen = shown.get(cause.of)
        if seen is None or seen.survived or cause.of in special:
            continue  # the figures are those of the last start
        if _holds(cause, _scope(seen.signs, figures, config)):
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
    shown = next((sign for sign in signs if not _is_code(sign)), None)
    first = shown or (signs[0] if signs else None)
    values = dict(first.values) if first else {}
    if first and first.rank is not None:
        values.setdefault("rank", str(first.rank))
    if signs:
        values.setdefault("last_step", signs[-1].values.get("step", ""))
    return Scope(figures, values, config.job if config else None)


def _is_code(sign: Sign) -> bool:
    """Return whether a line is the source of an error in a traceback: `{name}`."""
    return any(value.startswith("{") for value in sign.values.values())


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
        cause.help,
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
    withheld = ""
    for repair in cause.fixes:
        offer = find_fix(OneFix(cause.category, [repair]), scope, config)
        if offer.fix:
            return replace(found, fix=offer.fix, found=told)
        withheld = withheld or offer.withheld or offer.kept
    fix = next((each.fix for each in told if each.fix), None)
    return replace(found, fix=fix, found=told, withheld="" if fix else withheld)


def _findings(config: Config, names: tuple[str, ...]) -> list[Diagnostic]:
    """Return what lint finds in the config by some rules or categories of them."""
    rules = [
        rule for rule in read_builtin() if rule.name in names or rule.category in names
    ]
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
        only=config.trainer,
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
