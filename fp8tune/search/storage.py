"""Storage of a study: a journal file in its folder, or any Optuna storage.

The journal is Optuna's, so that optuna-dashboard opens it. It survives a full disk, a
process that is killed in the middle of a line, and links that somebody put there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from fp8tune.atomic import no_link
from fp8tune.search import CannotSearch
from fp8tune.search.database import PACKAGES, open_database, reason, without_password
from fp8tune.search.retrying import RetryingStorage
from fp8tune.studies import LOCK, make_folder

MAX_BYTES = 1 << 28
"""Largest journal that is read."""
KEPT = "earlier trials are kept: the same command continues with them"
ELSEWHERE = "--studies DIR uses another folder"
BEAT_S = 10.0
"""Seconds between the heartbeats of a running trial, if no option says otherwise."""
MISSED = 6
"""Heartbeats that a trial may miss before its process counts as lost."""
BEAT = "fp8tune:beat"
"""System attribute of a trial in a journal: the time of its last heartbeat."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class BadStudy(CannotSearch):
    """A study cannot be read or written; the message says where and why."""


class Searched(BadStudy):
    """Another process on this machine searches the study of a folder."""

    def __init__(self, folder: str) -> None:
        self.study = os.path.basename(folder)
        super().__init__(f"{folder}: another search is running in it")


