"""What a search would do, without a GPU and without torch: ``--dry-run``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fp8tune.config.directive import asked as named_gpu
from fp8tune.config.reader import Config
from fp8tune.estimate.predict import Prediction, predict
from fp8tune.estimate.whole import why_unknown
from fp8tune.facts.calibration import Band
from fp8tune.job import Unknown
from fp8tune.runners.sampling import Sampling
from fp8tune.runners.trainer import inside
from fp8tune.runners.trainer.config import CannotWrite, not_known
from fp8tune.runners.trainer.recipe import Recipe
from fp8tune.runners.trainer.record import tokens_of
from fp8tune.search import CannotSearch
from fp8tune.search.budget import show_duration
from fp8tune.search.knobs import (
    Offer,
    keys_written,
    warmup_key,
    warmup_names,
    why_single,
)
from fp8tune.search.options import SearchOptions
from fp8tune.search.overrides import config_asked, one_line_errors
from fp8tune.search.plan import Plan, world_size_note
from fp8tune.search.real_trials import (
    check_installed,
    check_start,
    config_of_trials,
    plan_search,
    read_as_installed,
    with_runner,
)
from fp8tune.search.recorded import plan_replay
from fp8tune.search.writable import check_varied
from fp8tune.search.write.job_files import changing
from fp8tune.search.write.places import check_files, check_outputs
from fp8tune.trials.record import BadRecord
from fp8tune.trials.space import Knob, Point, shown
from fp8tune.words import counted, plain, wrapped

WIDTH = 80
MOST_VALUES = 8
"""Values of a knob that are shown."""
BUILTIN = ("python", "-m", "fp8tune.runners.builtin.worker", "{spec}")
"""The command of fp8tune's own trial; {spec} describes the model and its setting."""
START = (
    "what a trial takes before its steps (start, compile) is not predicted: the first "
    "trial measures it"
)


WARMUP = "a shorter one is proposed; --allow warmup"


class Corner(NamedTuple):
    """A setting at the edge of a search, and what the estimate expects of it."""

    name: str
    knobs: dict[str, Any]
    expected: Prediction


class DryRun(NamedTuple):
    """What a search would do.

    ``refused`` says why it would not start, ``""`` if it would. ``command`` is a
    trial's, with placeholders where the search fills in its files. ``trials`` is how
    many can fit the budget by their steps alone, 0 if unknown.
    """

    plan: Plan
    refused: str
    command: tuple[str, ...]
    budget_s: float
    trials: int
    corners: tuple[Corner, ...]
    notes: tuple[str, ...]


def dry_run(options: SearchOptions) -> int:
    """Print what a search would do, and return the exit code that it would begin with.

    Raises ``CannotSearch``.
    """
    try:
        with one_line_errors(options.config):
            found = look_ahead(options)
    except BadRecord as error:
        raise CannotSearch(str(error)) from None
    if options.as_json:
        print(json.dumps(as_json(found), indent=2))
    else:
        for line in text(found):
            print(line)
    return 2 if found.refused else 0


def look_ahead(options: SearchOptions) -> DryRun:
    """Return what a search with these options would do; raises ``CannotSearch``."""
    if options.runner == "replay":
        return _replay(options)
    options = with_runner(options)
    with read_as_installed(options):
        gpu = named_gpu(options.gpu, None).gpu
        config = config_asked(options, gpu, "--gpu" * bool(gpu), options.ranks)
        plan = plan_search(options, config)
        command: Sequence[str] = ()
        refused, notes = "", [*plan.notes]
        try:
            recipe = check_start(options, config, python=bool(options.python))
            check_varied(plan)
            command = _words(options, config, recipe) if recipe else BUILTIN
            notes += [world_size_note(config)] * bool(config.job.target.world_size)
        except CannotSearch as error:
            refused = str(error)
        if command and recipe:
            try:
                check_installed(options, config)
            except CannotSearch as error:
                notes.append(f"not on this machine yet: {error}")
        refused = refused or _unwritable(options, plan)
        return _found(options, plan, refused, command, notes)


def _unwritable(options: SearchOptions, plan: Plan) -> str:
    """Return why the answer of a search could not be written, ``""`` if it could."""
    try:
        check_outputs(options)
        check_files(options, plan)
    except CannotSearch as error:
        return str(error)
    return ""


def _replay(options: SearchOptions) -> DryRun:
    """Return what a replay would do, which runs no trial."""
    gpu = named_gpu(options.gpu, None).gpu
    config = config_asked(options, gpu, "--gpu" * bool(gpu), 0)
    replay = plan_replay(config, options.records, options.allow, options.objective)
    plan = replay.plan
    varied = {knob.key for knob in plan.space.knobs}
    offers = [Offer(knob, _why_kept(plan, knob)) for knob in plan.space.knobs]
    offers += [
        offer._replace(why=offer.why or "no record has another value")
        for offer in plan.offers
        if offer.knob.key not in varied
    ]
    notes = [f"a replay of {counted(len(replay.speeds), 'record')} runs no trial"]
    refused = _unwritable(options, plan)
    plan = plan._replace(offers=tuple(offers))
    return _found(options, plan, refused, (), [*notes, *replay.notes])


