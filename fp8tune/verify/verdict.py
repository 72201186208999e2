"""Judge what logs and traces of a run say of FP8.

A trace decides. A log decides alone only where it denies FP8, or where it counts as
many converted linears as the config asks for: most trainers print that FP8 is on even
if no linear was converted.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fp8tune.verify import patterns
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

FEW = 0.1
"""FP8 share of the calls below which a trace alone shows that FP8 ran in part only.

Whatever pass its FP8 GEMMs belong to.
"""

FORWARD_ONLY = 0.55
"""FP8 share of a training step's calls that the forward pass alone cannot reach.

With full activation checkpointing two of the four GEMMs of a linear are forward.
"""


LONGEST_LINE = 120
"""Characters of a log's line that an answer shows."""


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
    mentions = [(log, mention) for log in logs for mention in _of_last_start(log)]
    asked, reasons = _asked(logs, mentions, expected)
    claimed = _claimed(logs, mentions)
    claim = _last(mentions, "proves") or _last(mentions, "claims")
    if claim:
        log, mention = claim
        text = textwrap.shorten(mention.text, LONGEST_LINE, placeholder=" ...")
        reasons.append(Reason("claimed", text, log.path, mention.line))
    told = [of_trace(trace, expected) for trace in traces]
    decided = [one for one in told if one.word != "cannot-tell"]
    if decided:
        word, more = _of_traces(decided)
        stopped = _restarted_without(logs) or _in_16_bit(logs)
        if word == "verified" and stopped:
            word, more = "partly", [stopped, *more]
        found = Verdict(word, asked, claimed, reasons + more)
        found.contradictions = _contradictions(found.word, mentions)
        other = _of_another_run(logs, traces)
        if word == "verified" and asked is False:
            text = "16 bit was asked for, and a trace has FP8 GEMMs"
            other = Reason("fp8-not-asked", f"{text}: is it of another run?")
        if other:
            found.word = "cannot-tell"
            found.contradictions.append(other)
            found.missing.append("log, config and trace of the same run")
        return found
    rest = [] if traces and not logs else [_of_logs(logs, mentions, asked, expected)]
    undecided = rest + told
    found = Verdict(undecided[0].word, asked, claimed, reasons)
    found.reasons += [one.reason for one in undecided]
    if found.word == "cannot-tell":
        found.missing = [one.missing for one in undecided if one.missing]
    return found


def _of_another_run(logs: Sequence[Log], traces: Sequence[Trace]) -> Reason | None:
    """Say which trace is of another number of GPUs than the log."""
    sizes = {log.settings["world_size"] for log in logs if "world_size" in log.settings}
    if len(sizes) != 1:
        return None
    size = sizes.pop()
    for trace in traces:
        if trace.world_size and size != str(trace.world_size):
            text = f"the trace is of {trace.world_size} GPUs, the log of {size}"
            return Reason("other-world-size", f"{text}: of another run?", trace.path)
    return None


def of_trace(trace: Trace, expected: Expected = NOTHING) -> OfTrace:
    """Return what one trace says of FP8."""
    says = _Says(trace)
    fp8, all_of = trace.fp8.calls, _all(trace)
    if not all_of:
        text = "no matrix multiplication of a linear in the trace"
        return says.open("no-gemms", text, WHOLE_STEP)
    if trace.trains is False:
        text = "nothing runs backward in the trace: it shows no training step"
        return says.open("no-training", text, WHOLE_STEP)
    if _is_of_another_model(trace, expected):
        text = "no GEMM of the trace has the size of a linear of the config's model"
        return says.open("other-shapes", text, OWN_TRACE)
    if not fp8:
        return _without_fp8(trace, says)
    what = f"{fp8} of {all_of} GEMMs run in FP8"
    if expected.flop_share is None and not trace.cut and fp8 / all_of < FEW:
        text = f"{what}; --config train.toml says which should"
        return says("partly", "share-too-small", text)
    if trace.backward is False:
        text = f"{what}, all of them forward: the backward pass has none"
        return says("partly", "forward-only", text)
    step_seen = trace.trains and not trace.cut
    if trace.backward is None and (not step_seen or fp8 / all_of < FORWARD_ONLY):
        of_share = _of_share(trace, expected, what, says)
        if step_seen and of_share.word == "partly":
            return of_share
        text = f"{what}; the trace does not show whether in the backward pass too"
        return says.open("pass-unknown", text, WHOLE_STEP if trace.cut else BOTH)
    if expected.compile and trace.compiled is False:
        text = f"{what}, in eager mode, and the config asks for torch.compile"
        return says("partly", "not-compiled", text)
    return _of_share(trace, expected, what, says)


