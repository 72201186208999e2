"""The knobs that a search may turn: what the trainer has, what is tried, and why not.

A trainer's ``[[knob]]`` name roles, values and what a value needs; ``TRAITS`` say what
the search may assume of a role. Here both meet a config: a knob is offered if the
trainer has it for this config, and it is free unless its role is frozen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fp8tune.conditions.expression import Expression, compile_expression
from fp8tune.config.reader import Config
from fp8tune.facts.gpus import UnknownGpu, find, resolve
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

    ``why`` says why the search keeps the config's value, ``""`` if it varies the knob.
    ``needs`` is a condition on the job, without which it has its first value.
    """

    knob: Knob
    why: str = ""
    needs: str = ""

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
    job = _in_fp8(config.job) if _is_freed(config.trainer, "precision", allow) else None
    offered = []
    for role, about in config.trainer.knobs.items():
        key, traits = config.trainer.key_of(role), traits_of(role)
        freed = _is_freed(config.trainer, role, allow)
        if not key or (traits.of_fp8 and not _is_fp8(job or config.job)):
            continue
        try:
            values = _values(config, job or config.job, role, gpu, freed=freed)
        except Unknown:
            continue
        why = ""
        if builtin and not traits.builtin:
            why = OF_TRAINERS
        elif not freed and device in traits.frozen_on:
            why = f"it changes {traits.changes}" if traits.changes else "not asked for"
        elif len(values) < 2 and not _is_usual(role):
            why = "it has no other value here"
        knob = Knob(key, values, role, frozen=bool(why))
        offered.append(Offer(knob, why, about.needs))
    frozen = (o for o in offered if o.why and o.why != OF_TRAINERS)
    free = {offer.traits.group or offer.knob.role for offer in frozen}
    check_allowed(_names(config.trainer), allow, [*sorted(free), "warmup"])
    for offer in offered:
        role, key = offer.knob.role, offer.knob.key
        if offer.why == OF_TRAINERS and (named := {role, key}.intersection(allow)):
            raise CannotSearch(f"--allow {named.pop()}: {offer.why}")
    return offered


def _names(trainer: Trainer) -> list[str]:
    """Return what ``--allow`` may name: roles, keys, groups, and the warmup."""
    roles = [*trainer.knobs]
    names = [*roles, *map(trainer.key_of, roles), *(traits_of(r).group for r in roles)]
    return [*dict.fromkeys([*filter(None, names), *warmup_names(trainer)])]


def _is_freed(trainer: Trainer, role: str, allow: Sequence[str]) -> bool:
    names = {role, trainer.key_of(role), traits_of(role).group} - {""}
    return not names.isdisjoint(allow)


def _is_usual(role: str) -> bool:
    """Return whether every search has the knob: varied by default, or compared."""
    return role == "precision" or traits_of(role).by_default


def _is_fp8(job: Job) -> bool:
    return bool(job.find("precision") == "fp8")


def _in_fp8(job: Job) -> Job:
    """Return the job in FP8, as it is where the trainer has no such value."""
    with suppress(Unknown):
        return job if _is_fp8(job) else job.with_values({"precision": "fp8"})
    return job


def _values(
    config: Config, job: Job, role: str, gpu: str, *, freed: bool
) -> tuple[Any, ...]:
    """Return the values to try, the config's own among them; raises ``Unknown``.

    Micro-batches divide the sequences of a step, so that gradient accumulation keeps
    their number. AC modes begin with the one that keeps most and end with the one that
    keeps least. Precisions are the config's, bf16, and FP8 if it is freed.
    """
    listed = config.trainer.values_of(role)
    if role == "micro_batch":
        rows = config.job["micro_batch"] * config.job["grad_accum"]
        batches = [n for n in range(1, min(rows, MAX_BATCH) + 1) if rows % n == 0]
        return tuple(dict.fromkeys([*batches, config.job["micro_batch"]]))
    if role == "ac":
        mine = config.job.find("ac")
        own = [] if mine is None or mine in listed else [str(mine)]
        return (*listed[:-1], *own, *listed[-1:])
    if role in DEGREES:
        return _degrees(config.job, role)
    value = _plain(job[config.trainer.knobs[role].key or role])
    if role == "precision":
        value = _plain(config.job["precision"])
        fp8 = ["fp8"] * (freed and "fp8" in listed and _may_be_fp8(config, gpu))
        return tuple(dict.fromkeys([value, "bf16", *fp8]))
    every = listed or ([False, True] if isinstance(value, bool) else [])
    if traits_of(role).of_fp8:
        return value, *(each for each in every if not _same(each, value))
    present = any(_same(each, value) for each in every)
    return tuple(every) if present else (value, *every)


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


