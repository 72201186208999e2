"""Studies as other commands read them, or delete them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import optuna

from fp8tune.config.own_trainer import BadTrainer, add_trainer
from fp8tune.formats.document import InvalidText, Unreadable
from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.database import without_password
from fp8tune.search.description import Description
from fp8tune.search.plan import Plan, restored
from fp8tune.search.storage import (
    MAX_BYTES,
    BadStudy,
    errors_of,
    open_storage,
)
from fp8tune.search.study import (
    about_of,
    are_alive,
    checked,
    in_order,
    is_lost,
    study_name,
)
from fp8tune.studies import JOURNAL
from fp8tune.trainers.about import misnamed
from fp8tune.trials.space import Knob, Point, Space
from fp8tune.trials.trial import Trial


class SavedStudy(NamedTuple):
    """A study: its folder, the description of its search, its plan and its trials.

    ``has_workers``: processes with heartbeats search it now.
    """

    folder: str
    about: Description
    plan: Plan
    trials: Sequence[Trial]
    has_workers: bool = False

    @property
    def name(self) -> str:
        """The folder's own name."""
        return os.path.basename(os.path.abspath(self.folder))


def load_study(folder: str, url: str = "", most: int = MAX_BYTES) -> SavedStudy:
    """Read a study without changing anything in it; raises ``BadStudy``."""
    study, place = _found(folder, url, most), url or os.path.join(folder, JOURNAL)
    about, trials = about_of(study), _trials(study, place)
    with errors_of(place):
        has_workers = are_alive(study)
    place = without_password(place)
    try:
        plan = _plan(about)
    except (KeyError, TypeError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise BadStudy(f"{place}: this version did not write it ({wrong})") from None
    except (CannotSearch, InvalidText, Unreadable) as error:
        raise BadStudy(f"{place}: the config in it: {error}") from None
    for trial in trials:
        try:
            plan.space.point(trial.record.knobs)
        except KeyError as error:
            where = f"{place}: trial {trial.number}"
            why = f"not a knob or value of the study: {error}"
            raise BadStudy(f"{where}: {why}") from None
    return SavedStudy(folder, about, plan, trials, has_workers)


def look(
    folder: str, url: str = "", most: int = MAX_BYTES
) -> tuple[Description, list[Trial]]:
    """Return a study's description and its trials so far, without writing anything.

    A search may be running in the folder. A journal of more than ``most`` bytes is not
    read. Raises ``BadStudy``.
    """
    study = _found(folder, url, most)
    return about_of(study), _trials(study, url or os.path.join(folder, JOURNAL))


def _found(folder: str, url: str, most: int) -> optuna.Study:
    """Return the study of a folder; raises ``BadStudy`` if there is none."""
    study = _known(folder, url, most)
    if study is None:
        place = url or os.path.join(folder, JOURNAL)
        named = f"no study {os.path.basename(folder)} here"
        hint = "no study found here; a study in a database needs --storage URL"
        raise BadStudy(f"{without_password(place)}: {named if url else hint}")
    return study


def names_in(url: str) -> list[str]:
    """Return the names of the studies of searches in a storage.

    Raises ``BadStudy`` if there is no such storage, or if it does not answer.
    """
    if _is_missing(url):
        raise BadStudy(f"{url}: no such file")
    with errors_of(url):
        every = open_storage(url, create=False).get_all_studies()
    return sorted(s.study_name for s in every if "config_text" in s.user_attrs)


def stored_where(url: str, about: Description) -> str:
    """Return a storage without its password, and where a study in it was searched."""
    last = about.searched_in
    return without_password(url) + f", last searched in {last}" * bool(last)


def described(folder: str, url: str = "") -> Description | None:
    """Return a study's description, ``None`` without a study; raises ``BadStudy``."""
    study = _known(folder, url, MAX_BYTES)
    return None if study is None else about_of(study)


def _known(folder: str, url: str, most: int) -> optuna.Study | None:
    """Return the study of a folder, in its journal or in another storage, if any."""
    place = url or os.path.join(folder, JOURNAL)
    if _is_missing(place):
        return None
    storage = open_storage(place, create=False, most=most)
    with errors_of(place):
        name = study_name(folder, url, storage)
        if name not in optuna.get_all_study_names(storage):
            return None
        return optuna.load_study(study_name=name, storage=storage)


def _is_missing(place: str) -> bool:
    """Return whether a storage is a file that does not exist."""
    file = place.removeprefix("sqlite:///").removeprefix("file:").partition("?")[0]
    return "://" not in file and not os.path.lexists(file)


def _trials(study: optuna.Study, place: str) -> list[Trial]:
    """Return the trials that ended with a result."""
    with errors_of(place):
        every = study.get_trials(deepcopy=False)
    ended = (t for t in every if t.state.is_finished() and not is_lost(t))
    return in_order(checked(trial, place) for trial in ended)


def delete_study(folder: str, url: str = "") -> str:
    """Delete a study's folder if it is here, and its trials in another storage.

    Returns what was deleted. Raises ``BadStudy`` if there is none or if it is searched
    now, and ``OSError``.
    """
    study, deleted = _found(folder, url, MAX_BYTES), []
    with errors_of(url or folder):
        if are_alive(study):
            raise BadStudy(f"{folder}: a search is running on it; end that first")
        if url:
            where = stored_where(url, about_of(study))
            deleted = [f"study {study.study_name} in {where}"]
            optuna.delete_study(study_name=study.study_name, storage=study._storage)
    if os.path.isdir(folder):
        shutil.rmtree(folder)
        deleted.insert(0, folder)
    return " and ".join(deleted)


def _plan(about: Description) -> Plan:
    for name in ("config", "output"):
        if b"\0" in os.fsencode(str(about.get(name))):
            raise ValueError(f"{name} is no path")
    name, described = str(about["trainer"]), about.get("trainer_file")
    if misnamed(name) and isinstance(described, str):
        with suppress(BadTrainer):
            add_trainer(described)
    if misnamed(name):
        gone = f"; {described} described it" if described else ""
        raise ValueError(f"no trainer {name}{gone}")
    gpu, world_size = str(about["gpu"]), int(about["world_size"])
    target = Target(gpu, world_size, "--gpu", "--world-size")  # comments do not replace
    config = restored(about, target)
    config = config.having(written=tuple(map(str, about.get("overrides", ()))))
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
