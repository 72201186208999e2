"""What a trial of a trainer is called, whatever its program does."""

import os
import time
from pathlib import Path

import pytest

from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.driver import current
from fp8tune.runners.trainer import output
from fp8tune.runners.trainer.config import UserConfig
from fp8tune.runners.trainer.launch import find_launch
from fp8tune.runners.trainer.runner import loss_keys, trainer_runner
from fp8tune.runners.watch import Guard
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import LossRun
from fp8tune.trials.runner import TrialLimits
from tests.each import each
from tests.runners import fake_nvml
from tests.runners.trainer.conftest import EXAMPLE, FEW, runner_of

HERE = Path(__file__).parent
BF16 = {"train.precision": "bf16"}
LOSSES = LossRun(seed=7, warmup_steps=3, steps=8, config_warmup_steps=20)


@pytest.fixture
def runner(tmp_path):
    """Return the runner of a program that goes wrong as told."""

    def build(fault):
        words = ("{python}", str(HERE / "wrong.py"), fault, "{config}", "{traces}")

        def launched(launch):
            return launch._replace(recipe=launch.recipe._replace(command=words))

        return runner_of(EXAMPLE, tmp_path, launched=launched)

    return build


def run(runner, knobs=BF16, deadline_s=20.0):
    """Return the record, and check that no file or process is left."""
    record = runner.run(knobs, TrialLimits(deadline_s))
    assert list(Path(runner.setup.scratch).iterdir()) == []
    assert not any(map(_is_ours, Path("/proc").glob("[0-9]*")))
    return record


def _is_ours(folder):
    """Whether a process of a trial of this test lives."""
    try:
        text = (folder / "environ").read_bytes()
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    mark = f"FP8TUNE_TEST_OF={os.getpid()}".encode()
    ours = mark in text.split(b"\0") and b"FP8TUNE_TRIAL=" in text
    return ours and state != "Z"


@pytest.fixture(autouse=True)
def _marked(monkeypatch):
    monkeypatch.setenv("FP8TUNE_TEST_OF", str(os.getpid()))
    monkeypatch.setenv("SLURM_NTASKS", "16")
    monkeypatch.setenv("WORLD_SIZE", "16")


@each(
    "fault",
    [
        *("sound", "silent_first", "saves_for_long"),
        *("in_colours", "in_pieces", "noisy", "restarts"),
    ],
)
def test_steps_are_measured_whatever_is_around_them(runner, fault):
    started = time.monotonic()
    found = run(runner(fault))
    assert (found.outcome, found.peak_gib) == ("ok", 0.5), found.message
    assert found.tokens_per_second == pytest.approx(10_000)
    assert found.rehearsal
    assert not found.synthetic_data
    assert time.monotonic() - started < 15


def test_a_program_that_does_not_end_is_killed_with_all_that_it_started(runner):
    started = time.monotonic()
    assert run(runner("without_end")).outcome == "ok"
    found = run(runner("leaves_a_writer"))
    assert (found.outcome, found.stage_reached) == ("launch", "first_step")
    assert found.message.startswith("the trainer ended with code 0 in stage first_step")
    assert time.monotonic() - started < 15


@each(
    ("fault", "outcome", "stage", "said"),
    [
        ("becomes_nan", "nan", "steady", "the loss is NaN or infinite from step 4 on"),
        ("is_nan_from_the_start", "nan", "steady", "the loss is NaN"),
        ("ends_early", "user", "steady", "the trainer ended after step 2"),
        (
            "out_of_memory",
            "oom",
            "first_step",
            "GPU 0 ran out of memory before the first step",
        ),
        ("does_not_compile", "compile", "first_step", "torch.compile"),
        ("cannot_import", "launch", "start", "no_such_package"),
        ("has_a_bug", "user", "first_step", "KeyError"),
        ("has_no_model", "user", "first_step", "type `hf download NAME` once before"),
        ("disk_is_full", "launch", "first_step", "disk"),
        ("crashes", "launch", "first_step", "SIGSEGV"),
        ("prints_no_text", "launch", "start", "no text"),
        (
            *("tells_tokens_of_one_gpu", "user", "steady"),
            "it prints 480 ms a step (tokens_per_second), and its lines are 6",
        ),
        ("says_its_environment", "launch", "first_step", "code 7 in stage first_step"),
    ],
)
def test_failures_are_told_apart(runner, fault, outcome, stage, said):
    found = run(runner(fault))
    assert (found.outcome, found.stage_reached) == (outcome, stage), found.message
    assert said in found.message


