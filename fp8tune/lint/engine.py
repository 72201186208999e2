"""Run the rules over one config."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fp8tune.config.directive import Directive
from fp8tune.config.discover import CannotRead, read
from fp8tune.config.mark import read_ignores
from fp8tune.config.reader import Config, NotAConfig, config_of
from fp8tune.formats import TITLES, format_of
from fp8tune.formats.document import (
    ConfigDocument,
    InvalidText,
    Path,
    Unreadable,
    Unresolved,
)
from fp8tune.formats.edits import CannotEdit
from fp8tune.job import Job, Prose, Target, Unknown, Words
from fp8tune.lint.diagnostic import Diagnostic, Label, Marked, Region, Report
from fp8tune.lint.rules import At, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.scope import of_fault
from fp8tune.trainers.about import trainers
from fp8tune.trainers.faults import TITLED, UNKNOWN, Fault, dotted
from fp8tune.trainers.recognise import may_be_config, recognise
from fp8tune.trainers.trainer import Trainer
from fp8tune.words import plain

if TYPE_CHECKING:
    from fp8tune.lint.fix import Offer
    from fp8tune.lint.suppress import Sieve
    from fp8tune.lint.wording import Template

_SAYS = re.compile("GPU|[ABHL][0-9]{2}")
"""A text that may name GPUs."""


def check(
    path: str,
    data: bytes,
    rules: Rules,
    target: Target,
    *,
    others: Mapping[str, str] | None = None,
    **how: Any,
) -> Report:
    """Check the bytes of one file.

    ``target`` is what the command line and the project say. ``others`` are the rules on
    two files that another file of the run makes true, with its path (``compare``).
    ``how`` is as for ``config_of``. Raises ``Unreadable``.
    """
    try:
        config = config_of(path, data, target, **how)
    except NotAConfig as error:
        return Report(path, [], skipped=str(error))
    except InvalidText as error:
        form, explicit = format_of(path), how.get("explicit", True)
        named = how.get("only") or how.get("usual")
        if named or may_be_config(error.text, explicit=explicit, form=form):
            from fp8tune.lint import unparsed

            return unparsed.report(path, error, rules)
        return Report(path, [], skipped=f"not {TITLES[form]}")
    return check_config(config, rules, others)


def check_config(
    config: Config, rules: Rules, others: Mapping[str, str] | None = None
) -> Report:
    """Check a config, and the other files of its job; ``others`` as for ``check``."""
    trainer, overrides = config.trainer, config.overrides
    report = _Case(config, rules, others or {}).report()
    if overrides:
        first = _Case(config.having(overrides=()), rules, {}).report()
        report = _checked_twice(report, first, trainer)
    if trainer.id not in config.names and (
        trainer.version or config.alone.format != "toml"
    ):
        report = report._replace(told=trainer.id, told_by=config.told_by)
    if config.files:
        from fp8tune.lint.split import split

        report = split(report, config.files)
    report = _with_others(report, config, rules) if config.apart else report
    return _with_owner(report, config) if any(config.names) else report


def _with_others(report: Report, config: Config, rules: Rules) -> Report:
    """Add the reports on files of the job that are configs of other trainers."""
    reports: list[Report] = []
    notes: list[str] = []
    for path, title, only, joined, files, _ in config.apart:
        beside = () if config.overrides else files
        with suppress(CannotRead, Unreadable):
            loader = "json" if only and format_of(path) == "json" else ""
            look = partial(check, path, read(path), rules, config.target, only=only)
            host = config.alone.values if joined else None
            own = look(beside=beside, host=host, loader=loader)
            reports += own._replace(beside=()), *own.beside
        if not (only or joined or beside):
            what = f"a config of {title} and is checked as one, not together with"
            notes.append(f"{path} is {what} {report.path}")
    every = (*report.beside, *reports)
    return report._replace(beside=every, notes=(*report.notes, *notes))


def _with_owner(report: Report, config: Config) -> Report:
    """Let the first unknown key say if the file is another trainer's."""
    keys = ("unknown-key", "unknown-key-ignored")
    unknown = next((d for d in report.diagnostics if d.rule in keys), None)
    if unknown is None:
        return report
    document = config.alone
    other = recognise(document.values, explicit=True, form=document.format).trainer
    name = other.partition("==")[0]
    if not other or name == config.trainer.name:
        return report
    title = trainers()[name].title
    words = (
        f"the file looks like a config of {title}: --trainer {other} checks it as one"
    )
    told = unknown._replace(help=f"{words}; {unknown.help}".removesuffix("; "))
    found = [told if d is unknown else d for d in report.diagnostics]
    return report._replace(diagnostics=found)


