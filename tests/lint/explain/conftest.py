"""A config on disk, read for explaining."""

import pytest

from fp8tune.config.directive import asked
from fp8tune.config.reader import read_config

TEXT = """\
# fp8tune: world-size=8
[model]
dim = 2050
n_heads = 10
n_kv_heads = 10
[train]
batch_size = 4
mixed_precision = "fp8"
activation_checkpointing = "full"
"""


@pytest.fixture
def config(project):
    """Read a config text, as ``fp8tune explain NAME a.toml`` does."""

    def read(text=TEXT, gpu="", world_size=0):
        project({"a.toml": text})
        return read_config("a.toml", asked(gpu, world_size))

    return read
