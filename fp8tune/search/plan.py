"""Plan a search from a train config: what may change, and what a trial represents."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fp8tune.config.discover import CannotRead, read
from fp8tune.config.reader import Config, NotAConfig, config_at
from fp8tune.estimate.refusals import fp8_off
from fp8tune.estimate.whole import lacking, why_unknown
from fp8tune.facts.gaps import GAPS, INSTALLED, MEANT
from fp8tune.formats import ENDINGS, TITLES, format_of, parse
from fp8tune.formats.document import InvalidText
from fp8tune.formats.joined import Joined, Part
from fp8tune.job import Job, Target, Unknown
from fp8tune.lint.launch import ORIGIN, CannotLaunch, read_launch
from fp8tune.lint.title import gpus_of
from fp8tune.search import CannotSearch
from fp8tune.search.description import Description
from fp8tune.search.knobs import Offer, offers, own_value, space_of
from fp8tune.trainers.about import misnamed, titles
from fp8tune.trainers.call import LaunchScript, Program
from fp8tune.trainers.trainer import DEGREES, Trainer
from fp8tune.trials.space import TRAITS, Point, Space, traits_of
from fp8tune.words import counted

OF_GPUS = ("world_size", "shards.product")
"""What is unknown where the number of GPUs is."""
NEEDED = {
    "micro_batch": "the micro-batch",
    "grad_accum": "the gradient accumulation",
    "precision": "the precision",
    "step.tokens": "the number of tokens per step",
}
"""Fields and facts of the job without which no trial can be planned. fp8tune's own
trial does without the last."""


class Plan(NamedTuple):
    """A search before it starts: its config, its space, and the baseline.

    ``notes`` are lines for the user. ``offers`` are all knobs that the trainer has for
    the config, in a replay those that it keeps, and none where a study is read.
    ``kept`` are those that would be varied if they could be written, by role or key,
    and why they cannot. ``told`` are the rules of notes that are findings of lint.
    """

    config: Config
    space: Space
    baseline: Point
    notes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    kept: Mapping[str, str] = {}
    told: frozenset[str] = frozenset()

    @property
    def free_keys(self) -> set[str]:
        """The keys that the search may change, gradient accumulation among them."""
        free = {knob.key for knob in self.space.knobs if not knob.frozen}
        return {*free, self.config.trainer.key_of("grad_accum")}

    def about(self, **more: Any) -> Description:
        """Return what distinguishes two searches, as stored in their studies.

        It suffices to read the study even if the config's file has changed.
        """
        target = self.config.job.target
        about = {
            **_files(self.config),
            **({"overrides": self.config.written} if self.config.written else {}),
            "trainer": self.config.trainer.id,
            **_file_of(self.config.trainer),
            "gpu": target.gpu,
            "world_size": target.world_size,
            "knobs": [knob._asdict() for knob in self.space.knobs],
            "points": sorted(map(list, self.space.only)),
            "given": list(self.baseline),
            **more,
        }
        return Description(about)


def _files(config: Config) -> dict[str, Any]:
    """Return the files of a job: the one that a user types first."""
    texts = {path: data.decode() for path, data in config.bytes_by_path.items()}
    typed = config.typed_path
    about: dict[str, Any] = {"config": typed, "config_text": texts[typed]}
    if config.script:
        about["launched"] = list(config.overrides)
        about["program"] = config.script.program._asdict()
    if config.script or config.files:
        parts = config.parts
        about["files"] = [[part.section, part.path, texts[part.path]] for part in parts]
    return about


def restored(about: Description, target: Target) -> Config:
    """Return the config of a study as it was, whatever its files say now."""
    path, data = str(about["config"]), str(about["config_text"]).encode()
    name = about["trainer"]
    if "files" not in about:
        return config_to_search(path, data, target, name)
    (_, main, text), *_ = about["files"]
    config = config_to_search(main, text.encode(), target, name)
    parts = []
    for section, place, text in about["files"]:
        document = parse(text.encode(), place)
        part = config.trainer.about.parts.get(section)
        document.read_as((part and part.reads) or config.trainer.about.reads)
        parts.append(Part(section, place, document))
    files = None if len(parts) == 1 and not parts[0].section else Joined(parts)
    config = config.having(
        alone=parts[0].document, document=files or parts[0].document, files=files
    )
    if "launched" not in about:
        return config
    program = Program(**{n: _tuples(v) for n, v in about.get("program", {}).items()})
    script = LaunchScript(path, data, program)
    return config.having(script=script, overrides=tuple(about["launched"]))


def _tuples(value: Any) -> Any:
    """Return a value of JSON with its arrays as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _file_of(known: Trainer) -> dict[str, str]:
    """Return the file that describes a trainer of the user's own, and its digest."""
    own = known.about.own
    if own is None:
        return {}
    with open(own.path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return {"trainer_file": own.path, "trainer_digest": digest}


def config_to_search(
    path: str,
    data: bytes,
    target: Target,
    name: str = "",
    world_size: int = 0,
    beside: Sequence[str] = (),
) -> Config:
    """Read a config to search, or a launch script and the config that it launches.

    ``beside`` are other files of its job. If neither ``target``, the header comment nor
    the project's settings say the number of GPUs, it is the product of the parallel
    degrees, else ``world_size``. Raises ``CannotSearch`` and as ``config_of``.
    """
    if name and (wrong := misnamed(name)):
        raise CannotSearch(wrong)
    try:
        config = _config_of(path, data, target, name, tuple(beside))
    except NotAConfig as error:
        form = format_of(path)
        takes = f"search takes {TITLES[form]} configs of {titles(form)}"
        raise CannotSearch(f"{path}: {error}; {takes}") from None
    return with_gpus(config, world_size)


def with_gpus(config: Config, world_size: int) -> Config:
    """Return a config for a number of GPUs, where nothing else says how many."""
    target = config.directive.complete(config.target)
    if world_size and not target.world_size:
        return config.on(_sized(config, target, world_size))
    return config


def _config_of(
    path: str, data: bytes, target: Target, name: str, beside: tuple[str, ...]
) -> Config:
    """Read a config, or the one that a launch script launches."""
    try:
        return config_at(path, data, target, only=name, beside=beside)
    except NotAConfig:
        if format_of(path) != "bash":
            raise
    try:
        launch = read_launch(path, (), os.environ)
        if launch.is_script:
            raise CannotSearch(f"{path}: it is no config of {name}")
        config = config_at(
            launch.config,
            read(launch.config),
            target.completed(launch.target),
            only=name,
            overrides=launch.overrides,
            beside=(*launch.beside, *beside),
        )
    except (CannotLaunch, CannotRead) as error:
        raise CannotSearch(str(error)) from None
    except InvalidText as error:
        line, column = error.position
        place = f"{launch.config}:{line}:{column}"
        raise CannotSearch(f"{place}: {error}") from None
    return config.having(script=LaunchScript(path, data, launch.program))


def _sized(config: Config, target: Target, otherwise: int) -> Target:
    """Return a target with the number of GPUs that the config itself says."""
    declared = config.job.find("declared_gpus")
    if declared is None:
        origin = "--ranks" if otherwise > 1 else ""
        return target._replace(world_size=otherwise, world_size_origin=origin)
    origin = config.trainer.about.counts or DEGREES
    return target._replace(world_size=declared, world_size_origin=origin)


def study_name(plan: Plan, about: Mapping[str, Any]) -> str:
    """Return the name of a search's study: the config's, and a digest of ``about``."""
    text = json.dumps(about, sort_keys=True, default=str)
    name = plan.config.typed_path.replace("\\", "/").rsplit("/", 1)[-1]
    stem, ending = os.path.splitext(name)
    stem = stem if ending in ENDINGS else name
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in stem)[:60]
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def check_planned(config: Config, *, builtin: bool, python: bool = True) -> None:
    """Raise ``CannotSearch`` if no trial of a config can be planned.

    ``builtin`` says that fp8tune's own trial runs them. Without ``python``, the run's,
    what its packages tell may be unknown.
    """
    awaited = frozenset() if python else INSTALLED
    by_reason: dict[str, list[str]] = {}
    for name in [*NEEDED][: -1 if builtin else None]:
        if (lacks := lacking(config.job, name)) and lacks not in awaited:
            why = why_unknown(name, config)
            by_reason.setdefault(why, []).append(NEEDED[name])
    for why, names in by_reason.items():
        are = "is" if len(names) == 1 else "are"
        what = f"{', '.join(names)} {are} not known"
        raise CannotSearch(f"{config.typed_path}: {what}: {why}")