def _checked_twice(report: Report, first: Report, known: Trainer) -> Report:
    """Return the report plus what the trainer refuses before it applies overrides."""
    seen = {found.rule for found in report.diagnostics}
    first_checked: frozenset[str]
    first_checked = getattr(known.command_line, "CHECKED_FIRST", frozenset())
    refused = first_checked - seen
    found = [
        one._replace(message=f"{one.message} (in the file, which is checked first)")
        for one in first.diagnostics
        if one.rule in refused
    ]
    everything = sorted((*report.diagnostics, *found), key=_order)
    return report._replace(diagnostics=everything, lines=first.lines | report.lines)


def _order(found: Diagnostic) -> tuple[Region, str]:
    return found.region, found.code


def _exactly(value: Any) -> int:
    """Return a hash of a value and its types, which is small to send and to compare."""
    try:
        return hash(marshal.dumps(value, UNSHARED))  # much faster than repr
    except ValueError:  # a name in a fact, a date
        return hash(repr(value))


MAX_ROUNDS = 10
"""How often fixes of what is refused may show the next thing that is refused."""

MAX_NAMES = 5
"""Values that only a run knows which are named."""

MEANT = ("meant", "moved")
"""Facts of a fault of which one says that it is known what was meant."""

UNSHARED = 2
"""Version of marshal that writes equal values alike: later ones refer back."""

ESTIMATED = {"memory": "memory", "slow": "speed"}
"""What rules of these categories judge, by estimates that do not cover every config."""