def _why_kept(plan: Plan, knob: Knob) -> str:
    """Return why a replay keeps a knob, ``""`` if it varies it."""
    name = knob.role or knob.key
    why = f"it may change what is learned; --allow {name}"
    return plan.kept.get(name, why) if knob.frozen else ""


def _found(
    options: SearchOptions,
    plan: Plan,
    refused: str,
    command: Sequence[str],
    notes: Sequence[str],
) -> DryRun:
    """Return what a plan comes to, with what the estimate expects of it."""
    trainer = plan.config.trainer
    known = plan.config.job.find("warmup_steps") is not None
    if known and not {*warmup_names(trainer)} & {*options.allow}:
        warmup = Knob(warmup_key(trainer), (), "warmup", frozen=True)
        plan = plan._replace(offers=(*plan.offers, Offer(warmup, WARMUP)))
    corners = tuple(_corners(plan))
    speed = corners[0].expected.speed if command else None
    return DryRun(
        plan,
        refused,
        tuple(command),
        budget_s=options.budget_s,
        trials=_trials(options, speed, plan.config),
        corners=corners,
        notes=(*notes, *_unknown(plan.config), *[START] * bool(command)),
    )


def _words(options: SearchOptions, config: Config, recipe: Recipe) -> list[str]:
    """Return the command of a trial, as the search would be able to start it.

    Raises ``CannotSearch``.
    """
    ours = config_of_trials(config, recipe)
    ranks = config.job.target.world_size or 1
    names = dict.fromkeys((*ours.places(""), "scratch", "traces"))
    values = {name: f"{{{name}}}" for name in names} | {"ranks": str(ranks)}
    added = [recipe.trial, recipe.speed]
    added += [recipe.cpu] if options.device == "cpu" and recipe.cpu else []
    added += [recipe.profile.keys] if recipe.profile else []
    try:
        made = ours.for_trial({}, added, values)
        tokens_of(ours.job({}))
    except CannotWrite as error:
        raise CannotSearch(f"a trial {error}") from None
    except Unknown as missing:
        raise CannotSearch(not_known(config.trainer, missing)) from None
    values |= {"python": options.python or "python", "inside": inside.__file__}
    if options.trainer_dir:
        values["dir"] = options.trainer_dir
    return recipe.words(ranks, values, made.program)


def _corners(plan: Plan) -> Iterator[Corner]:
    """Yield the config, and the settings that need least and most memory."""
    config = _corner(plan, "your config", plan.baseline)
    yield config
    for name, size, choose in (("least memory", 0, min), ("most memory", -1, max)):
        every = [_corner(plan, name, point) for point in _of_size(plan, size)]
        sized = [corner for corner in (config, *every) if _peak(corner)]
        if sized and (edge := choose(sized, key=_peak)).knobs:
            yield edge


def _of_size(plan: Plan, size: int) -> Iterator[Point]:
    """Yield the config at its smallest (0) or largest (-1) batch, with each AC."""
    space, point = plan.space, list(plan.baseline)
    batch, ac = space.batch_place, space.place("ac")
    if batch is not None:
        point[batch] = size % len(space.knobs[batch].values)
    settings = [tuple(point)]
    if ac is not None:
        modes = range(len(space.knobs[ac].values))
        settings = [(*point[:ac], mode, *point[ac + 1 :]) for mode in modes]
    for setting in settings:
        if space.has(setting) and space.allows(setting, plan.baseline):
            yield setting


def _peak(corner: Corner) -> float:
    """Return the predicted peak [GiB]; 0 if it is unknown."""
    memory = corner.expected.memory
    return memory.value if memory else 0.0


def _corner(plan: Plan, name: str, point: Point) -> Corner:
    pairs = zip(plan.space.knobs, point, plan.baseline, strict=True)
    changed = {k.key: k.values[i] for k, i, own in pairs if i != own}
    job = plan.config.job.keep_tokens(plan.space.values(point))
    return Corner(name, changed, predict(job))


def _trials(options: SearchOptions, speed: Band | None, config: Config) -> int:
    """Return how many trials' fewest steps fit the budget; 0 if that is unknown."""
    tokens = config.job.find("step.tokens")
    if speed is None or not tokens or not speed.value:
        return 0
    sampling = Sampling()
    steps = sampling.warm_steps + sampling.min_steps
    return int(options.budget_s / (steps * tokens / speed.value))


def _unknown(config: Config) -> Iterator[str]:
    """Yield why the estimate has no memory or speed of the config."""
    for fact, what in (("peak_gib", "memory"), ("tokens_per_second", "speed")):
        if text := why_unknown(f"{what}.{fact}", config):
            yield f"no estimate of {what}: {text}"
    if not config.job.find("gpu"):
        yield "what fits is unknown, as no GPU is named: add --gpu, e.g. --gpu h100"


