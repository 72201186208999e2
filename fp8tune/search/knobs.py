"""The knobs that a search may turn: what the trainer has, what is tried, and why not.

A trainer's ``[[knob]]`` name roles, values and what a value needs; ``TRAITS`` say what
the search may assume of a role. Here both meet a config: a knob is offered if the
trainer has it for this config, and it is free unless its role is frozen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import sub, truediv
from typing import Any, NamedTuple

from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.config.reader import Config
from fp8tune.estimate.whole import why_unknown
from fp8tune.facts.gpus import UnknownGpu, find, resolve
from fp8tune.formats.values import same
from fp8tune.job import DEGREES, Job, Unknown
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.search import CannotSearch
from fp8tune.suggest import closest
from fp8tune.trainers.trainer import Trainer
from fp8tune.trials.space import TRAITS, Knob, Point, Space, Traits, traits_of

MAX_BATCH = 256
NODE = 8
"""GPUs that NVLink connects in a DGX H100 or H200, where nothing else is said."""
OF_TRAINERS = "fp8tune's own trial cannot run it; --runner trainer can"
"""Why a knob is kept that only the trainer itself has."""
MOST_POINTS = 20_000
"""Settings that a search may span: the estimate predicts each of them."""


class Offer(NamedTuple):
    """A knob that a config's trainer has, and the values that could be tried.

    ``why`` says why the search keeps the config's value, ``""`` if it varies the knob,
    and ``freed_by`` which option would have it varied, if one would. ``needs`` is a
    condition on the job, without which it has its first value.
    """

    knob: Knob
    why: str = ""
    needs: str = ""
    freed_by: str = ""

    @property
    def traits(self) -> Traits:
        """What the search may assume of it."""
        return self.knob.traits


def offers(
    config: Config,
    allow: Sequence[str],
    device: str,
    gpu: str = "",
    *,
    builtin: bool = True,
) -> list[Offer]:
    """Return the knobs of a config's trainer, in the trainer's order.

    ``gpu`` is the driver's name of the GPU that runs the trials, ``builtin`` says that
    fp8tune's own trial runs them. Raises ``CannotSearch`` where ``allow`` has an
    unknown name, or a knob that no trial here runs.
    """
    job, no_fp8 = config.job, _why_no_fp8(config, gpu, builtin=builtin)
    if is_freed(config.trainer, "precision", allow) and not no_fp8:
        job = in_fp8(job)
    every = (role for role in config.trainer.knobs if config.trainer.key_of(role))
    roles = [role for role in every if _exists(job, role)]
    offered = [
        _offer(config, job, role, allow, device, no_fp8, builtin) for role in roles
    ]
    free = {
        offer.traits.group or offer.knob.role
        for offer in offered
        if offer.freed_by != "--runner" and device in offer.traits.frozen_on
    }
    check_allowed(_names(config.trainer), allow, [*sorted(free), "warmup"])
    for offer in offered:
        role, key = offer.knob.role, offer.knob.key
        if offer.freed_by == "--runner" and (named := {role, key}.intersection(allow)):
            raise CannotSearch(f"--allow {named.pop()}: {offer.why}")
    return offered


def _offer(
    config: Config,
    job: Job,
    role: str,
    allow: Sequence[str],
    device: str,
    no_fp8: str,
    builtin: bool,
) -> Offer:
    """Return a knob of a config; ``job`` is in FP8 if the search may be.

    ``no_fp8`` says why it may not be.
    """
    traits, freed = traits_of(role), is_freed(config.trainer, role, allow)
    values, why, freed_by = (), "", ""
    try:
        values = _values(config, job, role, no_fp8)
    except Unknown as missing:
        gpus = "the number of GPUs is not known: --world-size N"
        fact = gpus if str(missing) == "world_size" else f"{missing} is not known"
        field = str(missing).partition(".")[0]
        why = why_unknown(role, config) or why_unknown(field, config) or fact
    needs, need = config.trainer.knobs[role].needs, None
    try:
        need = _condition(config, needs)
    except ExpressionError as error:
        needs, why = "", f"its condition `{needs}` cannot be checked: {error}"
    of_trainers, jobs = builtin and not traits.spec, [config.job, job]
    if is_freed(config.trainer, "precision", allow):
        with suppress(Unknown):
            jobs.append(config.job.with_values({"precision": "bf16"}))
    kept = not freed and device in traits.frozen_on
    if not why and len(values) < 2 and (freed or not traits.by_default):
        why = why_single(role, no_fp8)
    elif not why and (of_trainers or kept) and not _met(need, jobs, role, values):
        why = _lacks(role, needs)
    elif not why and of_trainers:
        why, freed_by = OF_TRAINERS, "--runner"
    elif not why and kept:
        freed_by = "--allow"
        why = f"it changes {traits.changes}" if traits.changes else "not asked for"
    knob = Knob(config.trainer.key_of(role), values, role, frozen=bool(why))
    return Offer(knob, why, needs, freed_by)


def _met(
    need: Expression | None, jobs: Sequence[Job], role: str, values: Sequence[Any]
) -> bool:
    """Return whether the need of a knob is met, or may be, at another of its values."""
    others = [value for value in values if not _same(value, jobs[0].find(role))]
    try:
        changed = [job.with_values({role: value}) for job in jobs for value in others]
        return not (need and others) or any(map(need.evaluate, changed))
    except Unknown:
        return True


def _lacks(role: str, needs: str) -> str:
    """Return why a knob stays whose need is not met; that of `precision` is FP8's."""
    return f"{'FP8' if role == 'precision' else 'it'} needs {needs}"


