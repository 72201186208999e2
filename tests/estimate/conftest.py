"""The command on a config of a test, and on a sample config."""

import pytest

from tests.estimate.configs import CONFIG


@pytest.fixture
def estimated(fp8tune, project):
    """Write a config and estimate it; the outcome."""

    def run(text, *arguments, path="a.toml"):
        project({path: text})
        return fp8tune("estimate", path, *arguments)

    return run


@pytest.fixture
def estimate(fp8tune, repository):
    def run(*arguments, config=CONFIG):
        return fp8tune("estimate", str(repository / config), *arguments)

    return run