class _Case:
    def __init__(
        self,
        config: Config,
        rules: Rules,
        others: Mapping[str, str],
        rounds: int = MAX_ROUNDS,
    ) -> None:
        self.config = config
        self.path, self.document = config.path, config.document
        self.known, self.loaded = config.trainer, config.loaded
        self.job: Job = config.job
        self.directive, self.overrides = config.directive, config.overrides
        self.others = others
        self.compared: dict[str, tuple[str, int]] = {}
        self.rules = rules
        self.alone = None if any(config.target) else self.job
        script = self.document.format == "bash"
        self.open_flags = self.loaded.values.get("unknown", {}) if script else {}
        self.unjudged: dict[str, str] = {}
        self.gaps: dict[str, tuple[str, str]] = {}
        self.bugs: dict[str, str] = {}
        self.rounds = rounds
        self.meant: list[tuple[Diagnostic, Fault]] = []

    def report(self) -> Report:
        sieve = self._sieve()
        found = list(self.findings(sieve.keeps if sieve else _kept))
        if any(one.once for one in found):
            from fp8tune.lint.once import noted

            found = [noted(one) if one.once else one for one in found]
        if sieve:
            judged = self._judged(sieve)
            found += self._findings_of(sieve.faults(self.rules.names, judged))
        found.sort(key=_order)
        lines = {
            number: self.document.lines.line(number)
            for finding in found
            for label in finding.labels
            for number in (label.region.line,)
        }
        return Report(
            self.path,
            found,
            self.unjudged,
            lines=lines,
            suppressed=tuple(sieve.held) if sieve else (),
            compared=self.compared,
            gaps=self.gaps,
            bugs=tuple(self.bugs.values()),
        )

    def _sieve(self) -> Sieve | None:
        """Return what applies the ignore comments, if there are any."""
        ignores = read_ignores(self.document)
        if not ignores:
            return None
        import datetime

        from fp8tune.lint.suppress import Sieve

        return Sieve(self.document, ignores, str(datetime.date.today()))

    def findings(self, keeps: Callable[[Diagnostic], bool]) -> Iterator[Diagnostic]:
        """Yield the findings that are kept, and new ones once what is meant stands."""
        first = [*self._faults(), *self._conditions()]
        kept = [found for found in first if keeps(found)]
        meant = [pair for pair in self.meant if any(pair[0] is f for f in kept)]
        refused = all(found.category == "rejected" for found, _ in meant)
        later = self._once_fixed(meant, refused) if meant and self.rounds else None
        if later is None:
            yield from kept
            return
        seen, holding = (set(map(self._subject, each)) for each in (first, later))
        holding |= {self._subject(found) for found, _ in meant}
        for found in kept:
            # from the default of a key that was meant to be set: no such run starts
            moot = refused and not self.rules.by_name[found.rule].fault
            if not moot or self._subject(found) in holding:
                yield found
        moved = [fault.path for _, fault in meant if "moved" in fault.facts]
        left = {dotted(path[:end]) for path in moved for end in range(1, len(path))}
        for found in later:
            new = self._subject(found) not in seen and found.key not in left
            if new and keeps(found):
                yield found

    def _subject(self, found: Diagnostic) -> tuple[Any, ...]:
        """Return what a finding is about: whether a run fits is said once."""
        if found.category == "memory":
            return found.category, found.region
        return found.rule, found.key * bool(self.rules.by_name[found.rule].fault)

    def _once_fixed(
        self, meant: list[tuple[Diagnostic, Fault]], refused: bool
    ) -> list[Diagnostic] | None:
        """Return the findings of the text in which stands what was meant, if any.

        What is not checked there counts alone, where the text as it is is ``refused``.
        """
        from fp8tune.lint.once import Corrected

        try:
            text = Corrected(self.document, self.overrides, meant)
        except (CannotEdit, InvalidText):
            return None
        document, overrides = text.document, text.overrides
        config = self.config.having(document=document, overrides=overrides)
        case = _Case(config, self.rules, self.others, self.rounds - 1)
        words, later = self.known.vocabulary, []
        for found in case.findings(_kept):
            names = self.rules.by_name[found.rule].names
            keys = {key for name in names for key in words.origins(name)}
            keys |= {found.key} if self.rules.by_name[found.rule].fault else set()
            found = text.back(found, keys)
            later.append(found._replace(once=tuple(map(self._worded, found.once))))
        self.unjudged = case.unjudged | (self.unjudged if not refused else {})
        self.gaps = case.gaps | (self.gaps if not refused else {})
        self.compared = case.compared | self.compared
        self.bugs = case.bugs | self.bugs
        return later

    def _judged(self, sieve: Sieve) -> frozenset[str]:
        """Return the rules whose silence means that there is nothing to ignore.

        Excludes rules that depend on a GPU or world size of this one command, since
        with another they may fire. Empty if this command has overrides.
        """
        if self.overrides:
            return frozenset()
        target = self.job.target
        origins = {"gpu": target.gpu_origin, "world_size": target.world_size_origin}
        asked = {name for name, said in origins.items() if said.startswith("--")}
        named = {name for ignore in sieve.ignores for name in ignore.names}
        passing = {
            rule.name
            for rule in self.rules.named(named if asked else ())
            if not asked.isdisjoint(rule.targets(self.known.vocabulary))
        }
        alone = self.rules.on_two_files - self.others.keys()
        silent = self.unjudged.keys() | self.bugs.keys() | passing | alone
        return self.rules.selected - silent

    def _faults(self) -> Iterator[Diagnostic]:
        own = (*_own_faults(self.document, self.directive), *self._unresolved())
        loaded = (*self._not_read(), *self._loaded_faults())
        return self._findings_of((*own, *loaded, *self._contradictions()))

    def _loaded_faults(self) -> Iterable[Fault]:
        """Return what the trainer's loader says, many unknown keys as one fault."""
        if not any(fault.kind in UNKNOWN for fault in self.loaded.faults):
            return self.loaded.faults
        from fp8tune.trainers.unknown_keys import joined

        return joined(self.loaded.faults, self.known)

    def _not_read(self) -> Iterable[Fault]:
        """Return the keys that name a file of the job which was not found."""
        if not (self.known.about.parts or self.known.about.named):
            return ()
        from fp8tune.config.companions import not_read

        return not_read(self.path, self.known, self.document.values)

    def _unresolved(self) -> Iterable[Fault]:
        """Return what names the values that only a run knows."""
        if "+" not in self.known.about.reads or "$" not in self.document.text:
            return
        paths = [*_unresolved(self.document.values)]
        if paths:
            names = Words(listed([f"`{dotted(path)}`" for path in paths]))
            facts = {"key": dotted(paths[0]), "names": names}
            yield Fault("unresolved-values", paths[0], facts)

    def _contradictions(self) -> Iterable[Fault]:
        if TITLED not in self.rules.by_fault or not _SAYS.search(self.document.text):
            return ()
        from fp8tune.lint.title import contradiction

        job = self.alone
        if self.overrides or job is None:  # a title is about the file alone
            target = self.directive.complete(Target())
            job = self.config.having(overrides=(), gpus=target).job
        return contradiction(self.document, job, self.directive, self.config.target)

    def _findings_of(self, faults: Iterable[Fault]) -> Iterator[Diagnostic]:
        for fault in faults:
            scope = of_fault(self.job, fault)
            for rule in self.rules.by_fault.get(fault.kind, ()):
                if rule.is_for(self.known.id):
                    yield from self._finding(rule, scope, fault)

    def _conditions(self) -> Iterator[Diagnostic]:
        """Yield findings of conditions.

        Only for a config without faults is it known which rules cannot fire.
        """
        known, loaded, job = self.rules.conditions(self.known), self.loaded, self.job
        for rule in known.rules if loaded.faults else known.needing(loaded):
            try:
                fires = rule.when.evaluate(job)
                fires = fires and (not rule.same or self._compares(rule))
            except Unknown as missing:
                self._lacks(rule, missing)
                continue
            except Exception as error:
                self._breaks(rule, error)
                continue
            if fires:
                yield from self._finding(rule, job, None)

    def _compares(self, rule: Rule) -> bool:
        """Record what a rule on two files compares; return whether it may fire."""
        with suppress(Unknown, ValueError, RecursionError):  # repr of an odd value
            same, differs = (e.evaluate(self.job) for e in rule.compared)
            self.compared[rule.name] = repr(same), _exactly(differs)
        return rule.name in self.others

    def _lacks(self, rule: Rule, missing: Unknown) -> None:
        """Record that a rule was not checked because a fact is unknown.

        Either a fact that a user can give, or one of memory or speed that no estimate
        covers.
        """
        name, words = str(missing.args[0]), self.job.words
        if name in ("gpu", "world_size") or name in self.known.about.missing:
            self.unjudged[rule.name] = name
        elif (key := words.renamed.get(name, name)) in self.open_flags:
            from fp8tune.facts.gaps import open_value

            self.unjudged[rule.name] = name
            why = self._worded(open_value(self.job, key))
            self.gaps[rule.name] = ESTIMATED.get(rule.category, "some rules"), why
        elif rule.category in ESTIMATED:
            from fp8tune.facts.gaps import is_gap, reason

            what, advice = ESTIMATED[rule.category], self.known.about.advice
            if is_gap(self.job, name, what, advice):
                self.unjudged[rule.name] = name
                why = self._worded(reason(name, self.job.target.gpu, advice))
                self.gaps[rule.name] = what, why

    def _breaks(self, rule: Rule, error: Exception) -> None:
        """Record that a rule raised an error, which costs its finding or fix alone."""
        from fp8tune.lint.bug import bug

        self.bugs[rule.name] = bug(error)

    def _finding(
        self, rule: Rule, scope: Any, fault: Fault | None
    ) -> Iterator[Diagnostic]:
        """Yield the finding, unless one of its texts raises an error."""
        try:
            found = self._diagnostic(rule, scope, fault)
        except Exception as error:
            self._breaks(rule, error)
        else:
            yield found

    def _diagnostic(self, rule: Rule, scope: Any, fault: Fault | None) -> Diagnostic:
        """Return the finding; a message that needs an unknown fact is the summary."""
        message = _filled(rule.message, scope) or rule.summary
        message += self._origin(rule)
        if rule.same:
            message += f" ({plain(self.others[rule.name])})"
        offer = self._fix(rule, scope, fault)
        labels = tuple(self._labels(rule, scope, fault))
        if labels[0].argument:
            message += " (from the command line)"
        help_line = _filled(rule.help, scope)
        if fault:
            from fp8tune.trainers.hints import about_template

            if hint := about_template(fault.facts.get("value")):
                help_line = f"{hint}; {help_line}".removesuffix("; ")
        if offer and (why := offer.withheld or offer.kept):
            joint = " " if help_line.endswith("?") else "; "
            help_line = f"{help_line}{joint}{why}".removeprefix(joint)
        fix = offer and offer.fix
        if self.document.format != "toml" or self.known.about.parts:
            message, help_line = self._worded(message), self._worded(help_line)
            labels = tuple(x._replace(text=self._worded(x.text)) for x in labels)
            if fix:
                title, changes = self._worded(fix.title), self._worded(fix.changes)
                fix = fix._replace(title=title, changes=changes)
        found = self.rules.diagnostic(self.path, rule, message, help_line, labels)
        found = found._replace(fix=fix)
        named = fault and fault.path and not fault.facts.keys().isdisjoint(MEANT)
        if fault and named and (fix or fault.argument):
            self.meant.append((found, fault))
        elif not fault and fix and _writes_what_was_meant(found):
            text = fix.edits[0].text.strip("\"'")
            facts = {"key": found.key, "meant": text, "sure": True}
            self.meant.append((found, Fault(rule.name, (), facts)))
        return found

    def _worded(self, text: str) -> str:
        """Return a text with keys and settings as the files of the job have them."""
        from fp8tune.lint.wording import as_written, with_parts

        parts = self.known.about.parts
        titles = {section: part.title for section, part in parts.items()}
        text = as_written(text, self.document.format, self._is_key)
        return with_parts(text, titles, self._is_key) if parts else text

    def _is_key(self, name: str) -> bool:
        """Whether a dotted name is a key, not for example the name of a file."""
        there = tuple(name.split(".")) in self.document.spans.keys
        unknown = (f.facts for f in self.loaded.faults if f.kind in UNKNOWN)
        meant = (name in (facts["key"], facts.get("meant")) for facts in unknown)
        return there or name in self.job.words.keys or any(meant)

    def _fix(self, rule: Rule, scope: Any, fault: Fault | None) -> Offer | None:
        """Return the fix of a finding, or why none is offered."""
        if "fix" not in rule.front:
            return None
        from fp8tune.lint.fix import find_fix

        try:
            return find_fix(rule, scope, self.config, fault)
        except Exception as error:
            self._breaks(rule, error)
            return None

    def _origin(self, rule: Rule) -> str:
        """Return where a GPU or world size came from, for messages that need it."""
        if rule.fault:
            return ""
        target, words = self.job.target, self.known.vocabulary
        said = {
            "gpu": ("GPU", target.gpu_origin),
            "world_size": ("world size", target.world_size_origin),
        }
        names: dict[str, list[str]] = {}
        for name, origin in (said[t] for t in rule.targets(words, shown=True)):
            names.setdefault(origin, []).append(name)
        parts = [
            f"{' and '.join(each)} from {origin}"
            for origin, each in names.items()
            if origin
        ]
        return f" ({'; '.join(parts)})" if parts else ""

    def _labels(self, rule: Rule, scope: Any, fault: Fault | None) -> Iterator[Label]:
        from fp8tune.lint.places import Places, marked

        places = Places(self.document, self.job, self.loaded)
        taken: set[tuple[Region, Marked | None]] = set()
        for index, at in enumerate(rule.at):
            note, argument = "", None
            if at.names == ["fault"] and fault is not None:
                key = str(fault.facts.get("key", ""))
                region = places.of_fault(fault, at.mark)
                argument = fault.argument and marked(fault.argument, at.mark)
            else:
                key, region, note = places.of(_by_value(at, scope))
                argument = places.argument(key, at.mark)
            if index and ((region, argument) in taken or note):
                continue
            taken.add((region, argument))
            text = note + _filled(rule.label(index), scope)
            yield Label(key, region, text, argument)
        for other in fault.others if fault else ():
            region = places.of_fault(Fault("", other, {}), rule.at[0].mark)
            yield Label(dotted(other), region, _filled(rule.label(0), scope))


