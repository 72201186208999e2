"""Run the lint command: check, show, exit code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from fp8tune.config.settings import Options
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.run import Result, run
from fp8tune.lint.selection import Problem
from fp8tune.lint.show import Style, count, save, show, show_unread
from fp8tune.words import plain, write_patch

_PAST = {"fix": "fixed", "add ignore comments for": "added ignore comments for"}


def lint(paths: tuple[str, ...], options: Options, style: Style) -> int:
    """Check paths, show what is found, return the exit code; raises ``Problem``."""
    try:
        options = options._replace(count_fixes=style.summed and not options.diff)
        result = run(paths or (".",), options)
        _show(result, options, style)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone: main() handles it
        return 2
    except (OSError, Problem):
        raise
    except Exception as error:
        from fp8tune.lint.bug import bug

        raise Problem(bug(error)) from error
    return 2 if result.unread else int(result.fails)


def _show(result: Result, options: Options, style: Style) -> None:
    """Show findings, or patches; the new text of stdin goes to stdout."""
    out: TextIO = sys.stdout
    if options.diff:
        show_unread(result, style, sys.stderr)
        show_patches(result, style, out)
    else:
        for report in result.reports:
            if report.text is not None:
                sys.stdout.buffer.write(report.text)
                out = sys.stderr
        show(result, style, out, sys.stderr)
    if result.stale or result.notes:
        for line in baseline_lines(result):
            print(style.safe(line), file=sys.stderr)
    wrote = options.fix or options.add_ignore
    if style.summed and (wrote or any(found.fix for found in result.diagnostics)):
        notes = sys.stderr if options.diff else style.notes(out, sys.stderr)
        for line in fix_lines(result, options):
            print(line, file=notes)


def fix_lines(result: Result, options: Options) -> Iterator[str]:
    """Yield how many findings were fixed, and how many can be and by which option."""
    fixed = sum(len(report.fixed) for report in result.reports)
    files = sum(bool(report.fixed) for report in result.reports)
    if fixed:
        verb = "add ignore comments for" if options.add_ignore else "fix"
        verb = f"would {verb}" if options.diff else _PAST[verb]
        rules = Counter(one.rule for report in result.reports for one in report.fixed)
        each = ", ".join(f"{r} x {n}" if n > 1 else r for r, n in rules.most_common())
        yield f"{verb} {count(fixed, 'finding')} in {count(files, 'file')}: {each}"
    if options.diff:
        return
    counts = [report.fixable or _offered(report) for report in result.reports]
    safe, unsafe = (sum(each[index] for each in counts) for index in (0, 1))
    tried = all(one.fixable or not any(_offered(one)) for one in result.reports)
    can = "can fix" if tried else "can fix up to"
    if safe and not options.fix:
        yield f"{can} {count(safe, 'finding')} with --fix"
    if unsafe and not options.unsafe_fixes:
        more = "more " * bool(safe and not options.fix)
        found = count(unsafe, f"{more}finding")
        yield f"{can} {found} with --unsafe-fixes, which change the run"


def _offered(report: Report) -> tuple[int, int]:
    """Return how many findings have safe fixes, and how many unsafe ones."""
    offered = [found.fix.safety for found in report.diagnostics if found.fix]
    return offered.count("safe"), offered.count("unsafe")


def baseline_lines(result: Result) -> Iterator[str]:
    """Yield the notes on the baseline, and its stale entries with what to do."""
    yield from map(plain, result.notes)
    for line in result.stale:
        yield f"stale: {plain(line)}"
    if result.stale:
        yield "the baseline is stale: the same command with --update-baseline fixes it"


def show_patches(result: Result, style: Style, out: TextIO) -> None:
    """Write the patches of all files."""
    text = "".join(report.patch for report in result.reports)
    if style.file:
        save(style.file, text)
    else:
        write_patch(text, out)
