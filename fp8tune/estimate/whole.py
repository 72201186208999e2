"""The whole estimate of one config."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fp8tune.config.reader import Config
from fp8tune.estimate.gain_range import GainRange, gain_range, gain_words
from fp8tune.estimate.grid import (
    Cell,
    Saving,
    Variants,
    grid,
    in_reach,
    preferred,
    savings,
    start,
)
from fp8tune.estimate.predict import Prediction, gemms
from fp8tune.estimate.refusals import Refusal, as_typed
from fp8tune.estimate.target import assumed, by_gpu, by_world_size
from fp8tune.facts.calibration import Band
from fp8tune.facts.gaps import TOO_MUCH, of_trainer, open_value, why
from fp8tune.facts.gpus import find, largest
from fp8tune.facts.memory.verdict import FITS, SEGMENTS
from fp8tune.job import Job, Target, Unknown
from fp8tune.trainers.about import About, trainers
from fp8tune.trainers.trainer import Trainer
from fp8tune.words import shown

_GPU = ("gpu", "gpu.memory_gib")
EXAMPLE = "h200"
"""The GPU of which most is known."""


class Estimate(NamedTuple):
    """The prediction of a config, of its variants, and on other GPUs.

    ``world_sizes`` has predictions if the number of GPUs is not said, ``gpus`` (by
    verdict) if the GPU's memory is not known. ``instead`` says what would fit if no
    cell of the grid does, ``fuller`` what more tokens per GPU would give if nearly
    empty GPUs wait for each other, ``fp8_off`` why nothing computes in FP8 although it
    is asked for, ``words`` what this trainer calls what is missing, ``extra`` the
    keys of a fork that it leaves out. ``target`` is what is estimated; ``precision``
    is the config's own. ``in_reach`` are the cells to show. ``start`` keeps the
    precision if it can run; ``preferred`` has the other one if the verdict on FP8
    prefers it. ``gain_range`` is FP8's gain over what unknown settings may be,
    and ``gain_words`` says it.
    """

    target: Target
    precision: str
    said: Prediction
    world_sizes: dict[int, Prediction]
    gpus: dict[str, list[str]]
    gemms: list[dict[str, Any]]
    cells: list[Cell]
    in_reach: list[Cell]
    start: Cell | None
    preferred: Cell | None
    instead: str
    savings: list[Saving]
    fuller: str = ""
    fp8_off: list[Refusal] = []
    words: dict[str, str] = {}
    extra: tuple[str, ...] = ()
    gain_range: GainRange | None = None
    gain_words: tuple[str, ...] = ()


def placed(
    variants: Variants, titled: tuple[int, int]
) -> tuple[Variants, dict[int, Prediction]]:
    """Return a config on its GPUs; if their number is not said, also on others."""
    if variants.target.world_size:
        return variants, {}
    sizes = by_world_size(variants)
    return assumed(variants, sizes, titled), sizes


def estimate(variants: Variants, titled: tuple[int, int] = (0, 0)) -> Estimate:
    """Estimate one config.

    ``titled`` is how many GPUs the file's title names, and on which line.
    """
    precision = variants.job.find("precision") or ""
    variants, sizes = placed(variants, titled)
    job = variants.job
    said = _judged(variants)
    cells = grid(variants)
    runs = not all(cell.prediction.impossible for cell in cells)
    best = start(cells, precision)
    unknown = said.pays == "unknown" and not said.does_not_fit and not said.impossible
    possible = gain_range(job) if unknown else None
    words = gain_words(possible) if possible else ()
    return Estimate(
        target=variants.target,
        precision=precision,
        said=said._replace(missing=_asked(job, said.missing)),
        world_sizes=sizes,
        gpus=by_gpu(job, said) if said.missing.get("memory.fit") in _GPU else {},
        gemms=gemms(job) if runs and not variants.fp8_off else [],
        cells=cells,
        in_reach=in_reach(cells, job),
        start=best,
        preferred=best and preferred(cells, best.precision, best.prediction.pays),
        instead="" if best else as_typed(_instead(job, said), job),
        savings=_savings(variants, said, best),
        fuller=as_typed(_fuller(job), job),
        fp8_off=variants.fp8_off,
        words=_words(variants, [said, *(cell.prediction for cell in cells)]),
        extra=variants.loaded.extra,
        gain_range=possible,
        gain_words=tuple(as_typed(text, job) for text in words),
    )


def alone(variants: Variants, titled: tuple[int, int] = (0, 0)) -> Estimate:
    """Estimate one config without variants of it; ``titled`` as for ``estimate``."""
    variants, sizes = placed(variants, titled)
    said = variants.predict({})
    return Estimate(
        target=variants.target,
        precision=variants.job.find("precision") or "",
        said=said._replace(missing=_asked(variants.job, said.missing)),
        world_sizes=sizes,
        gpus={},
        gemms=[],
        cells=[],
        in_reach=[],
        start=None,
        preferred=None,
        instead="",
        savings=[],
        words=_words(variants, [said]),
    )


def uncovered(of: Trainer) -> str:
    """Return why there is no estimate for a trainer, and for which there is one."""
    if not of.about.no_estimate:
        return ""
    others = [about.title for about in trainers().values() if not about.no_estimate]
    listed = f"{', '.join(others[:-1])} and {others[-1]}"
    reason = of.about.no_estimate
    return f"estimate does not cover {of.about.title}: {reason}; it covers {listed}"


def _fuller(job: Job) -> str:
    """Return what more tokens per GPU would give, if lint advises it."""
    alone = all(job.find(name) == 1 for name in ("tp", "pp", "grad_accum"))
    if alone and job.find("instead.nearly_empty"):
        return str(job.find("instead.fuller") or "")
    return ""


def _savings(variants: Variants, said: Prediction, best: Cell | None) -> list[Saving]:
    """Return what frees memory, in the precision of the setting to start with."""
    if best is None or not said.impossible:
        found = savings(variants, said)
    else:
        in_other = variants.predict({"precision": best.precision})
        found = savings(variants, in_other, best.precision)
    return [one._replace(change=as_typed(one.change, variants.job)) for one in found]


def _instead(job: Job, said: Prediction) -> str:
    """Return what lint would set if nothing fits; of a family of GPUs, on the largest.

    Memory that measured runs add counts as if the GPU had that much less.
    """
    if said.fit == FITS or (said.memory is None and not said.too_much):
        return ""
    member = largest(job["gpu"]) if "gpu" in job and said.fit == "unknown" else ""
    job = job.on_gpu(member) if member else job
    high = said.memory.high if said.memory else 0.0
    by = max(1.0, high / (job.find("memory.high_gib") or math.inf))
    names = ("gpu.memory_gib", "gpu.memory_limit_gib")
    limits = {name: (job.find(name) or 0.0) / by for name in names}
    if by > 1:
        job = job.with_values({name: gib for name, gib in limits.items() if gib})
    advice = str(job.find("memory.advice") or "")
    if not advice or job.find("memory.fit") == FITS:
        return ""
    note = "; its GiB leave out the correction from measured runs"
    where = f"on {member}, the largest, " if member else ""
    return where + advice + (note if by > 1 and " GiB" in advice else "")


def _words(variants: Variants, predicted: list[Prediction]) -> dict[str, str]:
    """Return what to say of unknown facts: the trainer's words, or the keys to set."""
    job, about = variants.job, variants.trainer.about
    missing = {name: fact for said in predicted for fact, name in said.missing.items()}
    return {name: _word(name, fact, job, about) for name, fact in missing.items()}


