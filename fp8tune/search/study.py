"""A study: one Optuna study per search, with one Optuna trial per trial.

A study is stored only in Optuna's storage. A trial's knobs are its parameters; the
other fields of its record are user attributes, most of them in one, ``record``. It is
COMPLETE if it measured the objective, PRUNED if it ran out of memory, else FAIL. Out of
memory is also a constraint, which Optuna's samplers respect. The study's user
attributes describe the search.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from fp8tune import atomic
from fp8tune.search.database import without_password
from fp8tune.search.objective import SPEED, UNITS
from fp8tune.search.storage import (
    ELSEWHERE,
    LOCK,
    BadStudy,
    alone_in,
    check_file,
    errors_of,
    open_storage,
)
from fp8tune.studies import JOURNAL, make_folder
from fp8tune.trials.order import Order, parse_order
from fp8tune.trials.record import BadRecord, Record, positive
from fp8tune.trials.space import Knob, Space
from fp8tune.trials.trial import STAGES, Trial, parse_trial, seconds_spent

STALE = "fp8tune:stale"
"""System attribute of a trial that its process did not finish: it never counts."""
ORDER, CLAIMED_BY = "fp8tune:order", "fp8tune:claimed-by"
"""System attributes of a trial that any worker may run: its order, and the number of
the worker that took it."""
WORKER_LOST = "fp8tune:worker-lost"
"""System attribute of a trial whose worker was lost in the middle of it."""
ALONE = ("outcome", "peak_gib", "reserved_gib", "capacity_gib", "alloc_retries")
RECORD = "record"
"""Fields of a record that are user attributes by themselves, because samplers read
them, and the attribute that holds the others: each one costs a database a commit
(benchmarks/results/scale_storage.md)."""
ENDED, TAKEN_UP = "ended", "process"
"""User attributes of a study: how its last search ended, and by how many processes it
was taken up."""
EXPORT = "trials.jsonl"
"""The export that a search leaves in its study's folder."""
FILES = (LOCK, JOURNAL, f"{JOURNAL}.bak")
"""Files in a study's folder that a search writes into."""
VALUE = {"tokens-per-joule": "tokens_per_joule"}
"""The field of a record that holds the value of an objective, if not tokens/s."""


