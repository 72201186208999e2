"""The config of a trial is the user's, with the trial's values and folders."""

import pytest

from fp8tune.config.reader import config_of
from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.runners.trainer.config import CannotWrite, UserConfig
from fp8tune.runners.trainer.launch import CannotLaunch, Launch
from fp8tune.runners.trainer.recipe import Keys, recipe_of
from fp8tune.runners.trainer.runner import trainer_runner
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import LossRun
from fp8tune.trials.runner import TrialLimits
from tests.each import each

KEMPNERFORGE = """\
# mine
[model]
dim = 256   # small
vocab_size = 512

[train]
batch_size = 2
grad_accum_steps = 4
max_steps = 500
mixed_precision = "fp8"

[checkpoint]
dir = "runs/a"  # never touched
load_path = "runs/b/step_10"
"""
KNOBS = {"train.batch_size": 4, "train.mixed_precision": "bf16"}
TRIAL = """\
# mine
[model]
dim = 256   # small
vocab_size = 512

[train]
batch_size = 4
grad_accum_steps = 2
max_steps = 1000000
mixed_precision = "bf16"

[checkpoint]
dir = "/s/checkpoints"  # never touched
interval = 1000000

[eval]
enabled = false

[metrics]
enable_tensorboard = false
enable_wandb = false
log_interval = 1

[profiling]
enable = true
end_step = 3
start_step = 2
trace_dir = "/t"
"""
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "debugmodel"
converters = ["{float8}"]
[training]
seq_len = 128
local_batch_size = 2
[checkpoint]
{enable} = true
"""


def launch_of(known, ranks=1):
    recipe, about = recipe_of(known.about), known.about
    words = {"folder": "", "python": "python", "device": "cpu", "versions": {}}
    return Launch(about.name, about.title, recipe, ranks=ranks, **words)


def runner_of(name, text, **more):
    return trainer_runner(launch_of(trainer(name)), user_config(name, text), **more)


def user_config(name, text, path="a.toml", ranks=1):
    config = config_of(path, text.encode(), Target("", ranks), only=trainer(name))
    return UserConfig(config)


def written(config, knobs, added, **values):
    """Return the config of a trial of a job of one file."""
    made = config.for_trial(knobs, added, values)
    assert list(made.files) == ["config"]
    return made.files["config"]


@each("name", trainer("torchtitan").about.ids)
def test_each_torchtitan_gets_its_own_keys(name):
    old = name.endswith("0.1.0")
    float8 = "float8" if old else "quantize.linear.float8"
    enable = "enable_checkpoint" if old else "enable"
    text = TORCHTITAN.format(float8=float8, enable=enable)
    config = user_config(name, text)
    recipe = recipe_of(config.base.trainer.about)
    added = [recipe.trial, recipe.speed, recipe.profile.keys]
    made = written(config, {"precision": "bf16"}, added, scratch="/s")
    values = parse(made, "a.toml").values
    assert values["checkpoint"] == {enable: False}
    assert values["model"]["converters"] == []
    assert values["training"]["steps"] == 1_000_000
    assert values["job"] == {"dump_folder": "/s"}
    assert values["profiling"]["save_traces_folder"] == "traces"
    assert config.base.trainer.load(values).faults == config.base.loaded.faults


def test_a_layout_that_cannot_hold_the_keys_is_refused_before_the_search():
    text = KEMPNERFORGE + '[[data.datasets]]\npath = "a"\n'
    runner_of("kempnerforge", text)
    with pytest.raises(CannotLaunch, match=r"a trial cannot write .*data\.datasets"):
        runner_of("kempnerforge", text, data_missing="a is not here")


def test_the_message_names_the_flag_that_cannot_be_removed():
    text = MEGATRON.replace("--load $CKPT", "--load a$(b $(c))")
    config = user_config("megatron_lm", text, "a.sh", 8)
    with pytest.raises(CannotWrite, match=r"^cannot write `load`: the flag and its"):
        config.for_trial({}, [recipe_of(config.base.trainer.about).trial], {})


def test_knobs_that_cannot_be_set_are_a_failed_trial():
    text = TORCHTITAN.format(float8="no_such_converter", enable="enable")
    config = user_config("torchtitan==0.2.2", text)
    with pytest.raises(CannotWrite, match=r"model\.converters is not known from the"):
        config.for_trial({"precision": "bf16"}, [], {})


@each(
    ("text", "missing", "synthetic", "no_losses"),
    [
        ("", "", "the config names no training data", "KempnerForge makes random data"),
        ('[data]\ndataset_path = "tokens"\n', "", "", ""),
        ('[data]\ndataset_path = "tokens"\n', "gone", "gone", "KempnerForge makes ran"),
        ('[data]\nhf_dataset_name = "c4"\n', "", "", ""),
    ],
)
def test_data_that_is_not_here_is_made(text, missing, synthetic, no_losses):
    whole = KEMPNERFORGE + text
    found = runner_of("kempnerforge", whole, data_missing=missing)
    assert found.synthetic == synthetic
    assert found.no_losses.startswith(no_losses or "\0" * bool(found.no_losses))


def test_torchtitan_reads_its_own_data():
    text = TORCHTITAN.format(float8="quantize.linear.float8", enable="enable")
    found = runner_of("torchtitan==0.2.2", text, data_missing="gone")
    assert (found.synthetic, found.no_losses) == ("", "")


def test_a_trial_whose_config_cannot_be_written_did_not_start(tmp_path):
    found = runner_of("kempnerforge", KEMPNERFORGE)
    found.setup = found.setup._replace(scratch=str(tmp_path))
    knobs = {"train.batch_size": 2, "train.seed": "a text"}
    record = found.run(knobs, TrialLimits(5.0))
    assert record.outcome == "launch"
    assert record.message.startswith("cannot write ")
    run = LossRun(1, 2, 3, 4)
    record = found.train_for_losses(knobs, run, 5.0)
    assert (record.outcome, record.loss_run) == ("launch", run)


def test_keys_that_are_not_there_need_not_be_removed():
    config = user_config("kempnerforge", KEMPNERFORGE)
    made = written(config, {}, [Keys({}, ("checkpoint.load_path", "train.seed"))])
    assert b"load_path" not in made
    assert b"never touched" in made


AXOLOTL = """\
# mine
base_model: a/model  # tiny
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 256
save_steps: 2
output_dir: kept
wandb_project: numbers
"""
AXOLOTL_TRIAL = """\
# mine
base_model: a/model  # tiny
micro_batch_size: 4
gradient_accumulation_steps: 2
sequence_len: 256
output_dir: /s/output
auto_find_batch_size: false
auto_resume_from_checkpoints: false
do_bench_eval: false
do_causal_lm_eval: false
eval_strategy: "no"
generate_samples: false
load_best_model_at_end: false
max_steps: 1000000
save_first_step: false
save_strategy: "no"
use_comet: false
use_mlflow: false
use_otel_metrics: false
use_tensorboard: false
use_trackio: false
use_wandb: false
"""


AUTOMODEL = """\
# mine
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  local_batch_size: 2
  global_batch_size: 8   # of all
  val_every_steps: 10
