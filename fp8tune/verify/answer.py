"""The answer of ``fp8tune verify``: as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fp8tune.verify import diagnosis, patterns
from fp8tune.verify.diagnosis import Diagnosis
from fp8tune.verify.evidence import Log, Trace
from fp8tune.verify.expected import Expected
from fp8tune.verify.grouping import folder_of
from fp8tune.verify.verdict import EXIT, Reason, Verdict, total
from fp8tune.words import counted, plain

HEADLINES = {
    "verified": "VERIFIED",
    "partly": "PARTLY",
    "not-fp8": "NOT FP8",
    "cannot-tell": "CANNOT TELL",
}
YES_NO = {True: "yes", False: "no", None: "unknown"}
RAN = {
    "verified": "yes",
    "partly": "in part",
    "not-fp8": "no",
    "cannot-tell": "unknown",
}


@dataclass
class Answer:
    """What is known of a run: the verdict, what went wrong, and what to do next.

    ``trainer`` is its name; ``calibrate`` is the command that lets ``estimate`` learn
    from the run, ``""`` if the log has no figures or there is no config. ``runs`` are
    the answers on all runs, this one included, where the files are of several.
    """

    verdict: Verdict
    trainer: str = ""
    logs: Sequence[Log] = ()
    traces: Sequence[Trace] = ()
    expected: Expected = field(default_factory=Expected)
    causes: Sequence[Diagnosis] = ()
    calibrate: str = ""
    runs: Sequence[Answer] = ()

    @property
    def failed(self) -> bool:
        """Whether the run failed or went wrong."""
        return bool(self.error)

    @property
    def error(self) -> str:
        """The code of the cause for which the run failed, ``""`` for none."""
        errors = (one.code for one in self.causes if one.severity == "error")
        return next(errors, "")

    @property
    def exit_code(self) -> int:
        """The exit code: 0 verified, 1 not, partly or failed, 3 cannot tell."""
        return 1 if self.failed else EXIT[self.verdict.word]

    @property
    def path(self) -> str:
        """The file that stands for the run: its first log, else its first trace."""
        paths = [log.path for log in self.logs] + [one.path for one in self.traces]
        return next(iter(paths), "")


ORDER = ("not-fp8", "partly", "cannot-tell", "verified")
"""Verdicts, the worst first; a run that failed is worse than any other."""
MOST_RUNS = 40
"""Runs that the table shows, the worst of them."""


def worst_of(answers: Sequence[Answer]) -> Answer:
    """Return the answer on the worst of several runs, with all of them."""
    return replace(_ranked(answers)[0], runs=answers)


def _ranked(answers: Sequence[Answer]) -> list[Answer]:
    """Return answers, the worst first."""

    def weight(answer: Answer) -> tuple[bool, int]:
        return not answer.failed, ORDER.index(answer.verdict.word)

    return sorted(answers, key=weight)


def text(answer: Answer) -> Iterator[str]:
    """The lines for people."""
    if answer.runs:
        yield from _table(answer.runs)
        yield ""
        yield plain(f"The worst of them, {answer.path}:")
    yield from _of_run(answer)


def _table(answers: Sequence[Answer]) -> Iterator[str]:
    """A line for each run: its first log, the verdict, and why."""
    shown = _ranked(answers)[:MOST_RUNS]
    shown = [answer for answer in answers if any(answer is each for each in shown)]
    folder = os.path.commonpath([folder_of(answer.path) for answer in shown])
    names = [os.path.relpath(answer.path, folder) for answer in shown]
    width = max(map(len, names))
    yield f"{len(answers)} runs"
    for name, answer in zip(names, shown, strict=True):
        more = len(answer.logs) + len(answer.traces) - 1
        files = f"  ({counted(more + 1, 'file')})" if more else ""
        why = answer.failed and f"  failed: {answer.error}"
        word = HEADLINES[answer.verdict.word]
        yield plain(f"  {name:{width}}  {word}{why or ''}{files}")
    if len(answers) > len(shown):
        yield f"  and {len(answers) - len(shown)} more, none of them worse"


def _of_run(answer: Answer) -> Iterator[str]:
    """The lines on one run."""
    verdict = answer.verdict
    yield _headline(answer)
    rows: dict[str, list[Reason]] = {"asked": [], "claimed": [], "ran": []}
    for reason in verdict.reasons:
        rows[reason.code if reason.code in rows else "ran"].append(reason)
    yield from _row("asked", YES_NO[verdict.asked], rows["asked"])
    yield from _row("claimed", YES_NO[verdict.claimed], rows["claimed"])
    yield from _row("ran", RAN[verdict.word], rows["ran"])
    cut = [(one.path, one.cut) for one in answer.logs if one.cut]
    cut += [(one.path, one.cut) for one in answer.traces if one.cut]
    for path, why in cut:
        yield plain(f"  {path}: {why}; judged by what was read")
    for reason in verdict.contradictions:
        yield ""
        yield plain(f"warning[{reason.code}] {_placed(reason)}{reason.message}")
    for cause in answer.causes:
        yield ""
        yield from _cause(cause)
    if verdict.missing and not answer.failed:
        yield ""
        yield "What would settle it:"
        for missing in dict.fromkeys(verdict.missing):
            first, *rest = missing.splitlines()
            yield f"  - {first}"
            yield from (f"    {line}" for line in rest)
    if answer.calibrate:
        yield ""
        yield "This run can correct the estimates of configs like it:"
        yield plain(f"  {answer.calibrate}")


def _headline(answer: Answer) -> str:
    """The verdict, whose run it is, and whether that failed."""
    line = HEADLINES[answer.verdict.word]
    if answer.trainer:
        line += f"  ({title(answer.trainer)})"
    return f"{line}: the run failed, {answer.error}" if answer.failed else line


def title(trainer: str) -> str:
    """The name of a trainer as people write it."""
    known = patterns.known().get(trainer)
    return known.title if known else trainer


def _row(name: str, word: str, reasons: list[Reason]) -> Iterator[str]:
    """A line for each reason; the first one has the name and the word."""
    head = f"  {name:9}{word:9}"
    if not reasons:
        yield head.rstrip()
    for reason in reasons:
        yield plain(f"{head}{_placed(reason)}{reason.message}")
        head = " " * len(head)


def _placed(reason: Reason) -> str:
    if not reason.path:
        return ""
    return f"{reason.path}:{reason.line}: " if reason.line else f"{reason.path}: "


def _cause(found: Diagnosis) -> Iterator[str]:
    """What went wrong, where, and the fix."""
    where = f" {found.path}" if found.path else ""
    if found.line:
        where += f":{found.line}"
    many = f" ({found.count} lines)" if found.count > 1 else ""
    head = f"{found.severity}[{found.code}]{where}"
    yield plain(f"{head}: {found.message}{many}")
    if found.after:
        yield f"  follows from: {found.after}"
    if found.help and not found.after:
        yield plain(f"  {found.help}")
    if found.fix:
        yield plain(f"  fix ({found.fix.safety}): {found.fix.title}")
    elif found.withheld:
        yield plain(f"  no fix: {found.withheld}")


def as_json(answer: Answer) -> dict[str, Any]:
    """The object for programs; docs/reference/json.md explains the fields."""
    if answer.runs:
        runs = [{"path": each.path, **as_json(each)} for each in answer.runs]
        return as_json(replace(answer, runs=())) | {"runs": runs}
    verdict = answer.verdict
    fp8, other = total(answer.traces)
    time = fp8.us + other.us
    gemms = {
        "fp8": fp8.calls,
        "other": other.calls,
        "fp8_share_of_time": fp8.us / time if time else None,
        "fp8_share_of_flops": _share_of_flops(answer.traces),
        "expected_share": answer.expected.flop_share,
        "backward": _backward(answer.traces),
    }
    return {
        "version": 1,
        "verdict": verdict.word,
        "trainer": answer.trainer or None,
        "asked": verdict.asked,
        "claimed": verdict.claimed,
        "gemms": gemms if answer.traces else None,
        "reasons": list(map(asdict, verdict.reasons)),
        "causes": _contradictions(verdict) + list(map(diagnosis.data, answer.causes)),
        "missing": list(dict.fromkeys(verdict.missing)),
        "calibrate": answer.calibrate or None,
    }


def _contradictions(verdict: Verdict) -> list[dict[str, Any]]:
    """Where the parts of the evidence disagree, in the form of causes."""
    return [
        {
            "code": one.code,
            "severity": "warning",
            "message": one.message,
            "path": one.path,
            "line": one.line,
            "fix": None,
        }
        for one in verdict.contradictions
    ]


def _share_of_flops(traces: Sequence[Trace]) -> float | None:
    fp8, other = total(traces)
    known = fp8.flops or other.flops
    return fp8.flops / (fp8.flops + other.flops) if known else None


def _backward(traces: Sequence[Trace]) -> bool | None:
    """Whether FP8 GEMMs ran backward in all traces; None if one does not tell."""
    seen = {trace.backward for trace in traces}
    if False in seen:
        return False
    return None if None in seen else True