def _word(name: str, fact: str, job: Job, about: About) -> str:
    gap = of_trainer(name, about.title, about.advice)
    words = about.missing.get(name) or gap or _key(name, fact, job, about)
    return as_typed(words, job)


def why_unknown(fact: str, config: Config) -> str:
    """Return why a fact has no value in a config; empty if it has one."""
    about, job = config.trainer.about, config.job
    name = lacking(job, fact)
    if name and (reason := uncovered(config.trainer)):
        return reason
    name = _asked(job, {fact: name})[fact] if name else ""
    words = {name: _word(name, fact, job, about)} if name else {}
    return why({fact: name}, fact, job.target.gpu, words).removeprefix(": ")


def _key(name: str, fact: str, job: Job, about: About) -> str:
    """Return which keys to set, or whose value is not known; empty if it is none."""
    key = job.key(name)
    part, _, inner = key.partition(".")
    section = part if part in about.parts else ""
    written = inner if section else key
    if key in job.written:
        if not_before_the_run := open_value(job, key):
            return not_before_the_run
        return f"fp8tune does not know `{written} = {shown(job.find(key))}`"
    if not job.can_set(key):
        return ""
    heads = {each.partition(".")[0] for each in job.written}
    present = section in heads if section else heads - about.parts.keys()
    absent = "" if present else about.advice.get(f"file.{section}", "")
    unset = [] if section else sorted(_unset(fact, job))
    *more, last = [f"`{one}`" for one in unset or [written]]
    listed = f"{', '.join(more)} and " * bool(more)
    elsewhere = about.advice.get("unset", "") * (len(more) > 2)
    return absent or f"set {listed}{last}{elsewhere}"


def _unset(name: str, job: Job) -> list[str]:
    """Return all keys that a fact needs and that the file does not set.

    What a function asks of the whole job is found one by one, each taken to be off.
    """
    key = job.words.key(name)
    missing = lacking(job, key)
    source = job.words.computed.get(key)
    if not missing:
        return []
    if source is None:
        return [key] if job.can_set(key) and key not in job.written else []
    found: dict[str, None] = {}
    for each in source.required:
        found |= dict.fromkeys(_unset(each, job))
    asked = job.key(missing)
    while source.of_job and asked in job.words.keys and asked not in found:
        found[asked] = None
        job = job.with_values({asked: False})
        asked = job.key(lacking(job, key) or missing)
    return list(found)


def _asked(job: Job, missing: dict[str, str]) -> dict[str, str]:
    """Return what is missing; ``gpu`` only if naming one would help."""
    names = find(job["gpu"]).members if "gpu" in job else (EXAMPLE,)
    jobs = [job.on_gpu(name) for name in names]
    lacks = {fact: [lacking(other, fact) for other in jobs] for fact in missing}
    return {
        fact: name
        if not jobs or name == TOO_MUCH
        else "gpu"
        if "" in lacks[fact]
        else lacks[fact][0]
        for fact, name in missing.items()
    }


