"""Commands that start the launcher, and which of their words names the config."""

from fp8tune.trainers.call import Call
from fp8tune.trainers.trainer import trainer
from tests.each import each


@each(
    ("command", "call"),
    [
        ("accelerate launch --config_file a.yaml train.py --bf16", Call(0, 3, ())),
        ("accelerate launch --config_file=a.yaml train.py", Call(0, 2, (), 14)),
        (
            "srun /venv/bin/accelerate launch --use_fsdp --config_file a.yaml "
            "--num_processes 8 train.py",
            Call(1, 5, (3, 6, 7)),
        ),
        ("accelerate launch train.py", Call(0, -1, ())),
        ("accelerate config", None),
        ("python train.py a.yaml", None),
    ],
)
def test_calls(command, call):
    assert trainer("accelerate").command_line.find_call(command.split()) == call