@each(
    ("fault", "outcome", "stage"),
    [
        ("hangs", "hang", "steady"),
        ("talks_while_it_hangs", "hang", "steady"),
        ("never_begins", "launch", "start"),
    ],
)
def test_what_says_nothing_is_ended(runner, monkeypatch, fault, outcome, stage):
    monkeypatch.setitem(output.SILENCE_S, stage, 1.0)
    found = run(runner(fault))
    assert (found.outcome, found.stage_reached) == (outcome, stage)
    assert found.message.startswith(f"stopped at its deadline in stage {stage}")
    assert found.cost_s < 10


def test_the_deadline_holds_while_it_prints(runner):
    found = run(runner("without_end"), deadline_s=0.01)
    assert (found.outcome, found.stage_reached) == ("launch", "start")


def test_lines_that_are_not_those_of_its_steps_are_shown(runner, monkeypatch):
    monkeypatch.setitem(output.SILENCE_S, "start", 1.0)
    found = run(runner("prints_other_lines"))
    said = "no line of a step was read; its last line: iteration 3, loss 2.5"
    assert found.message == f"stopped at its deadline in stage start; {said}"


@each("fault", ["prints_other_steps", "prints_other_steps_and_ends"])
def test_steps_that_the_pattern_does_not_match_end_a_trial(runner, fault):
    found = run(runner(fault))
    assert (found.outcome, found.cost_s < 10) == ("user", True)
    assert found.message.startswith(
        "no step was read: lines have ' tokens/s | ', but do not match the pattern of "
        "`step`; the last: step "
    )


def test_fp8_without_a_profile_is_not_ok(runner):
    found = run(runner("sound"), {"train.precision": "fp8"})
    assert found.outcome == "user"
    assert found.message.startswith("FP8 was asked for, but the trainer wrote no prof")


def test_a_setting_whose_fp8_was_seen_needs_no_profile(runner):
    known = runner("sound")
    found = known.run({"train.precision": "fp8"}, TrialLimits(20.0, matmuls=12))
    assert (found.outcome, found.float8_matmuls) == ("ok", 12)
    assert found.extra["float8_matmuls_counted_earlier"]


def test_ranks_are_told_and_slurm_is_not(runner):
    known = runner("sound")
    told = known.launch.environment({})
    wanted = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    wanted |= {"MASTER_ADDR": "localhost", "NO_COLOR": "1"}
    assert {name: told.get(name) for name in wanted} == wanted
    assert not any(name.startswith("SLURM") for name in told)
    several = known.launch._replace(ranks=2)
    assert "WORLD_SIZE" not in several.environment({})
    assert "--nproc-per-node 2 " in " ".join(several.command({"config": "c"}))


@each(
    ("fault", "used", "outcome", "reserved"),
    [
        ("sound", "520", "ok", 0.508),
        ("out_of_memory", "520", "oom", 0.0),
        ("out_of_memory", "60000", "shared", 0.0),
    ],
)
def test_the_state_of_the_gpu_is_recorded(
    runner, tmp_path, monkeypatch, fault, used, outcome, reserved
):
    fake_nvml.install(tmp_path, monkeypatch, used_mib=used)
    known = runner(fault)
    known.guard = Guard(current())
    known.setup = known.setup._replace(device="cuda")
    (tmp_path / "scratch").mkdir(exist_ok=True)
    known.setup = known.setup._replace(scratch=str(tmp_path / "scratch"))
    found = run(known)
    assert found.outcome == outcome, found.message
    assert found.reserved_gib == pytest.approx(reserved, abs=0.01)
    assert found.capacity_gib == pytest.approx(79.6, abs=0.1)
    assert found.environment.startswith("NVIDIA H100 80GB HBM3, torch ")
    assert found.versions["driver"] == "580.82.07"
    assert not found.rehearsal


