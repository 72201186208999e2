"""The fix of a finding: what its rule says, as edits of one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fp8tune.job import Job, Unknown
from fp8tune.lint.diagnostic import Change, Fix, Region
from fp8tune.lint.rules import Repair, Rule
from fp8tune.toml import Path
from fp8tune.toml.document import Document
from fp8tune.toml.edit import (
    CannotEdit,
    Edit,
    add_header,
    remove_key,
    rename_key,
    set_value,
)
from fp8tune.trainers.faults import Fault


def find_fix(
    rule: Rule, scope: Any, job: Job, fault: Fault | None, document: Document
) -> Fix | None:
    """The first fix of a rule that applies to this finding and can be written."""
    for repair in rule.fixes:
        maker = _Maker(job, fault, document)
        try:
            if repair.when is not None and not repair.when.evaluate(scope):
                continue
            edits = sorted(set(maker.edits(repair, scope)))
            title, changes = repair.title.fill(scope), repair.changes.fill(scope)
        except (Unknown, CannotEdit):
            continue
        if edits:
            placed = tuple(_change(document, edit) for edit in edits)
            return Fix(repair.safety, title, changes, placed)
    return None


def _change(document: Document, edit: Edit) -> Change:
    start = document.lines.position(max(0, edit.start))
    return Change(*edit, Region(*start, *document.lines.position(edit.end)))


class _Maker:
    def __init__(self, job: Job, fault: Fault | None, document: Document) -> None:
        self.job = job
        self.fault = fault
        self.document = document

    def edits(self, repair: Repair, scope: Any) -> Iterator[Edit]:
        """The edits of one repair; those of the fault itself where it says none."""
        document = self.document
        for name, value in repair.set.items():
            yield set_value(document, self._path(name), value.evaluate(scope))
        for name, value in repair.rename.items():
            yield rename_key(document, self._path(name), str(value.evaluate(scope)))
        for name, value in repair.header.items():
            yield add_header(document, self._path(name), str(value.evaluate(scope)))
        for path in self._written(repair.remove):
            yield remove_key(document, path)
        if repair.own and self.fault is not None:
            yield from self.fault.edits

    def _path(self, name: str) -> Path:
        if name == "fault" and self.fault is not None:
            return self.fault.path
        key = self.job.keys_of(name)[0]
        if name in self.job.words.computed and key not in self.job.written:
            raise CannotEdit(f"no key says {name} by itself")
        return tuple(key.split("."))

    def _written(self, names: Iterable[str]) -> Iterator[Path]:
        """Those of the names that stand in the file."""
        for name in names:
            path = self._path(name)
            if path in self.document.spans.values:
                yield path
