"""What lint predicts of a tuned config's memory, and trials have shown to be otherwise.

A measured fit is no finding: the written file says so where lint would object.
"""

from __future__ import annotations

from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.lint.ignores import with_ignores
from fp8tune.search.aftermath import rules_for
from fp8tune.search.writeback import MEASURED
from fp8tune.toml.document import parse
from fp8tune.toml.edit import apply
from fp8tune.trials.record import Record

PREDICTED = ("out-of-memory", "probably-out-of-memory", "may-not-fit")
"""Rules that predict whether a run fits."""


def with_measured(path: str, data: bytes, record: Record | None, to: Target) -> bytes:
    """The config with an ignore comment above each prediction that a trial refutes.

    A rehearsal refutes none, nor does what was not measured as it stands there.
    """
    if record is None or not _shows_memory(record):
        return data
    found = check(path, data, rules_for(path), to).diagnostics
    wrong = [finding for finding in found if finding.rule in PREDICTED]
    if not wrong:
        return data
    document = parse(data)
    words = f" -- {MEASURED} {record.peak_gib:.1f} of {record.capacity_gib:.1f} GiB"
    text = apply(document.text, with_ignores(document, wrong, words))
    return f"{chr(0xFEFF) * document.bom}{text}".encode()


def _shows_memory(record: Record) -> bool:
    told = 0 < record.peak_gib < record.capacity_gib
    guessed = record.rehearsal or bool(record.extrapolated)
    return told and not guessed and not record.memory_shortage
