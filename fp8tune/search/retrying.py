"""A storage that waits while its database server does not answer.

A server that restarts ends every connection for some seconds or minutes. A search that
has run for hours should wait for it. Optuna's storage raises, ``RetryingStorage``
repeats.

When the connection is lost, nobody knows whether the last change was stored. Reading
and setting an attribute can be repeated as they are. The others:

- A new trial carries a token. Before it is created again, it is looked for.
- A trial that already has the state and the values that it should get has ended.
"""

from __future__ import annotations

import copy
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import optuna
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial, TrialState, create_trial

from fp8tune.search.say import note

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import ExceptionContext

RETRY_S = 300.0
"""How long a server may be away [s]; after a crash it needs seconds to minutes."""
LONGEST_WAIT_S = 10.0
LOCKS = 0x66703874
"""First key of the locks in PostgreSQL, so that other programs have others."""
TOKEN = "fp8tune:token"  # noqa: S105
"""System attribute of a trial by which its creation is found again."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Outage(Exception):
    """A database server does not answer; its cause is the driver's error."""


def raise_outages(engine: Engine) -> None:
    """Let an engine raise ``Outage`` where its server ended or refused a connection."""
    from sqlalchemy import event

    event.listen(engine, "handle_error", _on_error)


def _on_error(context: ExceptionContext) -> None:
    from sqlalchemy.exc import InterfaceError, OperationalError

    error = context.original_exception
    if not isinstance(error, Exception):  # Ctrl-C, which ends the connection too
        return
    is_outage = context.is_disconnect
    if isinstance(context.sqlalchemy_exception, (InterfaceError, OperationalError)):
        state = sql_state(error)
        is_outage |= not state or state[:2] in ("08", "57")
        is_outage |= state in (TOO_MANY, LOCKED)
    if is_outage:
        raise Outage(str(error))


TOO_MANY = "53300"
"""SQLSTATE of a server that has as many connections as it allows."""
LOCKED = "55P03"
"""SQLSTATE of a row that another process holds for too long."""


