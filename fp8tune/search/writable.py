"""Keep the knobs of a plan whose other values its files could not hold."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fp8tune.config.reader import Config
from fp8tune.job import Unknown
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import own_value
from fp8tune.search.plan import Plan
from fp8tune.search.write.job_files import write_job
from fp8tune.search.write.writeback import CannotWrite, Choice
from fp8tune.trials.space import Knob, Space, shown


def without_unwritable(plan: Plan) -> Plan:
    """Return the plan with every knob kept that could not be written at the end.

    Each says why.
    """
    config, space = plan.config, plan.space
    own = space.params(plan.baseline)
    varied = [knob for knob in space.knobs if not knob.frozen]
    places = {knob.key: place for place, knob in enumerate(space.knobs)}
    knobs = {knob.key: knob for knob in varied}
    for offer in plan.offers:
        if offer.knob.values and offer.knob.key not in knobs:
            knobs[offer.knob.key] = offer.knob
            own[offer.knob.key] = own_value(config, offer.knob)
    every = {key: _why_unwritable(config, knobs[key], own[key]) for key in knobs}
    why = {key: text for key, text in every.items() if text}
    if not why:
        return plan

    def kept(knob: Knob) -> Knob:
        return knob._replace(frozen=knob.frozen or knob.key in why)

    at = [places[key] for key in why if key in places]
    base = plan.baseline
    sizes = (range(len(knob.values)) for knob in space.knobs)
    points = space.only or itertools.product(*sizes)
    only = [p for p in points if all(p[place] == base[place] for place in at)]
    space = Space(map(kept, space.knobs), only or space.only)
    reasons = {
        knob.role or knob.key: why[knob.key] for knob in varied if knob.key in why
    }
    offers = [
        offer._replace(knob=kept(offer.knob), why=why[offer.knob.key], freed_by="")
        if offer.knob.key in why
        else offer
        for offer in plan.offers
    ]
    return plan._replace(space=space, offers=tuple(offers), kept=reasons)


def check_varied(plan: Plan) -> None:
    """Raise ``CannotSearch`` if knobs that cannot be written leave none to vary."""
    left = any(not knob.frozen and len(knob.values) > 1 for knob in plan.space.knobs)
    if plan.kept and not (left and any(True for _ in plan.space.points(plan.baseline))):
        name, why = next(iter(plan.kept.items()))
        raise CannotSearch(f"{plan.config.typed_path}: {name} cannot be varied: {why}")


def _why_unwritable(config: Config, knob: Knob, own: Any) -> str:
    """Return why no other value of a knob could be written, ``""`` if one could."""
    others = (v for v in knob.values if (type(v), v) != (type(own), own))
    value = next((value for value in others if value is not None), None)
    if value is None:
        return ""
    try:
        keys = config.job.keys_for({**_in_fp8(config, knob), knob.key: value})
        if name := next(filter(None, (_not_a_table(config, key) for key in keys)), ""):
            return f"`{name}` is one value: write it as a table to have it varied"
        read = _read(config, keys, knob)
    except Unknown:
        return ""
    except CannotWrite as error:
        return f"other values cannot be written: {error}"
    if read is None or read == value:
        return ""
    for key in sorted(config.loaded.written - keys.keys(), key=_deepest_first):
        with suppress(CannotWrite):
            if _read(config, {**keys, key: None}, knob) == value:
                return f"`{key}` sets it too; take that key out to have it varied"
    pairs = ", ".join(f"`{key}` = {shown(v)}" for key, v in keys.items())
    return f"it stays {shown(read)} even with {pairs}"


def _in_fp8(config: Config, knob: Knob) -> dict[str, Any]:
    """Return what puts a config in bf16 into FP8, for a knob that needs it."""
    off = knob.traits.of_fp8 and config.job.find("precision") != "fp8"
    return {"precision": "fp8"} if off else {}


def _read(config: Config, keys: Mapping[str, Any], knob: Knob) -> Any:
    """Return what the trainer reads of a knob once these keys are written.

    ``None`` where it is unknown. Raises ``CannotWrite``.
    """
    _, after = write_job(config, [Choice(*each) for each in keys.items()])
    return after.job.find(knob.role or knob.key)


def _deepest_first(key: str) -> tuple[int, str]:
    return -key.count("."), key


def _not_a_table(config: Config, key: str) -> str:
    """Return the table of a key where the config has a value in its place."""
    values: Any = config.document.values
    table = key.rpartition(".")[0]
    for name in filter(None, table.split(".")):
        values = values.get(name) if isinstance(values, dict) else None
    return table if values is not None and not isinstance(values, dict) else ""