dataset: &data
  _target_: numbers
  seq_length: 256
validation_dataset: *data
wandb:
  project: numbers   # the team's
  tags: [a]
  more:
    deep: 1
skypilot:
  cloud: aws
"""
AUTOMODEL_TRIAL = """\
# mine
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  local_batch_size: 4
  global_batch_size: 8   # of all
  ckpt_every_steps: 1000000000
  max_steps: 1000000
  num_epochs: 1000000
  save_checkpoint_every_epoch: false
dataset: &data
  _target_: numbers
  seq_length: 256
checkpoint:
  checkpoint_dir: /s/checkpoints
  enabled: false
"""
MEGATRON = """\
#!/bin/bash
CKPT=${1:-out/ckpt}
ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32
    --seq-length 4096 --max-position-embeddings 4096
    --save "$CKPT" --save-interval 500   # mine
)
torchrun --nproc_per_node 8 pretrain_gpt.py "${ARGS[@]}" \\
    --micro-batch-size 1 --global-batch-size 128 \\
    --bf16 --fp8-format hybrid --lr 3e-4 --train-iters 5000 \\
    --load $CKPT --tensorboard-dir "$2" --eval-iters 10 --log-interval 10
"""
MEGATRON_TRIAL = """\
#!/bin/bash
CKPT=${1:-out/ckpt}
ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32
    --seq-length 4096 --max-position-embeddings 4096
    # mine
)
torchrun --nproc_per_node 8 pretrain_gpt.py "${ARGS[@]}" \\
    --micro-batch-size 2 --global-batch-size 128 \\
    --bf16 --fp8-format hybrid --lr 3e-4 --train-iters 5000 \\
    --eval-iters 0 --log-interval 1 --profile --profile-step-end 3 \
