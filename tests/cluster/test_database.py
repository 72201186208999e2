"""Studies in PostgreSQL: opening them, what is wrong, and a server that goes away."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import optuna
import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState, create_trial

from fp8tune.search.storage import BadStudy, errors_of, open_storage
from tests.cluster.conftest import new_database, python, restart_database

psycopg = pytest.importorskip("psycopg")
RUNNING, COMPLETE = TrialState.RUNNING, TrialState.COMPLETE
BEGUN = create_trial(state=RUNNING, user_attrs={"stage": "search"})


def study_in(storage, name="s"):
    optuna.create_study(study_name=name, storage=storage, load_if_exists=True)
    return storage.get_study_id_from_name(name)


def test_a_server_that_refuses_says_why_in_one_line(server, database):
    parts = urlsplit(server)
    password = parts.password
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'a{b}/@c'")
    guest = parts._replace(
        netloc=f"guest:{quote('a{b}/@c', safe='')}@{parts.hostname}:{parts.port}",
        path=urlsplit(database).path,
    ).geturl()

    cases = {
        server.replace(password, "mist%40ke"): (
            'password authentication failed for user "fp8tune"'
        ),
        f"{server}x": 'database "postgresx" does not exist',
        server.replace("127.0.0.1", "nowhere.invalid"): "nowhere.invalid",
        server.replace(str(parts.port), "1"): "Connection refused",
        guest: "permission denied for schema public",
        f"{server}?bogus=1": 'invalid connection option "bogus"',
    }
    for url, said in cases.items():
        with pytest.raises(BadStudy) as error:
            open_storage(url, create=True)
        message = str(error.value)
        assert said in message
        assert message.startswith(f"postgresql://{urlsplit(url).username}:***@")
        assert "\n" not in message
        assert not [word for word in (password, "mist", "a{b}") if word in message]


OPEN_AT_ONCE = """
import sys
import alembic, optuna.storages._rdb.storage, optuna.storages._rdb.models, psycopg
from fp8tune.search.storage import open_storage