def _names(trainer: Trainer) -> list[str]:
    """Return what ``--allow`` may name: roles, keys, groups, and the warmup."""
    roles = [*trainer.knobs]
    names = [*roles, *map(trainer.key_of, roles), *(traits_of(r).group for r in roles)]
    return [*dict.fromkeys([*filter(None, names), *warmup_names(trainer)])]


def is_freed(trainer: Trainer, role: str, allow: Sequence[str]) -> bool:
    """Return whether ``--allow`` names a role, its key or its group."""
    names = {role, trainer.key_of(role), traits_of(role).group} - {""}
    return not names.isdisjoint(allow)


def _exists(job: Job, role: str) -> bool:
    """Return whether a knob means something: one of FP8 does not without its FP8.

    The recipe of torchao has no value where Transformer Engine computes, and the other
    way round.
    """
    return not traits_of(role).of_fp8 or (_is_fp8(job) and job.find(role) != "")


def _is_usual(role: str) -> bool:
    """Return whether every search has the knob: varied by default, or compared."""
    return role == "precision" or traits_of(role).by_default


def _is_fp8(job: Job) -> bool:
    return bool(job.find("precision") == "fp8")


def in_fp8(job: Job) -> Job:
    """Return the job in FP8, as it is where the trainer has no such value."""
    with suppress(Unknown):
        return job if _is_fp8(job) else job.with_values({"precision": "fp8"})
    return job


def _values(config: Config, job: Job, role: str, no_fp8: str) -> tuple[Any, ...]:
    """Return the values to try, the config's own among them; raises ``Unknown``.

    Batches divide the sequences of a step, so that gradient accumulation keeps their
    number. AC modes begin with the one that keeps most and end with the one that
    keeps least. Precisions are the config's, bf16, and FP8.
    """
    listed = config.trainer.values_of(role)
    if traits_of(role).is_batch:
        rows, own = config.job.rank_sequences, config.job[role]
        batches = [n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0]
        return tuple(dict.fromkeys([*batches, own]))
    if role == "ac":
        mine = str(config.job["ac"])
        own = [] if mine in listed else [mine]
        return (*listed[:-1], *own, *listed[-1:])
    if role in DEGREES:
        return _degrees(config.job, role)
    value = _plain(job[config.trainer.knobs[role].key or role])
    if role == "precision":
        value = _plain(config.job["precision"])
        fp8 = ["fp8"] * ("fp8" in listed and not no_fp8)
        return tuple(dict.fromkeys([value, "bf16", *fp8]))
    every = listed or ([False, True] if isinstance(value, bool) else [])
    if traits_of(role).of_fp8:
        others = (each for each in every if not _same(each, value))
        return value, *(each for each in others if _can_be(job, role, each))
    present = any(_same(each, value) for each in every)
    return tuple(every) if present else (value, *every)


def _can_be(job: Job, role: str, value: Any) -> bool:
    """Return whether some keys give a job another value of a knob."""
    try:
        job.with_values({role: value})
    except Unknown:
        return False
    return True


