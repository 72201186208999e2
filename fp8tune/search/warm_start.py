"""Warm starts: find similar earlier studies, and take trials from one.

A similar study has the same GPU, trainer, precision and parallelism, and a model of
nearly the same shape. Studies of other software versions are never used. The warm start
is chosen once and stored in the search's study, so that a search that was killed
continues with the same one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fp8tune.facts.runs import BadCalibration, Run
from fp8tune.facts.stored import parse
from fp8tune.job import Job
from fp8tune.search import CannotSearch
from fp8tune.search.calibrate import measured, stored
from fp8tune.search.objective import SPEED, by_objective
from fp8tune.search.plan import Plan
from fp8tune.search.prior import card_gib, prior_of_job, with_speeds
from fp8tune.search.sampler import EarlierTrial, Expected
from fp8tune.search.sampler.memory import USABLE
from fp8tune.search.saved_study import SavedStudy, described, load_study
from fp8tune.search.storage import BadStudy
from fp8tune.studies import NoStudy, find, newest
from fp8tune.trials.record import Record, positive
from fp8tune.trials.space import Space, traits_of
from fp8tune.trials.trial import timed, trials_that_counted

NONE = "none"
"""What a user asks for to have no warm start."""
WHERE_TRIALS_RUN = ("trainer", "device", "machine", "gpu", "world_size")
"""What two studies must share: where trials run, and what for."""
VERSIONS = ("fp8tune", "torch", "torchao", "driver", "allocator")
SAME = (
    "precision",
    "fp8_recipe",
    "fp8_all_gather",
    "optimizer",
    "weight_bytes",
    "loss",
    "sdpa_backend",
    "activation",
    "tied_embeddings",
    "shared_experts",
    "tp",
    "pp",
    "cp",
    "ep",
    "dp_replicate",
    "shards",
)
"""Fields of the job that are the same in similar configs, knobs or not."""
SHAPE = {
    "layers": "layers",
    "hidden_size": "width",
    "ffn_size": "FFN width",
    "head_dim": "head size",
    "kv_heads": "key/value heads",
    "vocab_size": "vocabulary",
    "seq_len": "tokens per sequence",
    "experts": "experts",
    "expert_size": "expert width",
    "top_k": "experts per token",
    "moe_every": "blocks per mixture of experts",
}
"""Fields of the job that may differ, by their names in messages."""
FACTOR = 2.0
"""How many times larger one of them may be."""
MAX_BYTES = 1 << 24
"""Largest journal of another study that is read."""


class WarmStart(NamedTuple):
    """The warm start of a search, as its study stores it.

    ``study`` is the folder of an earlier study, or ``""``, and ``trials`` how many of
    its trials count. ``note`` is for the user; ``runs`` correct the estimate.
    """

    study: str = ""
    trials: int = 0
    note: str = ""
    runs: tuple[Run, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return the warm start as JSON."""
        runs = [run._asdict() for run in self.runs]
        return {
            "study": self.study,
            "trials": self.trials,
            "said": self.note,
            "runs": runs,
        }


class SimilarStudy(NamedTuple):
    """An earlier study, its folder, and how its config differs from this search's.

    ``wrong`` says why a search cannot start from it, or ``""``; ``stale``: only because
    of its software versions.
    """

    folder: str
    study: SavedStudy
    differs: str
    distance: float
    wrong: str = ""
    stale: bool = False


def choose_start(
    plan: Plan,
    about: Mapping[str, Any],
    folder: str,
    studies: str,
    asked: str,
    url: str = "",
) -> WarmStart:
    """Return the warm start of the search whose study is in ``folder`` or at ``url``.

    ``asked`` is a study, ``none``, or ``""`` for the most similar. Raises
    ``CannotSearch`` if the study asked for cannot be used, and ``BadStudy``.
    """
    if (known := described(folder, url)) is not None:
        return kept_start(known)
    similar, note = _choose_study(plan, about, folder, studies, asked)
    runs: list[Run] = []
    if about.get("device") == "cuda":
        here = {name: str(about[name]) for name in VERSIONS if about.get(name)}
        try:
            runs += stored(studies, str(about["gpu"]), here)
        except BadCalibration as error:
            note += f"{'; ' * bool(note)}the estimate is not corrected: {error}"
    if similar is None:
        return WarmStart(note=note, runs=tuple(runs))
    records = [trial.record for trial in timed(similar.study.trials)]
    own = measured(similar.study.plan.config.job, records)
    runs += [run for run in own if run not in runs]
    return WarmStart(similar.folder, len(records), note, tuple(runs))


