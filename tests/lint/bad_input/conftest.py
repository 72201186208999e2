"""A folder of its own for each test."""

import pytest


@pytest.fixture
def folder(project):
    return project()