def as_json(found: DryRun) -> dict[str, Any]:
    """Return it as JSON."""
    return {
        "version": 1,
        "refused": found.refused or None,
        "knobs": [_knob(found.plan.config, offer) for offer in found.plan.offers],
        "trial": {"command": list(found.command)},
        "budget_s": found.budget_s,
        "trials": found.trials or None,
        "settings": sum(1 for _ in found.plan.space.points(found.plan.baseline)),
        "corners": [
            {
                "name": corner.name,
                "knobs": corner.knobs,
                "memory": _band(corner.expected.memory, "gib"),
                "fit": corner.expected.fit,
                "speed": _band(corner.expected.speed, "tokens_per_second"),
            }
            for corner in found.corners
        ],
        "notes": list(found.notes),
    }


def _knob(config: Config, offer: Offer) -> dict[str, Any]:
    knob, traits = offer.knob, offer.traits
    keys = keys_written(config, knob) or {knob.key} & config.job.words.keys
    files: list[str] = []
    with suppress(CannotSearch):
        files = [*changing(config, keys, lambda path: path)]
    return {
        "key": keys.pop() if len(keys) == 1 else None,
        "file": files[0] if len(files) == 1 else None,
        "role": knob.role,
        "values": list(knob.values),
        "frozen": bool(offer.why),
        "why": offer.why or f"it changes {traits.changes}",
        "changes": "speed" if traits.changes_speed_alone else "numerics",
    }


def _band(band: Band | None, unit: str) -> dict[str, float] | None:
    return band and {unit: band.value, "low": band.low, "high": band.high}


def text(found: DryRun) -> Iterator[str]:
    """Yield the lines for people, of at most 80 columns."""
    plan = found.plan
    if found.refused:
        yield from _folded(f"the search will not start: {found.refused}", "")
    count = sum(1 for _ in plan.space.points(plan.baseline))
    free = [o for o in plan.offers if not o.why and len(o.knob.values) > 1]
    yield f"varied: {counted(len(free), 'knob')}, {counted(count, 'setting')}"
    for offer in free:
        role, key = offer.knob.role, offer.knob.key
        name = role if role == key else f"{role} ({key})"
        yield from _folded(f"{name}: {_values(offer.knob)}")
    kept = [f"{', '.join(group)}: {why}" for why, group in _kept(plan)]
    yield from ["kept:"] * bool(kept)
    for each in kept:
        yield from _folded(each)
    if found.command:
        yield from _folded(f"a trial: {shlex.join(found.command)}", "")
    yield "expected:"
    for corner in found.corners:
        yield from _folded(_expected(corner))
    budget = f"budget: {show_duration(found.budget_s)}"
    most = f", at most {counted(found.trials, 'trial')} by their steps alone"
    yield f"{budget}{most if found.trials else ''}"
    for note in found.notes:
        yield from _folded(f"note: {note}", "")


def _folded(line: str, indent: str = "  ") -> Iterator[str]:
    first, *rest = wrapped(plain(line), WIDTH - len(indent) - 2)
    yield f"{indent}{first}"
    yield from (f"{indent}  {more}" for more in rest)


def _values(knob: Knob) -> str:
    values = [shown(value) for value in knob.values]
    more = f", ... {values[-1]}" if len(values) > MOST_VALUES else ""
    return ", ".join(values[:MOST_VALUES]) + more


def _kept(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Yield why knobs are kept, and all that are kept for this reason."""
    groups: dict[str, list[str]] = {}
    for offer in plan.offers:
        role, why = offer.knob.role, offer.why
        if offer.freed_by == "--allow":
            why += f"; --allow {offer.traits.group or role}"
        elif not why and len(offer.knob.values) < 2:
            why = why_single(role)
        if why:
            key = offer.knob.key if offer.knob.key != role else ""
            details = ": ".join(filter(None, (key, _values(offer.knob))))
            name = f"{role} ({details})" if details else role
            groups.setdefault(why, []).append(name)
    yield from groups.items()


def _size(gib: float, unit: str) -> str:
    """Return a size [GiB] in MiB or GiB, without the unit."""
    return f"{gib * 1024:,.0f}" if unit == "MiB" else f"{gib:.1f}"


def _unit(most_gib: float) -> str:
    return "MiB" if most_gib < 1 else "GiB"


def _expected(corner: Corner) -> str:
    """Return one corner's expected peak and speed in words."""
    knobs = ", ".join(f"{key} = {shown(v)}" for key, v in corner.knobs.items())
    memory, speed = corner.expected.memory, corner.expected.speed
    parts = []
    if memory:
        fit = corner.expected.fit.replace("-", " ")
        unit = _unit(memory.high)
        band = (memory.value, memory.low, memory.high)
        peak, low, high = (_size(each, unit) for each in band)
        parts.append(f"peak {peak} {unit} ({low} to {high})")
        parts += [fit] * (fit != "unknown")
    elif least := corner.expected.least_gib:
        parts.append(f"peak above {_size(least, unit := _unit(least))} {unit}")
    if speed:
        parts.append(
            f"{speed.value:,.0f} tokens/s ({speed.low:,.0f} to {speed.high:,.0f})"
        )
    said = ", ".join(parts) or "not predicted"
    return f"{corner.name}{f' with {knobs}' if knobs else ''}: {said}"
