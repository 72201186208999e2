"""Show the result of a run to people; ``formats`` has those for programs."""

# no future annotations: as strings, they double the import time of a NamedTuple
import os
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import NamedTuple, TextIO

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lint.run import Result
from fp8tune.lint.selection import Problem
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from fp8tune.words import plain

MAX_PER_FILE = 100
"""Findings shown in full for one file; the rest is counted."""

_SUPPLY = {
    "gpu": "the GPU is unknown: add --gpu h100, or `# fp8tune: gpu=h100` at the "
    "top of the file",
    "world_size": "the number of GPUs is unknown: add --world-size 16, or "
    "`# fp8tune: world-size=16` at the top of the file",
}


class Style(NamedTuple):
    """How to show a result; ``file`` gets the findings instead of stdout."""

    output_format: str
    file: str = ""
    quiet: bool = False
    statistics: bool = False

    @property
    def summed(self) -> bool:
        """Whether there is a summary: not for output that only programs read."""
        read = self.file or self.output_format in ("full", "concise", "github")
        return bool(read) and not self.quiet

    def notes(self, out: TextIO, err: TextIO) -> TextIO:
        """Return the summary's stream: the findings' only if people read both."""
        together = self.output_format in ("full", "github") and not self.file
        return out if together else err

    def safe(self, line: str) -> str:
        """Return a line without old-style commands of GitHub Actions."""
        return line.replace("##[", "## [") if self.output_format == "github" else line


def default_format(file: str) -> str:
    """Return the default format: full text, or annotations in GitHub Actions."""
    actions = os.environ.get("GITHUB_ACTIONS") == "true"
    return "github" if actions and not file else "full"


def show(result: Result, style: Style, out: TextIO, err: TextIO) -> None:
    """Write the findings and the summary.

    Raises ``Problem`` if their file cannot be written.
    """
    show_unread(result, style, err)
    if style.file:
        text = StringIO()
        _findings(result, style, text, colour=False)
        save(style.file, text.getvalue())
    else:
        _findings(result, style, out, colour=wants_colour(out))
    notes = style.notes(out, err)
    if style.statistics and style.output_format != "json":
        from fp8tune.lint.statistics import table

        for line in table(result):
            print(line, file=notes)
    if style.summed:
        for line in summary(result):
            print(style.safe(line), file=notes)


def show_unread(result: Result, style: Style, err: TextIO) -> None:
    """Print what could not be read."""
    for line in result.unread:
        print(style.safe(f"fp8tune: {plain(line)}"), file=err)