def _degrees(job: Job, role: str) -> tuple[int, ...]:
    """Return powers of two that divide the number of GPUs, and the config's own degree.

    Tensor parallelism stays in a node, whose GPUs NVLink connects.
    """
    gpus, own = job["world_size"], int(job[role])
    most = min(gpus, job.target.gpus_per_node or NODE) if role == "tp" else gpus
    powers = (2**power for power in range(int(math.log2(most)) + 1))
    return tuple(sorted({own, *(n for n in powers if gpus % n == 0)}))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def why_single(role: str, no_fp8: str = "") -> str:
    """Return why a knob has no value but the config's own."""
    if traits_of(role).is_batch:
        return "no other value keeps the tokens of a step"
    if role == "precision":
        return no_fp8 or "the trainer has no key that turns FP8 on"
    return "it has no other value here"


def _why_no_fp8(config: Config, gpu: str, *, builtin: bool) -> str:
    """Return why a config cannot be tried in FP8; an unknown GPU may have it."""
    if builtin and (refusal := in_fp8(config.job).find("trial_refusal")):
        return f"a trial cannot represent {refusal}"
    has_fp8 = [config.job.find("gpu.fp8_matmul")]
    with suppress(UnknownGpu):
        has_fp8.append(find(resolve(gpu)).fp8_matmul if gpu else None)
    return "the GPU has no FP8" if False in has_fp8 else ""


def check_allowed(
    names: Sequence[str], allow: Sequence[str], frozen: Sequence[str] = ()
) -> None:
    """Raise ``CannotSearch`` if ``--allow`` has an unknown name."""
    for name in allow:
        if name not in names:
            groups = {traits.group for traits in TRAITS.values()}
            elsewhere = name in TRAITS or name in groups
            similar = "" if elsewhere else closest(name, names)
            what = "this trainer has " * elsewhere
            what += "no knob of that group" if name in groups else "no such knob"
            hint = f"; it can free {', '.join(frozen)}" if frozen else ""
            hint = f"; did you mean `{similar}`?" if similar else hint
            raise CannotSearch(f"--allow {name}: {what}{hint}")


def warmup_key(trainer: Trainer) -> str:
    """Return the trainer's key of the warmup: only the stability stage changes it."""
    return trainer.key_of("warmup_steps")


def warmup_names(trainer: Trainer) -> tuple[str, ...]:
    """Return the names that ``--allow`` accepts for the warmup."""
    return tuple(filter(None, ("warmup", "warmup_steps", warmup_key(trainer))))


def keys_to_free(config: Config, allow: Sequence[str], device: str) -> set[str]:
    """Return the keys that such a search may change, accumulation among them."""
    trainer = config.trainer
    roles = (
        role
        for role, traits in TRAITS.items()
        if device not in traits.frozen_on or is_freed(trainer, role, allow)
    )
    names = (*roles, "grad_accum", *allow)
    return {trainer.key_of(name) or name for name in names}


def space_of(
    config: Config, offered: Sequence[Offer]
) -> tuple[Space, tuple[Offer, ...]]:
    """Return the space of the knobs that are varied, and what is said of all of them.

    Those that a search varies by default are in it even if they are frozen here, and so
    is the precision: FP8 is compared with bf16. Points exist only where the needs of
    each knob are met, and a knob whose needs no point meets is not varied.
    """
    kept = [o for o in offered if not o.why or _is_usual(o.knob.role)]
    kept = [o._replace(knob=_without_fp8(o.knob)) for o in kept if o.knob.values]
    knobs = [offer.knob for offer in kept]
    needs = any(offer.needs for offer in kept if not offer.why)
    if not needs and all(_is_usual(knob.role) for knob in knobs):
        return Space(knobs), tuple(offered)
    count = math.prod(len(knob.values) for knob in knobs)
    if count > MOST_POINTS:
        sizes = sorted(((len(k.values), k.role) for k in knobs), reverse=True)
        each = ", ".join(f"{role} {size}" for size, role in sizes if size > 1)
        raise CannotSearch(
            f"the knobs span {count:,} settings, and a search compares at most "
            f"{MOST_POINTS:,}: free fewer with --allow; number of values: {each}"
        )
    points = list(_points(config, kept))
    used = {
        knob.role: len({point[place] for point in points})
        for place, knob in enumerate(knobs)
    }
    places = [
        place
        for place, knob in enumerate(knobs)
        if _is_usual(knob.role) or used[knob.role] > 1
    ]
    space = Space(
        [knobs[place] for place in places],
        {tuple(point[place] for place in places) for point in points},
    )
    idle = {role for role, count in used.items() if count < 2}
    return space, tuple(_idle(o) if o.knob.role in idle else o for o in offered)


