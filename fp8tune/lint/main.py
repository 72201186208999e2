"""The lint command, once its options are read: check, show, exit code."""

from __future__ import annotations

import sys
from typing import TextIO

from fp8tune.lint.run import Result, run
from fp8tune.lint.selection import Problem
from fp8tune.lint.settings import Options
from fp8tune.lint.show import Style, show, show_unread


def lint(paths: tuple[str, ...], options: Options, style: Style) -> int:
    """Check paths, show what is found, return the exit code; raises ``Problem``."""
    try:
        result = run(paths or (".",), options)
        _show(result, options, style)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has gone: main() finds it again
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
        from fp8tune.lint.tally import show_patches

        show_unread(result, style, sys.stderr)
        show_patches(result, style, out)
    else:
        for report in result.reports:
            if report.text is not None:
                sys.stdout.buffer.write(report.text)
                out = sys.stderr
        show(result, style, out, sys.stderr)
    if result.stale or result.notes:
        from fp8tune.lint.tally import baseline_lines

        for line in baseline_lines(result):
            print(style.safe(line), file=sys.stderr)
    wrote = options.fix or options.add_ignore
    if style.summed and (wrote or any(found.fix for found in result.diagnostics)):
        from fp8tune.lint.tally import fix_lines

        notes = sys.stderr if options.diff else style.notes(out, sys.stderr)
        for line in fix_lines(result, options):
            print(line, file=notes)