class Study:
    """The study of one search, in memory if it has no folder.

    ``trials`` are those that ended, without trials of killed processes. ``process`` is
    the number of this process; the trials that it adds get it.

    A search runs its trials itself (``ask``), or workers do: it stores orders
    (``enqueue``), of which each goes to one worker (``claim``), and reads what these
    told (``refresh``). A worker does not read the results (``reads=False``): its
    ``trials`` are those that it told.
    """

    def __init__(
        self, space: Space, folder: str = "", url: str = "", *, reads: bool = True
    ) -> None:
        self.space = space
        self.folder = folder
        self.distributions = _distributions(space)
        self.process = 0
        self.trials: list[Trial] = []
        self._read: dict[int, Trial | None] = {}
        self.place = url or (os.path.join(folder, JOURNAL) if folder else "")
        self._storage: optuna.storages.BaseStorage = optuna.storages.InMemoryStorage()
        if folder:
            if not url:
                make_folder(folder)
            self._storage = open_storage(self.place, create=True, caches=reads)
        with errors_of(self.place):
            self.optuna = _created(
                self._storage, study_name(folder, url, self._storage)
            )
            name = self.optuna.study_name
            self._id = self._storage.get_study_id_from_name(name)
            self._end_stale()
        if reads:
            self.refresh()

    @property
    def storage(self) -> optuna.storages.BaseStorage:
        """The storage, for what belongs to the search and is no trial."""
        return self._storage

    @property
    def name(self) -> str:
        """The folder's own name."""
        return os.path.basename(self.folder)

    @property
    def about(self) -> dict[str, Any]:
        """What identifies the search, and how the last one ended."""
        return about_of(self.optuna)

    @property
    def spent(self) -> float:
        """Time that its trials took [s]."""
        return seconds_spent(self.trials)

    def describe(self, about: Mapping[str, Any]) -> None:
        """Store what is searched; forget how an earlier search ended."""
        objective = about.get("objective") or self.about.get("objective") or SPEED
        with errors_of(self.place), warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if self.optuna.metric_names != (names := [UNITS[objective]]):
                self.optuna.set_metric_names(names)
            known = self.optuna.user_attrs
            for name, value in about.items():
                value = json.loads(json.dumps(value))
                if name not in known or known[name] != value:
                    self.optuna.set_user_attr(name, value)
            if known.get(ENDED):
                self.optuna.set_user_attr(ENDED, {})

    def take_up(self) -> None:
        """Start a new process of the study: the machine may have changed since."""
        with errors_of(self.place):
            self.process = int(self.optuna.user_attrs.get(TAKEN_UP, 0))
            self.optuna.set_user_attr(TAKEN_UP, self.process + 1)

    def note(self, **ended: Any) -> None:
        """Store how the search ended."""
        with errors_of(self.place):
            self.optuna.set_user_attr(ENDED, ended)

    def ask(self, order: Order) -> int:
        """Start a trial in this process; return the number of the RUNNING trial.

        It is stored at once, with all its parameters: a process that is killed leaves
        only a trial without a result.
        """
        return self._create(TrialState.RUNNING, order.stage, order.knobs)

    def enqueue(self, order: Order) -> int:
        """Store a trial for any worker; return the number of the WAITING trial."""
        return self._create(
            TrialState.WAITING, order.stage, order.knobs, {ORDER: order.line()}
        )

    def claim(self, worker: int, name: str) -> tuple[int, Order] | None:
        """Take the first order that this worker may run, if there is one.

        No two workers get the same: Optuna lets one of them start a waiting trial.
        Raises ``BadRecord`` where the storage holds no order of this version.
        """
        for trial, order in self.orders(TrialState.WAITING):
            if order.worker not in ("", name):
                continue
            with errors_of(self.place), suppress(UpdateFinishedTrialError):
                running = TrialState.RUNNING
                if self._storage.set_trial_state_values(trial._trial_id, running):
                    self._storage.set_trial_system_attr(
                        trial._trial_id, CLAIMED_BY, worker
                    )
                    return trial.number, order
        return None

    def orders(self, *states: TrialState) -> list[tuple[FrozenTrial, Order]]:
        """Return the orders in some states; raises ``BadRecord``."""
        with errors_of(self.place):
            trials = self._storage.get_all_trials(
                self._id, deepcopy=False, states=states
            )
        lines = ((trial, trial.system_attrs.get(ORDER)) for trial in trials)
        return [(trial, parse_order(line)) for trial, line in lines if line]

    def has_ended(self, number: int) -> bool:
        """Return whether a trial has ended, as one that was given back."""
        return self._frozen(number).state.is_finished()

    def refresh(self) -> dict[int, Trial | None]:
        """Read the trials that ended since the last call; return these by number.

        ``None`` stands for a trial that was lost and does not count.
        """
        with errors_of(self.place):
            every = self.optuna.get_trials(deepcopy=False)
        ended: dict[int, Trial | None] = {}
        for trial in every:
            if trial.state.is_finished() and trial.number not in self._read:
                lost = trial.system_attrs.get(STALE)
                ended[trial.number] = None if lost else checked(trial, self.place)
        if ended:
            self._read |= ended
            self.trials = in_order(self._read.values())
        return ended

    def _create(
        self,
        state: TrialState,
        stage: str,
        knobs: dict[str, Any],
        system: dict[str, Any] | None = None,
    ) -> int:
        template = create_trial(
            state=state,
            params=self.space.params(self.space.point(knobs)),
            distributions=self.distributions,
            user_attrs={"stage": stage, TAKEN_UP: self.process},
            system_attrs=system,
        )
        with errors_of(self.place):
            trial = self._storage.create_new_trial(self._id, template)
            return self._storage.get_trial_number_from_id(trial)

    def tell(self, number: int, record: Record, **place: Any) -> Trial:
        """Finish a trial with its record; the record is on disk when this returns.

        ``place`` are further fields of the ``Trial``.
        """
        frozen = self._frozen(number)
        stage, process = (frozen.user_attrs[name] for name in ("stage", TAKEN_UP))
        trial = Trial(number, stage, record, process, **place)
        fields = json.loads(json.dumps(trial.data(), allow_nan=False))
        del fields["knobs"], fields["trial"]
        state, value = _state(trial, self.about.get("objective", ""))
        constraints = [float(record.outcome == "oom")]
        alone = {name: fields.pop(name) for name in ALONE if fields.get(name)}
        for name in ("stage", TAKEN_UP):
            fields.pop(name, None)
        with errors_of(self.place):
            for name, field in {**alone, RECORD: fields}.items():
                self._storage.set_trial_user_attr(frozen._trial_id, name, field)
            self._storage.set_trial_system_attr(
                frozen._trial_id, "constraints", constraints
            )
            values = None if value is None else [value]
            # Optuna's own `tell` reads the trial again, twice
            self._storage.set_trial_state_values(frozen._trial_id, state, values)
        self._read[number] = trial
        self.trials = in_order(self._read.values())
        return self.trials[-1] if self.trials[-1].number == number else trial

    def lose(self, number: int) -> None:
        """End a trial that was interrupted: it does not count.

        Nothing happens if it ended meanwhile. If its worker tells its result at the
        same time, the trial is either told or lost.
        """
        trial = self._frozen(number)._trial_id
        with errors_of(self.place), suppress(UpdateFinishedTrialError):
            self._storage.set_trial_system_attr(trial, STALE, True)
            self._storage.set_trial_user_attr(trial, "outcome", "launch")
            self._storage.set_trial_state_values(trial, TrialState.FAIL)

    def count_lost_workers(self, number: int) -> int:
        """Note that a trial's worker was lost; return of how many trials that is so.

        They are the trials of the same setting and process. Raises
        ``UpdateFinishedTrialError`` if the trial ended meanwhile.
        """
        trial = self._frozen(number)
        with errors_of(self.place):
            self._storage.set_trial_system_attr(trial._trial_id, WORKER_LOST, True)
            every = self.optuna.get_trials(deepcopy=False)
        own = trial.params, trial.user_attrs[TAKEN_UP]
        lost = (t for t in every if WORKER_LOST in t.system_attrs)
        return sum((t.params, t.user_attrs.get(TAKEN_UP)) == own for t in lost)

    def add(self, stage: str, record: Record, **place: Any) -> Trial:
        """Add a trial that has already run."""
        number = self._create(TrialState.RUNNING, stage, record.knobs)
        return self.tell(number, record, **place)

    def export(self, path: str) -> None:
        """Write the trials as JSON lines that a replay reads; raises ``OSError``."""
        text = "".join(
            f"{json.dumps(trial.data(), allow_nan=False)}\n" for trial in self.trials
        )
        atomic.write(path, text.encode(), through=not self._is_own(path))

    def _is_own(self, path: str) -> bool:
        folder = os.path.realpath(os.path.dirname(path) or ".")
        return bool(self.folder) and folder == os.path.realpath(self.folder)

    def _frozen(self, number: int) -> FrozenTrial:
        with errors_of(self.place):
            trial = self._storage.get_trial_id_from_study_id_trial_number
            return self._storage.get_trial(trial(self._id, number))

    def _end_stale(self) -> None:
        """End the trials that a killed process left RUNNING, not those of workers."""
        left = self.optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        for trial in left:
            if ORDER not in trial.system_attrs:
                self.lose(trial.number)


