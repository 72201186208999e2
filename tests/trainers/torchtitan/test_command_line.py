"""Commands that run torchtitan, and which of their words names the config."""

import pytest

from fp8tune.document import Unreadable
from fp8tune.trainers.faults import Call
from fp8tune.trainers.trainer import trainer
from tests.each import each

LAUNCH = "torchrun --nproc_per_node=8 -m torchtitan.train"


@each(
    ("command", "call"),
    [
        (f"{LAUNCH} --job.config_file=a.toml", Call(4 - 1, 4, (), 18)),
        (f"{LAUNCH} --job.config_file a.toml --x=1", Call(3, 5, (6,), 0)),
        ("python train.py a.toml", None),
    ],
)
def test_calls(command, call):
    assert trainer("torchtitan").command_line.find_call(command.split()) == call


def test_overrides_are_not_followed():
    with pytest.raises(Unreadable, match="overrides"):
        trainer("torchtitan").load({}, ("--training.seq_len=4096",))