class JournalBackend(JournalFileBackend):
    """Optuna's journal in one file, whose lock ends with the process that holds it.

    Appends are atomic. Only a change of a trial's state waits for the disk (``fsync``),
    which also writes the attributes before it. Raises ``BadStudy`` and ``OSError``.
    """

    def __init__(self, path: str, most: int = MAX_BYTES) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)
            check_file(path, status.st_mode)
            if status.st_size > most:
                raise BadStudy(f"{path}: larger than {most >> 20} MiB")
        super().__init__(path)

    def repair(self) -> None:
        """Remove an incomplete last line, which a killed process has left.

        Raises ``BadStudy`` if the file is not a journal; such a file stays unchanged.
        """
        with _alone(self._file_path, "r+b") as file:
            self._remove_cut_line(file)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations: all or none."""
        lines = (json.dumps(log, separators=(",", ":")) for log in logs)
        data = "".join(f"{line}\n" for line in lines).encode()
        with _alone(self._file_path, "r+b") as file:
            if not _ends_whole(file):
                self._remove_cut_line(file)
            _append(file, data, sync=any("state" in log for log in logs))

    def _remove_cut_line(self, file: IO[bytes]) -> None:
        file.seek(0)
        data = file.read()
        *lines, rest = data.split(b"\n")
        wrong = (n for n, line in enumerate(lines) if not _is_operation(line))
        good = next(wrong, len(lines))
        begun = data[: len(_START)] == _START[: len(data)]
        if good < len(lines) - 1 or not (good or begun):
            what = "not an operation of a study; move the file, or name another storage"
            raise BadStudy(f"{self._file_path}:{good + 1}: {what}")
        if good < len(lines) or rest:
            file.truncate(sum(len(line) + 1 for line in lines[:good]))


class Journal(JournalStorage, BaseHeartbeat):
    """A study's journal on one machine, with Optuna's heartbeat.

    A running trial is stale if it did not beat for ``grace_s``. Optuna then calls
    ``on_lost``.
    """

    def __init__(
        self, backend: BaseJournalBackend, beat_s: float, on_lost: OnLost | None
    ) -> None:
        super().__init__(backend)
        self._beat_s = beat_s
        self._on_lost = on_lost

    def record_heartbeat(self, trial_id: int) -> None:
        """Store the time; a trial that has ended needs no heartbeat."""
        with contextlib.suppress(UpdateFinishedTrialError, BadStudy):
            self.set_trial_system_attr(trial_id, BEAT, time.time())

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        running = self.get_all_trials(
            study_id, deepcopy=False, states=(TrialState.RUNNING,)
        )
        last = {trial._trial_id: trial.system_attrs.get(BEAT) for trial in running}
        oldest = time.time() - MISSED * self._beat_s
        return [trial for trial, beat in last.items() if beat and beat < oldest]

    def get_heartbeat_interval(self) -> int | None:
        """Return the seconds between heartbeats, which need not be whole."""
        return self._beat_s  # type: ignore[return-value]

    def get_heartbeat_stale_trial_callback(self) -> OnLost | None:
        """Return what is called for a trial whose process is lost."""
        return self._on_lost


OnLost = Callable[[optuna.Study, FrozenTrial], None]
_START = b'{"op_code":'


def check_file(path: str, mode: int) -> None:
    """Raise ``BadStudy`` unless a file of that mode is a regular file."""
    if not stat.S_ISREG(mode):
        odd = "a link" if stat.S_ISLNK(mode) else "not a regular file"
        raise BadStudy(f"{path}: {odd}, not a file of a search; remove it")


def _is_operation(line: bytes) -> bool:
    try:
        return "op_code" in json.loads(line)
    except (TypeError, ValueError, RecursionError):
        return False


def _ends_whole(file: IO[bytes]) -> bool:
    """Return whether the last line of a file has its line ending."""
    size = file.seek(0, os.SEEK_END)
    return not size or os.pread(file.fileno(), 1, size - 1) == b"\n"


def _append(file: IO[bytes], data: bytes, *, sync: bool) -> None:
    size = file.seek(0, os.SEEK_END)
    try:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sync:
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(size)
        raise


@contextlib.contextmanager
def _alone(path: str, mode: str) -> Iterator[IO[bytes]]:
    """Open a file that no other process opens so, if the file system has locks.

    Without them only one process may write (``check_locks``).
    """
    with open(path, mode, buffering=0, opener=no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield file  # closing it releases the lock


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Lock a study's folder against other searches; create it if it is missing.

    A killed search leaves no lock. File systems without locks are not locked.
    Raises ``Searched`` and ``OSError``.
    """
    make_folder(folder)
    with open(os.path.join(folder, LOCK), "a", opener=no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise Searched(folder) from None
        yield


def is_searched(folder: str) -> bool | None:
    """Return whether a search is running in a folder; ``None`` without locks."""
    try:
        with open(os.path.join(folder, LOCK), "rb", opener=no_link) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return True if error.errno == errno.EWOULDBLOCK else None
    return False


def check_locks(place: str) -> None:
    """Raise ``CannotSearch`` if a journal that several processes write has no locks.

    Their lines would mix. A database needs none.
    """
    if "://" in place:
        return
    try:
        with open(place, "rb", opener=no_link) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise CannotSearch(
                f"{place}: this file system has no file locks, and workers need them; "
                "use --storage postgresql://HOST/DATABASE"
            ) from None


def one_at_a_time(
    storage: optuna.storages.BaseStorage, place: str, study_id: int
) -> AbstractContextManager[Any]:
    """Let one process at a time be in this block, for a study of a storage.

    That is a lock of a file beside a journal, or one of PostgreSQL's. Other storages
    have none.
    """
    if isinstance(storage, Journal):
        return _alone(f"{place}.lock", "ab")
    if isinstance(storage, RetryingStorage):
        return storage.locked(study_id)
    return contextlib.nullcontext()


def open_storage(
    url: str,
    *,
    create: bool,
    most: int = MAX_BYTES,
    beat_s: float = BEAT_S,
    on_lost: OnLost | None = None,
) -> optuna.storages.BaseStorage:
    """Open the storage of a study; raises ``BadStudy``.

    ``url`` is the path of a journal file, or an Optuna storage URL: ``sqlite:///x.db``,
    ``postgresql://...``. Others, such as ``mysql://...`` and ``redis://...``, were not
    tried. A process whose trial misses ``MISSED`` heartbeats is lost: ``on_lost`` gets
    the trial.
    """
    from optuna.storages.journal import JournalRedisBackend

    with errors_of(url), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if url.startswith("redis"):
            return JournalStorage(JournalRedisBackend(url))
        if "://" in url:
            heartbeat = {
                "heartbeat_interval": max(1, round(beat_s)),
                "grace_period": max(1, round(MISSED * beat_s)),
                "heartbeat_stale_trial_callback": on_lost,
            }
            return open_database(url, heartbeat)
        folder = os.path.dirname(url) or "."
        if not os.path.isdir(folder):
            why = "create it, or write a URL, such as postgresql://HOST/DATABASE"
            raise BadStudy(f"{url}: there is no folder {folder}; {why}")
        backend = JournalBackend(url, most)
        if create:
            backend.repair()
        return Journal(backend, beat_s, on_lost)


@contextlib.contextmanager
def errors_of(url: str) -> Iterator[None]:
    """Turn a storage's errors into ``BadStudy``, without the URL's password."""
    try:
        yield
    except (BadStudy, optuna.exceptions.UpdateFinishedTrialError):
        raise
    except ImportError as error:
        name = getattr(error.__cause__, "name", None) or error.name or "its driver"
        hint = f"it needs {name}: pip install {PACKAGES.get(name, name)}"
        raise BadStudy(f"{without_password(url)}: {hint}") from None
    except Exception as error:  # a foreign journal, a database without a server
        if not url:
            raise
        if isinstance(error, OSError) and "://" not in url:
            gone = "the study and its trials were removed during the search"
            hint = KEPT if os.path.lexists(url) else gone
            raise BadStudy(f"{url}: {error.strerror}; {hint}") from None
        if "://" not in url:
            what = f"not a journal that this version can read ({type(error).__name__})"
            raise BadStudy(f"{url}: {what}") from None
        raise BadStudy(f"{without_password(url)}: {reason(error, url)}") from None
