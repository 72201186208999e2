"""Check files that are open in an editor, as ``fp8tune lint`` checks their folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from fp8tune.config.directive import PROJECT
from fp8tune.config.discover import CannotRead, Found, matches, read, reading
from fp8tune.config.reader import Config, NotAConfig
from fp8tune.config.settings import BadSettings, Options, settings_for
from fp8tune.formats import ENDINGS, format_of
from fp8tune.formats.document import InvalidText, Lines, Span, Unreadable
from fp8tune.lint.diagnostic import Diagnostic, Label, Region, Report
from fp8tune.lint.run import Runner, joined
from fp8tune.lint.selection import Problem
from fp8tune.lsp import completion, hover
from fp8tune.lsp.completion import Offer
from fp8tune.lsp.place import Place, place_at

Texts = Mapping[str, bytes]
"""The texts of the open files by absolute path, in place of those on disk."""


class Checked(NamedTuple):
    """What checking one file gave.

    - ``reports``: on the file, and on the other files of its job
    - ``read``: the absolute paths of all files that were read
    - ``problem``: why the file could not be checked, for the user
    - ``bugs``: a line for each rule that raised an error
    """

    reports: tuple[Report, ...] = ()
    read: frozenset[str] = frozenset()
    problem: str = ""
    bugs: tuple[str, ...] = ()


class Linter:
    """Checks files with rules that are compiled once.

    A file is one that ``fp8tune lint`` finds in its folder: what is no train config has
    no findings.
    """

    def __init__(self) -> None:
        self._options = Options()
        self._runner: Runner | None = None
        self._outdated = False
        self._configs: dict[str, Config] = {}

    def forget(self) -> None:
        """Read the settings and rules of projects again at the next check."""
        self._outdated = True

    @property
    def runner(self) -> Runner:
        """What checks files; raises ``Problem``."""
        if self._runner is None:
            self._runner = Runner(self._options)
        if self._outdated:
            self._outdated = False
            self._runner.forget()
        return self._runner

    def check(self, path: str, texts: Texts) -> Checked:
        """Check a file and the others of its job."""
        with reading(texts) as paths:
            try:
                report, problem = self.runner.judged(self.place(path))
                if report is None and not problem and format_of(path) == "bash":
                    report = self._launch(path)
            except Problem as error:
                return Checked((), frozenset(paths), str(error))
        if report is None:
            return Checked((), frozenset(paths), problem)
        reports = (report._replace(beside=()), *report.beside)
        bugs = tuple(f"{one.path}: {bug}" for one in reports for bug in one.bugs)
        return Checked(reports, frozenset(paths), problem, bugs)

    def fixed(self, path: str, texts: Texts) -> str:
        """Return the text of a file after all safe fixes."""
        from fp8tune.lint.rewrite import apply_fixes

        file = self.place(path)

        def look(data: bytes) -> Report:
            with reading({**texts, path: data}):
                return self.runner.report(file) or Report(path, [])

        return apply_fixes(texts[path], look, unsafe=False).data.decode()

    def explain(
        self, path: str, texts: Texts, offset: int, rules: list[str]
    ) -> tuple[str, Span | None]:
        """Return what stands at an offset, in Markdown, and the span of the key there.

        ``rules`` are the names of those that fire there.
        """
        parts, span = [*hover.of_rules(self.runner.named(rules))], None
        config = self.config(path, texts)
        if config and (key := hover.of_key(config, offset)):
            parts.append(key[0])
            span = key[1]
        if config and parts:
            parts.append(hover.of_memory(config))
        return "\n\n---\n\n".join(parts), span

    def complete(
        self, path: str, texts: Texts, text: str, offset: int
    ) -> tuple[Place, list[Offer]] | None:
        """Return what is typed at an offset of a text, and what may be.

        The line that is typed is left out where the text cannot be read with it, and
        where it cannot be read without it, the file is what it was before.
        """
        place = place_at(path, text, offset)
        if place is None:
            return None
        if place.kind == "comment":
            return place, [*completion.of_comment(place, self.runner.builtin)]
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset) % (len(text) + 1)
        behind = text[offset:end].lstrip(" \"'")
        without = text[:start] + text[end:]
        for each in (without, text, _completed(text, place, offset)):
            data = each.encode(errors="replace")
            asked = os.path.basename(path) != PROJECT
            if config := self.config(path, {**texts, path: data}, explicit=asked):
                self._configs[path] = config
                break
        if path not in self._configs:
            return None
        config = self._configs[path]
        offers = completion.of_config(place, config, path)
        if behind.startswith(("=", ":")):
            return place, [offer.bare for offer in offers]
        return place, [*offers]

    def config(
        self, path: str, texts: Texts, *, explicit: bool = False
    ) -> Config | None:
        """Return the train config that a file is now; ``None`` if it is none.

        ``explicit`` is as for ``config_of``.
        """
        with reading(texts):
            try:
                file = self.place(path)
                file = file._replace(explicit=explicit or file.explicit)
                return self.runner.config(file, texts[path])
            except (Problem, BadSettings, NotAConfig, InvalidText, Unreadable):
                return None

    def place(self, path: str) -> Found:
        """Return a file as a check of its folder finds it, with those of its job."""
        folder = os.path.dirname(path)
        try:
            names = {e.name for e in os.scandir(folder) if not e.is_dir()}
        except OSError:
            names = set()
        names = {n for n in names if n.endswith(tuple(ENDINGS))}
        names.add(os.path.basename(path))
        files = [Found(shown(os.path.join(folder, n)), False) for n in sorted(names)]
        job = joined(files, self._options)
        return next(file for file in job if file.path == shown(path))

    def _launch(self, path: str) -> Report | None:
        """Return the findings of a config that a script's command line sets."""
        from fp8tune.lint.launch import CannotLaunch, read_launch

        settings = settings_for(os.path.dirname(path))
        if matches(path, settings.folder, settings.exclude):
            return None
        try:
            launch = read_launch(shown(path), (), os.environ)
            script = read(path).decode(errors="replace")
        except (CannotLaunch, CannotRead):
            return None
        if launch.is_script:
            return None
        options = self._options._replace(
            overrides=launch.overrides, script=launch.target, beside=launch.beside
        )
        there = self.runner.with_options(options)
        config, _ = there.judged(Found(launch.config, True))
        report = Report(shown(path), [])
        for found in config.diagnostics if config else ():
            if config and found.labels[0].argument:
                moved = _moved(found, config, report.path, script, launch.line)
                report.diagnostics.append(moved)
        return report


