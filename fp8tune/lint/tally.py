"""What was mended and what could be, in a line each; and patches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from fp8tune.lint.run import Result
from fp8tune.lint.settings import Options
from fp8tune.lint.show import Style, count, save
from fp8tune.lint.wording import plain

_PAST = {"fix": "fixed", "comment away": "commented away"}


def fix_lines(result: Result, options: Options) -> Iterator[str]:
    """How many findings were fixed, and how many could be with which further option."""
    fixed = sum(len(report.fixed) for report in result.reports)
    files = sum(bool(report.fixed) for report in result.reports)
    if fixed:
        verb = "comment away" if options.add_ignore else "fix"
        verb = f"would {verb}" if options.diff else _PAST[verb]
        yield f"{verb} {count(fixed, 'finding')} in {count(files, 'file')}"
    if options.diff:
        return
    offered = [found.fix.safety for found in result.diagnostics if found.fix]
    safe, unsafe = offered.count("safe"), offered.count("unsafe")
    parts = [f"{safe} with --fix"] * (safe > 0 and not options.fix)
    if unsafe and not options.unsafe_fixes:
        parts.append(f"{unsafe} with --unsafe-fixes, which change the run")
    if parts:
        yield f"fixable: {', '.join(parts)}"


def baseline_lines(result: Result) -> Iterator[str]:
    """What became of the baseline, and its stale entries with what to do."""
    yield from map(plain, result.notes)
    for line in result.stale:
        yield f"stale: {plain(line)}"
    if result.stale:
        yield "the baseline is stale: the same command with --update-baseline mends it"


def show_patches(result: Result, style: Style, out: TextIO) -> None:
    """The patches of all files; on a terminal with control characters escaped."""
    text = "".join(report.patch for report in result.reports)
    if style.file:
        save(style.file, text)
    elif out.isatty():
        out.write("".join(f"{plain(line)}\n" for line in text.split("\n")[:-1]))
    else:
        out.write(text)
