"""Tests on a real PostgreSQL server and a real Slurm cluster, started on this machine.

    services=$(mktemp -d) && eval "$(.ci/services start "$services")"
    python -m pytest tests/cluster
    .ci/services stop "$services"

Without these services the tests skip; with ``FP8TUNE_TEST_MUST_RUN=1`` they fail then.
With ``FP8TUNE_TEST_SLOWNESS=3`` searches get three times the budget, for a machine that
has other work.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / ".ci" / "services"
NEEDED = ("SLURM_CONF", "FP8TUNE_TEST_SERVICES", "FP8TUNE_TEST_POSTGRES")
START = 'services=$(mktemp -d) && eval "$(.ci/services start "$services")"'


def pytest_collection_modifyitems(items):
    if all(name in os.environ for name in NEEDED):
        return
    reason = f"needs Slurm and PostgreSQL: as root on Debian, {START}"
    if os.environ.get("FP8TUNE_TEST_MUST_RUN"):
        pytest.exit(f"tests/cluster {reason}", returncode=1)
    for item in items:
        if Path(__file__).parent in Path(item.path).parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def server():
    """The URL of a database of the server in which nobody stores a study."""
    return os.environ["FP8TUNE_TEST_POSTGRES"]


@pytest.fixture
def database(server):
    """The URL of an empty database."""
    with new_database(server) as url:
        yield url


@contextlib.contextmanager
def new_database(server, options=""):
    import psycopg  # missing where the tests skip

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}")
    yield f"{server.rpartition('/')[0]}/{name}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def own_server():
    """A server of this test's own, to be restarted: its folder and URL."""
    with tempfile.TemporaryDirectory() as folder:
        start = [SERVICES, "start-database", folder]
        url = subprocess.run(start, check=True, capture_output=True, text=True).stdout
        yield folder, url.strip()
        subprocess.run([SERVICES, "stop", folder], check=True)


def restart_database(folder, seconds):
    """Stop the server in a folder at once, and start it again after so long."""
    command = [SERVICES, "restart-database", folder, str(seconds)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def python(*arguments, **options):
    """Start this Python with arguments."""
    return subprocess.Popen([sys.executable, *arguments], **options)