def open_study(folder: str, space: Space, held: ExitStack, url: str = "") -> Study:
    """Open the study of a search, locked for this process until ``held`` is closed.

    Raises ``BadStudy`` if another search is running in the folder, or if the folder has
    a link in place of a file, or a trial of another search.
    """
    for name in FILES:
        path = os.path.join(folder, name)
        with suppress(FileNotFoundError, NotADirectoryError):
            check_file(path, os.lstat(path).st_mode)
    is_new = not os.path.isdir(folder)
    try:
        held.enter_context(alone_in(folder))
    except OSError as error:
        where = f"{error.filename or folder}: {error.strerror}"
        raise BadStudy(f"{where}; {ELSEWHERE}") from None
    try:
        study = Study(space, folder, url)
    except BadStudy:
        if is_new and url:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for trial in study.trials:
        try:
            space.point(trial.record.knobs)
        except KeyError as error:
            what = f"not a setting of this search ({error}); remove the study"
            where = f"{study.place}: trial {trial.number}"
            raise BadStudy(f"{where}: {what}") from None
    return study


def _created(storage: optuna.storages.BaseStorage, name: str) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # no log line for a new study
    sampler = optuna.samplers.RandomSampler(0)
    if name in optuna.get_all_study_names(storage):
        return optuna.load_study(study_name=name, storage=storage, sampler=sampler)
    return optuna.create_study(
        storage=storage,
        study_name=name,
        direction="maximize",
        sampler=sampler,
        load_if_exists=True,  # another folder may create it at the same time
    )


