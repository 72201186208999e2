"""The tests of a search's processes once more, on PostgreSQL."""

import pytest

from tests.search.test_members import *  # noqa: F403


@pytest.fixture
def place(database):
    return database
