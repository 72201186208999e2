"""A whole run of the linter: settings, rules, files, reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.directive import BadTarget, asked
from fp8tune.lint.discover import CannotRead, Found, discover, matches, read
from fp8tune.lint.engine import check
from fp8tune.lint.rules import CATEGORIES, RENAMED, BadRule, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.settings import BadSettings, Options, Settings, settings_for
from fp8tune.suggest import closest
from fp8tune.toml.document import Unreadable
from fp8tune.trainers.trainer import misnamed

MANY = 400
"""From so many files on, several processes are faster than one."""

MAX_WORKERS = 8


class Problem(Exception):
    """The run cannot be done: bad options, settings or rules."""


class Result(NamedTuple):
    """Reports of all files, what could not be read, and lines about the baseline.

    ``stale`` are its entries that are no longer found, ``notes`` what became of it;
    ``rules`` are those that fired, by name.
    """

    reports: list[Report]
    unread: list[str]
    stale: list[str] = []
    notes: list[str] = []
    rules: dict[str, Rule] = {}

    @property
    def diagnostics(self) -> Iterator[Diagnostic]:
        """All findings in order."""
        return (found for report in self.reports for found in report.diagnostics)


def run(paths: tuple[str, ...], options: Options) -> Result:
    """Check everything that ``paths`` mean; raises ``Problem``."""
    found = list(discover(paths))
    result = _with_others(found, _run_all(found, options), options)
    if any(report.baseline for report in result.reports):
        return _with_baseline(result, options)
    if options.update_baseline and not result.unread:
        raise Problem("no baseline to update: name it with --baseline FILE")
    return result


def _with_others(found: list[Found], result: Result, options: Options) -> Result:
    """Add the findings of rules on two files, which no file shows alone."""
    if not any(report.compared for report in result.reports):
        return result
    from fp8tune.lint.compare import conflicts, merged

    others = conflicts(result.reports)
    files = [file for file in found if file.path in others]
    if not files:
        return result
    rules = tuple({rule for named in others.values() for rule in named})
    alone = options._replace(select=rules, fix=False, diff=False, add_ignore=False)
    again = _run(files, alone, others)
    reports = list(merged(result.reports, again.reports))
    return result._replace(reports=reports, rules={**result.rules, **again.rules})


def _with_baseline(result: Result, options: Options) -> Result:
    from fp8tune.lint import baseline

    try:
        if options.update_baseline:
            paths = dict.fromkeys(r.baseline for r in result.reports if r.baseline)
            notes = [baseline.update(path, result.reports) for path in paths]
            result = result._replace(notes=notes)
        held = baseline.hold(result.reports)
    except baseline.BadBaseline as error:
        raise Problem(str(error)) from None
    return result._replace(reports=held.reports, stale=held.stale)


def _run_all(found: list[Found], options: Options) -> Result:
    """Check files; many are shared out over processes."""
    workers = min(cores(), MAX_WORKERS)
    if len(found) < MANY or workers == 1 or any(file.path == "-" for file in found):
        return _run(found, options)
    from concurrent.futures import ProcessPoolExecutor

    size = -(-len(found) // workers)
    shares = [found[start : start + size] for start in range(0, len(found), size)]
    with ProcessPoolExecutor(workers) as pool:
        results = list(pool.map(_run, shares, [options] * len(shares)))
    return Result(
        [report for result in results for report in result.reports],
        [line for result in results for line in result.unread],
        rules={name: rule for one in results for name, rule in one.rules.items()},
    )


def cores() -> int:
    """Cores that this process may use; macOS does not tell, so all of them."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _run(
    files: list[Found],
    options: Options,
    others: Mapping[str, dict[str, str]] | None = None,
) -> Result:
    """Check files; ``others`` are what ``compare.conflicts`` found of them."""
    runner = _Runner(options, others or {})
    reports, unread = [], []
    for found in files:
        try:
            report = runner.report(found)
        except CannotRead as error:
            unread.append(str(error))
        except Unreadable as error:
            if found.explicit:
                unread.append(f"{found.path}: {error}")
            else:
                reports.append(Report(found.path, [], skipped=str(error)))
        except (BadSettings, BadRule) as error:
            raise Problem(str(error)) from None
        else:
            if report is not None:
                reports.append(report)
    if not reports and not unread:
        runner.check_options()
    return Result(reports, unread, rules=runner.fired(reports))


