"""What runs inside of a trainer's process tells its steps, whatever the trainer is."""

import json
import shutil
import statistics
import subprocess
import sys
from io import BufferedReader, BytesIO
from pathlib import Path

import pytest

from fp8tune.runners.trainer import inside
from fp8tune.runners.trainer.launch import CannotLaunch, find_launch, variables
from fp8tune.runners.trainer.recipe import INSIDE, read
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.record import LossRun
from fp8tune.trials.runner import TrialLimits
from fp8tune.verify import log
from tests.each import each
from tests.runners.trainer.conftest import EXAMPLE, runner_of

TRAINS = str(Path(__file__).parent / "trains.py")
COMMAND = ("{python}", "{inside}", TRAINS)
RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", inside.TRACES):
        monkeypatch.delenv(name, raising=False)


def printed(*words, cwd=None):
    """Return the steps and losses that were read, and those that the trainer made."""
    command = [sys.executable, *words]
    done = subprocess.run(
        command, capture_output=True, cwd=cwd, env=variables("", 1), check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    curve = log.read_file(BufferedReader(BytesIO(done.stdout)), trainer=INSIDE).starts[
        -1
    ]
    made = json.loads(done.stdout.decode().splitlines()[-1])
    assert curve.peak_gib[0] > 0.05
    assert all(seconds > 0 for seconds in curve.step_s[1:])
    return dict(zip(curve.step, curve.loss, strict=True)), made


def test_a_step_is_an_optimizer_step_with_the_loss_of_its_micro_batches():
    """In one process, for the time that torch takes to import."""
    kinds = ("plain", "lora", "checkpoint", "fused", "of_library", "accumulates")
    kinds = (*kinds, "skips", "several", "in_backward", "says_steps")
    steps, made = printed(inside.__file__, TRAINS, ",".join(kinds))
    assert len(made) == 5 * len(kinds)
    assert steps == pytest.approx(dict(enumerate(made, 1)))


def test_rank_0_alone_prints():
    steps, made = printed(*RANKS, "2", inside.__file__, TRAINS, "distributed")
    assert steps == pytest.approx(dict(enumerate(made, 1)))


def test_a_module_is_run_from_the_current_folder_with_its_own_neighbours(tmp_path):
    """Nothing of the folder of the program inside is imported in place of these."""
    (tmp_path / "ours").mkdir()
    shutil.copy(TRAINS, tmp_path / "ours/trains.py")
    (tmp_path / "config.py").write_text("KIND = 'plain'")
    (tmp_path / "ours/__main__.py").write_text(
        "import json, config, __main__\n"
        "from ours import trains\n"
        "assert __main__.json is json\n"
        "print(f'\\n{json.dumps(list(trains.plain(config.KIND)))}')\n"
    )
    steps, made = printed(inside.__file__, "-m", "ours", cwd=tmp_path)
    assert steps == pytest.approx(dict(enumerate(made, 1)))


@pytest.fixture
def runner(tmp_path):
    """Return the runner of a program inside of which the steps are read."""

    def build(*words, ranks=1):
        folder = tmp_path / "trainer"
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)

        def launched(launch):
            own = trainer("ours").about.own.run
            run = {
                "command": [*COMMAND[:2], *words, "{config}"],
                "ranks": [
                    "{python}",
                    *RANKS,
                    "{ranks}",
                    "{inside}",
                    *words,
                    "{config}",
                ],
                "cpu": True,
                "environment": {"HF_HUB_OFFLINE": "1"},
                **{name: own[name] for name in ("trial", "speed", "losses")},
            }
            return launch._replace(recipe=read(run, "ours"))

        return runner_of(folder, tmp_path / "scratch", ranks, launched)

    return build


def run(runner, knobs=None, deadline_s=60.0, matmuls=0):
    """Return the record, and check that no file of the trial is left."""
    knobs = {"train.precision": "bf16"} if knobs is None else knobs
    record = runner.run(knobs, TrialLimits(deadline_s, matmuls=matmuls))
    assert list(Path(runner.setup.scratch).iterdir()) == []
    return record


