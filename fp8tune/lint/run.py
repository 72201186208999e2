"""A whole run of the linter: settings, rules, files, reports."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fp8tune.config.directive import BadTarget, asked
from fp8tune.config.discover import CannotRead, Found, discover, matches, read
from fp8tune.config.reader import Config, config_at
from fp8tune.config.settings import (
    BadSettings,
    Options,
    Settings,
    forget_projects,
    settings_for,
)
from fp8tune.formats import format_of
from fp8tune.formats.document import NoReader, Unreadable
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.engine import check
from fp8tune.lint.rules import FAILING, BadRule, Rule
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.selection import Problem, select
from fp8tune.trainers.about import misnamed

if TYPE_CHECKING:
    from fp8tune.lint.baseline import Book

SHARE = 24
"""Files that are worth another process, which loads and compiles all again."""

FIRST = 3
"""Files that are checked before the others are shared out; rules are compiled then."""

MAX_WORKERS = 8

MAX_COUNTED = 20
"""Files whose fixes each process tries, to say how many findings they fix."""

MOST_JOINED = 8
"""Files of which some may be one job; in a folder of more, jobs name their files."""


class Result(NamedTuple):
    """Reports of all files, what could not be read, and lines about the baseline.

    ``stale`` are the baseline's entries whose findings are gone; ``notes`` say what was
    done with the baseline. ``rules`` are those that fired, by name.
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

    @property
    def fails(self) -> bool:
        """Whether a finding fails the run, or a baseline is stale.

        A stale baseline fails at every level.
        """
        if self.stale and any(report.fail_on != "never" for report in self.reports):
            return True
        return any(
            found.severity in FAILING[report.fail_on]
            for report in self.reports
            for found in report.diagnostics
        )


def run(paths: tuple[str, ...], options: Options) -> Result:
    """Check all files that ``paths`` name; raises ``Problem``."""
    files = discover(paths)
    if options.force_exclude:
        files = (found._replace(explicit=False) for found in files)
    found = joined(list(files), options)
    result = _by_file(_run_all(found, Runner(options)))
    result = _with_others(found, result, options)
    if options.require_configs and all(report.skipped for report in result.reports):
        raise Problem(f"no train configs in {', '.join(paths)} (--require-configs)")
    baselines = dict.fromkeys(r.baseline for r in result.reports if r.baseline)
    if baselines:
        return _with_baselines(result, baselines, options)
    if options.update_baseline and not result.unread:
        raise Problem("no baseline to update: name it with --baseline FILE")
    return result


def joined(found: list[Found], options: Options) -> list[Found]:
    """Return the files; those of one job each with the others beside it.

    Only a few files are looked at: those of two jobs are not told apart.
    """
    few = 1 < len(found) <= MOST_JOINED and not any(f.path == "-" for f in found)
    if options.beside or not few or {format_of(f.path) for f in found} <= {"toml"}:
        return found
    from fp8tune.config.companions import one_job

    job = {file.path: file for file in one_job(found, options.trainer)}
    return [job.get(file.path, file) for file in found]


def _by_file(result: Result) -> Result:
    """Return the result with one report for each file of jobs of several files."""
    if not any(report.beside for report in result.reports):
        return result
    from fp8tune.lint.split import by_file

    return result._replace(reports=by_file(result.reports))


def _with_others(found: list[Found], result: Result, options: Options) -> Result:
    """Add the findings of rules on two files."""
    if len(result.reports) < 2 or not any(r.compared for r in result.reports):
        return result
    from fp8tune.lint.compare import conflicts, merged

    others = conflicts(result.reports)
    files = [file for file in found if file.path in others]
    if not files:
        return result
    rules = tuple({rule for named in others.values() for rule in named})
    alone = options._replace(select=rules, fix=False, diff=False, add_ignore=False)
    again = _run_all(files, Runner(alone, others))
    return result._replace(
        reports=list(merged(result.reports, again.reports)),
        unread=[*result.unread, *again.unread],
        rules={**result.rules, **again.rules},
    )


def _with_baselines(result: Result, paths: Iterable[str], options: Options) -> Result:
    """Return the result after rewriting the baselines, or checking their entries."""
    from fp8tune.lint import baseline

    reports = result.reports
    try:
        if options.update_baseline:
            notes = [baseline.update(path, reports) for path in paths]
            held = [baseline.hold_all(r) if r.baseline else r for r in reports]
            return result._replace(reports=held, notes=notes)
        lines = [line for path in paths for line in baseline.stale(path, reports)]
    except baseline.BadBaseline as error:
        raise Problem(str(error)) from None
    return result._replace(stale=lines)