class _Runner:
    def __init__(self, options: Options, others: Mapping[str, dict[str, str]]) -> None:
        self.options = options
        self.others = others
        try:
            self.target = asked(options.gpu, options.world_size)
        except BadTarget as error:
            raise Problem(str(error)) from None
        if options.trainer and (wrong := misnamed(options.trainer)):
            raise Problem(wrong)
        self._rules: dict[tuple[Settings, tuple[str, ...]], Rules] = {}
        self._packs: dict[str, list[Rule]] = {}
        self._builtin = read_builtin()

    def check_options(self) -> None:
        """Find fault with the selection and the packs even if no file needs them."""
        try:
            self.rules(settings_for(os.getcwd()), ".")
        except (BadSettings, BadRule) as error:
            raise Problem(str(error)) from None

    def fired(self, reports: list[Report]) -> dict[str, Rule]:
        """The rules that have a finding, be it held back."""
        names = {found.rule for report in reports for found in report.diagnostics}
        names |= {held.finding.rule for report in reports for held in report.suppressed}
        known = (
            *self._builtin,
            *(rule for pack in self._packs.values() for rule in pack),
        )
        return {rule.name: rule for rule in known if rule.name in names}

    def report(self, found: Found) -> Report | None:
        """The report of one file, or ``None`` for an excluded one."""
        path = self.options.stdin_filename if found.path == "-" else found.path
        folder = os.path.dirname(os.path.abspath(path))
        settings = settings_for(folder)
        if (not found.explicit or self.options.force_exclude) and matches(
            path, settings.folder, settings.exclude
        ):
            return self._passed(found, path)
        rules = self.rules(settings, path)
        look = partial(
            check,
            path,
            rules=rules,
            target=settings.complete(self.target),
            only=self.options.trainer or settings.trainer * found.explicit,
            explicit=found.explicit,
            others=self.others.get(path),
        )
        data = read(found.path)
        if self.options.fix or self.options.add_ignore:
            from fp8tune.lint.rewrite import rewritten

            report = rewritten(found, data, look, self.options)
        else:
            report = look(data)
        if found.path == "-" and path == "-":
            return report
        return report._replace(
            baseline=self.options.baseline or settings.baseline,
            applied=rules.selected,
            known=rules.known,
        )

    def _passed(self, found: Found, path: str) -> Report | None:
        """The report of an excluded file: none, but that stdin comes out as it is."""
        writes = self.options.fix or self.options.add_ignore
        if found.path != "-" or not writes or self.options.diff:
            return None
        return Report(path, [], skipped="excluded", text=read("-"))

    def rules(self, settings: Settings, path: str) -> Rules:
        """The rules for a file, after selection."""
        ignored = tuple(
            rule
            for pattern, rules in settings.per_file_ignores
            if matches(path, settings.folder, (pattern,))
            for rule in rules
        )
        key = (settings, ignored)
        if key not in self._rules:
            self._rules[key] = self._build(settings, ignored)
        return self._rules[key]

    def _build(self, settings: Settings, ignored: tuple[str, ...]) -> Rules:
        rules = list(self._builtin)
        folders = (*settings.rules, *self.options.packs)
        for place in dict.fromkeys(map(os.path.abspath, folders)):
            if place not in self._packs:
                from fp8tune.lint.packs import read_pack

                named = (name for name in folders if os.path.abspath(name) == place)
                self._packs[place] = read_pack(next(named))
            rules += self._packs[place]
        _unique(rules)
        select = self.options.select or settings.select
        ignore = (*self.options.ignore, *settings.ignore, *ignored)
        for selector in (*self.options.select, *self.options.ignore):
            _known(selector, rules)
        for setting, selectors in settings.selectors:
            for selector in selectors:
                _known(selector, rules, setting)
        kept = [
            rule
            for rule in rules
            if (not select or any(selected(rule, by) for by in select))
            and not any(selected(rule, by) for by in ignore)
        ]
        severity = {
            rule.name: level
            for by, level in settings.severity
            for rule in kept
            if selected(rule, by)
        }
        return Rules(kept, severity, rules)


def selected(rule: Rule, by: str) -> bool:
    """Whether a name, a code or its beginning, or a category means the rule."""
    name = RENAMED.get(by, by)
    return name in (rule.name, rule.category) or (
        by.isupper() and rule.code.startswith(by)
    )


def _known(selector: str, rules: Iterable[Rule], setting: str = "") -> None:
    """Raise ``Problem`` for what selects no rule, with the setting that says it."""
    names = [name for rule in rules for name in (rule.name, rule.code)]
    if not any(selected(rule, selector) for rule in rules) and (
        selector not in CATEGORIES
    ):
        near = closest(selector, (*names, *CATEGORIES))
        hint = f"; did you mean {near}?" if near else ""
        place = f"{setting}: " if setting else ""
        raise Problem(f"{place}no rule, code or category {selector!r}{hint}")


def _unique(rules: list[Rule]) -> None:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.name, rule.code):
            if name in seen:
                raise BadRule(f"{rule.path}: {name} is taken by {seen[name].path}")
            seen[name] = rule