def plan_for_trials(
    config: Config,
    allow: Sequence[str],
    device: str,
    gpu: str = "",
    *,
    builtin: bool = True,
) -> Plan:
    """Plan a search over the knobs that the trainer has for a config.

    ``gpu`` is the driver's name of the GPU that runs the trials; ``builtin`` says that
    fp8tune's own trial runs them. Raises ``CannotSearch``.
    """
    had = offers(config, allow, device, gpu, builtin=builtin)
    space, offered = space_of(config, had)
    baseline = tuple(k.index_of(own_value(config, k)) for k in space.knobs)
    roles = [r for r in TRAITS if device not in traits_of(r).frozen_on]
    varied = {knob.role for knob in space.knobs}
    notes = [_why_not_varied(config, role) for role in roles if role not in varied]
    if extra := ", ".join(f"`{key}`" for key in config.loaded.extra):
        notes.append(f"{extra} (extra-keys): kept, and unknown to fp8tune's own trials")
    off = fp8_off(config.job)
    notes += [f"{why.message} [{why.rule}]" for why in off]
    told = frozenset(why.rule for why in off)
    return Plan(config, space, baseline, tuple(filter(None, notes)), offered, told=told)


def without_idle(plan: Plan) -> Plan:
    """Return the plan with its offers' values that some setting has.

    A knob that has the config's value in every setting is kept.
    """
    points = plan.space.points(plan.baseline)
    pairs = zip(plan.space.knobs, zip(*points, strict=True), strict=False)
    used = {knob.key: {knob.values[i] for i in column} for knob, column in pairs}
    why = "no setting can have another value"

    def used_alone(offer: Offer) -> Offer:
        knob = offer.knob
        if offer.why or len(knob.values) < 2 or knob.key not in used:
            return offer
        values = tuple(value for value in knob.values if value in used[knob.key])
        if len(values) > 1:
            return offer._replace(knob=knob._replace(values=values))
        return offer._replace(why=why, knob=knob._replace(frozen=True))

    return plan._replace(offers=tuple(map(used_alone, plan.offers)))