def _without_fp8(knob: Knob) -> Knob:
    """Return a knob without FP8 where the search may not turn it on."""
    if knob.role != "precision" or not knob.frozen:
        return knob
    own, *others = knob.values
    return knob._replace(values=(own, *(each for each in others if each == "bf16")))


def _idle(offer: Offer) -> Offer:
    """Return the offer of a knob whose other values are possible in no setting."""
    if offer.why or len(offer.knob.values) < 2:
        return offer
    needs, why = offer.needs, "no other value is possible"
    why = _lacks(offer.knob.role, needs) if needs else why
    return offer._replace(why=why, knob=offer.knob._replace(frozen=True))


def _points(config: Config, kept: Sequence[Offer]) -> Iterator[Point]:
    """Yield the points at which every knob that is not at the config's value may be so.

    Knobs of FP8 need FP8, degrees a number of GPUs that they divide, and others what
    they say. That is asked at one micro-batch, for all of them.
    """
    knobs = [offer.knob for offer in kept]
    plain = Space(knobs)
    place = plain.batch_place
    needs = {offer.knob.key: _condition(config, offer.needs) for offer in kept}
    start = [knob.index_of(own_value(config, knob)) for knob in knobs]
    sizes = [range(1 if i == place else len(k.values)) for i, k in enumerate(knobs)]
    for point in itertools.product(*sizes):
        moved = [k for k, i, own in zip(knobs, point, start, strict=True) if i != own]
        in_bf16 = plain.value(point, "precision") not in (None, "fp8")
        if in_bf16 and any(knob.traits.of_fp8 for knob in moved):
            continue
        asked = [
            need
            for knob in moved
            if (need := needs[knob.key]) and not (in_bf16 and knob.role == "precision")
        ]
        with suppress(Unknown):
            job = config.job.with_values(plain.values(point))
            if any(knob.role in DEGREES for knob in moved):
                _ = job["shards"]
            if not all(need.evaluate(job) for need in asked):
                continue
            if place is None:
                yield point
            else:
                count = range(len(knobs[place].values))
                yield from ((*point[:place], i, *point[place + 1 :]) for i in count)


def own_value(config: Config, knob: Knob) -> Any:
    """Return the config's value of a knob; that of FP8 knobs is their first."""
    return knob.values[0] if knob.traits.of_fp8 else config.own(knob.key)


def keys_written(config: Config, knob: Knob) -> set[str]:
    """Return the config keys that other values of a knob change."""
    found: set[str] = set()
    job = config.job
    own = job.find(knob.role or knob.key)
    for value in (value for value in knob.values if value != own):
        with suppress(Unknown):
            keys = job.keys_for({knob.key: value})
            found |= {key for key in keys if not same(job.find(key), keys[key])}
    return found


def _condition(config: Config, needs: str) -> Expression | None:
    words = config.job.words
    if not needs:
        return None
    return compile_expression(needs, words.knows, ON_SCOPE, words.renamed)


class Expected(NamedTuple):
    """What the estimate expects of another value of a knob, against a setting's own.

    ``speed`` is a ratio of tokens/s, ``memory`` a difference of peaks [GiB]; both are
    ``None`` where the estimate covers no such value.
    """

    key: str
    value: Any
    speed: float | None
    memory: float | None


def expected_of_fp8(
    config: Config, offered: Sequence[Offer], values: Mapping[str, Any]
) -> list[Expected]:
    """Return what to expect of the FP8 knobs that a search kept, at a setting in FP8.

    ``values`` are the setting's, by key.
    """
    job = config.job.keep_tokens(dict(values))
    found = []
    for offer in offered:
        if not (offer.why and offer.traits.of_fp8 and _is_fp8(job)):
            continue
        for value in offer.knob.values[1:]:
            need = _condition(config, offer.needs)
            with suppress(Unknown):
                other = job.with_values({offer.knob.key: value})
                if need and not need.evaluate(other):
                    continue
                found.append(
                    Expected(
                        offer.knob.key,
                        value,
                        _compared(job, other, "speed.tokens_per_second", truediv),
                        _compared(job, other, "memory.peak_gib", sub),
                    )
                )
    return found


def _compared(
    job: Job, other: Job, fact: str, how: Callable[[float, float], float]
) -> float | None:
    before, after = job.find(fact), other.find(fact)
    return how(after, before) if before and after else None