def _completed(text: str, place: Place, offset: int) -> str:
    """Return a text of JSON in which something stands where something is typed."""
    behind = text[offset:]
    if place.word[:1] == '"':
        behind = behind.removeprefix('"')
    stands = '"": 0' if place.kind == "key" else "0"
    return f"{text[: offset - len(place.word)]}{stands}{behind}"


def shown(path: str) -> str:
    """Return a path as messages have it: from the current folder, if it is below."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def _moved(
    found: Diagnostic, config: Report, path: str, script: str, line: int
) -> Diagnostic:
    """Return a finding on a config that points at the arguments of a script."""
    labels = tuple(
        label._replace(region=_argument(label.argument.text, script, line))
        if label.argument
        else _elsewhere(label, config)
        for label in found.labels
    )
    return found._replace(path=path, labels=labels, fix=None)


def _elsewhere(label: Label, config: Report) -> Label:
    """Return a label in a config as one in another file."""
    if label.path:
        return label
    line = config.lines.get(label.region.line, "")
    return label._replace(path=config.path, line=line)


def _argument(text: str, script: str, line: int) -> Region:
    """Return where an argument stands in a command that begins on a line.

    The first line of the command where its words are not those of the script.
    """
    lines = Lines(script)
    at = script.find(text, lines.offset(line))
    if at < 0:
        return Region(line, 1, line, len(lines.line(line)) + 1)
    return Region(*lines.position(at), *lines.position(at + len(text)))