FEWEST_SHAPES = 5
"""Different GEMMs with shapes from which a trace shows which model ran."""

OWN_TRACE = "a trace of the config's own run, or the config of this run"
WHOLE_STEP = "a profile of at least one whole training step, with GPU activity"
BOTH = (
    "a profile with CPU activity beside that of the GPU "
    "(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
)


@dataclass(frozen=True)
class _Says:
    """Makes what a trace says."""

    trace: Trace

    def __call__(self, word: Word, code: str, text: str, missing: str = "") -> OfTrace:
        return OfTrace(word, Reason(code, text, self.trace.path), missing)

    def open(self, code: str, text: str, missing: str) -> OfTrace:
        """It cannot be told, for lack of what is missing."""
        return self("cannot-tell", code, text, missing)


def _is_of_another_model(trace: Trace, expected: Expected) -> bool:
    """Whether no GEMM of a trace has the K and N of a linear of the config."""
    sizes = [Counter((gemm.k, gemm.n)) for gemm in expected.gemms]
    shapes = [one.shape for one in (*trace.ran, *trace.left) if one.shape]
    if not sizes or len(shapes) < FEWEST_SHAPES:
        return False
    return not any(size <= Counter(shape) for size in sizes for shape in shapes)


def _all(trace: Trace) -> int:
    """The calls of all GEMMs that are linears', whatever their precision."""
    return trace.fp8.calls + trace.other.calls + trace.unclear.calls


def _without_fp8(trace: Trace, says: _Says) -> OfTrace:
    many = trace.other.calls
    if trace.unclear.calls:
        text = f"the names of {trace.unclear.calls} GEMMs do not show their precision"
        return says.open("precision-unknown", text, BOTH)
    if trace.cut and not trace.steps:
        text = f"no FP8 GEMM before the trace ends ({trace.cut})"
        return says.open("trace-cut", text, "the whole profile")
    if trace.casts:
        text = f"{trace.casts} casts to FP8, but none of {many} GEMMs runs in FP8"
        return says("partly", "casts-only", text)
    return says("not-fp8", "no-fp8-gemms", f"none of {many} GEMMs runs in FP8")


def _of_share(trace: Trace, expected: Expected, what: str, says: _Says) -> OfTrace:
    """Compare how much runs in FP8 with what the config asks for."""
    if expected.flop_share is None:
        if trace.fp8.calls / _all(trace) >= MOST:
            text = f"{what}, forward and backward"
            if trace.other.calls:
                text += "; --config train.toml checks whether more should"
            return says("verified", "fp8-gemms", text)
        text = f"{what}; whether more should, only the config can tell"
        return says.open("share-unknown", text, CONFIG)
    least, most, unit = _measured(trace)
    asked = expected.flop_share if unit == FLOPS else expected.call_share
    if asked is None:
        text = (
            f"{what}; the trace has no shapes, which tell how much that is of experts"
        )
        return says.open("share-unknown", text, SHAPES)
    if least >= asked - TOLERANCE:
        text = f"{what}, {least:.0%} of {unit}; the config predicts {asked:.0%}"
        return says("verified", "fp8-gemms", text)
    text = f"{what}, {most:.0%} of {unit} instead of {asked:.0%}"
    if most >= asked - TOLERANCE:
        text = f"{what}, {least:.0%} to {most:.0%} of {unit}, as some names do not show"
        return says.open("precision-unknown", f"{text} their precision", BOTH)
    names = left_in_16_bit(trace, expected)
    if names:
        text += f"; in 16 bit, by their shapes: {', '.join(names)}"
    return says("partly", "share-too-small", text)


CONFIG = "the train config: --config train.toml"
SHAPES = "a profile of one training step with shapes (record_shapes=True)"
FLOPS, CALLS = "the linears' FLOPs", "the linears' GEMMs"