def test_fp8_is_proved_by_the_profile_of_one_step(runner):
    """The example's own trainer, without its profiler and without its lines."""
    known = runner("{dir}/train.py")
    found = run(known, {"train.recompute": "none"}, 120.0)
    assert found.outcome == "ok", found.message
    # 2 blocks of 2 linears, forward and two gradients, in 4 micro-batches
    assert found.float8_matmuls == 2 * 2 * 3 * 4
    assert found.extra["time_from"] == "step_s"
    assert found.tokens_per_second * statistics.median(
        found.step_ms
    ) / 1e3 == pytest.approx(4 * 2 * 32)
    assert found.peak_gib == found.reserved_gib > 0.05


def test_losses_are_those_that_the_trainer_prints(runner, tmp_path):
    known = runner("{dir}/train.py")
    losses = LossRun(seed=7, warmup_steps=3, steps=8, config_warmup_steps=20)
    found = known.train_for_losses({"train.precision": "bf16"}, losses, 120.0)
    config = tmp_path / "config.toml"
    trial = known.launch.recipe.trial._replace(
        set={"run.checkpoints": str(tmp_path), "train.seed": 7, "train.warmup": 3}
    )
    knobs = {"train.precision": "bf16", "train.steps": 8}
    config.write_bytes(known.config.for_trial(knobs, [trial], {}).files["config"])
    text = subprocess.run(
        [sys.executable, str(EXAMPLE / "train.py"), str(config)],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    own = [float(line.split()[4]) for line in text.splitlines() if " tokens/s" in line]
    assert (found.outcome, len(own)) == ("ok", 8), found.message
    assert found.losses == pytest.approx(own, abs=1e-4)


def test_lines_of_a_queue_may_be_closer_than_its_steps(runner):
    found = run(
        runner(str(Path(TRAINS).with_name("wrong.py")), "runs_ahead_of_its_gpu")
    )
    assert found.outcome == "ok", found.message
    assert found.step_ms == pytest.approx([200.0] * len(found.step_ms), rel=1e-6)


def test_two_ranks_make_one_trial(runner):
    found = run(runner("{dir}/train.py", ranks=2), deadline_s=120.0)
    assert found.outcome == "ok", found.message
    assert len(found.all_step_ms) == len(set(found.all_step_ms)) <= 8


def test_a_program_that_goes_on_after_ctrl_c_is_ended_with_its_data_workers(runner):
    found = run(runner(TRAINS, "without_end"))
    assert (found.outcome, found.losses) == ("ok", ()), found.message
    alive = [p for p in Path("/proc").glob("[0-9]*") if _is_in(p, TRAINS)]
    assert alive == []


def _is_in(folder, path):
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        return path.encode() in words and b"without_end" in words
    except OSError:
        return False


@each(
    ("kind", "outcome", "stage", "said"),
    [
        ("becomes_nan", "nan", "steady", "the loss is NaN or infinite from step 3 on"),
        ("downloads", "user", "build", "type `hf download NAME` once before"),
    ],
)
def test_how_a_program_ended_is_told(runner, kind, outcome, stage, said):
    """For other ends see test_trials.py: they are read from the same lines."""
    found = run(runner(TRAINS, kind))
    assert (found.outcome, found.stage_reached) == (outcome, stage), found.message
    assert said in found.message


def test_a_trainer_that_is_not_installed_is_named():
    python = sys.executable
    named = "--python PATH names a Python that has it, --trainer-dir PATH its checkout"
    for name, install in (
        ("automodel", f"{python} -m pip install nemo-automodel; or "),
        ("prime_rl", ""),
    ):
        about = trainer(name).about
        with pytest.raises(CannotLaunch) as error:
            find_launch(about, "", 1, "cuda", own=False, python=python)
        assert str(error.value) == (
            f"{about.title} is not installed: {python} finds no {about.distribution}; "
            f"{install}{named}"
        )