def _may_be_fp8(config: Config, gpu: str) -> bool:
    """Return whether both GPUs have FP8; an unknown GPU may have it.

    No trial combines FP8 with tensor parallelism, and most trainers do not either.
    """
    if config.job.find("tp") not in (None, 1):
        return False
    has_fp8 = [config.job.find("gpu.fp8_matmul")]
    with suppress(UnknownGpu):
        has_fp8.append(find(resolve(gpu)).fp8_matmul if gpu else None)
    return False not in has_fp8


def check_allowed(
    names: Sequence[str], allow: Sequence[str], frozen: Sequence[str] = ()
) -> None:
    """Raise ``CannotSearch`` if ``--allow`` has an unknown name."""
    for name in allow:
        if name not in names:
            similar = closest(name, names)
            hint = f"; it can free {', '.join(frozen)}" if frozen else ""
            hint = f"; did you mean `{similar}`?" if similar else hint
            raise CannotSearch(f"--allow {name}: no such knob{hint}")


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
        if device not in traits.frozen_on or _is_freed(trainer, role, allow)
    )
    names = (*roles, "grad_accum", *allow)
    return {trainer.key_of(name) or name for name in names}


def space_of(config: Config, offered: Sequence[Offer]) -> Space:
    """Return the space of the knobs that are varied.

    Those that a search varies by default are in it even if they are frozen here, and so
    is the precision: FP8 is compared with bf16. Points exist only where the needs of
    each knob are met.
    """
    kept = [o for o in offered if not o.why or _is_usual(o.knob.role)]
    knobs = [offer.knob for offer in kept]
    if not any(offer.needs or offer.traits.of_fp8 for offer in kept):
        return Space(knobs)
    count = math.prod(len(knob.values) for knob in knobs)
    if count > MOST_POINTS:
        raise CannotSearch(
            f"the knobs span {count:,} settings, and a search compares at most "
            f"{MOST_POINTS:,}: free fewer with --allow"
        )
    return Space(knobs, _points(config, kept))


def _points(config: Config, kept: Sequence[Offer]) -> Iterator[Point]:
    """Yield the points at which every knob that is not at its first value may be so.

    Knobs of FP8 need FP8, others what they say. That is asked at the smallest
    micro-batch, for all of them.
    """
    knobs = [offer.knob for offer in kept]
    plain, place = Space(knobs), Space(knobs).place("micro_batch")
    needs = {offer.knob.key: _condition(config, offer.needs) for offer in kept}
    sizes = [range(1 if i == place else len(k.values)) for i, k in enumerate(knobs)]
    for point in itertools.product(*sizes):
        moved = [knob for knob, index in zip(knobs, point, strict=True) if index]
        in_bf16 = plain.value(point, "precision") not in (None, "fp8")
        if in_bf16 and any(knob.traits.of_fp8 for knob in moved):
            continue
        asked = [need for knob in moved if (need := needs[knob.key])]
        with suppress(Unknown):
            job = config.job.with_values(plain.values(point))
            if not all(need.evaluate(job) for need in asked):
                continue
            if place is None:
                yield point
            else:
                count = range(len(knobs[place].values))
                yield from ((*point[:place], i, *point[place + 1 :]) for i in count)


def _condition(config: Config, needs: str) -> Expression | None:
    words = config.job.words
    if not needs:
        return None
    return compile_expression(needs, words.knows, ON_SCOPE, words.renamed)


def unmet(offered: Sequence[Offer], space: Space) -> list[Offer]:
    """Return the offers with those frozen whose needs no setting meets."""
    if not space.only:
        return list(offered)
    used = {
        knob.role: {point[place] for point in space.only}
        for place, knob in enumerate(space.knobs)
    }
    result = []
    for offer in offered:
        role = offer.knob.role
        if not offer.why and role in used and len(used[role]) < 2:
            why = f"it needs {offer.needs}" if offer.needs else "it needs FP8"
            offer = offer._replace(why=why, knob=offer.knob._replace(frozen=True))
        result.append(offer)
    return result


def why_not_varied(offer: Offer) -> str:
    """Return one line about a knob that is kept: why, and what frees it."""
    group = offer.traits.group
    names = [name for name in (group, offer.knob.role) if name]
    free = (
        f"; --allow {names[0]}" if names and offer.why.startswith("it changes") else ""
    )
    return f"{offer.knob.key}: {offer.why}{free}"