def _why_not_varied(config: Config, role: str) -> str:
    """Return why a field that follows from keys is no knob; ``""`` for a constant."""
    source = config.job.words.computed.get(role)
    if source is None or not source.reads:
        return ""
    names = ", ".join(f"`{name}`" for name in source.reads)
    words = f" in the words {', '.join(MEANT[role])}" if role in MEANT else ""
    return (
        f"{role} is not varied: no single key says it{words}; it follows from {names}"
    )


def left_out(reasons: Sequence[str]) -> list[str]:
    """Return a note for each reason why records are left out; ``""`` is no reason."""
    counted = Counter(filter(None, reasons)).items()
    return [
        f"{count} record{'s are' if count != 1 else ' is'} left out: {why}"
        for why, count in counted
    ]


def role_of(known: Trainer, key: str) -> str:
    """Return the job's field or FP8 knob that a key sets; ``""`` if none."""
    fields = {
        key: role
        for role, knob in known.knobs.items()
        if traits_of(role).of_fp8
        for keys in knob.keys.values()
        for key in keys
    }
    fields |= {name: field for field, name in known.schema.job.items()}
    fields |= {known.key_of(role): role for role in known.knobs}
    return fields.get(key, key * (key in known.about.settings))


def rows_per_step(job: Job, knobs: dict[str, Any]) -> int:
    """Return the sequences per rank and optimizer step; 0 if unknown."""
    try:
        return int(job.keep_tokens(knobs).rank_sequences)
    except (TypeError, Unknown):
        return 0