def test_losses_end_with_nan_or_after_all_steps(runner):
    found = runner("sound").train_for_losses(BF16, LOSSES, 20.0)
    assert (found.outcome, found.losses) == ("ok", (2.5,) * 8)
    assert (found.grad_norms, found.loss_run) == ((1.0,) * 8, LOSSES)
    found = runner("becomes_nan").train_for_losses(BF16, LOSSES, 20.0)
    assert (found.outcome, found.losses) == ("nan", (2.5,) * 3)


def test_the_keys_of_a_loss_run(runner):
    known = runner("sound")
    assert loss_keys(known.launch, known.config.base, LOSSES).set == {
        "train.seed": 7,
        "train.data_seed": 1,
        "train.warmup": 3,
    }


def test_a_full_disk_ends_the_search_with_its_name(runner, tmp_path):
    known = runner("sound")
    known.setup = known.setup._replace(scratch=str(tmp_path / "gone"))
    with pytest.raises(OSError, match="gone"):
        known.run(BF16, TrialLimits(20.0))


def test_stages_and_steps_are_told_as_they_come(runner):
    known, heard = runner("sound"), []
    known.hear = heard.append
    run(known)
    assert [event["stage"] for event in heard if "stage" in event][-1] == "steady"
    steps = [event for event in heard if "step" in event]
    assert [event["step"] for event in steps[:3]] == [0, 1, 2]
    assert steps[0]["ms"] == pytest.approx(25.6)


MEGATRON = """\
#!/bin/bash
ARGS="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128"
sh pretrain_gpt.py $ARGS --max-position-embeddings 128 --vocab-size 512 --bf16 \\
    --micro-batch-size 1 --global-batch-size 8 --lr 3e-4 --train-iters 50 \\
    --save out --save-interval 10
"""


PRINTS = """\
echo "$@" > arguments
printf ' iteration %8d/  50 | consumed samples: 8 | elapsed time per iteration (ms): '\\
'150.5 | lm loss: 5.0E+00 | grad norm: 1.0 |\\n' 1 2 3 4 5 6 7 8 9
sleep 30
"""


def test_a_script_of_megatron_is_run_with_other_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "pretrain_gpt.py").write_text(PRINTS)
    known = trainer("megatron_lm")
    launch = find_launch(known.about, "", 1, "cuda", own=False)
    config = config_of("run.sh", MEGATRON.encode(), Target("", 1), only=known)
    runner = trainer_runner(launch, UserConfig(config))
    runner = runner.ready(FEW, str(tmp_path / "scratch"), None)
    record = run(runner, {"micro_batch_size": 4})
    assert (record.outcome, set(record.step_ms)) == ("ok", {150.5})
    assert record.grad_accum == 2
    said = (tmp_path / "arguments").read_text()
    assert "--micro-batch-size 4" in said
    assert "--save" not in said
    assert said.endswith("--eval-iters 0 --log-interval 1\n")


@pytest.mark.parametrize(
    ("length", "warmup"),
    [
        ("--train-iters 50 --lr-warmup-iters 20", {"lr_warmup_iters": 3}),
        ("--train-samples 400 --lr-warmup-samples 160", {"lr_warmup_samples": 24}),
    ],
)
def test_a_loss_run_of_megatron_warms_up_in_its_unit(length, warmup):
    text = MEGATRON.replace("--train-iters 50", length)
    known = trainer("megatron_lm")
    config = config_of("run.sh", text.encode(), Target("", 1), only=known)
    assert config.job["warmup_steps"] == 20
    launch = find_launch(known.about, "", 1, "cuda", own=False)
    assert loss_keys(launch, config, LOSSES).set == {"seed": 7, **warmup}
