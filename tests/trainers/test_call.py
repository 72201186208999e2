"""Commands that run a trainer, and which of their words names the config."""

from fp8tune.trainers.about import trainers
from fp8tune.trainers.call import Call, calls
from tests.each import each

RUN = "torchrun --nproc_per_node=8 -m"
ACCELERATE = "accelerate launch --config_file"
TITAN = "--job.config_file"

CALLS = [
    ("kempnerforge", "python scripts/train.py a.toml", Call(1, 2)),
    ("kempnerforge", "srun -N 2 python x/train.py a.toml --x.y=1", Call(4, 5, (6,))),
    ("kempnerforge", "cat scripts/train.py a.toml", None),
    ("torchtitan", f"{RUN} torchtitan.train {TITAN}=a.toml", Call(3, 4, (), 18)),
    ("torchtitan", f"{RUN} torchtitan.train {TITAN} a.toml --x=1", Call(3, 5, (6,))),
    ("prime_rl", "uv run sft @ a.toml", Call(2, 4)),
    ("prime_rl", "trl sft --config a.yaml", None),
    ("prime_rl", "torchrun src/prime_rl/trainer/sft/train.py @ a.toml", Call(1, 3)),
    (
        "accelerate",
        f"srun /venv/bin/{ACCELERATE} a.yaml --use_fsdp --num_processes 8 -m b.c --d",
        Call(1, 4, (5, 6, 7), 0, (9, 10)),
    ),
    ("accelerate", "trl sft --config a.yaml --lr 1", Call(0, 3, (4, 5))),
    ("accelerate", "torchrun train.py --config a.yaml", Call(1, 3)),
    ("accelerate", "python train.py a.json", Call(1, 2)),
    ("axolotl", "axolotl train a.yaml --fp8", Call(0, 2, (3,))),
    ("axolotl", f"{RUN} axolotl.cli.train a.yaml", Call(3, 4)),
    (
        "deepspeed",
        "deepspeed --num_gpus 8 train.py --deepspeed a.json --bf16",
        Call(0, 5, processes="8"),
    ),
    ("automodel", "automodel a.yaml --nproc-per-node 8", Call(0, 1, processes="8")),
    ("automodel", "automodel --nproc-per-node=8 a.yaml", Call(0, 2, processes="8")),
    ("automodel", f"{RUN} nemo_automodel.cli.app a.yaml", Call(3, 4)),
]


@each(("name", "command", "call"), CALLS)
def test_calls(name, command, call):
    words = command.split()
    every = [pair for pair in calls(trainers()[name], words) if pair[1].config >= 0]
    named = [each for kind, each in every if not kind.is_general]
    found = named or [each for _, each in every]
    assert found[-1:] == [call] * (call is not None)
