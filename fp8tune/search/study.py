"""A study: one Optuna study per search, with one Optuna trial per trial.

A study is stored only in Optuna's storage. A trial's knobs are its parameters; the
other fields of its record are user attributes, most of them in one, ``record``. Its
constraints say why its setting may not be chosen (``constraints.py``). It is COMPLETE
if it measured the objective, PRUNED if its setting fails, and FAIL if a failure may
pass, or if it is a loss run. The study's user attributes describe the search.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages._heartbeat import (
    BaseHeartbeat,
    BaseHeartbeatThread,
    get_heartbeat_thread,
    is_heartbeat_enabled,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from fp8tune import atomic
from fp8tune.search import CannotSearch
from fp8tune.search.constraints import LOSS_GAP, constraints_of, set_constraints
from fp8tune.search.database import without_password
from fp8tune.search.description import Description
from fp8tune.search.objective import UNITS
from fp8tune.search.storage import (
    BEAT_S,
    ELSEWHERE,
    BadStudy,
    alone_in,
    check_file,
    errors_of,
    one_at_a_time,
    open_storage,
)
from fp8tune.studies import JOURNAL, LOCK, make_folder
from fp8tune.trials.order import PlannedTrial
from fp8tune.trials.record import BadRecord, LossRun, Record, positive
from fp8tune.trials.space import Knob, Point, Space
from fp8tune.trials.trial import STAGES, Trial, parse_trial, seconds_spent
from fp8tune.words import counted

PLAN = "fp8tune:plan"
"""System attribute of a trial: what other processes see of it while it runs."""
STALE = "fp8tune:stale"
"""System attribute of a trial that its process gave back: it never counts."""
LOSSES = 2
"""A setting fails if so many processes were lost in the middle of its trials."""
ALONE = ("peak_gib", "capacity_gib")
RECORD = "record"
"""Fields of a record that are user attributes by themselves, because samplers read
them, and the attribute that holds the others: each one costs a database a commit."""
ENDED, TAKEN_UP, ENVIRONMENT = "ended", "process", "environment"
"""User attributes of a study: how its last search ended, how often it was taken up, and
what all processes that joined it have in common."""
FILES = (LOCK, JOURNAL)
"""Files in a study's folder that a search writes into."""
VALUE = {"tokens-per-joule": "tokens_per_joule"}
"""The field of a record that holds the value of an objective, if not tokens/s."""


