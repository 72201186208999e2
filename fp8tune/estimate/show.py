"""Print an estimate for people, at 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from fp8tune.estimate.grid import Cell, Saving
from fp8tune.estimate.predict import Prediction
from fp8tune.estimate.refusals import LEFT_OUT, Refusal
from fp8tune.estimate.table import TINY, figure, gib_mark, grid_lines, small, wrapped
from fp8tune.estimate.target import ASSUMED
from fp8tune.estimate.whole import Estimate
from fp8tune.facts.calibration import Band
from fp8tune.facts.gaps import why
from fp8tune.facts.memory.verdict import (
    FITS,
    FULLEST,
    MAY_NOT_FIT,
    OUT,
    PLAIN,
    PROBABLY_OUT,
    RAN_OUT,
    SEGMENTS,
    TOO_MUCH,
)
from fp8tune.words import plain

MOMENTS = {
    "init": "while the model is built",
    "loss": "while the loss is computed",
    "backward": "in the backward pass",
    "optimizer step": "in the optimizer step",
}
"""The moment of the peak in words; others are called ``at the NAME``."""

EXAMPLE = 16
"""Number of GPUs that messages give as an example."""


def text(path: str, found: Estimate) -> Iterator[str]:
    """Yield the lines of an estimate."""
    said = found.said
    yield plain(path)
    yield ""
    yield from _target(found)
    if found.extra:
        keys = ", ".join(f"`{key}`" for key in found.extra)
        yield from wrapped(plain(f"{LEFT_OUT}: {keys} (extra-keys)"))
    yield from _refused(path, said)
    for reason in found.fp8_off:
        yield from _failure(path, reason, "FP8 is off")
    if not said.impossible:
        yield from _memory(found)
    yield from _elsewhere(found)
    if not said.impossible and not said.too_much:
        yield from _speed(found)
    if not said.does_not_fit:
        yield from _pays(found)
        yield from _gemms(found)
    yield from grid_lines(found.in_reach)
    yield from _advice(found)


def not_covered(path: str, found: Estimate, why: str) -> Iterator[str]:
    """Yield the lines for a trainer without estimate: why, and what refuses the run."""
    yield plain(path)
    yield ""
    yield from _refused(path, found.said)
    for reason in found.fp8_off:
        yield from _failure(path, reason, "FP8 is off")
    yield from wrapped(why)


def _target(found: Estimate) -> Iterator[str]:
    """Yield the GPUs that it is for, and who says so."""
    gpu, size, by_gpu, by_size, *_ = found.target
    if not gpu and not size:
        return
    words = f"GPUs: {size or 'any number'}{f' x {gpu}' if gpu else ' of any kind'}"
    if by_size == ASSUMED:
        other = found.world_sizes.get(EXAMPLE)
        tried = found.world_sizes and (other is None or other.impossible)
        fails = tried or EXAMPLE % size
        another = "--world-size N names another"
        advice = another if fails or size == EXAMPLE else f"add --world-size {EXAMPLE}"
        words += f"; the number is assumed: {advice}"
    elif by := " and ".join(dict.fromkeys(filter(None, (by_size, by_gpu)))):
        words += f", by {by}"
    yield from wrapped(plain(words))


def _refused(path: str, said: Prediction) -> Iterator[str]:
    for refusal in said.refused:
        fails = "this run fails, whatever memory it needs"
        if refusal.voids or refusal.lead == LEFT_OUT:
            fails = "this " * refusal.voids + refusal.lead
        yield from _failure(path, refusal, fails)


def _failure(path: str, refusal: Refusal, what: str) -> Iterator[str]:
    """Yield a finding of lint, where it points, and its help."""
    yield from wrapped(f"{what}: {refusal.message} ({refusal.rule})")
    if refusal.argument:
        yield f"  --> {plain(path)}: command line: {plain(refusal.argument)}"
    elif refusal.line:
        yield f"  --> {plain(path)}:{refusal.line}:{refusal.column}"
    if refusal.help:
        yield from wrapped(refusal.help, "  help: ", "    ")


def memory_of(found: Estimate) -> Iterator[str]:
    """Yield the lines on memory: the GPUs, the peak with its parts, and the fit."""
    yield from _target(found)
    yield from _refused("", found.said)
    yield from _memory(found)


def _memory(found: Estimate) -> Iterator[str]:
    said, gpu = found.said, found.target.gpu
    memory = said.memory
    where = f"GPU{' of the first stage' if said.first_stage else ''}"
    if memory:
        digits = 1 if memory.value >= TINY else 4
        band = f"{memory.low:.{digits}f} to {memory.high:.{digits}f}"
        peak = f"{memory.value:.{digits}f} GiB per {where}"
        when = MOMENTS.get(str(said.peak_at), f"at the {said.peak_at}")
        yield from wrapped(f"memory: {peak} ({band}), {when}")
        parts = {n: f"{gib:.{digits}f}" for n, gib in said.breakdown_gib.items()}
        shown = [f"{name} {gib}" for name, gib in parts.items() if float(gib)]
        yield from wrapped(", ".join(shown), "  ", "  ")
        yield from _by_runs(memory)
    else:
        reason = why(said.missing, "memory.peak_gib", gpu, found.words)
        if said.least_gib:
            reason = f"; {reason.removeprefix(': ')}"
            known = f"at least {said.least_gib:.1f} GiB per {where}"
        else:
            known = "unknown"
        yield from wrapped(f"memory: {known}{reason}")
    if memory or said.least_gib:
        yield from wrapped(f"fit: {said.fit.replace('-', ' ')}{_why_fit(found)}")
    if said.needs_segments:
        yield from wrapped(
            f"{SEGMENTS} is assumed, so set it: published runs that fill more than "
            f"{PLAIN:.0%} of a GPU do",
            "  - ",
            "    ",
        )


def _why_fit(found: Estimate) -> str:
    """Return the basis of a verdict, in brackets."""
    said = found.said
    if said.fit == "unknown":
        return _reason(found, "memory.fit", "memory.peak_gib")
    if said.gpu_gib is None:
        return ""
    has = f"the GPU has {said.gpu_gib:.0f} GiB"
    usable = f"{FULLEST * said.gpu_gib:.0f} are usable"
    left = "the rest is for the CUDA context, NCCL and unused blocks"
    room = f"{has}, of which {usable}; {left}"
    words: dict[str, str] = {
        FITS: room,
        MAY_NOT_FIT: room,
        PROBABLY_OUT: f"{has}; a published run ran out of memory at "
        f"{RAN_OUT * said.gpu_gib:.0f}",
        OUT: has,
    }
    return f" ({words[said.fit]})"


def _by_runs(band: Band) -> Iterator[str]:
    count = band.runs or band.beside
    runs = f"{count} measured run{'s' * (count != 1)}"
    if band.runs:
        yield f"  (corrected by {band.factor:.3f} from {runs} of similar configs)"
    elif band.factor != 1:
        yield f"  (corrected by {band.factor:.3f} from {runs} of other configs)"
    elif band.beside:
        yield "  (the range includes the errors of measured runs of other configs)"


def _elsewhere(found: Estimate) -> Iterator[str]:
    """Yield the verdicts on other targets if the config's own is not known."""
    if found.world_sizes:
        yield "  GPUs      " + "".join(f"{size:>8}" for size in found.world_sizes)
        few = small(found.world_sizes.values())
        cells = [gib_mark(said, few) for said in found.world_sizes.values()]
        yield "  GiB each  " + "".join(f"{cell:>8}" for cell in cells)
        fails = [one.message for s in found.world_sizes.values() for one in s.refused]
        if "no" in cells:
            yield from wrapped(f"no: {fails[0]}", "  ", "    ")
    for verdict, names in found.gpus.items():
        said = f"{verdict.replace('-', ' ')}: {', '.join(names)}"
        yield from wrapped(said, "  ", "    ")


