"""The entry point: runs a command line and exits with its code.

``fp8tune lint PATHS`` without options does not import click, which halves its start-up.
"""

from __future__ import annotations

import gc
import os
import sys


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the calling process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    whole = arguments is None
    short = whole and words[:1] == ["lint"]
    if short:  # creates too little garbage to collect
        gc.disable()
    elif whole:
        gc.set_threshold(100_000)
    code = _delivered(_run(words))
    if short:
        os._exit(code)  # all output is written; freeing every object takes time
    sys.exit(code)


def _run(words: list[str]) -> int:
    try:
        if words[:1] == ["lint"] and not any(map(_is_option, words[1:])):
            return _lint(words[1:])
        from fp8tune.cli import run

        return run(words)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return fail("interrupted", 130)
    except OSError as error:
        place = error.filename or "cannot write"
        return fail(f"{place}: {error.strerror or error}", 2)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _lint(paths: list[str]) -> int:
    """Lint paths without options, as the command does."""
    from fp8tune.config.settings import Options
    from fp8tune.lint.main import lint
    from fp8tune.lint.selection import Problem
    from fp8tune.lint.show import Style, default_format

    try:
        return lint(tuple(paths), Options(), Style(default_format("")))
    except Problem as error:
        return fail(" ".join(str(error).split()), 2)


def fail(message: str, code: int) -> int:
    """Print on stderr, in one line, why the command failed; return the exit code."""
    from fp8tune.words import plain

    try:
        print(f"fp8tune: {plain(message)}", file=sys.stderr)
    except OSError:
        from fp8tune.streams import discard

        discard(sys.stderr)
    return code


def _delivered(code: int) -> int:
    """Return the exit code, or 2 if some output could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            from fp8tune.streams import discard

            discard(stream)
            code = 2
    return code
