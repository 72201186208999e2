"""The command on a sample config."""

import pytest

from tests.estimate.configs import CONFIG


@pytest.fixture
def estimate(fp8tune, repository):
    def run(*arguments, config=CONFIG):
        return fp8tune("estimate", str(repository / config), *arguments)

    return run