def lacking(job: Job, fact: str) -> str:
    """Return the name that ``Unknown`` carries for a fact; empty if it has a value."""
    try:
        job[fact]
    except Unknown as error:
        return str(error.args[0])
    return ""


def _bound(job: Job) -> list[str]:
    """Return an upper bound of FP8's gain in words, where adapters leave it unknown.

    Or where the file does not say whether FP8 is on. Training all weights has FP8
    products that adapters do not need, so its bound holds for them too.
    """
    if job.find("fp8.limit") is not None:
        return []
    try:
        whole = job.with_values({"precision": "fp8", "whole_model": True})
        words = f"upper bound: {whole['fp8.limit']:.2f}x"
    except Unknown:
        return []
    adapters = lacking(job, "whole_model") == "model.adapter"
    lower = " (lower with adapters)" * adapters
    return [f"{words}{lower}, if FP8 halves the time of its GEMMs"]


def _judged(variants: Variants) -> Prediction:
    """Return the config's own prediction; FP8 does not pay if it cannot run."""
    said = variants.predict({})
    if said.does_not_fit or variants.fp8_off:
        return said
    if said.pays == "unknown" and not said.reasons:
        said = said._replace(reasons=_bound(variants.job))
    fp8, bf16 = (variants.refusals({"precision": name}) for name in ("fp8", "bf16"))
    against = [one.message for one in fp8 if one.voids and one not in bf16]
    if not against or any(one.voids for one in bf16):
        return said
    return said.without_gain("no", against)


def as_json(found: Estimate) -> dict[str, Any]:
    """Return the estimate as one object; unknown figures are null."""
    said = found.said
    return {
        "version": 1,
        "target": _target(found.target),
        "refused": [refusal.as_json() for refusal in said.refused],
        "memory": memory_json(said),
        "speed": speed_json(said)
        | {"fp8_gain_range": found.gain_range and found.gain_range._asdict()},
        "fit": said.fit,
        "fit_assumes": SEGMENTS if said.needs_segments else None,
        "fp8_pays": said.pays,
        "reasons": said.reasons,
        "missing": said.missing,
        "world_sizes": [
            {"world_size": size, **_short(one)}
            for size, one in found.world_sizes.items()
        ],
        "gpus": found.gpus,
        "gemms": found.gemms,
        "grid": [_cell(cell) for cell in found.cells],
        "precision": found.precision,
        "start": _cell(found.start) if found.start else None,
        "preferred": _cell(found.preferred) if found.preferred else None,
        "instead": found.instead or None,
        "savings": [saving._asdict() for saving in found.savings],
        "fuller": found.fuller or None,
        "fp8_off": [reason.as_json() for reason in found.fp8_off],
        "extra_keys": list(found.extra),
    }


def _target(target: Target) -> dict[str, Any]:
    """Return the target as JSON; unknown values are null."""
    return {
        "gpu": target.gpu or None,
        "world_size": target.world_size or None,
        "world_size_by": target.world_size_origin or None,
        "gpus_per_node": target.gpus_per_node or None,
    }


def memory_json(said: Prediction) -> dict[str, Any]:
    """Return the predicted memory as JSON."""
    memory = _band(said.memory)
    return {
        "peak_gib": memory["value"],
        "low_gib": memory["low"] or said.least_gib,
        "high_gib": memory["high"],
        "at": said.peak_at,
        "usable_gib": said.usable_gib,
        "breakdown_gib": said.breakdown_gib,
        "calibration": memory["calibration"],
    }


def speed_json(said: Prediction) -> dict[str, Any]:
    """Return the predicted speed as JSON."""
    speed = _band(said.speed)
    return {
        "tokens_per_second": speed["value"],
        "low": speed["low"],
        "high": speed["high"],
        "calibration": speed["calibration"],
        "fp8_gain": said.fp8_gain,
        "fp8_gain_low": said.fp8_gain_low,
        "fp8_gain_high": said.fp8_gain_high,
        "fp8_gain_published": said.best_published,
        "fp8_engine": said.engine,
        "fp8_gain_suspicious": said.suspicious,
        "fp8_flop_share": said.fp8_flop_share,
    }


def _band(band: Band | None) -> dict[str, Any]:
    if band is None:
        return dict.fromkeys(("value", "low", "high", "calibration"))
    runs = {"runs": band.runs, "beside": band.beside, "factor": band.factor}
    used = runs if band.runs or band.beside else None
    ends = {"value": band.value, "low": band.low, "high": band.high}
    return {**ends, "calibration": used}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        **cell.values,
        **_short(cell.prediction),
        "tokens_per_second": cell.tokens or None,
    }


def _short(said: Prediction) -> dict[str, Any]:
    peak = said.memory.value if said.memory else None
    refused = [one.rule for one in said.refused if one.voids]
    return {"peak_gib": peak, "fit": said.fit, "refused": refused}