def _kept(_: Diagnostic) -> bool:
    """Keep a finding, as where no comment silences any."""
    return True


def _writes_what_was_meant(found: Diagnostic) -> bool:
    """Whether a run fails, and the fix writes the only value that it can mean."""
    fix = found.fix
    one_value = fix and len(fix.edits) == 1 and fix.edits[0].text.strip()
    return bool(
        fix and one_value and fix.safety == "safe" and found.severity == "error"
    )


def _by_value(at: At, scope: Any) -> At:
    """Return a span with the key that its first name has as value, if it says so."""
    first, *others = at.names
    with suppress(Unknown):
        return at._replace(names=[str(scope[first]), *others]) if at.by_value else at
    return at


def _filled(template: Template, scope: Any) -> str:
    """Return an optional text of a finding; empty if it needs an unknown fact."""
    try:
        return template.fill(scope)
    except Unknown:
        return ""


def _unresolved(values: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the places of values that only a run knows."""
    if isinstance(values, Unresolved):
        yield path
    elif isinstance(values, dict):
        for name, value in values.items():
            yield from _unresolved(value, (*path, name))


def listed(names: list[str]) -> str:
    """Return the first names in one line, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + f" and {more} more" * (more > 0)


def _own_faults(document: ConfigDocument, directive: Directive) -> Iterator[Fault]:
    if document.bom and document.format == "toml":
        from fp8tune.formats.edits import Edit

        yield Fault("byte-order-mark", (), {}, (0, 0), (Edit(-1, 0, ""),))
    for path, span, first, refused in document.repeated:
        kind = "duplicate-key-refused" if refused else "duplicate-key"
        line = document.lines.position(first[0]).line
        yield Fault(kind, path, {"key": dotted(path), "line": line}, span)
    for problem, span in directive.problems:
        yield Fault("bad-directive", (), {"reason": Prose(problem[:400])}, span)
