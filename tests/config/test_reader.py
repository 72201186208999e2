"""Reading one config for explaining it."""

import pytest

from fp8tune.config.reader import NotAConfig, read_config
from fp8tune.job import Target

TEXT = """\
# fp8tune: gpu=h200
[train]
batch_size = 4
[data]
anneal_weights = { a = 1.0 }
"""


def test_a_config(project):
    project({"a.toml": TEXT})
    config = read_config(
        "a.toml", Target(world_size=8, world_size_origin="--world-size")
    )
    assert (config.path, config.data) == ("a.toml", TEXT.encode())
    assert config.target == Target(world_size=8, world_size_origin="--world-size")
    assert config.job.target == Target(
        "h200", 8, "the comment on line 1", "--world-size"
    )
    assert config.job["micro_batch"] == 4


def test_the_project_says_what_the_file_does_not(project):
    toml = '[tool.fp8tune]\ngpu = "a100"\nworld-size = 2\n'
    project({"pyproject.toml": toml, "sub/a.toml": TEXT})
    target = read_config("sub/a.toml", Target()).job.target
    assert target == Target("h200", 2, "the comment on line 1", "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[train]\nx = \n", "a.toml:2:5: Invalid value"),
        ("[tool.x]\n", "a.toml: a Python project file"),
        ("", "a.toml: no table that a known trainer reads"),
    ],
)
def test_what_is_no_config(project, text, said):
    project({"a.toml": text})
    with pytest.raises(NotAConfig) as error:
        read_config("a.toml", Target())
    assert str(error.value) == said