def _reason(found: Estimate, fact: str, before: str) -> str:
    """Return why a fact is unknown, in short if the line before said so of another."""
    missing, gpu = found.said.missing, found.target.gpu
    reason, said = (why(missing, name, gpu, found.words) for name in (fact, before))
    again = reason == said and not reason.startswith(": add ")
    return ", for the same reason" if reason and again else reason


def _speed(found: Estimate) -> Iterator[str]:
    said, speed = found.said, found.said.speed
    if speed is None:
        facts = "speed.tokens_per_second", "memory.peak_gib"
        yield from wrapped(f"speed: unknown{_reason(found, *facts)}")
        return
    band = f"{speed.low:,.0f} to {speed.high:,.0f}"
    yield f"speed: {speed.value:,.0f} tokens/s over all GPUs ({band})"
    if said.small_nodes:
        yield "  (one node of 8; the lower end is two nodes of 4: add --gpus-per-node)"
    yield from _by_runs(speed)


def _pays(found: Estimate) -> Iterator[str]:
    said = found.said
    gain = ": it is off in this run" if found.fp8_off else ""
    if said.fp8_gain is not None and said.pays != "no":
        band = f"{said.fp8_gain_low:.2f} to {said.fp8_gain_high:.2f}"
        gain = f": {said.fp8_gain:.2f} times bf16 ({band})"
        if said.best_published and said.fp8_gain > said.best_published:
            best = f"{said.best_published:.2f}"
            gain += (
                f"; the best published gain of {said.engine} at this hidden size is "
                f"{best} ({said.best_published_run})"
            )
    elif said.pays == "unknown":
        gain = _reason(found, "speed.fp8_gain", "speed.tokens_per_second")
    if said.impossible and said.pays == "unknown":
        return
    here = "here, if it fits" if said.too_much else "here"
    yield from wrapped(f"does FP8 pay {here}? {said.pays}{gain}")
    for clause in found.gain_words:
        yield from wrapped(clause, "  - ", "    ")
    refused = [refusal.message for refusal in said.refused]
    for reason in (reason for reason in said.reasons if reason not in refused):
        yield from wrapped(reason, "  - ", "    ")