def tokens_per_step(job: Job, knobs: dict[str, Any]) -> int:
    """Return the tokens per optimizer step over all GPUs; 0 if unknown."""
    try:
        return int(job.keep_tokens(knobs)["step.tokens"])
    except (TypeError, Unknown):
        return 0


def why_synthetic_data(config: Config) -> str:
    """Return why trials train on synthetic data; ``""`` if they read the config's data.

    Speeds do not depend on it; losses do.
    """
    job, name = config.job, config.trainer.about.title
    if not job.words.knows("data_files"):
        return f"trials do not read the data sets of {name}"
    if missing := job["data_missing"]:
        return f"{missing}, where {name} stops"
    return "" if job["data_files"] else "the config names no training data"


def is_covered(config: Config) -> bool:
    """Return whether fp8tune's own trial on one GPU may represent a config.

    Not if it is not known, but for the number of GPUs, which a search asks for.
    """
    job = config.job
    refused = not job.words.knows("trial_refusal") or job.find("trial_refusal")
    unknown = not refused and lacking(job, "trial_refusal") not in ("", *OF_GPUS)
    return not refused and not unknown and (job.find("tp") or 1) == 1


def ranks_of_trial(config: Config, running: int = 1) -> int:
    """Return how many data-parallel ranks a trial represents.

    ``running`` ranks run in it: one, or all of the config. Raises ``CannotSearch``.
    """
    gpus = config.job.target.world_size
    title = config.trainer.about.title
    try:
        refusal = f"the model and the loop of {title}"
        if config.job.words.knows("trial_refusal"):
            refusal = config.job["trial_refusal"]
        if not refusal and running == 1 and (tp := config.job["tp"]) > 1:
            refusal = f"tensor parallelism of {tp} by one rank; --ranks {gpus} "
            refusal += f"runs all of them on {counted(gpus, 'GPU')}"
        ranks: int = config.job["shards"] if not refusal else 0
    except Unknown as missing:
        asked = str(missing) in OF_GPUS
        hint = "; give the number of GPUs as --world-size N" * asked
        gap = GAPS.get(str(missing))
        what = f"no trial covers {gap}" if gap else f"{missing} is not known"
        raise CannotSearch(f"{config.path}: {what}{hint}") from None
    if refusal:
        raise CannotSearch(
            f"{config.path}: a trial cannot represent {refusal}; `fp8tune estimate` "
            "predicts settings without trials"
        )
    if running not in (1, gpus):
        raise CannotSearch(
            f"--ranks {running}: {config.path} is for {counted(gpus, 'GPU')}; "
            f"type --ranks {gpus}, or --world-size {running} if it is to run on "
            f"{running}"
        )
    return ranks


def world_size_note(config: Config) -> str:
    """Return how many GPUs the run has that speeds are for, and what set that."""
    target = config.job.target
    note = f"speeds are for a run on {counted(target.world_size, 'GPU')}"
    if target.world_size_origin:
        by = target.world_size_origin
        return f"{note}, set by {'the script' if by == ORIGIN else by}"
    return f"{note}, as nothing says how many; --world-size N sets it"


def world_size_warning(config: Config) -> str:
    """Return a warning if the title names more GPUs than trials represent."""
    target = config.job.target
    if target.world_size_origin:
        return ""
    gpus, line = gpus_of(config.document)
    if gpus <= target.world_size:
        return ""
    return (
        f"warning: {config.path}:{line}: the title says {gpus} GPUs; the best on "
        f"{counted(target.world_size, 'GPU')} may not be the best there; give "
        f"--world-size {gpus}"
    )