def _run_all(found: list[Found], runner: "Runner") -> Result:
    """Check files; many files are distributed over processes with compiled rules."""
    workers = min(cores(), MAX_WORKERS, len(found) // SHARE)
    alone = any(file.path == "-" for file in found) or not hasattr(os, "fork")
    if workers < 2 or alone:
        return _run(found, runner)
    from fp8tune.lint.shares import shared_out

    first, rest = found[:FIRST], found[FIRST:]
    size = -(-len(rest) // workers)
    shares = [rest[start : start + size] for start in range(0, len(rest), size)]
    work = partial(_run, runner=runner)
    results = [work(first), *shared_out(work, shares)]
    return Result(
        [report for result in results for report in result.reports],
        [line for result in results for line in result.unread],
        rules={name: rule for one in results for name, rule in one.rules.items()},
    )


def cores() -> int:
    """Return the number of cores that this process may use; on macOS all."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _run(files: list[Found], runner: "Runner") -> Result:
    reports: list[Report] = []
    unread: list[str] = []
    for found in files:
        report, problem = runner.judged(found)
        if report is not None:
            reports.append(report)
            for each in (report, *report.beside):
                unread += (f"{each.path}: {bug}" for bug in each.bugs)
        if problem:
            unread.append(problem)
    if not reports and not unread:
        runner.check_options()
    return Result(reports, unread, rules=runner.fired(reports))


def _is_other(report: Report) -> bool:
    """Whether a file that was found is not worth a word: most YAML is no config."""
    silent = report.skipped and format_of(report.path) != "toml"
    return bool(silent) and report.text is None


def _target(options: Options) -> Target:
    """Return the GPUs that options name; raises ``Problem``."""
    try:
        return asked(options.gpu, options.world_size).completed(options.script)
    except BadTarget as error:
        raise Problem(str(error)) from None


class Runner:
    """Checks files by the settings of their projects; rules are compiled once.

    ``others`` are the rules on two files that other files make true (``compare``).
    Raises ``Problem``.
    """

    def __init__(
        self,
        options: Options,
        others: Mapping[str, dict[str, str]] = {},
    ) -> None:
        self.options = options
        self.others = others
        self.target = _target(options)
        if options.trainer and (wrong := misnamed(options.trainer)):
            raise Problem(wrong)
        self.counted = 0
        self._rules: dict[tuple[Settings, tuple[str, ...]], Rules] = {}
        self._packs: dict[str, list[Rule]] = {}
        self._books: dict[str, Book] = {}
        self.builtin = read_builtin()

    def forget(self) -> None:
        """Read settings, rules of projects and baselines again; keep compiled rules."""
        forget_projects()
        for kept in (self._rules, self._packs, self._books):
            kept.clear()

    def with_options(self, options: Options) -> "Runner":
        """Return what checks with other options of targets, overrides and files."""
        from copy import copy

        other = copy(self)
        other.options = options
        other.target = _target(options)
        return other

    def check_options(self) -> None:
        """Check selection and packs even if no file needs them."""
        try:
            self.rules(settings_for(os.getcwd()), ".")
        except (BadSettings, BadRule) as error:
            raise Problem(str(error)) from None

    def fired(self, reports: list[Report]) -> dict[str, Rule]:
        """Return the rules that have a finding, suppressed ones included."""
        names = {found.rule for report in reports for found in report.diagnostics}
        names |= {held.finding.rule for report in reports for held in report.suppressed}
        return {rule.name: rule for rule in self.named(names)}

    def named(self, names: Container[str]) -> list[Rule]:
        """Return the rules with these names, of those that files needed so far."""
        packs = (rule for pack in self._packs.values() for rule in pack)
        return [rule for rule in (*self.builtin, *packs) if rule.name in names]

    def judged(self, found: Found) -> tuple[Report | None, str]:
        """Return the report of one file, or a line that says why it was not checked.

        An error in one file does not keep the others from being checked.
        """
        try:
            report = self.report(found)
        except CannotRead as error:
            return None, str(error)
        except Unreadable as error:
            if found.explicit or isinstance(error, NoReader):
                return None, f"{found.path}: {error}"
            return Report(found.path, [], skipped=str(error)), ""
        except (BadSettings, BadRule) as error:
            raise Problem(str(error)) from None
        except Problem:
            raise
        except Exception as error:
            from fp8tune.lint.bug import bug

            return None, f"{found.path}: {bug(error)}"
        if report is None or not (report.skipped and found.explicit):
            return (None if report and _is_other(report) else report), ""
        reason = f"no train config of a known trainer: {report.skipped}"
        reason = f"{report.path}: {reason}"
        if format_of(report.path) == "bash" and found.path != "-":
            from fp8tune.lint.launch import instead_of

            reason = instead_of(report.path, os.environ)
        kept = None if report.text is None else report  # stdin is passed through
        return kept, reason

    def report(self, found: Found) -> Report | None:
        """Return the report of one file, or ``None`` for an excluded one."""
        path = self.options.stdin_filename if found.path == "-" else found.path
        folder = os.path.dirname(os.path.abspath(path))
        settings = settings_for(folder)
        if not found.explicit and matches(path, settings.folder, settings.exclude):
            return self._passed(found, path)
        rules = self.rules(settings, path)
        target = settings.complete(self.target)
        how = {**self._how(found), "usual": settings.trainer * found.explicit}
        baseline = "" if path == "-" else self.options.baseline or settings.baseline
        fail_on = self.options.fail_on or settings.fail_on or "error"
        others = self.others.get(path)
        overrides = self.options.overrides

        def look(data: bytes) -> Report:
            report = check(path, data, rules, target, others=others, **how)
            beside = (  # their fixes are made when they are checked
                one._replace(fail_on=fail_on, fixable=(0, 0)) for one in report.beside
            )
            report = report._replace(
                baseline=baseline,
                applied=frozenset() if overrides else rules.selected,
                known=rules.known,
                fail_on=fail_on,
                beside=tuple(beside),
                notes=(*report.notes, *filter(None, [found.note])),
            )
            return self._held(report) if baseline else report

        data = read(found.path)
        if self.options.fix or self.options.add_ignore:
            from fp8tune.lint.rewrite import rewritten

            return rewritten(found, data, look, self.options)
        report = look(data)
        fixes = any(one.fix for one in report.diagnostics)
        if not (self.options.count_fixes and fixes and self.counted < MAX_COUNTED):
            return report
        from fp8tune.lint.rewrite import fixable

        self.counted += 1
        counted = fixable(data, lambda new: report if new == data else look(new))
        return report._replace(fixable=counted)

    def config(self, found: Found, data: bytes) -> Config:
        """Return a file with these bytes as it is checked; raises as ``config_of``."""
        return config_at(found.path, data, self.target, **self._how(found))

    def _how(self, found: Found) -> dict[str, Any]:
        """Return how a file is read, as for ``config_of``."""
        return {
            "only": self.options.trainer or found.trainer,
            "explicit": found.explicit,
            "overrides": self.options.overrides,
            "beside": (*self.options.beside, *found.beside),
        }

    def _held(self, report: Report) -> Report:
        """Return the report without the findings that its baseline accepts."""
        from fp8tune.lint import baseline

        path = report.baseline
        with_baseline = (r._replace(baseline=path) for r in report.beside)
        report = report._replace(beside=tuple(map(self._held, with_baseline)))
        if path not in self._books:
            new = self.options.update_baseline and not os.path.exists(path)
            try:
                self._books[path] = {} if new else baseline.read(path)
            except baseline.BadBaseline as error:
                raise Problem(str(error)) from None
        return baseline.hold(report, self._books[path])

    def _passed(self, found: Found, path: str) -> Report | None:
        """Return the report of an excluded file: none, but stdin is passed through."""
        writes = self.options.fix or self.options.add_ignore
        if found.path != "-" or not writes or self.options.diff:
            return None
        return Report(path, [], skipped="excluded", text=read("-"))

    def rules(self, settings: Settings, path: str) -> Rules:
        """Return the selected rules for a file."""
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
        rules = list(self.builtin)
        folders = (*settings.rules, *self.options.packs)
        for place in dict.fromkeys(map(os.path.abspath, folders)):
            if place not in self._packs:
                from fp8tune.lint.packs import read_pack

                named = (name for name in folders if os.path.abspath(name) == place)
                self._packs[place] = read_pack(next(named))
            rules += self._packs[place]
        return select(rules, self.options, settings, ignored)
