"""Judge what logs and traces of a run say of FP8.

A trace decides. A log decides alone only where it denies FP8, or where it counts as
many converted linears as the config asks for: most trainers print that FP8 is on even
if no linear was converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fp8tune.verify.evidence import Gemms, Log, Mention, Trace
from fp8tune.verify.expected import NOTHING, Expected

Word = Literal["verified", "partly", "not-fp8", "cannot-tell"]

EXIT = {"verified": 0, "partly": 1, "not-fp8": 1, "cannot-tell": 3}
"""The exit code of each verdict; a run that failed or went wrong has 1 in any case."""

TOLERANCE = 0.05
"""How far the FP8 share may be below the predicted one.

The prediction counts activation checkpointing per linear, and a trace may hold the
GEMMs of a router or of attention in plain PyTorch beside the linears.
"""

MOST = 0.5
"""FP8 share of the calls above which a trace verifies without a config.

Below it only the config can say whether more should run in FP8: of an MoE model whose
experts stay in bf16, 0.2 of the FLOPs is right.
"""

FORWARD_ONLY = 0.55
"""FP8 share of the calls that the forward pass alone cannot reach.

With full activation checkpointing two of the four GEMMs of a linear are forward.
"""


@dataclass(frozen=True)
class Reason:
    """One step to the verdict: a code for programs and a sentence for people."""

    code: str
    message: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True)
class OfTrace:
    """What one trace says, and why."""

    word: Word
    reason: Reason
    missing: str = ""


@dataclass
class Verdict:
    """Whether FP8 ran: the word, its reasons, and what would settle what is open."""

    word: Word
    asked: bool | None
    claimed: bool | None
    reasons: list[Reason] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    contradictions: list[Reason] = field(default_factory=list)


def judge(
    logs: Sequence[Log], traces: Sequence[Trace], expected: Expected = NOTHING
) -> Verdict:
    """Return the verdict on a run from its logs and traces, of any of its ranks."""
    mentions = [(log, mention) for log in logs for mention in log.mentions]
    asked, reasons = _asked(logs, mentions, expected)
    claimed = _claimed(logs, mentions)
    told = [of_trace(trace, expected) for trace in traces]
    decided = [one for one in told if one.word != "cannot-tell"]
    if decided:
        word, more = _of_traces(decided)
        stopped = _restarted_without(logs)
        if word == "verified" and stopped:
            word, more = "partly", [stopped, *more]
        found = Verdict(word, asked, claimed, reasons + more)
        found.contradictions = _contradictions(found.word, mentions)
        return found
    rest = [] if traces and not logs else [_of_logs(logs, mentions, asked, expected)]
    undecided = rest + told
    found = Verdict(undecided[0].word, asked, claimed, reasons)
    found.reasons += [one.reason for one in undecided]
    if found.word == "cannot-tell":
        found.missing = [one.missing for one in undecided if one.missing]
    return found


def of_trace(trace: Trace, expected: Expected = NOTHING) -> OfTrace:
    """Return what one trace says of FP8."""
    fp8, other = trace.fp8, trace.other

    def says(word: Word, code: str, message: str, missing: str = "") -> OfTrace:
        return OfTrace(word, Reason(code, message, trace.path), missing)

    if not fp8.calls + other.calls:
        return says(
            "cannot-tell",
            "no-gemms",
            "no matrix multiplication in the trace",
            "a trace of at least one whole training step with GPU activity",
        )
    if not fp8.calls and trace.casts:
        return says(
            "partly",
            "casts-only",
            f"{trace.casts} casts to FP8, but none of {other.calls} GEMMs runs in FP8",
        )
    if not fp8.calls:
        if trace.cut and not trace.steps:
            return says(
                "cannot-tell",
                "trace-cut",
                f"no FP8 GEMM before the trace ends ({trace.cut})",
                "the whole trace",
            )
        return says(
            "not-fp8", "no-fp8-gemms", f"none of {other.calls} GEMMs runs in FP8"
        )
    share = fp8.calls / (fp8.calls + other.calls)
    what = f"{fp8.calls} of {fp8.calls + other.calls} GEMMs run in FP8"
    if trace.backward is False:
        return says(
            "partly",
            "forward-only",
            f"{what}, all of them forward: the backward pass has none",
        )
    if trace.backward is None and share < FORWARD_ONLY:
        return says(
            "cannot-tell",
            "pass-unknown",
            f"{what}; the trace does not show whether in the backward pass too",
            "a trace with CPU activity beside that of the GPU "
            "(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
        )
    return _of_share(trace, expected, what, share)


def _of_share(trace: Trace, expected: Expected, what: str, share: float) -> OfTrace:
    """Compare how much runs in FP8 with what the config asks for."""

    def says(word: Word, code: str, message: str, missing: str = "") -> OfTrace:
        return OfTrace(word, Reason(code, message, trace.path), missing)

    if expected.flop_share is None:
        if share >= MOST:
            return says("verified", "fp8-gemms", f"{what}, forward and backward")
        return says(
            "cannot-tell",
            "share-unknown",
            f"{what}; whether more should, only the config can tell",
            "the train config: --config train.toml",
        )
    measured, least, unit = _shares(trace, expected)
    if expected.compile and trace.compiled is False:
        text = "in eager mode, and the config asks for torch.compile"
        return says("partly", "not-compiled", f"{what}, {text}")
    if measured >= least - TOLERANCE:
        return says(
            "verified",
            "fp8-gemms",
            f"{what}, {measured:.0%} of {unit}; the config predicts "
            f"{_predicted(expected, unit)}",
        )
    message = (
        f"{what}, {measured:.0%} of {unit} instead of {_predicted(expected, unit)}"
    )
    names = left_in_16_bit(trace, expected)
    if names:
        message += f"; in 16 bit: {', '.join(names)}"
    return says("partly", "share-too-small", message)


def _shares(trace: Trace, expected: Expected) -> tuple[float, float, str]:
    """The share that FP8 has, the least that it should have, and of what."""
    fp8, other = trace.fp8, trace.other
    assert expected.flop_share is not None
    if fp8.flops and (other.flops or not other.calls):
        measured = fp8.flops / (fp8.flops + other.flops)
        return measured, expected.flop_share, "the GEMMs' FLOPs"
    least = expected.least_time_share or 0.0
    return fp8.us / ((fp8.us + other.us) or 1.0), least, "the GEMMs' time"


def _predicted(expected: Expected, unit: str) -> str:
    if unit.endswith("FLOPs"):
        return f"{expected.flop_share:.0%}"
    return f"at least {expected.least_time_share:.0%}"


def left_in_16_bit(trace: Trace, expected: Expected) -> list[str]:
    """Names of linears that the config converts and that ran in 16 bit."""
    names = {
        name
        for left in trace.left
        if left.shape is not None
        for name in expected.names(left.shape)
    }
    return [gemm.name for gemm in expected.gemms if gemm.name in names]


def _of_traces(told: list[OfTrace]) -> tuple[Word, list[Reason]]:
    """The verdict of several traces: that of all, or partly where they differ."""
    words = {one.word for one in told}
    reasons = [one.reason for one in told]
    if len(words) == 1:
        return words.pop(), reasons
    some = sum(one.word == "verified" for one in told)
    return "partly", [
        Reason("traces-differ", f"{some} of {len(told)} traces run as asked"),
        *reasons,
    ]


def _of_logs(
    logs: Sequence[Log],
    mentions: list[tuple[Log, Mention]],
    asked: bool | None,
    expected: Expected,
) -> OfTrace:
    """The verdict of the logs alone."""
    denial = _last(mentions, "denies")
    proof = _last(mentions, "proves")
    claim = _last(mentions, "claims")
    steps = sum(len(curve) for log in logs for curve in log.starts)
    if denial:
        return _said("not-fp8", "log-denies", "the log says that FP8 is off", *denial)
    if proof and steps and expected.modules == proof[1].count:
        text = f"the log counts {proof[1].count} converted linears, as the config asks"
        return _said("verified", "linears-counted", text, *proof)
    if asked is False and not claim and not proof:
        text = "16 bit was asked for, and no line of the log speaks of FP8"
        return OfTrace("not-fp8", Reason("not-asked", text))
    profile = "a profile of one training step"
    if proof:
        text = f"the log counts {proof[1].count} converted linears"
        if expected.modules is not None and steps:
            text += f", the config asks for {expected.modules}"
            return _said("partly", "linears-missing", text, *proof)
        return _said("cannot-tell", "linears-counted", text, *proof, missing=profile)
    if claim:
        text = "the log claims FP8; this line is printed even if no linear is converted"
        return _said("cannot-tell", "log-claims", text, *claim, missing=profile)
    if logs and steps:
        text = f"{steps} logged steps, and no line of the log speaks of FP8"
        return OfTrace("cannot-tell", Reason("log-silent", text), profile)
    return OfTrace("cannot-tell", Reason("no-evidence", "no step was logged"), profile)


def _restarted_without(logs: Sequence[Log]) -> Reason | None:
    """Say where a log speaks of FP8 after an earlier start, and not after the last."""
    for log in logs:
        ends = [curve.line for curve in log.starts if len(curve)]
        lines = [one.line for one in log.mentions if one.says in ("claims", "proves")]
        if len(ends) > 1 and lines and max(lines) < ends[-2]:
            text = "the run was started again, and from then on no line speaks of FP8"
            return Reason("restarted-without-fp8", text, log.path, ends[-1])
    return None


def _said(
    word: Word, code: str, text: str, log: Log, mention: Mention, missing: str = ""
) -> OfTrace:
    return OfTrace(word, Reason(code, text, log.path, mention.line), missing)


def _last(mentions: list[tuple[Log, Mention]], says: str) -> tuple[Log, Mention] | None:
    found = [(log, mention) for log, mention in mentions if mention.says == says]
    return found[-1] if found else None


def _asked(
    logs: Sequence[Log], mentions: Iterable[tuple[Log, Mention]], expected: Expected
) -> tuple[bool | None, list[Reason]]:
    """Whether FP8 was asked for: by the config, else by the log."""
    if expected.asked is not None:
        what = "FP8" if expected.asked else "16 bit"
        return expected.asked, [
            Reason("asked", f"the config asks for {what}", expected.source)
        ]
    for log in logs:
        precision = log.settings.get("precision")
        if precision:
            text = f"the log says that the precision is {precision}"
            return precision == "fp8", [Reason("asked", text, log.path)]
    for log, mention in mentions:
        reason = Reason("asked", "the log speaks of FP8", log.path, mention.line)
        return True, [reason]
    return None, []


def _claimed(logs: Sequence[Log], mentions: list[tuple[Log, Mention]]) -> bool | None:
    """Whether a log says that FP8 is on; None if no log was read."""
    if any(mention.says in ("claims", "proves") for _, mention in mentions):
        return True
    return False if any(log.trainer and len(log.starts) for log in logs) else None


def _contradictions(word: Word, mentions: list[tuple[Log, Mention]]) -> list[Reason]:
    """Where the log says otherwise than the trace, which decides."""
    found = []
    claim = _last(mentions, "proves") or _last(mentions, "claims")
    denial = _last(mentions, "denies")
    if word == "not-fp8" and claim:
        text = "the log says that FP8 is on, and the trace has no FP8 GEMM"
        found.append(Reason("log-claims-fp8", text, claim[0].path, claim[1].line))
    if word == "verified" and denial:
        text = "the log says that FP8 is off, and the trace has FP8 GEMMs"
        found.append(Reason("log-denies-fp8", text, denial[0].path, denial[1].line))
    return found


def total(traces: Sequence[Trace]) -> tuple[Gemms, Gemms]:
    """The FP8 and other GEMMs of all traces."""
    sums = []
    for kind in ("fp8", "other"):
        all_of = [getattr(trace, kind) for trace in traces]
        sums.append(
            Gemms(
                sum(one.calls for one in all_of),
                sum(one.us for one in all_of),
                sum(one.flops for one in all_of),
            )
        )
    return sums[0], sums[1]