--profile-step-start 2 --tensorboard-dir /t/tensorboard --use-pytorch-profiler
"""
PRIME_RL = """\
# mine
[model]
name = "Qwen/Qwen3-8B"
[data]
type = "sft"
name = "a/b"
batch_size = 64
micro_batch_size = 2
[ckpt]
interval = 100   # often
[val]
interval = 10
[val.data]
name = "a/b"
[eval]
interval = 25
[eval.sampling]
max_completion_tokens = 1024
[[eval.source]]
name = "reverse-text"
[eval.source.env.taskset]
id = "reverse-text"
[[eval.source]]
name = "other"
[monitors.wandb]
project = "numbers"
"""
PRIME_RL_TRIAL = """\
# mine
max_steps = 1000000
output_dir = "/s/output"
[model]
name = "Qwen/Qwen3-8B"
[data]
type = "sft"
name = "a/b"
batch_size = 64
micro_batch_size = 4
"""


@each(
    ("name", "path", "text", "knobs", "trial"),
    [
        ("kempnerforge", "a.toml", KEMPNERFORGE, KNOBS, TRIAL),
        # the last key of the file is one that a trial removes
        ("axolotl", "a.yaml", AXOLOTL, {"micro_batch_size": 4}, AXOLOTL_TRIAL),
        (
            "automodel",
            "a.yaml",
            AUTOMODEL,
            {"step_scheduler.local_batch_size": 4},
            AUTOMODEL_TRIAL,
        ),
        ("megatron_lm", "a.sh", MEGATRON, {"micro_batch_size": 2}, MEGATRON_TRIAL),
        (
            "prime_rl==0.8.1.dev67.sft",
            "a.toml",
            PRIME_RL,
            {"data.micro_batch_size": 4},
            PRIME_RL_TRIAL,
        ),
    ],
)
def test_a_trial_saves_logs_and_evaluates_nothing(name, path, text, knobs, trial):
    """Every byte of the config stays but those of the trial."""
    config = user_config(name, text, path, 8)
    recipe = recipe_of(config.base.trainer.about)
    added = [recipe.trial, recipe.speed, recipe.profile.keys]
    made = written(config, knobs, added, scratch="/s", traces="/t")
    assert made.decode() == trial


@each(
    ("name", "command"),
    [
        (
            "automodel",
            ["python", "INSIDE", "-m", "nemo_automodel.cli.app", "a.yaml"],
        ),
        ("megatron_lm", ["bash", "a.yaml"]),
        (
            "prime_rl",
            ["python", "INSIDE", "-m", "prime_rl.trainer.sft.train", "@", "a.yaml"],
        ),
    ],
)
def test_the_command_of_a_trial(name, command):
    values = {"config": "a.yaml", "inside": "INSIDE"}
    made = launch_of(trainer(name)).command(values)
    assert made[-len(command) :] == command
