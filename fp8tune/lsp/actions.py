"""Fixes of findings, and ignore comments, as code actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from lsprotocol import types

from fp8tune.formats import parse
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.formats.edits import CannotEdit
from fp8tune.lint.diagnostic import Diagnostic, Report
from fp8tune.lint.ignores import with_ignores
from fp8tune.lint.rewrite import UNIGNORABLE
from fp8tune.lsp.diagnostics import diagnostic
from fp8tune.lsp.text import Text

FIX_ALL = "source.fixAll.fp8tune"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]


class File:
    """An open file as code actions see it, and the edits that its client can apply.

    ``version`` is ``None`` for a client that takes no edits of a version.
    """

    def __init__(self, uri: str, text: Text, version: int | None) -> None:
        self.uri, self.text, self.version = uri, text, version

    def edit(self, changes: Iterable[tuple[int, int, str]]) -> types.WorkspaceEdit:
        """Return changes of lint, by characters, as an edit of the client."""
        edits = [
            types.TextEdit(self.text.span((start, end)), new)
            for start, end, new in changes
        ]
        if self.version is None:
            return types.WorkspaceEdit({self.uri: edits})
        document = types.OptionalVersionedTextDocumentIdentifier(self.uri, self.version)
        return types.WorkspaceEdit(
            document_changes=[types.TextDocumentEdit(document, [*edits])]
        )


def wants(kind: str, only: Sequence[str] | None) -> bool:
    """Return whether a client asks for actions of a kind."""
    return not only or any(kind == each or kind.startswith(f"{each}.") for each in only)


def quick_fixes(
    report: Report, file: File, selected: types.Range
) -> Iterator[types.CodeAction]:
    """Yield the fixes of the findings in a range, then comments that ignore them."""
    there = [
        (found, shown)
        for found in report.diagnostics
        for shown in [diagnostic(found, file.text, file.uri)]
        if _overlap(shown.range, selected)
    ]
    for found, shown in there:
        if found.fix and all(edit.start >= 0 for edit in found.fix.edits):
            fix, safe = found.fix, found.fix.safety == "safe"
            note = "" if safe else f" (changes the run: {fix.changes})"
            yield types.CodeAction(
                f"fp8tune: {fix.title}{note}",
                types.CodeActionKind.QuickFix,
                [shown],
                safe,
                edit=file.edit((e.start, e.end, e.text) for e in fix.edits),
            )
    for found, shown in there:
        if _can_be_ignored(found):
            try:
                document = parse(file.text.text.encode(errors="replace"), report.path)
                edits = with_ignores(document, [found], "")
            except (CannotEdit, InvalidText, Unreadable):
                continue
            yield types.CodeAction(
                f"fp8tune: ignore `{found.rule}` here",
                types.CodeActionKind.QuickFix,
                [shown],
                edit=file.edit(edits),
            )


def fix_all(file: File, fixed: str) -> types.WorkspaceEdit:
    """Return the edit that turns a file into a text, line by line."""
    before, after = (text.splitlines(keepends=True) for text in (file.text.text, fixed))
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return file.edit(
        (starts[a], starts[b], "".join(after[c:d]))
        for tag, a, b, c, d in changes
        if tag != "equal"
    )


def _can_be_ignored(found: Diagnostic) -> bool:
    """Whether a comment in the file can silence a finding."""
    return not (found.rule in UNIGNORABLE or found.once or found.labels[0].argument)


def covers(place: types.Range, position: types.Position) -> bool:
    """Whether a position is in a range; its end counts."""
    return place.start <= position <= place.end


def _overlap(one: types.Range, other: types.Range) -> bool:
    """Whether two ranges have a place in common; their ends count."""
    return one.start <= other.end and other.start <= one.end
