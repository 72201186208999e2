"""The launcher's options and the script's arguments go before the values of files."""

from fp8tune.formats.document import HOLE
from fp8tune.trainers.trainer import trainer
from tests.each import each

FILES = {
    "distributed_type": "FSDP",
    "num_processes": 8,
    "training": {"bf16": True, "output_dir": "out"},
}


@each(
    ("words", "values"),
    [
        ("--num_processes 4 train.py", {"num_processes": 4, "training.bf16": True}),
        ("-m trl.sft --bf16 false", {"num_processes": 8, "training.bf16": False}),
        ("train.py --max-steps 9 --fp16", {"training.fp16": True}),
        (f"train.py --bf16 {HOLE}", {"training.bf16": None}),
        (
            f"--num_processes {HOLE} --num_machines {HOLE} --machine_rank {HOLE}",
            {"num_processes": None, "num_machines": None, "distributed_type": "FSDP"},
        ),
        (
            f"--machine_rank {HOLE} --num_machines 2",
            {"machine_rank": 0, "num_machines": 2},
        ),
    ],
)
def test_arguments(words, values):
    loaded = trainer("accelerate").load(FILES, tuple(words.split()))
    assert {key: loaded.values.get(key) for key in values} == values


@each(
    ("words", "known"),
    [("train.py --bf16 true --max_steps 5", True), ("train.py --bf16 true", False)],
)
def test_two_names_show_training_arguments(words, known):
    loaded = trainer("accelerate").load({"num_processes": 8}, tuple(words.split()))
    assert (loaded.values.get("training.bf16") is True) is known