def _choose_study(
    plan: Plan, about: Mapping[str, Any], folder: str, studies: str, asked: str
) -> tuple[SimilarStudy | None, str]:
    """Return the study to start from, and a line about it for the user."""
    replayed = "records" in about
    if asked == NONE or (replayed and not asked):
        return None, ""
    if asked:
        try:
            place = find(asked, studies)
        except NoStudy as error:
            raise CannotSearch(f"--start-from: {error}") from None
        similar = compare_study(place, plan, about)
        if similar is None:
            raise CannotSearch(f"--start-from {asked}: not a study of a search")
        if similar.wrong:
            raise CannotSearch(f"--start-from {asked}: {similar.wrong}")
    else:
        every = similar_studies(plan, about, studies, folder)
        if not every:
            return None, ""
        similar = every[0]
        if similar.wrong:
            return None, f"{similar.study.name} is not used: {similar.wrong}"
    machine = "CPU" if about.get("device") == "cpu" else "GPU"
    where = "another replay" if replayed else f"same {machine} and versions"
    return similar, f"starts from {similar.study.name}: {where}; {similar.differs}"


def kept_start(about: Mapping[str, Any]) -> WarmStart:
    """Return the stored warm start of a study, checked: anybody may have written it."""
    try:
        kept = about["start"]
        lines = (json.dumps(run) for run in kept["runs"])
        runs = tuple(parse("start", n, line) for n, line in enumerate(lines, 1))
        return WarmStart(
            str(kept["study"]), int(kept["trials"]), str(kept["said"]), runs
        )
    except (ValueError, LookupError, TypeError, BadCalibration):
        return WarmStart()


def trials_of_start(
    plan: Plan, about: Mapping[str, Any], start: WarmStart, objective: str
) -> list[EarlierTrial]:
    """Return the trials of the study that a search starts from, for the sampler.

    None if that study has changed since.
    """
    similar = compare_study(start.study, plan, about) if start.study else None
    if similar is None or similar.wrong:
        return []
    job, other = plan.config.job, similar.study.plan
    every = timed(similar.study.trials)[: start.trials]
    trials = trials_that_counted(every)
    pairs = zip(trials, by_objective(trials, objective), strict=True)
    # a trial without watts did not fail; it only says nothing about the objective
    records = [new.record for old, new in pairs if new.record.ok or not old.record.ok]
    points = {other.space.point(record.knobs) for record in records}
    prior = prior_of_job(other.space, other.config.job, start.runs)
    expected = with_speeds(other.space, prior, sorted(points))

    def expect(record: Record) -> Expected:
        return expected[other.space.point(record.knobs)]

    scale = other.config.job["seq_len"] / job["seq_len"]
    card = card_gib(other.config.job)
    return list(earlier_trials(plan.space, records, expect, scale, card))


def earlier_trials(
    space: Space,
    records: Iterable[Record],
    expect: Callable[[Record], Expected] = lambda _record: Expected(),
    scale: float = 1.0,
    card_gib: float = 0.0,
) -> Iterator[EarlierTrial]:
    """Yield another study's records in the form that the sampler takes.

    ``expect`` is the estimate of that study's settings. One of its sequences is
    ``scale`` of this study's; its GPU had ``card_gib``. The records are evidence for
    the speed model and never count as this study's own trials. Their memory corrects
    the estimate. The sampler ignores settings with values that the space does not have.
    """
    batch = space.knob("micro_batch")
    for record in records:
        params = {knob.key: record.knobs.get(knob.key) for knob in space.knobs}
        if batch is not None and positive(size := params[batch.key]):
            params[batch.key] = size * scale
        card = record.capacity_gib or card_gib
        yield EarlierTrial(
            params=params,
            failed=not (record.meaning.retry_once or record.outcome in ("ok", "oom")),
            tokens_per_second=record.tokens_per_second if record.ok else 0.0,
            memory_share=record.peak_gib / (card * USABLE) if card else 0.0,
            expected_tokens_per_second=expect(record).tokens_per_second,
        )