class Study:
    """The study of one search, in memory if it has no folder.

    ``trials`` are those that ended, without trials of killed processes; ``running`` are
    those that run. ``process`` says how often the study was continued before; trials
    get it as their number of the process.

    Any number of processes search a study. One at a time plans (``planning``): it reads
    what the others did (``refresh``) and starts a trial (``ask``). Optuna's heartbeat
    shows that a trial's process lives; it comes every ``beat_s`` seconds.
    """

    def __init__(
        self, space: Space, folder: str = "", url: str = "", beat_s: float = BEAT_S
    ) -> None:
        self.space = space
        self.folder = folder
        self.distributions = _distributions(space)
        self.process = 0
        self.trials: list[Trial] = []
        self.running: dict[int, PlannedTrial] = {}
        self._read: dict[int, Trial | None] = {}
        self.place = url or (os.path.join(folder, JOURNAL) if folder else "")
        self._storage: optuna.storages.BaseStorage = optuna.storages.InMemoryStorage()
        if folder:
            if not url:
                make_folder(folder)
            self._storage = open_storage(
                self.place, create=True, beat_s=beat_s, on_lost=fail_if_lost_again
            )
        with errors_of(self.place):
            self.optuna = _created(
                self._storage, study_name(folder, url, self._storage)
            )
            name = self.optuna.study_name
            self._id = self._storage.get_study_id_from_name(name)
        self.refresh()

    @property
    def name(self) -> str:
        """The folder's own name."""
        return os.path.basename(self.folder)

    @property
    def about(self) -> Description:
        """What identifies the search, and how the last one ended."""
        return about_of(self.optuna)

    @property
    def spent(self) -> float:
        """Time that its trials took [s]."""
        return seconds_spent(self.trials)

    def describe(self, about: Mapping[str, Any]) -> None:
        """Store what is searched; forget how an earlier search ended."""
        objective = Description({**self.about, **about}).objective
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
        """Continue the study: the machine may have changed since.

        If others search it now, this process joins them.
        """
        with errors_of(self.place):
            self.process = int(self.optuna.user_attrs.get(TAKEN_UP, 0))
            if self.process and are_alive(self.optuna):
                self.process -= 1
            else:
                self.optuna.set_user_attr(TAKEN_UP, self.process + 1)

    def join(self, environment: Mapping[str, Any]) -> None:
        """Take part in the search of others, who decide what its trials depend on.

        Raises ``CannotSearch`` if trials here would depend on something else.
        """
        with self.planning(), errors_of(self.place):
            attributes = self.optuna.user_attrs
            common = attributes.get(ENVIRONMENT)
            if common is None:
                self.optuna.set_user_attr(ENVIRONMENT, common := dict(environment))
            self.process = max(0, int(attributes.get(TAKEN_UP, 0)) - 1)
        for name in sorted({*common, *environment}):
            here, there = environment.get(name), common.get(name)
            if here != there:
                why = f"its {name} is {here!r}, this search measures with {there!r}"
                raise CannotSearch(f"this machine cannot take part: {why}")

    def note(self, **ended: Any) -> None:
        """Store how the search ended."""
        with errors_of(self.place):
            self.optuna.set_user_attr(ENDED, ended)

    def planning(self) -> AbstractContextManager[None]:
        """Keep other processes from planning a trial at the same time."""
        return one_at_a_time(self._storage, self.place, self._id)

    def ask(self, planned: PlannedTrial) -> int:
        """Start a trial in this process; return the number of the RUNNING trial.

        It is stored at once, with all its parameters: a process that is killed leaves
        only a trial without a result.
        """
        plan = {
            "reason": planned.reason,
            "loss_run": planned.loss_run and list(planned.loss_run),
            "worker": planned.worker,
            "at_s": planned.at_s,
        }
        template = create_trial(
            state=TrialState.RUNNING,
            params=self.space.params(planned.point),
            distributions=self.distributions,
            user_attrs={"stage": planned.stage, TAKEN_UP: self.process},
            system_attrs={PLAN: plan},
        )
        with errors_of(self.place):
            trial = self._storage.create_new_trial(self._id, template)
            return self._storage.get_trial_number_from_id(trial)

    def beating(self, number: int) -> BaseHeartbeatThread:
        """Show that the process of a trial lives, until the end of the block."""
        return get_heartbeat_thread(self._frozen(number)._trial_id, self._storage)

    def fail_lost(self) -> None:
        """End the trials whose processes are lost."""
        with errors_of(self.place), warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.optuna)

    def refresh(self) -> dict[int, Trial | None]:
        """Read the trials; return those that ended since the last call, by number.

        ``None`` stands for a trial that was lost and does not count.
        """
        with errors_of(self.place):
            every = self.optuna.get_trials(deepcopy=False)
        ended: dict[int, Trial | None] = {}
        for trial in every:
            if trial.state.is_finished() and trial.number not in self._read:
                lost = is_lost(trial)
                ended[trial.number] = None if lost else self._checked(trial)
        self.running = {
            trial.number: self._planned(trial)
            for trial in every
            if trial.state == TrialState.RUNNING
        }
        if ended:
            self._read |= ended
            self.trials = in_order(self._read.values())
        return ended

    def tell(self, number: int, record: Record, **place: Any) -> Trial:
        """Finish a trial with its record; the record is on disk when this returns.

        ``place`` are further fields of the ``Trial``.
        """
        frozen = self._frozen(number)
        stage, process = (frozen.user_attrs[name] for name in ("stage", TAKEN_UP))
        trial = Trial(number, stage, record, process, **place)
        fields = json.loads(json.dumps(trial.data(), allow_nan=False))
        del fields["knobs"], fields["trial"]
        about = self.about
        baseline = tuple(about.get("given", ()))
        constraints = constraints_of(self.space, baseline, trial, self.trials)
        value = _value(trial, about.objective)
        alone = {name: fields.pop(name) for name in ALONE if fields.get(name)}
        for name in ("stage", TAKEN_UP):
            fields.pop(name, None)
        with errors_of(self.place):
            running = optuna.Trial(self.optuna, frozen._trial_id)
            set_constraints(running, constraints)
            for name, field in {**alone, RECORD: fields}.items():
                running.set_user_attr(name, field)
            values = [value] if value else None
            state = TrialState.COMPLETE if value else _state(trial, constraints)
            # Optuna's own `tell` reads the trial again, twice
            self._storage.set_trial_state_values(frozen._trial_id, state, values)
        self._read[number] = trial
        self.running.pop(number, None)
        self.trials = in_order(self._read.values())
        return self.trials[-1] if self.trials[-1].number == number else trial

    def lose(self, number: int) -> None:
        """Give a trial back that was interrupted: it does not count.

        Nothing happens if it ended meanwhile.
        """
        trial = self._frozen(number)._trial_id
        with errors_of(self.place), suppress(UpdateFinishedTrialError):
            self._storage.set_trial_system_attr(trial, STALE, True)
            self._storage.set_trial_state_values(trial, TrialState.FAIL)

    def add(self, stage: str, record: Record, **place: Any) -> Trial:
        """Add a trial that has already run."""
        planned = PlannedTrial(self.space.point(record.knobs), stage, "")
        return self.tell(self.ask(planned), record, **place)

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

    def _checked(self, trial: FrozenTrial) -> Trial:
        self._point(trial)
        return checked(trial, self.place)

    def _planned(self, trial: FrozenTrial) -> PlannedTrial:
        """Return a trial that runs, as its process has planned it."""
        stage, plan = trial.user_attrs.get("stage", "search"), _plan(trial)
        loss_run, at_s = plan.get("loss_run"), float(plan.get("at_s") or 0.0)
        return PlannedTrial(
            self._point(trial),
            stage,
            str(plan.get("reason") or ""),
            LossRun(*loss_run) if loss_run else None,
            str(plan.get("worker") or ""),
            at_s,
        )

    def _point(self, trial: FrozenTrial) -> Point:
        """Return a trial's setting; raise ``BadStudy`` for one of another search."""
        try:
            return self.space.point(_knobs(trial))
        except KeyError as error:
            what = f"not a setting of this search ({error}); remove the study"
            where = f"{without_password(self.place)}: trial {trial.number}"
            raise BadStudy(f"{where}: {what}") from None

    def end_stale(self) -> None:
        """End the trials that a killed process left RUNNING, which searched alone."""
        for number, running in self.running.items():
            if not running.worker:
                self.lose(number)
        self.refresh()