def study_name(folder: str, url: str, storage: optuna.storages.BaseStorage) -> str:
    """Return the study's name: the folder's, or the old name of a renamed folder."""
    names = [] if url else optuna.get_all_study_names(storage)
    return names[0] if names else os.path.basename(os.path.abspath(folder))


def about_of(study: optuna.Study) -> dict[str, Any]:
    """Return what identifies a search, and how the last one ended."""
    about = dict(study.user_attrs)
    ended = about.pop(ENDED, {})
    about.pop(TAKEN_UP, None)
    return {**about, **(ended if isinstance(ended, dict) else {})}


def in_order(trials: Iterable[Trial | None]) -> list[Trial]:
    """Return the trials that count, by number, with their positions."""
    known = sorted(filter(None, trials), key=lambda trial: trial.number)
    return [trial._replace(position=place) for place, trial in enumerate(known)]


def checked(trial: FrozenTrial, place: str) -> Trial:
    """Return a trial as a search knows it; raises ``BadStudy`` for one of another."""
    try:
        return _trial(trial)
    except (BadRecord, TypeError, ValueError) as error:
        where = f"{without_password(place)}: trial {trial.number}"
        raise BadStudy(f"{where}: not a trial of a search ({error})") from None


def _trial(trial: FrozenTrial) -> Trial:
    stage, process = trial.user_attrs.get("stage"), trial.user_attrs.get(TAKEN_UP, 0)
    if stage not in STAGES or type(process) is not int:
        raise BadRecord(f"no stage {stage!r}")
    knobs = {key: value for key, value in trial.params.items() if value is not None}
    attributes = dict(trial.user_attrs)
    rest = attributes.pop(RECORD, {})
    fields = {"knobs": knobs, **attributes, **(rest if isinstance(rest, dict) else {})}
    # through JSON text, which drops NaN and numbers that a record cannot have
    return parse_trial(trial.number, json.dumps(fields))


def _state(trial: Trial, objective: str) -> tuple[TrialState, float | None]:
    """Return a trial's state in Optuna, and its value.

    Loss runs are FAIL, because samplers ignore those and the speed of such a run means
    nothing.
    """
    record = trial.record
    value = getattr(record, VALUE.get(objective, "tokens_per_second"))
    if record.ok and trial.stage != "stability" and positive(value):
        return TrialState.COMPLETE, float(value)
    if record.outcome == "oom":
        return TrialState.PRUNED, None
    return TrialState.FAIL, None


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    return {knob.key: _distribution(knob) for knob in space.knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    """Return a knob's distribution: log scale for micro-batches, else categorical."""
    values = knob.values
    counts = [value for value in values if type(value) is int and value > 0]
    if knob.role == "micro_batch" and len(counts) == len(values):
        return IntDistribution(min(counts), max(counts), log=True)
    if len(set(values)) < len(values):  # Optuna treats 1, 1.0 and true as equal
        many = ", ".join(map(repr, values))
        raise BadStudy(f"`{knob.key}`: two of its values are equal numbers: {many}")
    return CategoricalDistribution(values)
