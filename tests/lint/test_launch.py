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
        (
            "--nodes=1 --constraint=h100|h200 --gres=gpu:2",
            f"srun -n 2 {PYTHON}",
            target("", 2, 2),
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
            "--nodes=2",
            f"srun bash -c '{TORCHRUN} --nnodes=2 scripts/train.py a.toml'",
            target("", 8),
        ),
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


LAUNCH = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: fp8\n"
SFT = "model_name_or_path: a/b\nper_device_train_batch_size: 4\nbf16: true\n"
CONFIGS = {
    "l.yaml": LAUNCH,
    "t.yaml": SFT,
    "lf.yaml": "stage: dpo\nfp8: true\ncutoff_len: 8\ndataset: a\n",
    "ax.yaml": "base_model: a/b\nsequence_len: 8\nmicro_batch_size: 1\n",
    "am.yaml": "recipe: x\nstep_scheduler: {max_steps: 5}\n",
    "br.yaml": "mixed_precision: bf16_mixed\ntrain: {train_iters: 8}\n",
    "ds.json": '{"train_batch_size": 8}',
    "data.json": "{}",
}
ACCELERATE = "accelerate launch --config_file l.yaml"


@each(
    ("command", "words"),
    [
        (f"{ACCELERATE} train.py --config t.yaml", "l.yaml --with t.yaml"),
        (
            f"srun uv run {ACCELERATE} -m trl.sft --config=t.yaml --bf16 false",
            "l.yaml --with t.yaml trl.sft --bf16 false",
        ),
        (
            f"{ACCELERATE} --num_processes 4 src/train.py lf.yaml",
            "l.yaml --with lf.yaml --num_processes 4",
        ),
        (
            f"{ACCELERATE} train.py --data data.json --deepspeed ds.json --out $OUT",
            "l.yaml --with ds.json train.py --data data.json --out _",
        ),
        ("accelerate launch -m axolotl.cli.train ax.yaml", "ax.yaml"),
        (
            "trl sft --config t.yaml --accelerate_config l.yaml",
            "t.yaml --with l.yaml sft",
        ),
        (
            "axolotl train ax.yaml --learning-rate $LR --nproc_per_node 8",
            "ax.yaml --learning-rate _",
        ),
        ("llamafactory-cli train lf.yaml a=1 b=r$B", "lf.yaml a=1 b=r_"),
        ("deepspeed train.py --deepspeed ds.json --bf16", "ds.json"),
        ("uv run automodel am.yaml --nproc-per-node 8", "am.yaml"),
        ("automodel finetune llm -c am.yaml", "am.yaml"),
        ("python prepare.py --config t.yaml\naxolotl train ax.yaml", "ax.yaml"),
    ],
)
def test_calls_of_each_trainer(launch, project, command, words):
    project(CONFIGS)
    found = launch(f"#!/bin/bash\n{command}\n")
    assert found.words.partition(", on ")[0] == words


@each(
    ("options", "command", "expected"),
    [
        ("--gpus-per-node=h100:8", "axolotl train ax.yaml", target("h100-sxm", 8, 8)),
        ("--gpus-per-node=8", f"{ACCELERATE} train.py", target("", 8, 8)),
        (
            "--nodes=2 --gres=gpu:h100:8",
            f"srun {ACCELERATE} --num_processes $((SLURM_NNODES*8)) train.py",
            target("h100-sxm", 16, 8),
        ),
        (
            "--nodes=2 --gpus-per-node=8",
            f"srun {ACCELERATE} --num_processes $((N * 8)) train.py",
            target("", 0, 8),
        ),
        ("", "automodel am.yaml --nproc-per-node 8", target("", 8)),
        (
            "--gpus-per-node=8",
            "axolotl train ax.yaml -- --nproc_per_node=2",
            target("", 2, 8),
        ),
        ("-N 2 --gpus-per-node=8", "axolotl train ax.yaml", target("", 0, 8)),
        ("", "deepspeed --num_gpus=4 x.py --deepspeed ds.json", target("", 4)),
    ],
)
def test_gpus_of_programs_that_start_processes(
    launch, project, options, command, expected
):
    project(CONFIGS)
    found = launch(f"#!/bin/bash\n#SBATCH {options}  # why\n{command}\n")
    assert (found.target, found.notes) == (expected, ())


def test_a_file_of_the_script_that_is_not_there(launch, project):
    project(CONFIGS)
    found = launch(f"{ACCELERATE} train.py --config gone.yaml")
    assert found.notes == ("x.sh:1: no gone.yaml here: it is not checked",)


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


@each(
    ("command", "overrides", "note"),
    [
        (
            "torchrun train.py --config br.yaml a=1 b=$B",
            (),
            "not applied: a=1 b=_; findings may differ",
        ),
        (
            f"#SBATCH --gpus=4\n{ACCELERATE} train.py",
            (),
            "starts 8 processes for 4 GPUs; set num_processes to 4",
        ),
    ],
)
def test_notes_of_a_command(launch, project, command, overrides, note):
    project(CONFIGS)
    found = launch(command)
    place = f"x.sh:{found.line}"
    assert (found.overrides, found.notes) == (overrides, (f"{place}: {note}",))


BROKEN = "mixed_precision: [bf16\nnum_processes: 8\n"


@each(
    ("files", "lint", "search"),
    [
        (
            {"l.yaml": LAUNCH, "t.yaml": "max_length: [1\n"},
            (2, "fp8tune: l.yaml: --with t.yaml: line 2: expected ',' or ']', but "),
            "fp8tune: x.sh: --with t.yaml: line 2: expected ',' or ']', but got ",
        ),
        (
            {"l.yaml": BROKEN, "t.yaml": SFT},
            (1, "l.yaml:2:14: error[invalid-yaml] not valid YAML: expected ',' or "),
            "fp8tune: l.yaml:2:14: expected ',' or ']', but got ':'",
        ),
    ],
)
def test_a_file_of_the_run_that_is_broken_is_named(
    project, fp8tune, files, lint, search
):
    command = f"{ACCELERATE} train.py --data d.yaml --config t.yaml\n"
    project(files | {"x.sh": command, "d.yaml": "{% if tools %}\nx: [1\n"})
    ended = fp8tune("lint", "--script", "x.sh", "--output-format", "concise", "--quiet")
    assert ended.code == lint[0]
    assert (ended.err or ended.out).startswith(lint[1])
    ended = fp8tune("search", "x.sh", "--dry-run")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(search)