def open_study(
    folder: str, space: Space, held: ExitStack, url: str = "", beat_s: float = BEAT_S
) -> Study:
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
        study = Study(space, folder, url, beat_s)
        study.end_stale()
    except BadStudy:
        if is_new and url:
            shutil.rmtree(folder, ignore_errors=True)
        raise
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


def about_of(study: optuna.Study) -> Description:
    """Return what identifies a search, and how the last one ended."""
    about = dict(study.user_attrs)
    ended = about.pop(ENDED, {})
    for name in (TAKEN_UP, ENVIRONMENT):
        about.pop(name, None)
    return Description({**about, **(ended if isinstance(ended, dict) else {})})


def in_order(trials: Iterable[Trial | None]) -> list[Trial]:
    """Return the trials that count, by number, with their positions."""
    places = Counter[str]()
    positioned = []
    for trial in sorted(filter(None, trials), key=lambda trial: trial.number):
        positioned.append(trial._replace(position=places[trial.worker]))
        places[trial.worker] += 1
    return positioned


def is_lost(trial: FrozenTrial) -> bool:
    """Return whether a trial ended without a result, as its process did."""
    has_result = RECORD in trial.user_attrs and STALE not in trial.system_attrs
    return trial.state.is_finished() and not has_result


def fail_if_lost_again(study: optuna.Study, lost: FrozenTrial) -> None:
    """Add a failed trial of a setting in which processes were lost again and again.

    Optuna calls this for each trial whose process is lost. Its setting is tried again.
    If that process is lost too, the setting is probably why: Slurm kills a job that
    exceeds its memory, with the process.
    """
    own = lost.params, lost.user_attrs.get(TAKEN_UP)
    ended = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
    every = [t for t in ended if is_lost(t) and STALE not in t.system_attrs]
    times = sum((t.params, t.user_attrs.get(TAKEN_UP)) == own for t in every)
    if times < LOSSES:
        return
    earlier = counted(times - 1, "earlier trial")
    message = f"its worker was lost, as in {earlier} of this setting"
    plan = _plan(lost)
    fields = {
        "outcome": "launch",
        "message": message,
        "worker": str(plan.get("worker") or ""),
        "at_s": float(plan.get("at_s") or 0.0),
    }
    failed = create_trial(
        state=TrialState.FAIL,
        params=lost.params,
        distributions=lost.distributions,
        user_attrs={**lost.user_attrs, RECORD: fields},
    )
    study.add_trial(failed)