def _measured(trace: Trace) -> tuple[float, float, str]:
    """The least and the largest share that FP8 may have, and of what.

    Times would not do: a few slow FP8 GEMMs take most of the time.
    """
    kinds = trace.fp8, trace.other, trace.unclear
    with_shapes = all(kind.with_shapes == kind.calls for kind in kinds)
    fp8, other, unclear = (k.flops if with_shapes else k.calls for k in kinds)
    whole = fp8 + other + unclear
    unit = FLOPS if with_shapes else CALLS
    return fp8 / whole, (fp8 + unclear) / whole, unit


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
    if off := _off(mentions):
        return off
    proof = _last(mentions, "proves")
    claim = _last(mentions, "claims")
    steps = sum(len(curve) for log in logs for curve in log.starts)
    counted = proof[1].count if proof else None
    asked_for = expected.modules or 0
    if proof and counted and steps and counted == asked_for:
        text = f"the log counts {counted} converted linears, as the config asks"
        return _said("verified", "linears-counted", text, *proof)
    if asked is False and not claim and not proof:
        text = "16 bit was asked for, and no line of the log speaks of FP8"
        return OfTrace("not-fp8", Reason("not-asked", text))
    profile = "a profile of one training step"
    if proof and counted is None:
        text = "the log prints converted linears, and does not count them"
        return _said("cannot-tell", "linears-printed", text, *proof, missing=profile)
    if proof:
        text = f"the log counts {counted} converted linears"
        if steps and (counted or 0) < asked_for:
            text += f", the config asks for {asked_for}"
            return _said("partly", "linears-missing", text, *proof)
        return _said("cannot-tell", "linears-counted", text, *proof, missing=profile)
    if claim:
        text = "the log claims FP8; this line is printed even if no linear is converted"
        return _said("cannot-tell", "log-claims", text, *claim, missing=profile)
    silent = asked and next(filter(None, map(_printed_by_fp8, logs)), None)
    if silent and steps:
        return OfTrace("not-fp8", silent)
    if logs and steps:
        text = f"{steps} logged steps, and no line of the log speaks of FP8"
        return OfTrace("cannot-tell", Reason("log-silent", text), profile)
    return OfTrace("cannot-tell", Reason("no-evidence", "no step was logged"), profile)


def _off(mentions: list[tuple[Log, Mention]]) -> OfTrace | None:
    """The verdict where a log says that FP8 is off, or prints a config without it."""
    if denial := _last(mentions, "denies"):
        return _said("not-fp8", "log-denies", "the log says that FP8 is off", *denial)
    declined = _last(mentions, "declines")
    if declined and all(mention.says == "declines" for _, mention in mentions):
        text = "the config that the log prints has FP8 off"
        return _said("not-fp8", "not-asked", text, *declined)
    return None


def _printed_by_fp8(log: Log) -> Reason | None:
    """Say which line a log lacks that its trainer prints whenever FP8 is turned on."""
    trainer = patterns.known().get(log.trainer)
    if trainer is None or not log.began or _of_last_start(log):
        return None
    line = next((line for line in trainer.lines if line.always), None)
    if line is None:
        return None
    words = line.triggers[0].decode()
    text = (
        f'the log has no line "{words.strip()}", which {trainer.title} prints whenever '
        "it converts linears to FP8"
    )
    return Reason("line-missing", text, log.path)


def _of_last_start(log: Log) -> list[Mention]:
    """The lines on FP8 since the first step of the start before the last one."""
    began = [curve.line for curve in log.starts if len(curve)]
    return [one for one in log.mentions if len(began) < 2 or one.line > began[-2]]


def _restarted_without(logs: Sequence[Log]) -> Reason | None:
    """Say where a log speaks of FP8 after an earlier start, and not after the last."""
    for log in logs:
        ends = [curve.line for curve in log.starts if len(curve)]
        lines = [one.line for one in log.mentions if one.says in ("claims", "proves")]
        if len(ends) > 1 and lines and max(lines) < ends[-2]:
            text = "the run was started again, and from then on no line speaks of FP8"
            return Reason("restarted-without-fp8", text, log.path, ends[-1])
    return None


def _in_16_bit(logs: Sequence[Log]) -> Reason | None:
    """Say which log names another precision than FP8, although another log has FP8."""
    named = [
        (log, log.settings["precision"]) for log in logs if "precision" in log.settings
    ]
    if any(precision == "fp8" for _, precision in named):
        for log, precision in named:
            if precision != "fp8":
                text = (
                    f"this log says that the precision is {precision}, another one fp8"
                )
                return Reason("logs-differ", text, log.path)
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
            Reason(
                "asked",
                f"the config asks for {what}",
                expected.path,
                expected.line,
            )
        ]
    for log in logs:
        precision = log.settings.get("precision")
        if precision:
            text = f"the log says that the precision is {precision}"
            return precision == "fp8", [Reason("asked", text, log.path)]
    for log, mention in mentions:
        if mention.says != "declines":
            text = "the log speaks of FP8"
            if mention.says == "asks":
                text = f"the log asks for FP8: {mention.text.strip()}"
            return True, [Reason("asked", text, log.path, mention.line)]
    for log, mention in mentions:
        text = f"the config that the log prints asks for 16 bit: {mention.text.strip()}"
        return False, [Reason("asked", text, log.path, mention.line)]
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
