"""What must be known of an answer besides its figures, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from fp8tune.job import Unknown
from fp8tune.search.answer import LARGER_BUDGET, Answer
from fp8tune.search.benefit import reached
from fp8tune.search.failed import WORDS
from fp8tune.search.output import describe
from fp8tune.search.plan import Plan, rows_per_step, warmup_key
from fp8tune.search.stability import findings as stability
from fp8tune.search.statistics import SAME

UNTIED = (
    "FP8 unties the embeddings that this config ties, so its losses are not of the "
    "same model as bf16's (fp8tune explain fp8-unties-embeddings)"
)


def caveats(found: Answer, plan: Plan) -> Iterator[str]:
    """What speaks against the chosen setting, and against the given one."""
    if found.wrong_data:
        yield f"ended, as no trial can train on the data of [data]: {found.wrong_data}"
    if found.chosen != plan.baseline and reached(found).gain and not found.confirmed:
        does = f": {found.more} does" * (found.more == LARGER_BUDGET)
        yield f"not both measured again, so it may be luck{does}"
    if said := inconclusive(found):
        yield said
    if found.verdict == "same" and found.alike > SAME:
        yield f"up to {100 * found.alike:.0f} % is the same: a CPU tells no more"
    if why := found.unfit.get(plan.baseline):
        yield f"your config leaves too little memory for a long run: {why}"
    if how := found.broken.get(plan.baseline):
        yield f"your config ran once and failed in another run: {WORDS[how]}"
    if said := may_diverge(found, plan):
        yield said
    yield from _other_steps(found, plan)


def may_diverge(found: Answer, plan: Plan) -> str:
    """That what the given setting's loss did, the chosen one's may do; or ``""``."""
    points = plan.baseline, found.chosen
    values = {plan.space.value(p, "precision") for p in points if p is not None}
    alike = found.chosen is not None and len(values) == 1
    said = "the config's loss ended in NaN, and this setting learns alike: watch it"
    return said * (alike and found.given_outcome == "nan")


def inconclusive(found: Answer) -> str:
    """Why a gain that was measured on both sides is not sure; ``""`` for others."""
    if found.verdict != "inconclusive" or found.unmeasured:
        return predicted(found) if found.verdict == "inconclusive" else ""
    doubtful = stability.warning(found.learns) or not found.confirmed
    if doubtful or not reached(found).gain:
        return ""
    does = f": {found.more} makes them" * (found.more == LARGER_BUDGET)
    return f"it takes more pairs of runs to tell{does}"


def predicted(found: Answer) -> str:
    """That predicted communication decides; ``""`` where it does not."""
    if not found.unmeasured:
        return ""
    within = f"within +-{100 * found.unmeasured:.1f} %"
    why = "the time of communication is predicted, not measured, and decides here"
    return f"{why} ({within}): only runs on all GPUs tell"


def _other_steps(found: Answer, plan: Plan) -> Iterator[str]:
    """That an optimizer step has other tokens, where no accumulation keeps them."""
    if found.chosen is None:
        return
    job, chosen = plan.config.job, plan.space.values(found.chosen)
    before, after = rows_per_step(job, {}), rows_per_step(job, chosen)
    if before != after and before and after:
        change = f"{before} -> {after} sequences per rank and optimizer step"
        yield f"{change}: the learning rate and its schedule were not meant for that"


def learning(found: Answer, plan: Plan) -> Iterator[str]:
    """Whether FP8 learns as bf16 does, or that this is not known."""
    key = warmup_key(plan.config.trainer)
    for point, wrong in found.rejected.items():
        yield f"rejected: {describe(plan, point)}: {stability.verdict_line(wrong)}"
        yield from stability.warmup_lines(wrong, key)
    if found.rejected and found.chosen is None:
        yield "no FP8 setting is proposed; --allow precision lets bf16 be chosen"
    if found.learns:
        yield from stability.lines(found.learns, key)
    if said := untied(found, plan):
        yield said
    if found.unchecked:
        end = " to the end" * bool(found.learns)
        yield f"stability not checked{end}: {found.unchecked}"


def untied(found: Answer, plan: Plan) -> str:
    """That FP8 and bf16 were compared as different models; ``""`` where as one."""
    knob = plan.space.knob("precision")
    if knob is None or not (found.learns or found.rejected):
        return ""
    job = plan.config.job.with_values({knob.key: "fp8"})
    try:
        return UNTIED if job["tied_embeddings"] and not job["params.tied"] else ""
    except Unknown:
        return ""