def _gemms(found: Estimate) -> Iterator[str]:
    if not found.gemms:
        return
    yield ""
    where = "  on H100" if any(row["speedup"] for row in found.gemms) else ""
    yield f"{'GEMM':<12}{'M':>8}{'K':>8}{'N':>8}{'count':>7}{'FLOPs':>8}{where}"
    for row in found.gemms:
        sizes = "".join(f"{row[key] or '':>8}" for key in ("m", "k", "n"))
        share = f"{row['flop_share']:.1%}"
        kept = "FP8, not measured" if row["fp8"] else "stays bf16"
        gain = f"FP8 {row['speedup']:.2f} x" if row["speedup"] else kept
        yield f"{row['name']:<12}{sizes}{row['count'] or '':>7}{share:>8}  {gain}"
    yield "FLOPs: share of a step's, with what activation checkpointing repeats"


def _advice(found: Estimate) -> Iterator[str]:
    best = found.start
    if best is not None:
        kept = best.precision == found.precision
        kind = " (the config's)" if kept else f" ({found.precision} cannot run)"
        first = "start with" if best.tokens else "the largest of these that fits is"
        yield ""
        yield from wrapped(f"{first} {_setting(best, kind)}")
    if found.preferred is not None:
        pays = "pays" if found.preferred.precision == "fp8" else "does not pay"
        unsaid = best if found.said.pays == "unknown" else None
        reasons = unsaid.prediction.reasons[:1] if unsaid else []
        where = f"here ({reasons[0]})" if reasons else "here"
        other = _setting(found.preferred)
        yield from wrapped(f"or, because FP8 {pays} {where}, {other}")
    if found.instead:
        yield ""
        known = found.said.fit != "unknown"
        none = "none of these is certain to fit" if known else "to be certain to fit"
        yield from wrapped(f"{none}: {found.instead}")
    if best is None and not found.instead and found.cells:
        yield ""
        yield from wrapped(_no_start(found))
    if found.fuller:
        yield ""
        yield from wrapped(
            "the GPUs use little memory and wait for communication most of a step: "
            f"{found.fuller}"
        )
    if found.savings:
        yield ""
        other = f" in {best.precision}" if best and found.said.impossible else ""
        yield f"what frees memory{other}:"
        for saving in found.savings:
            yield from wrapped(
                f"{saving.freed_gib:5.1f} GiB  {saving.change}{_left(saving)}",
                "  ",
                " " * 13,
            )


def _left(saving: Saving) -> str:
    """Return the peak after a change if it may still be too much."""
    if saving.fit not in (MAY_NOT_FIT, *TOO_MUCH):
        return ""
    return f" (leaves {figure(saving.peak_gib)}: {saving.fit.replace('-', ' ')})"


def _no_start(found: Estimate) -> str:
    """Return why there is no setting to start with."""
    cells = [cell.prediction for cell in found.cells]
    if all(said.impossible for said in cells):
        return "no starting point: no micro-batch, AC mode or precision can run"
    known = any(said.memory for said in cells)
    fact = "memory.fit" if known else "memory.peak_gib"
    missing = next((said.missing for said in cells if fact in said.missing), {})
    reason = why(missing, fact, found.target.gpu, found.words)
    if not known:
        said = why(found.said.missing, fact, found.target.gpu, found.words)
        what = "no starting point, because the memory of all settings is unknown"
        return what + reason * (reason != said)
    return f"no starting point, because none of these is known to fit{reason}"


def _setting(cell: Cell, kind: str = "") -> str:
    """Return a cell of the grid in words; ``kind`` follows its precision."""
    peak, speed = cell.prediction.memory, f", {cell.tokens:,.0f} tokens/s"
    return (
        f"{cell.precision}{kind}, micro-batch {cell.micro_batch}, accumulation "
        f"{cell.grad_accum}, AC {cell.ac}: {figure(peak.value if peak else 0)} GiB"
        f"{speed if cell.tokens else ''}"
    )