def save(path: str, text: str) -> None:
    """Write a file atomically; a pipe or device is written to directly.

    Raises ``Problem``.
    """
    from fp8tune import atomic

    if path.endswith((".toml", ".yaml", ".yml")):
        ending = path[path.rfind(".") :]
        raise Problem(f"{path}: findings go to no {ending} file, to spare the configs")
    data = text.encode("utf-8", "backslashreplace")
    try:
        atomic.write(path, data, like=path if os.path.exists(path) else "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Problem(f"cannot write {path}: {reason}") from None


def _findings(result: Result, style: Style, out: TextIO, *, colour: bool) -> None:
    match style.output_format:
        case "full":
            _full(result, out, colour=colour)
        case "concise":
            for found in result.diagnostics:
                print(_concise(found), file=out)
        case "json":
            from fp8tune.lint.formats import plain_json

            out.write(plain_json.render(result, statistics=style.statistics))
        case "sarif":
            from fp8tune.lint.formats import sarif

            out.write(sarif.render(result))
        case "github":
            from fp8tune.lint.formats import github

            out.write(github.render(result))
        case "gitlab":
            from fp8tune.lint.formats import gitlab

            out.write(gitlab.render(result))
        case "junit":
            from fp8tune.lint.formats import junit

            out.write(junit.render(result))


def _concise(found: Diagnostic) -> str:
    line, column = found.region[:2]
    where = f"{plain(found.path)}:{line}:{column}"
    return f"{where}: {found.severity}[{found.rule}] {plain(found.message)}"


def _full(result: Result, out: TextIO, *, colour: bool) -> None:
    if not any(result.diagnostics):
        return
    from fp8tune.lint.snippet import Painter

    painter = Painter(colour=colour)
    for report in result.reports:
        for found in report.diagnostics[:MAX_PER_FILE]:
            print(painter.finding(found, report.lines), file=out)
        more = len(report.diagnostics) - MAX_PER_FILE
        if more > 0:
            print(f"... and {more} more in {plain(report.path)}\n", file=out)


NO_CONFIGS = (
    "no train configs found; "
    "a file that .gitignore or `exclude` covers is checked only if it is named"
)


def wants_colour(stream: TextIO) -> bool:
    """Return whether to use colour: by NO_COLOR, FORCE_COLOR, else on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def summary(result: Result) -> Iterator[str]:
    """Yield the numbers of findings, skipped files, and checks not made."""
    checked = [report for report in result.reports if not report.skipped]
    levels = Counter(found.severity for found in result.diagnostics)
    files = count(len(checked), "file")
    if levels:
        words = ", ".join(
            count(levels[level], level)
            for level in ("error", "warning", "note")
            if levels[level]
        )
        hit = sum(bool(report.diagnostics) for report in checked)
        yield f"{words} in {hit} of {files}"
    elif checked:
        stale = len(result.stale)
        entries = "entry is" if stale == 1 else "entries are"
        old = f", but {stale} baseline {entries} stale" if stale else ""
        yield f"no findings in {files}{old}"
    elif not result.unread:
        yield "no train configs found" if result.reports else NO_CONFIGS
    yield from _skipped(result)
    for note in dict.fromkeys(note for one in result.reports for note in one.notes):
        yield plain(note)
    yield from _unchecked(result)


def _skipped(result: Result) -> Iterator[str]:
    skipped = [report for report in result.reports if report.skipped]
    if len(skipped) <= 3:
        for report in skipped:
            yield f"skipped {plain(report.path)}: {report.skipped}"
        return
    kinds = Counter(report.skipped for report in skipped)
    words = ", ".join(f"{number} x {kind}" for kind, number in sorted(kinds.items()))
    yield f"skipped {len(skipped)} files: {words}"


def _unchecked(result: Result) -> Iterator[str]:
    rules = {pair for report in result.reports for pair in report.unjudged.items()}
    facts = Counter(fact for _, fact in rules)
    files = Counter(
        fact for report in result.reports for fact in {*report.unjudged.values()}
    )
    missing = (about.missing.items() for about in trainers().values())
    for fact, advice in (*_SUPPLY.items(), *chain.from_iterable(missing)):
        if facts[fact]:
            what, where = count(facts[fact], "rule"), count(files[fact], "file")
            yield f"{what} not checked in {where} because {advice}"
    yield from _gaps(result)
    yield from _versions(result)


def _versions(result: Result) -> Iterator[str]:
    """Yield the versions of trainers that nobody named, and what showed them.

    Where a trainer has one version, the commit that its schema was read from.
    """
    told = Counter((r.told, r.told_by) for r in result.reports if r.told)
    for (id_, by), files in told.items():
        name, _, version = id_.partition("==")
        another = f"{name}==VERSION" if version else "NAME"
        version = version or trainer(id_).schema.source.rpartition("/")[2][:9]
        read = f"{count(files, 'file')} read as {trainers()[name].title} {version}"
        yield (
            f"{read} ({plain(by)})"
            if by
            else f"{read}, by the keys; --trainer {another} names another"
        )


def _gaps(result: Result) -> Iterator[str]:
    """Yield what no estimate covers (memory, speed), why, and in how many files."""
    files: Counter[tuple[str, str]] = Counter()
    for report in result.reports:
        found: dict[str, set[str]] = {}
        for what, reason in report.gaps.values():
            found.setdefault(reason, set()).add(what)
        files.update((" and ".join(sorted(found[why])), why) for why in found)
    for (what, reason), number in files.items():
        where = f" in {count(number, 'file')}" if len(result.reports) > 1 else ""
        yield f"{what} not checked{where} because {reason}"


def count(number: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
