"""Find the place of a finding in its file."""

from __future__ import annotations

from fp8tune.formats.document import ConfigDocument, Path, Span
from fp8tune.job import Job
from fp8tune.lint.diagnostic import Marked, Region
from fp8tune.lint.rules import At
from fp8tune.trainers.faults import Argument, Fault, Loaded

TOP = Region(1, 1, 1, 1)


class Places:
    """Finds the spans that findings point at, in one document and its overrides."""

    def __init__(self, document: ConfigDocument, job: Job, loaded: Loaded) -> None:
        self.document = document
        self.job = job
        self.loaded = loaded

    def argument(self, key: str, mark: str) -> Marked | None:
        """Return the argument that sets a key, if one does."""
        argument = self.loaded.argument(tuple(key.split(".")))
        return argument and marked(argument, mark)

    def of(self, at: At) -> tuple[str, Region, str]:
        """Return the key of a span, its region, and a note if the file does not set it.

        A key that is not set points at the first of its other names that is set, else
        at its section, else at line 1. A field that no key says has no note.
        """
        wanted = self.job.key(at.names[0])
        unset = f"`{wanted}` is not set: " if wanted in self.job.words.keys else ""
        for name in at.names:
            keys = self.job.keys_of(name)
            for key in sorted(keys, key=lambda key: self._says_no(key, name)):
                path = tuple(key.split("."))
                region = self._region(path, at.mark)
                if region is None and self.loaded.argument(path):
                    region = self._region(path[:1], "key") or TOP
                if region is not None:
                    same = at.any or name == at.names[0]
                    note = "" if same else unset
                    return key if same else wanted, region, note
        section = self._region((wanted.partition(".")[0],), "key")
        return wanted, section or TOP, unset

    def _says_no(self, key: str, name: str) -> bool:
        """Whether a key is off although the field is true, by another of its keys."""
        value = self.job.given.get(key)
        off = not value or str(value).lower() == "no"
        return off and self.job.find(name) is True

    def of_fault(self, fault: Fault, mark: str) -> Region:
        """Return the region of a fault: its key, or the nearest table in the file."""
        if fault.span is not None:
            return self._at(fault.span)
        for length in range(len(fault.path), 0, -1):
            region = self._region(fault.path[:length], mark)
            if region is not None:
                return region
        return TOP

    def _region(self, path: Path, mark: str) -> Region | None:
        span = self.document.span(path, mark)
        return None if span is None else self._at(span)

    def _at(self, span: Span) -> Region:
        start = self.document.lines.position(span[0])
        end = self.document.lines.position(span[1])
        return Region(*start, *end)


def marked(argument: Argument, mark: str) -> Marked:
    """Return an argument with the span of its key or of its value."""
    return Marked(argument.text, argument.key if mark == "key" else argument.value)
