"""Read a study from its folder, with the search that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from fp8tune.job import Target
from fp8tune.search.plan import CannotPlan, Plan, read_config
from fp8tune.search.storage import MAX_BYTES, NAME, BadStudy, without_password
from fp8tune.search.study import look
from fp8tune.toml.document import InvalidToml, Unreadable
from fp8tune.trainers.trainer import NAMES
from fp8tune.trials.space import Knob, Point, Space
from fp8tune.trials.trial import Trial


class SavedStudy(NamedTuple):
    """A study: its folder, what is known of its search, its plan, its trials."""

    folder: str
    about: dict[str, Any]
    plan: Plan
    trials: Sequence[Trial]

    @property
    def name(self) -> str:
        """The folder's own name."""
        return os.path.basename(os.path.abspath(self.folder))


def load_study(folder: str, url: str = "", most: int = MAX_BYTES) -> SavedStudy:
    """Read a study without changing anything in it; raises ``BadStudy``."""
    about, trials = look(folder, url, most)
    place = without_password(url) or os.path.join(folder, NAME)
    try:
        plan = _plan(about)
    except (KeyError, TypeError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise BadStudy(f"{place}: this version did not write it ({wrong})") from None
    except (CannotPlan, InvalidToml, Unreadable) as error:
        raise BadStudy(f"{place}: the config in it: {error}") from None
    for trial in trials:
        try:
            plan.space.point(trial.record.knobs)
        except KeyError as error:
            where = f"{place}: trial {trial.number}"
            raise BadStudy(f"{where}: no knob or value of the study: {error}") from None
    return SavedStudy(folder, about, plan, trials)


def _plan(about: dict[str, Any]) -> Plan:
    for name in ("config", "output"):
        if b"\0" in os.fsencode(str(about.get(name))):
            raise ValueError(f"{name} is no path")
    path, text = str(about["config"]), str(about["config_text"])
    if about["trainer"] not in NAMES:
        raise ValueError("trainer")
    target = Target(str(about["gpu"]), int(about["world_size"]))
    config = read_config(path, text.encode(), target, about["trainer"])
    config = config._replace(overrides=tuple(map(str, about.get("overrides", ()))))
    knobs = [_knob(**fields) for fields in about["knobs"]]
    only = [_point(knobs, places) for places in about["points"]]
    return Plan(config, Space(knobs, only), _point(knobs, about["given"]))


def _knob(key: str, values: list[Any], role: str, frozen: bool) -> Knob:
    plain = (str, bool, int, float, type(None))
    if not all(isinstance(value, plain) for value in values):
        raise ValueError(f"values of {key}")
    return Knob(str(key), tuple(values), str(role), bool(frozen))


def _point(knobs: Sequence[Knob], places: Sequence[int]) -> Point:
    for knob, place in zip(knobs, places, strict=True):
        if not isinstance(place, int) or not 0 <= place < len(knob.values):
            raise ValueError(f"a place of {knob.key}")
    return tuple(places)