def sql_state(error: BaseException) -> str:
    """Return the five characters that name an error in SQL; "" if it has none."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _repeated(call: F) -> F:
    """Return a method that repeats this call of a storage until the server answers."""

    def method(self: RetryingStorage, *values: Any, **named: Any) -> Any:
        name = call.__name__
        return self._repeat(lambda: getattr(self._storage, name)(*values, **named))

    return cast("F", method)


class RetryingStorage(BaseStorage, BaseHeartbeat):
    """A storage that repeats each call until the server answers.

    ``name`` is what notes call the storage; ``engine`` is that of PostgreSQL. After
    ``retry_s`` a call raises its ``Outage``. Any number of threads may share it.
    """

    def __init__(
        self,
        storage: BaseStorage,
        name: str,
        engine: Engine | None = None,
        retry_s: float = RETRY_S,
        say: Callable[[str], None] = note,
    ) -> None:
        self._storage = storage
        self._name = name
        self._engine = engine
        self._answered = -math.inf
        self._retry_s = retry_s
        self._say = say
        self._lock = threading.Lock()
        self._away_since: float | None = None

    def _repeat(self, call: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """Return what a call returns; after an outage call ``again`` in its place."""
        start, wait = time.monotonic(), 0.5
        while True:
            try:
                result = call()
            except Outage as outage:
                self._note_outage(outage)
                if time.monotonic() - start + wait > self._retry_s:
                    raise
                time.sleep(wait)
                call, wait = again or call, min(2 * wait, LONGEST_WAIT_S)
            else:
                self._note_answer()
                return result

    def _note_outage(self, outage: Outage) -> None:
        """Say once that the server is away."""
        with self._lock:
            if self._away_since is not None:
                return
            self._away_since = time.monotonic()
        reason = str(outage).partition("\n")[0]
        self._say(
            f"{self._name} does not answer ({reason}); "
            f"trying again for {self._retry_s:.0f} s"
        )

    def _note_answer(self) -> None:
        if self._away_since is None:
            return
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            self._answered = time.monotonic()
            away = self._answered - since
            self._say(f"{self._name} answers again after {away:.0f} s")

    @contextmanager
    def locked(self, key: int) -> Iterator[None]:
        """Let one process at a time be in this block, until it leaves or ends."""
        if self._engine is None:
            yield
            return
        connection = self._repeat(lambda: self._with_lock(key))
        try:
            yield
        finally:
            with suppress(Exception):  # the server may have ended the connection
                connection.close()

    def _with_lock(self, key: int) -> Connection:
        assert self._engine is not None
        connection = self._engine.connect()
        try:
            # others may plan for long; a dead host's transaction ends by ``LIMITS``
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCKS}, {key})")
        except BaseException:
            connection.close()
            raise
        return connection

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        """Return no trial soon after an outage: nobody's heartbeat came through."""
        stale = self._repeat(lambda: self._heart._get_stale_trial_ids(study_id))
        every = self.get_heartbeat_interval() or 0
        recovers = time.monotonic() - self._answered < LONGEST_WAIT_S + 2 * every
        return [] if recovers else stale

    def record_heartbeat(self, trial_id: int) -> None:
        """Store that a trial's process lives."""
        with suppress(Outage):  # which the main thread meets too
            self._repeat(lambda: self._heart.record_heartbeat(trial_id))

    def get_heartbeat_interval(self) -> int | None:
        """Return the seconds between heartbeats; ``None`` without any."""
        storage = self._storage
        if not isinstance(storage, BaseHeartbeat):
            return None
        return storage.get_heartbeat_interval()

    def get_heartbeat_stale_trial_callback(
        self,
    ) -> Callable[[optuna.Study, FrozenTrial], None] | None:
        """Return what is called for a trial whose process is lost."""
        return self._heart.get_heartbeat_stale_trial_callback()

    @property
    def _heart(self) -> BaseHeartbeat:
        assert isinstance(self._storage, BaseHeartbeat)
        return self._storage

    def create_new_trial(
        self, study_id: int, template_trial: FrozenTrial | None = None
    ) -> int:
        """Create a trial, once."""
        trial = copy.copy(template_trial or create_trial(state=TrialState.RUNNING))
        token = uuid.uuid4().hex
        trial.system_attrs = {**trial.system_attrs, TOKEN: token}

        def create() -> int:
            return self._storage.create_new_trial(study_id, trial)

        def again() -> int:
            stored = self._storage.get_all_trials(study_id, deepcopy=False)
            own = (t._trial_id for t in stored if t.system_attrs.get(TOKEN) == token)
            found = next(own, None)
            return create() if found is None else found

        return self._repeat(create, again)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Set a trial's state and values."""
        storage = self._storage

        def change() -> bool:
            return storage.set_trial_state_values(trial_id, state, values)

        def again() -> bool:
            now = storage.get_trial(trial_id)
            is_set = now.state == state and now.values == (values and list(values))
            return is_set or change()

        return self._repeat(change, again)

    def remove_session(self) -> None:
        """Close this thread's connection."""
        self._storage.remove_session()

    # repeated calls of these change nothing more; ``optuna.create_study`` loads a study
    # that is already there
    create_new_study = _repeated(BaseStorage.create_new_study)
    delete_study = _repeated(BaseStorage.delete_study)
    set_study_user_attr = _repeated(BaseStorage.set_study_user_attr)
    set_study_system_attr = _repeated(BaseStorage.set_study_system_attr)
    get_study_id_from_name = _repeated(BaseStorage.get_study_id_from_name)
    get_study_name_from_id = _repeated(BaseStorage.get_study_name_from_id)
    get_study_directions = _repeated(BaseStorage.get_study_directions)
    get_study_user_attrs = _repeated(BaseStorage.get_study_user_attrs)
    get_study_system_attrs = _repeated(BaseStorage.get_study_system_attrs)
    get_all_studies = _repeated(BaseStorage.get_all_studies)
    set_trial_param = _repeated(BaseStorage.set_trial_param)
    set_trial_intermediate_value = _repeated(BaseStorage.set_trial_intermediate_value)
    set_trial_user_attr = _repeated(BaseStorage.set_trial_user_attr)
    set_trial_system_attr = _repeated(BaseStorage.set_trial_system_attr)
    get_trial = _repeated(BaseStorage.get_trial)
    get_trial_id_from_study_id_trial_number = _repeated(
        BaseStorage.get_trial_id_from_study_id_trial_number
    )
    get_all_trials = _repeated(BaseStorage.get_all_trials)
    get_best_trial = _repeated(BaseStorage.get_best_trial)
