"""What launch scripts run, and on which GPUs."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.launch import CannotLaunch, read_launch
from tests.each import each

PYTHON = "python scripts/train.py a.toml"
TORCHRUN = "torchrun --nproc_per_node=4"


def target(gpu="", size=0, per_node=0):
    """The GPUs of a script."""
    origins = "--script" * bool(gpu), "--script" * bool(size)
    return Target(gpu, size, *origins, per_node)


@pytest.fixture
def launch(project):
    """Read a script in a folder that has a.toml and sub/b.toml."""
    project({"a.toml": "", "sub/b.toml": ""})

    def run(script, *arguments, **environment):
        project({"x.sh": script})
        return read_launch("x.sh", arguments, environment)

    return run


@each(
    ("options", "command", "expected"),
    [
        ("", PYTHON, target()),
        (
            "--nodes=2 --ntasks-per-node=4 --gres=gpu:h100:4",
            f"srun {PYTHON}",
            target("h100-sxm", 8, 4),
        ),
        ("-N 2 -n 16 --gpus-per-node=h200:8", f"srun {PYTHON}", target("h200", 16, 8)),
        ("-n8 --gpus=8 -C h100", f"srun {PYTHON}", target("h100-sxm", 8, 8)),
        (
            "--nodes=1 --constraint=h100|h200 --gres=gpu:2",
            f"srun -n 2 {PYTHON}",
            target("", 2, 2),
        ),
        (
            "--nodes=2 --gpus-per-node=4",
            f"srun --ntasks-per-node=$SLURM_GPUS_PER_NODE {PYTHON}",
            target("", 8, 4),
        ),
        (
            "--nodes=2 --gpus-per-node=4",
            f"srun {TORCHRUN} --nnodes $SLURM_NNODES scripts/train.py a.toml",
            target("", 8, 4),
        ),
        (
            "--gpus-per-node=4",
            "torchrun --nproc-per-node gpu scripts/train.py a.toml",
            target("", 4, 4),
        ),
        ("", f"{TORCHRUN} --nnodes=1:4 scripts/train.py a.toml", target()),
        (
            "",
            "python -m torch.distributed.run --nproc_per_node 2 train.py a.toml",
            target("", 2),
        ),
        (
            "--nodes=2",
            f"srun bash -c '{TORCHRUN} --nnodes=2 scripts/train.py a.toml'",
            target("", 8),
        ),
        ("", f"srun --nodes=$(nodes) --ntasks-per-node=4 {PYTHON}", target()),
    ],
)
def test_gpus(launch, options, command, expected):
    assert (
        launch(f"#!/bin/bash\n#SBATCH {options}  # why\n{command}\n").target == expected
    )


@each(
    ("script", "note"),
    [
        (
            "#SBATCH --gpus-per-node=4\n" + PYTHON,
            "starts 1 process for 4 GPUs; start one for each GPU, by srun or torchrun",
        ),
        (
            "#SBATCH -n 4\n" + PYTHON,
            "starts 1 process of 4, which waits for the others; put srun before it",
        ),
        ("#SBATCH -n 4 --gpus-per-node=4\nsrun " + PYTHON, ""),
    ],
)
def test_a_number_of_processes_that_does_not_fit(launch, script, note):
    assert launch(script).notes == ((f"x.sh:2: {note}",) if note else ())


def test_the_run(launch):
    command = 'srun python train.py $C "$@" --checkpoint.dir=r/$SLURM_JOB_ID'
    script = f"set -e\nC=${{1:?no config}}; shift\ncd sub\n{command}"
    found = launch(script, "b.toml", "--train.seq_len=8")
    words = ("--train.seq_len=8", "--checkpoint.dir=r/_")
    assert (found.config, found.overrides, found.line) == ("sub/b.toml", words, 4)


def test_variables_come_from_the_environment_but_not_those_of_a_job(launch):
    assert launch("python train.py $CFG", CFG="a.toml").config == "a.toml"
    with pytest.raises(CannotLaunch, match="SLURM_X` is not set in the script"):
        launch("python train.py $SLURM_X", SLURM_X="a.toml")


def test_the_same_run_in_two_branches_is_one(launch):
    script = f"if x; then {PYTHON} | tee log; else exec {PYTHON}; fi"
    assert launch(script).line == 1


@each(
    ("script", "reason"),
    [
        (
            "cd $(dirname $0)\n" + PYTHON,
            "2: the folder of a `cd` is not known before the run",
        ),
        ("#SBATCH --chdir=sub\n" + PYTHON, "2: no a.toml in "),
        ("python train.py", "1: KempnerForge is called without a config"),
        (
            PYTHON + " --train.batch_size=$B",
            "1: an override is not known before the run: `.B`",
        ),
        (PYTHON + " $EXTRA", "1: an override is not known before the run"),
    ],
)
def test_what_is_not_known_is_named(launch, script, reason):
    with pytest.raises(CannotLaunch, match=reason):
        launch(script)