print("ready", file=sys.stderr, flush=True)
input()
open_storage(sys.argv[1], create=True).get_all_studies()
"""


def test_every_process_may_be_the_first_of_a_database(database):
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = [python("-c", OPEN_AT_ONCE, database, **pipes) for _ in range(6)]
    for process in first:
        process.stderr.readline()  # it is ready
    for process in first:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in first] == [b""] * 6


def test_a_study_outlasts_a_restart_of_its_server(own_server, capsys):
    folder, database = own_server
    storage = open_storage(database, create=True)
    study = study_in(storage)
    trial = storage.create_new_trial(study, BEGUN)
    restart = threading.Thread(target=restart_database, args=(folder, 3))
    restart.start()

    def change(number):
        for count in range(20):
            storage.set_trial_user_attr(trial, f"beat{number}", count)
            threading.Event().wait(0.2)

    with ThreadPoolExecutor() as threads:
        list(threads.map(change, range(2)))
    restart.join()
    assert storage.set_trial_state_values(trial, COMPLETE, [2.0])
    stored = open_storage(database, create=True).get_trial(trial)
    assert stored.user_attrs == {"stage": "search", "beat0": 19, "beat1": 19}
    away, back = capsys.readouterr().err.splitlines()
    shown = database.replace(urlsplit(database).password, "***")
    assert away.startswith(f"note: {shown} does not answer (")
    assert away.endswith("; trying again for 300 s")
    assert back.startswith(f"note: {shown} answers again after ")


ASKS_TO_COMMIT = b"Q\0\0\0\x0bCOMMIT\0"


class Wire:
    """A way to the server that can be cut at the next commit, once.

    ``cut`` is "before" it reaches the server, or "after" the server has stored it and
    before its answer arrives.
    """

    def __init__(self, server):
        self.server = (urlsplit(server).hostname, urlsplit(server).port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = server.replace(
            f":{self.server[1]}/", f":{self.listener.getsockname()[1]}/"
        )
        self.cut, self.deaf = "", False
        self.ends = []
        self.threads = [threading.Thread(target=self.listen)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        for thread in self.threads:
            thread.join()
        for end in self.ends:
            end.close()

    def close(self):
        """End all connections, and refuse others."""
        for end in (self.listener, *self.ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(self.server)
            self.ends += [client, upstream]
            for ends in ((client, upstream), (upstream, client)):
                self.threads.append(threading.Thread(target=self.pump, args=ends))
                self.threads[-1].start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.cut and ASKS_TO_COMMIT in data:
                    if self.cut == "after":
                        self.deaf = True
                        sink.sendall(data)
                        time.sleep(0.3)
                    self.cut, self.deaf = "", False
                    break
                if not self.deaf:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(database):
    with Wire(database) as open_wire:
        yield open_wire


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_change_is_stored_once_whenever_the_connection_is_lost(database, wire, cut):
    storage = open_storage(wire.url, create=True)
    other = open_storage(database, create=True)

    def cut_while(change):
        wire.cut = cut
        result = change()
        assert not wire.cut
        return result

    study = cut_while(lambda: study_in(storage))
    trial = cut_while(lambda: storage.create_new_trial(study, BEGUN))
    lost = cut_while(lambda: storage.create_new_trial(study, BEGUN))
    cut_while(lambda: storage.set_trial_user_attr(trial, "worker", 1))
    told = cut_while(lambda: storage.set_trial_state_values(trial, COMPLETE, [2.0]))
    assert told
    other.set_trial_state_values(lost, TrialState.FAIL)
    with pytest.raises(UpdateFinishedTrialError):
        cut_while(lambda: storage.set_trial_state_values(lost, COMPLETE, [3.0]))
    stored = [
        (t.number, t.state, t.values, t.user_attrs) for t in other.get_all_trials(study)
    ]
    assert stored == [
        (0, COMPLETE, [2.0], {"stage": "search", "worker": 1}),
        (1, TrialState.FAIL, None, {"stage": "search"}),
    ]
    assert [s.study_name for s in other.get_all_studies()] == ["s"]


def test_a_server_that_stays_away_ends_the_search_with_its_reason(wire):
    storage = open_storage(wire.url, create=True)
    storage._retry_s = 2.0
    wire.close()
    with pytest.raises(BadStudy, match="Connection refused"), errors_of(wire.url):
        study_in(storage)


def test_a_row_that_a_dead_host_holds_is_waited_for(database, monkeypatch, capsys):
    limits = {"idle_in_transaction_session_timeout": "3s", "lock_timeout": "1s"}
    monkeypatch.setattr("fp8tune.search.database.LIMITS", limits)
    storage = open_storage(database, create=True)
    dead = open_storage(database, create=True)
    trial = storage.create_new_trial(study_in(storage), BEGUN)
    with dead._engine.connect() as connection:  # and says nothing more
        row = f"SELECT FROM trials WHERE trial_id = {trial} FOR UPDATE"
        connection.exec_driver_sql(row)
        assert storage.set_trial_state_values(trial, COMPLETE, [1.0])
        away, back = capsys.readouterr().err.splitlines()
        assert "canceling statement due to lock timeout" in away
        assert " answers again after " in back
        connection.invalidate()


def test_one_process_at_a_time_plans_until_it_ends(database):
    storages = [open_storage(database, create=True) for _ in range(2)]
    study, seen = study_in(storages[0]), []

    def plan():
        with storages[1].locked(study):
            seen.append(1)

    thread = threading.Thread(target=plan)
    with storages[0].locked(study):
        thread.start()
        time.sleep(0.3)
        assert seen == []
        with psycopg.connect(database, autocommit=True) as server:
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks "
                "WHERE locktype = 'advisory' AND granted"
            )
        thread.join(10)
        assert seen == [1]


def fill(storage, study):
    for number in range(500):
        storage.set_study_user_attr(study, f"a{number}", os.urandom(20_000).hex())


def test_a_full_disk_of_the_server_is_said_at_once(server):
    disk = Path(os.environ["FP8TUNE_TEST_SERVICES"]) / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "t", disk]
    if subprocess.run(mount).returncode:
        pytest.skip("this container may not mount a file system")
    try:
        shutil.chown(disk, "postgres")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
            with new_database(server, "TABLESPACE small") as url:
                storage = open_storage(url, create=True)
                study = study_in(storage)
                with pytest.raises(BadStudy) as error, errors_of(url):
                    fill(storage, study)
            connection.execute("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        disk.rmdir()
    message = str(error.value)
    assert "No space left on device" in message
    assert "\n" not in message
