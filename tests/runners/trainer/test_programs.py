"""A launcher starts TRL's command or the user's own script, with the trial's files."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fp8tune.formats.document import Unreadable
from fp8tune.job import Target
from fp8tune.runners.trainer import inside
from fp8tune.runners.trainer.config import CannotWrite
from fp8tune.runners.trainer.launch import CannotLaunch, find_launch
from fp8tune.runners.trainer.recipe import recipe_of
from fp8tune.runners.trainer.runner import trainer_runner
from fp8tune.search.plan import config_to_search
from fp8tune.search.real_trials import config_of_trials
from fp8tune.trainers.call import Program
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.runner import TrialLimits
from tests.each import each
from tests.runners.trainer.conftest import FEW

TRAINS = str(Path(__file__).parent / "trains.py")
LAUNCH = """\
distributed_type: MULTI_GPU  # mine
num_processes: 16
num_machines: 2
machine_rank: 1
main_process_ip: node1
main_process_port: 29500
mixed_precision: fp8
fp8_config: {backend: AO}
"""
SFT = """\
model_name_or_path: a/b
dataset_name: c/d
bf16: false
max_length: 64  # tokens
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
output_dir: kept
save_steps: 2
push_to_hub: true
"""
DEEPSPEED = '{"zero_optimization": {"stage": 2}, "gradient_clipping": "auto"}\n'
LED = """\
distributed_type: MULTI_GPU  # mine
num_processes: 8
num_machines: 1
machine_rank: 0
main_process_port: 0
mixed_precision: fp8
fp8_config: {backend: AO}
"""
TRAINED = """\
model_name_or_path: a/b
dataset_name: c/d
bf16: false
max_length: 64  # tokens
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
output_dir: /s/output
save_steps: 2
push_to_hub: false
auto_find_batch_size: false
do_eval: false
eval_on_start: false
eval_strategy: "no"
load_best_model_at_end: false
max_steps: 1000000
report_to: none
save_strategy: "no"
"""
FILES = {"launch.yaml": LAUNCH, "sft.yaml": SFT, "ds.json": DEEPSPEED}
MICRO_BATCH = "training.per_device_train_batch_size"


def config_here(path, *beside, ranks=8):
    """A job of files here, as a search reads it."""
    data = Path(path).read_bytes()
    return config_to_search(path, data, Target("", ranks), "", ranks, beside)


@pytest.fixture
def trial(project):
    """Return what a trial of a job gets, which is read as a search reads it."""

    def made(path, *beside, knobs=None, typed=(), more=None):
        project({**FILES, **(more or {})})
        config = config_here(path, *beside)
        recipe = recipe_of(config.trainer.about)
        ours = config_of_trials(config.having(written=typed), recipe)
        values = {"scratch": "/s", "ranks": "8", **ours.places("/s")}
        return ours.for_trial(knobs or {}, [recipe.trial, recipe.speed], values)

    return made


def test_each_file_of_a_job_has_the_trial_s_values(trial):
    found = trial("launch.yaml", "sft.yaml", knobs={MICRO_BATCH: 2})
    texts = {name: data.decode() for name, data in found.files.items()}
    assert texts == {"config": LED, "training": TRAINED}
    words = ("-m", "trl.scripts.sft", "--config", "/s/training.yaml")
    assert found.program == Program((), words)


@each(
    ("launch", "sft", "line"),
    [
        (
            LAUNCH.replace("MULTI_GPU", "DEEPSPEED")
            + "deepspeed_config: {deepspeed_config_file: ds.json}\n",
            SFT,
            "deepspeed_config: {deepspeed_config_file: /s/deepspeed.json}",
        ),
        (LAUNCH, f"{SFT}deepspeed: ds.json\n", "deepspeed: /s/deepspeed.json"),
    ],
)
def test_what_names_the_deepspeed_file_names_that_of_the_trial(
    trial, launch, sft, line
):
    launch = launch.replace("fp8\nfp8_config: {backend: AO}", "bf16")
    more = {"launch.yaml": launch, "sft.yaml": sft}
    found = trial("launch.yaml", "sft.yaml", more=more)
    lines = b"\n".join(found.files.values()).decode().splitlines()
    assert line in lines
    assert found.files["deepspeed"].decode() == DEEPSPEED


OF_RANKS = "--num_processes 8 --num_machines 1 --machine_rank 0 --main_process_port 0"
TRL = "-m trl.scripts.{} --config /s/training.yaml"
ACCELERATE = "accelerate launch --config_file launch.yaml"


@each(
    ("script", "options", "words"),
    [
        (
            f"{ACCELERATE} ./train.py --config sft.yaml --rows 3",
            "",
            "train.py --config /s/training.yaml --rows 3",
        ),
        (  # what only a run knows is what a trial sets or leaves out
            f"srun {ACCELERATE} --num_processes 16 --machine_rank $SLURM_PROCID "
            "--main_process_ip $HEAD --main_process_port 29500 -m ours.train sft.yaml "
            "--output_dir $OUT --run_name=a-$SLURM_JOB_ID --seed 1",
            "--num_processes 8 --machine_rank 0 --main_process_port 0",
            "-m ours.train /s/training.yaml --seed 1 --output_dir /s/output",
        ),
        (  # typed values go before the file's
            f"{ACCELERATE} --debug train.py --config=sft.yaml --push_to_hub "
            "--per_device_train_batch_size 4",
            "--debug",
            "train.py --config=/s/training.yaml --per_device_train_batch_size 2 "
            "--push_to_hub false",
        ),
        (
            "trl sft --config sft.yaml --accelerate_config launch.yaml --seed 1",
            "",
            f"{TRL.format('sft')} --seed 1",
        ),
        ("trl dpo --config sft.yaml", OF_RANKS, TRL.format("dpo")),
        ("torchrun train.py --config sft.yaml", OF_RANKS, "train.py --config /s/tr"),
    ],
)
def test_a_launch_script_says_what_is_started(trial, script, options, words):
    more = {"train.sbatch": f"export A=1\n{script}\n", "train.py": ""}
    found = trial("train.sbatch", knobs={MICRO_BATCH: 2}, more=more).program
    assert " ".join(found.options) == options
    assert " ".join(found.words)[: len(words)] == words
    assert found.environment == (("A", "1"),)


@each(
    ("files", "typed", "options", "words"),
    [
        (["sft.yaml"], (), OF_RANKS, TRL.format("sft")),
        (["sft.yaml"], ("dpo",), OF_RANKS, TRL.format("dpo")),
        (["dpo.yaml"], (), OF_RANKS, TRL.format("dpo")),
        (
            ["launch.yaml", "sft.yaml"],
            ("--debug", "train.py", "--rows", "3", "./sft.yaml"),
            "--debug",
            "train.py --rows 3 /s/training.yaml",
        ),
    ],
)
def test_without_a_script_its_keys_or_the_command_line_say_it(
    trial, files, typed, options, words
):
    more = {"dpo.yaml": f"{SFT}beta: 0.1\nprecompute_ref_log_probs: true\n"}
    found = trial(*files, typed=typed, more=more).program
    assert (" ".join(found.options), " ".join(found.words)) == (options, words)


@each(
    ("files", "sft", "said"),
    [
        (
            ["rows.sbatch", "sft.yaml"],
            SFT,
            "train.py is not given sft.yaml, so trials would not read it: name it "
            "there, such as `train.py --config sft.yaml`",
        ),
        (["launch.yaml"], SFT, "a launch file does not say what it starts: name its t"),
        (
            ["sft.yaml"],
            f"{SFT}rows: 3\n",
            "which script reads sft.yaml? `trl sft` has no `rows`. Search the launch",
        ),
        (["sft.yaml"], SFT.replace("dataset_name: c/d\n", ""), "which script reads"),
        (["sft.yaml"], f"{SFT}num_processes: 2\n", "`num_processes` is an option of"),
        (
            ["sft.yaml"],
            f"{SFT}accelerate_config: fsdp2\n",
            "`accelerate_config` names the launch file: add --with FILE",
        ),
        (
            ["train.sbatch"],
            SFT,
            "`--data _` is not known before the run",
        ),
        (["cd.sbatch"], SFT, "it starts in there: type the command there"),
        (
            ["launch.yaml", "sft.yaml", "fixed.json"],
            SFT,
            '`train_micro_batch_size_per_gpu: 4` would fix what is varied: set it to "',
        ),
    ],
)
def test_a_job_that_does_not_say_what_it_starts_is_refused(trial, files, sft, said):
    more = {
        "sft.yaml": sft,
        "train.sbatch": f"{ACCELERATE} train.py --config sft.yaml --data $DATA\n",
        "rows.sbatch": f"{ACCELERATE} train.py --rows 3\n",
        "cd.sbatch": f"cd there\n{ACCELERATE} train.py --config sft.yaml\n",
        "there/launch.yaml": LAUNCH,
        "there/sft.yaml": SFT,
        "fixed.json": DEEPSPEED.replace("{", '{"train_micro_batch_size_per_gpu": 4, '),
    }
    with pytest.raises((CannotWrite, Unreadable)) as error:
        trial(*files, more=more)
    assert said in str(error.value)


LAUNCHER = """\
import subprocess, sys
program = next(n for n, word in enumerate(sys.argv) if word.endswith("inside.py"))
sys.exit(subprocess.call([sys.executable, *sys.argv[program:]]))
"""
"""A launcher that starts one process, whatever it is asked for."""


@pytest.fixture
def site(project):
    """Return a folder that has the launcher as ``accelerate.commands.launch``."""
    packages = ("accelerate/__init__.py", "accelerate/commands/__init__.py")
    files = {f"site/{name}": "" for name in packages}
    return project({**files, "site/accelerate/commands/launch.py": LAUNCHER}) / "site"


def test_a_trial_s_config_has_the_pinned_releases(project):
    pins = "torch==2.9.1\ntorchao==0.18.0\ntransformers==4.57.6\n"
    project({**FILES, "requirements.txt": pins})
    config = config_here("launch.yaml", "sft.yaml")
    ours = config_of_trials(config, recipe_of(config.trainer.about))
    names = "torch_release", "torch_version", "torchao_version", "transformers_release"
    found = [*map(ours.job({MICRO_BATCH: 2}).get, names)]
    assert found == ["2.9.1", "2.9.1", "0.18.0", "4.57.6"]


@each(
    ("ranks", "outcome"), [(1, ("ok", "")), (2, ("user", "1 of 2 processes started"))]
)
def test_a_trial_of_a_script_that_a_launcher_starts(site, project, ranks, outcome):
    project({"launch.yaml": "distributed_type: MULTI_GPU\n", "sft.yaml": SFT})
    config = config_here("launch.yaml", "sft.yaml", ranks=ranks)
    known = trainer("accelerate")
    launch = find_launch(known.about, str(site), ranks, "cpu", own=False)
    ours = config_of_trials(config, launch.recipe)
    ours = ours._replace(program=Program((), (TRAINS, "without_end")))
    runner = trainer_runner(launch, ours, device="cpu")
    found = runner.ready(FEW, str(site), None).run({}, TrialLimits(60.0))
    assert (found.outcome, found.message) == outcome
    assert not [path for path in site.iterdir() if path.name.startswith("fp8tune-")]
    assert not processes_of(TRAINS)


def test_a_script_ends_with_its_launcher(site):
    """Also where a search is killed, which takes only the launcher with it."""
    words = ["-m", "accelerate.commands.launch", inside.__file__, TRAINS, "without_end"]
    launcher = subprocess.Popen(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
    )
    try:
        lines = iter(launcher.stdout.readline, b"")
        assert any(b"step 1" in line for line in lines)
        assert processes_of(TRAINS)
    finally:
        launcher.kill()
        launcher.wait()
        launcher.stdout.close()
    deadline = time.monotonic() + 10
    while processes_of(TRAINS) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_of(TRAINS)


def processes_of(path):
    """Return the processes that run a program, of this test alone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            here = os.readlink(folder / "cwd") == os.getcwd()
        except OSError:
            continue
        if path.encode() in words and here:
            found.append(words)
    return found


def test_a_package_whose_module_would_start_is_missed_before_the_search(site, project):
    project({"sft.yaml": SFT})
    config = config_here("sft.yaml", ranks=1)
    launch = find_launch(config.trainer.about, str(site), 1, "cpu", own=False)
    with pytest.raises(CannotLaunch, match="finds no package trl"):
        trainer_runner(launch, config_of_trials(config, launch.recipe), device="cpu")
