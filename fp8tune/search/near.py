"""Which earlier studies a search may start from: those of a near config.

Near is the same GPU, trainer, precision and parallelism, and a model of nearly the same
shape. What was measured with other versions of the software is stale and never used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from fp8tune.job import Job, Unknown
from fp8tune.search.aim import SPEED, aimed
from fp8tune.search.plan import Plan
from fp8tune.search.saved import SavedStudy, load_study
from fp8tune.search.storage import BadStudy

SETTING = ("trainer", "device", "machine", "gpu", "world_size")
"""What two studies have to say alike: where trials run, and what for."""
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
"""Fields of the job that are the same in near configs."""
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
MOST = 200
"""Studies that are looked at, the newest first."""
MAX_BYTES = 1 << 24
"""Largest journal of another study that is read."""


class Found(NamedTuple):
    """A study, the folder that it lies in, and how it differs from a search's own.

    ``wrong`` says why it cannot be started from, or ``""``.
    """

    folder: str
    study: SavedStudy
    differs: str
    distance: float
    wrong: str = ""


def nearest(
    plan: Plan, about: Mapping[str, Any], studies: str, own: str
) -> list[Found]:
    """The studies near a search, the nearest first, newer ones first among equals.

    ``own`` is the search's own folder. Those that are stale come after all others.
    """
    found = [
        one
        for folder in _newest(studies)
        if os.path.realpath(folder) != os.path.realpath(own)
        and (one := found_in(folder, plan, about)) is not None
        and (not one.wrong or one.wrong.startswith(STALE))
    ]
    return sorted(found, key=lambda one: (bool(one.wrong), one.distance))


STALE = "it was measured with"


def found_in(folder: str, plan: Plan, about: Mapping[str, Any]) -> Found | None:
    """The study of a folder beside a search; ``None`` where there is none."""
    try:
        study = load_study(folder, most=MAX_BYTES)
    except BadStudy:
        return None
    said = study.about
    differs, distance, far = _beside(plan.config.job, study.plan.config.job)
    aim = str(about.get("objective", SPEED))
    wrong = _elsewhere(said, about) or far or _unusable(plan, study, aim)
    return Found(folder, study, differs, distance, wrong or _stale(said, about))


def _newest(studies: str) -> list[str]:
    """Folders in the studies' folder, the last written first."""
    try:
        with os.scandir(studies) as entries:
            folders = [entry.path for entry in entries if entry.is_dir()]
        times = {folder: os.stat(folder).st_mtime for folder in folders}
    except OSError:
        return []
    return sorted(folders, key=lambda folder: (-times[folder], folder))[:MOST]


def _elsewhere(said: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Why a study's trials ran where this search's do not, or ``""``."""
    if ("records" in said) != ("records" in about):
        return "one is a replay and the other is not"
    for name in SETTING:
        mine, other = about.get(name), said.get(name)
        if mine != other:
            return f"its {name.replace('_', ' ')} is {other or 'not known'}, not {mine}"
    return ""


def _stale(said: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Which versions have changed since, or ``""``."""
    changed = [name for name in VERSIONS if said.get(name) != about.get(name)]
    if not changed:
        return ""
    then = ", ".join(f"{name} {said.get(name) or 'unknown'}" for name in changed)
    now = ", ".join(str(about.get(name) or "unknown") for name in changed)
    return f"{STALE} {then}; here is {now}"


def _unusable(plan: Plan, study: SavedStudy, aim: str) -> str:
    ended = [t for t in study.trials if t.stage == "confirm" and t.record.ok]
    if not ended:
        return "it is not finished"
    if not any(trial.record.ok for trial in aimed(ended, aim)):
        return f"its trials do not tell their {aim.replace('-', ' ')}"
    mine = {knob.key for knob in plan.space.knobs}
    if {knob.key for knob in study.plan.space.knobs} != mine:
        return "it searched other keys"
    return ""


def _beside(mine: Job, other: Job) -> tuple[str, float, str]:
    """How a study's job differs, how far that is, and what makes it too far."""
    for name in SAME:
        one, two = _value(mine, name), _value(other, name)
        if one != two:
            return "", math.inf, f"`{name}` is {two} there and {one} here"
    differs, distance = [], 0.0
    for name, word in SHAPE.items():
        one, two = _value(mine, name), _value(other, name)
        if one == two:
            continue
        said = f"{word} {one} instead of {two}"
        ratio = _ratio(one, two)
        if ratio > FACTOR:
            return "", math.inf, f"{said} is too far"
        differs.append(said)
        distance += math.log(ratio)
    return ", ".join(differs) or "the same model", distance, ""


def _value(job: Job, name: str) -> Any:
    try:
        return job[name]
    except Unknown:
        return None


def _ratio(one: Any, two: Any) -> float:
    if not all(isinstance(value, (int, float)) and value > 0 for value in (one, two)):
        return math.inf
    return float(max(one, two) / min(one, two))