def similar_studies(
    plan: Plan, about: Mapping[str, Any], studies: str, own: str
) -> list[SimilarStudy]:
    """Return the studies similar to a search, the most similar and newest first.

    ``own`` is the search's own folder. Studies of other versions come last.
    """
    similar = [
        one
        for folder in newest(studies)
        if os.path.realpath(folder) != os.path.realpath(own)
        and (one := compare_study(folder, plan, about)) is not None
        and (not one.wrong or one.stale)
    ]
    return sorted(similar, key=lambda one: (one.stale, one.distance))


def compare_study(
    folder: str, plan: Plan, about: Mapping[str, Any]
) -> SimilarStudy | None:
    """Compare the study of a folder with a search; ``None`` if there is no study."""
    try:
        study = load_study(folder, most=MAX_BYTES)
    except BadStudy:
        return None
    differs, distance, far = _compare_jobs(plan, study.plan.config.job)
    objective = str(about.get("objective", SPEED))
    wrong = _elsewhere(study.about, about) or far or _unusable(plan, study, objective)
    changed = "" if wrong else _other_versions(study.about, about)
    return SimilarStudy(
        folder,
        study,
        differs=differs,
        distance=distance,
        wrong=wrong or changed,
        stale=bool(changed),
    )


def _elsewhere(other: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return how another study's environment differs from this search's, or ``""``."""
    if ("records" in other) != ("records" in about):
        return "one is a replay and the other is not"
    for name in WHERE_TRIALS_RUN:
        if about.get(name) != other.get(name):
            what = f"its {name.replace('_', ' ')} is {other.get(name) or 'not known'}"
            return f"{what}, not {about.get(name)}"
    return ""


def _other_versions(other: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return which versions have changed since, or ``""``."""
    changed = [name for name in VERSIONS if other.get(name) != about.get(name)]
    if not changed:
        return ""
    then = ", ".join(f"{name} {other.get(name) or 'unknown'}" for name in changed)
    now = ", ".join(str(about.get(name) or "unknown") for name in changed)
    return f"it was measured with {then}, not {now}"


def _unusable(plan: Plan, study: SavedStudy, objective: str) -> str:
    """Return why this search cannot use a study's trials, or ``""``."""
    ended = [t for t in study.trials if t.stage == "confirm" and t.record.ok]
    if not ended:
        return "it is not finished"
    if not any(trial.record.ok for trial in by_objective(ended, objective)):
        return f"its trials have no {objective.replace('-', ' ')}"
    own = {knob.key for knob in plan.space.knobs}
    if {knob.key for knob in study.plan.space.knobs} != own:
        return "it varied other keys"
    return ""


def _compare_jobs(plan: Plan, other: Job) -> tuple[str, float, str]:
    """Return how another job differs, its distance, and why it is too different."""
    own, knobs = plan.config.job, plan.space.knobs
    fields = dict.fromkeys((*(k.role for k in knobs if k.role), *SAME))
    for name in (field for field in fields if not traits_of(field).may_differ):
        here, there = own.find(name), other.find(name)
        if here != there:
            return "", math.inf, f"`{name}` is {there} there and {here} here"
    differs, distance = [], 0.0
    for name, word in SHAPE.items():
        here, there = own.find(name), other.find(name)
        if here == there:
            continue
        difference = f"{word} {here} instead of {there}"
        ratio = _ratio(here, there)
        if ratio > FACTOR:
            return "", math.inf, f"{difference} is too far"
        differs.append(difference)
        distance += math.log(ratio)
    return ", ".join(differs) or "the same model", distance, ""


def _ratio(one: Any, other: Any) -> float:
    if not all(isinstance(value, (int, float)) and value > 0 for value in (one, other)):
        return math.inf
    return float(max(one, other) / min(one, other))