def are_alive(study: optuna.Study) -> bool:
    """Return whether a trial runs whose process lives, for people who look at it."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    storage = study._storage
    lost: Sequence[int] = ()
    if isinstance(storage, BaseHeartbeat) and is_heartbeat_enabled(storage):
        lost = storage._get_stale_trial_ids(study._study_id)
    return any(_plan(t).get("worker") and t._trial_id not in lost for t in running)


def _plan(trial: FrozenTrial) -> dict[str, Any]:
    return trial.system_attrs.get(PLAN) or {}


def _knobs(trial: FrozenTrial) -> dict[str, Any]:
    return {key: value for key, value in trial.params.items() if value is not None}


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
    attributes = dict(trial.user_attrs)
    rest = attributes.pop(RECORD, {})
    fields = {
        "knobs": _knobs(trial),
        **attributes,
        **(rest if isinstance(rest, dict) else {}),
    }
    # through JSON text, which drops NaN and numbers that a record cannot have
    return parse_trial(trial.number, json.dumps(fields))


def _value(trial: Trial, objective: str) -> float | None:
    """Return the objective's value; ``None`` if the trial did not measure it.

    The speed of a loss run means nothing.
    """
    value = getattr(trial.record, VALUE.get(objective, "tokens_per_second"))
    timed = trial.record.ok and trial.stage != "stability"
    return float(value) if timed and positive(value) else None


def _state(trial: Trial, constraints: Mapping[str, float]) -> TrialState:
    """Return the state in Optuna of a trial without a value; samplers ignore FAIL.

    PRUNED: the setting fails again, or its losses may not be those of FP8.
    """
    record = trial.record
    fails = not (record.ok or record.meaning.retry_once or trial.cut_off)
    violates = fails or constraints.get(LOSS_GAP, 0.0) > 0
    return TrialState.PRUNED if violates else TrialState.FAIL


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    return {knob.key: _distribution(knob) for knob in space.knobs}


def _distribution(knob: Knob) -> BaseDistribution:
    """Return a knob's distribution: log scale for batches, else categorical."""
    values = knob.values
    counts = [value for value in values if type(value) is int and value > 0]
    if knob.traits.is_batch and len(counts) == len(values):
        return IntDistribution(min(counts), max(counts), log=True)
    if len(set(values)) < len(values):  # Optuna treats 1, 1.0 and true as equal
        many = ", ".join(map(repr, values))
        raise BadStudy(f"`{knob.key}`: two of its values are equal numbers: {many}")
    return CategoricalDistribution(values)
