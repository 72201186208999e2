"""A study in a database: which driver it needs, and why it does not answer.

A server's storage waits for the server while that restarts (``retrying.py``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from optuna.storages import BaseStorage, RDBStorage, get_storage

from fp8tune.search.retrying import RetryingStorage, raise_outages, sql_state

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

POSTGRESQL = ("psycopg", "psycopg2")
"""Drivers of PostgreSQL, the preferred first."""
CONNECTION = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "fp8tune",
}
"""libpq's parameters: without them a host that is switched off is waited for without
end. The URL may set others."""
LIMITS = {"idle_in_transaction_session_timeout": "60s", "lock_timeout": "30s"}
"""PostgreSQL's limits for a session: a host that dies in the middle of a change holds
its rows no longer than that, and others do not wait without a word. The URL's
``options`` may set others."""
POOL = {"pool_size": 1, "max_overflow": 2}
"""A process holds one connection, another one while its heartbeat is due, and a third
one while it plans; PostgreSQL allows 100 by default."""
PACKAGES = {
    "psycopg": "'psycopg[binary]'",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
}
"""What to install for a module that SQLAlchemy imports."""
_PASSWORD = re.compile(
    r"(?<=://)[^/?#:@]*:(?P<user>.*)@|[?&]\w*pass\w*=(?P<query>[^&#]*)"
)
HIDDEN = "***"
"""What is shown of a password."""
DENIED = "42501"
"""SQLSTATE of what a user may not do."""
_OPENINGS = 5
"""Attempts to create the tables, which several processes may begin at the same time."""


def open_database(url: str, heartbeat: Mapping[str, Any]) -> BaseStorage:
    """Open an Optuna storage by its URL; raises what Optuna and the driver raise.

    ``postgresql://`` takes the driver that is installed. ``heartbeat`` are options of
    Optuna's storage.
    """
    from sqlalchemy.engine import make_url

    if url.startswith("sqlite"):
        return get_storage(url)
    parsed = make_url(re.sub("^postgres(?=://)", "postgresql", url))
    if parsed.get_backend_name() == "postgresql":
        if "+" not in parsed.drivername:
            known = next(filter(find_spec, POSTGRESQL), POSTGRESQL[0])
            parsed = parsed.set(drivername=f"postgresql+{known}")
        if parsed.get_driver_name() in POSTGRESQL:
            more = {k: v for k, v in CONNECTION.items() if k not in parsed.query}
            parsed = parsed.update_query_dict(more)
    # rendered, a password has none of the braces that Optuna replaces in a URL
    storage = _with_tables(parsed.render_as_string(hide_password=False), heartbeat)
    if parsed.get_driver_name() in POSTGRESQL:
        _limit_waits(storage.engine, str(parsed.query.get("options", "")))
    raise_outages(storage.engine)
    has_locks = parsed.get_backend_name() == "postgresql"
    engine = storage.engine if has_locks else None
    return RetryingStorage(get_storage(storage), without_password(url), engine)


def _with_tables(url: str, heartbeat: Mapping[str, Any]) -> RDBStorage:
    """Open a database and create its tables, which another process may do as well."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError

    for attempt in range(_OPENINGS):
        try:
            return RDBStorage(url, dict(POOL), **heartbeat)
        except (IntegrityError, ProgrammingError) as error:
            if attempt == _OPENINGS - 1 or sql_state(error.orig or error) == DENIED:
                raise
            time.sleep(0.2)
    raise AssertionError


def _limit_waits(engine: Engine, options: str) -> None:
    """Set ``LIMITS``, by SQL: poolers such as PgBouncer refuse them as options."""
    from sqlalchemy import event

    wanted = {name: limit for name, limit in LIMITS.items() if name not in options}

    def limit(connection: Any, _record: object) -> None:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for name, value in wanted.items():
                cursor.execute(f"SET {name} = '{value}'")
        connection.autocommit = False

    event.listen(engine, "connect", limit)
    engine.dispose()  # the connection that created the tables is without limits


def without_password(url: str) -> str:
    """Return a storage's URL without its password."""
    for found in reversed(list(_PASSWORD.finditer(url))):
        name = "user" if found["user"] is not None else "query"
        url = f"{url[: found.start(name)]}{HIDDEN}{url[found.end(name) :]}"
    return url


def reason(error: Exception, url: str) -> str:
    """Return why a database does not answer, in one line, without its password."""
    import sqlalchemy

    if isinstance(error, sqlalchemy.exc.NoSuchModuleError):
        return "unknown kind of storage; use sqlite:///FILE or postgresql://"
    if isinstance(error, sqlalchemy.exc.ArgumentError):
        return "not a storage URL, such as sqlite:///study.db"
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    cause = getattr(cause, "orig", None) or cause
    text = str(cause).split("\n")[0].strip() or type(cause).__name__
    for found in _PASSWORD.finditer(url):
        for secret in filter(None, {found["user"] or found["query"]}):
            text = text.replace(secret, "***").replace(unquote(secret), "***")
    return text
