"""Findings of lint as diagnostics of the language server protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lsprotocol import types
from pygls.uris import from_fs_path

from fp8tune.lint.diagnostic import Diagnostic
from fp8tune.lsp.text import Text, in_line

SOURCE = "fp8tune"

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


def diagnostic(found: Diagnostic, text: Text, uri: str) -> types.Diagnostic:
    """Return one finding in a file with this text and address."""
    message = found.message
    if found.help:
        message += f"\nhelp: {found.help}"
    page = types.CodeDescription(found.url) if found.url.startswith("http") else None
    return types.Diagnostic(
        text.region(found.region),
        message,
        _SEVERITIES[found.severity],
        found.rule,
        page,
        SOURCE,
        related_information=[*_related(found, text, uri)] or None,
    )


def unchecked(problem: str) -> types.Diagnostic:
    """Return what a file without findings shows that could not be checked."""
    start = types.Position(0, 0)
    message, severity = f"not checked: {problem}", types.DiagnosticSeverity.Warning
    return types.Diagnostic(types.Range(start, start), message, severity, source=SOURCE)


def _related(
    found: Diagnostic, text: Text, uri: str
) -> Iterator[types.DiagnosticRelatedInformation]:
    """Yield the other spans of a finding, also those in other files of the job."""
    for label in found.labels[1:]:
        if label.path:
            place = in_line(label.region, label.line, text.codec)
            address = from_fs_path(os.path.abspath(label.path)) or uri
        else:
            place, address = text.region(label.region), uri
        location = types.Location(address, place)
        yield types.DiagnosticRelatedInformation(location, label.text or label.key)
