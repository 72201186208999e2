"""The fixture that the tests of calibration share."""

import pytest

from tests.facts.calibrated import CONFIG, FULL


@pytest.fixture
def config(job):
    def build(gpu="h200", world_size=16, **values):
        text = CONFIG.format(**FULL | values)
        return job(text, gpu=gpu, world_size=world_size)

    return build
