"""What a search would do, said without running anything."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fp8tune.runners.trainer import inside
from tests.each import each
from tests.field.test_scripts import RUN
from tests.search.test_knobs import AUTOMODEL, FORGE, TITAN
from tests.search.test_written_formats import AXOLOTL, FACTORY

LAUNCH = 'distributed_type: "NO"\nmixed_precision: bf16\nnum_processes: 1\n'
SFT = """\
model_name_or_path: a/b
dataset_name: c/d
max_length: 64
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
bf16: true
"""
SCRIPT = (
    "accelerate launch --config_file launch.yaml train.py --config sft.yaml --rows 3"
)
FITS = FORGE.replace("32", "32\nmax_seq_len = 4096")
TARGET = ("--gpu", "h100", "--world-size", "8")


@pytest.fixture
def titan(project):
    project({"train.toml": TITAN})
    return "train.toml"


def test_what_is_varied_and_kept_is_said(titan, fp8tune):
    ran = fp8tune("search", titan, "--dry-run", *TARGET)
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[:5] == [
        "varied: 3 knobs, 16 settings",
        "  micro_batch (training.local_batch_size): 1, 2",
        "  ac: none, op, every-2, full",
        "  compile: false, true",
        "kept:",
    ]
    assert any("--allow fp8" in line for line in lines)
    assert "  your config: peak" in ran.out
    assert max(map(len, lines)) <= 80


def test_nothing_of_a_config_acts_on_a_terminal(project, fp8tune):
    project({"a.yaml": f'{AXOLOTL}optimizer: "evil\\e[2J\\u202e\\n"\n'})
    shown = fp8tune("search", "a.yaml", "--dry-run").out.replace("\n", "")
    assert r"(optimizer: evil\u001b[2J\u202e\u000a, " in shown
    assert shown.isprintable()


def test_it_is_json_too(titan, fp8tune):
    words = ("--dry-run", *TARGET, "--output-format", "json")
    said = fp8tune("search", titan, *words).json
    by_role = {knob["role"]: knob for knob in said["knobs"]}
    assert by_role["micro_batch"] == {
        "key": "training.local_batch_size",
        "file": "train.toml",
        "role": "micro_batch",
        "values": [1, 2],
        "frozen": False,
        "why": "it changes memory; gradient accumulation keeps the tokens of a step",
        "changes": "speed",
    }
    recipe = by_role["fp8_recipe"]
    assert (recipe["frozen"], recipe["changes"]) == (True, "numerics")
    assert said["trial"]["command"][-1] == "{spec}"
    assert said["budget_s"] == 7200
    assert said["trials"] > 0
    config, least, most = said["corners"]
    assert least["memory"]["gib"] < config["memory"]["gib"]
    assert most["knobs"] == {"ac": "none"}


def test_a_knob_has_the_key_and_the_file_that_another_value_changes(project, fp8tune):
    training = f"{SFT}gradient_checkpointing: true\n"
    project({"c/launch.yaml": LAUNCH, "c/sft.yaml": training})
    words = ("c/launch.yaml", "--with", "c/sft.yaml", "--allow", "fp8", *TARGET[:2])
    ran = fp8tune("search", *words, "--dry-run", "--output-format", "json")
    said = {
        knob["role"]: (knob["key"], knob["file"], knob["changes"])
        for knob in ran.json["knobs"]
    }
    assert said == {
        "micro_batch": (
            "training.per_device_train_batch_size",
            "c/sft.yaml",
            "speed",
        ),
        "ac": ("training.gradient_checkpointing", "c/sft.yaml", "speed"),
        "compile": ("training.torch_compile", "c/sft.yaml", "numerics"),
        "precision": ("mixed_precision", "c/launch.yaml", "numerics"),
        "optimizer_kernel": ("training.optim", "c/sft.yaml", "numerics"),
        "reshard": ("fsdp_config.fsdp_reshard_after_forward", "c/launch.yaml", "speed"),
        "warmup": ("training.warmup_steps", "c/sft.yaml", "numerics"),
    }


@each(
    ("flags", "shown"),
    [
        ("--train-iters 6400", True),
        ("--train-samples 6400 --lr-warmup-samples 64", True),
        ("--train-iters 6400 --lr-warmup-fraction 0.1", False),
    ],
)
def test_a_warmup_that_is_a_share_is_not_shortened(project, fp8tune, flags, shown):
    project({"run.sh": f"{RUN} --bf16 {flags}\n"})
    ran = fp8tune("search", "run.sh", "--dry-run", "--gpu", "h100")
    assert ("warmup (warmup_steps): a shorter one" in ran.out) is shown


@pytest.fixture
def folder():
    """A folder that everybody may enter, as the current one."""
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), Path.cwd()
        folder.chmod(0o755)
        (folder / "conf").mkdir()
        os.chdir(folder)
        yield folder
        os.chdir(before)


def test_a_folder_without_write_permission_is_told(fp8tune, folder):
    (folder / "conf/a.toml").write_text(FITS)
    words = ("search", "conf/a.toml", "--dry-run", *TARGET)
    assert fp8tune(*words).code == 0
    (folder / "conf").chmod(0o555)
    (folder / ".fp8tune").mkdir(mode=0o777)
    nobody, root = 65534, os.geteuid() == 0
    if root:  # which may write everywhere
        (folder / ".fp8tune").chmod(0o777)
        os.setresuid(nobody, nobody, 0)
    try:
        ran = fp8tune(*words, "--output-format", "json")
        diff = fp8tune(*words, "--diff")
    finally:
        if root:
            os.setresuid(0, 0, 0)
    said = (
        f"conf/a.tuned.toml: no permission to write in {folder.resolve()}/conf; "
        "--output FILE names another place, --diff writes none"
    )
    assert (ran.code, ran.json["refused"]) == (2, said)
    assert diff.code == 0


def test_a_trainer_s_own_command_is_shown(titan, fp8tune):
    words = ("--dry-run", *TARGET, "--runner", "trainer", "--output-format", "json")
    command = fp8tune("search", titan, *words).json["trial"]["command"]
    assert command[1:] == [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8"),
        *("-m", "torchtitan.train", "--job.config_file", "{config}"),
    ]


IN_BF16 = TITAN.replace('converters = ["quantize.linear.float8"]\n', "")


@pytest.mark.parametrize(
    "text",
    [
        f"{IN_BF16}[parallelism]\ntensor_parallel_degree = 8\n",
        IN_BF16.replace("llama3", "flux").replace("8B", "flux-debug"),
    ],
)
def test_what_the_own_trial_may_not_know_runs_in_the_trainer(titan, fp8tune, text):
    Path(titan).write_text(text)
    ran = fp8tune("search", titan, "--dry-run", *TARGET)
    assert (ran.code, "-m torchtitan.train" in " ".join(ran.out.split())) == (0, True)


def test_a_job_of_several_files_shows_what_its_launcher_starts(project, fp8tune):
    project({"launch.yaml": LAUNCH, "sft.yaml": SFT, "train.sh": f"{SCRIPT}\n"})
    words = ("--dry-run", "--output-format", "json")

    def said(*asked):
        found = fp8tune("search", *asked, *words).json
        return found["trial"]["command"], found["refused"]

    start = ["python", "-m", "accelerate.commands.launch", "--config_file", "{config}"]
    trl = ["-m", "trl.scripts.sft", "--config", "{training}"]
    own = ["train.py", "--config", "{training}", "--rows", "3"]
    command, _ = said("launch.yaml", "--with", "sft.yaml")
    assert command == [*start, inside.__file__, *trl]
    command, _ = said("train.sh")
    assert command == [*start, inside.__file__, *own]
    command, refused = said("launch.yaml")
    assert command == []
    assert "name the training arguments: add --with" in refused


def test_a_script_s_arguments_are_to_be_written(project, fp8tune):
    script = RUN.replace("batch-size 1", "batch-size $1")
    project({"run.sh": f"{script} --bf16 --train-iters 9\n"})
    ran = fp8tune("search", "run.sh", "--dry-run", "--gpu", "h100")
    said = " ".join(ran.out.split())
    assert "write its value, or a default: `${1:-VALUE}`" in said
    ran = fp8tune("search", "run.sh", "--dry-run", "--gpu", "h100", "--", "2")
    assert (ran.code, ran.out) == (2, "")
    assert "a search starts the script without arguments" in ran.err


def test_a_value_that_a_launch_script_leaves_open_is_of_the_script(project, fp8tune):
    script = f"{SCRIPT} --per_device_train_batch_size $1\n"
    project({"launch.yaml": LAUNCH, "sft.yaml": SFT, "train.sh": script})
    ran = fp8tune("search", "train.sh", "--dry-run")
    said = " ".join(ran.out.split())
    assert said.startswith("the search will not start: train.sh: the micro-batch, ")


@each(
    ("recipe", "said"),
    [
        ("recipe: TrainEagle3Recipe", "no estimate covers `recipe: TrainEagle3Recip"),
        ("# diffusion", "the file does not say which recipe runs it: set `recipe`"),
        (
            "recipe: TrainFinetuneRecipeForNextTokenPrediction",
            "any length: set `packed_sequence.packed_sequence_size` varied:",
        ),
    ],
)
def test_a_recipe_that_reads_other_keys_is_refused_by_name(
    project, fp8tune, recipe, said
):
    _, _, rest = AUTOMODEL.replace("{strategy}", "fsdp2").partition("\n")
    project({"a.yaml": f"{recipe}\n{rest}".replace("size: 4096", "size: 0")})
    ran = fp8tune("search", "a.yaml", "--dry-run", *TARGET)
    assert said in " ".join(ran.out.split())
    assert ran.code == 2


def test_what_the_run_s_python_tells_may_be_unknown(project, fp8tune):
    project({"sft.yaml": f"{FACTORY}fp8: true\nfp8_backend: torchao\n"})
    ran = fp8tune("search", "sft.yaml", "--dry-run", *TARGET)
    said = " ".join(ran.out.split())
    assert ran.code == 0
    assert "precision: FP8 depends on the release of transformers" in said
    assert "not on this machine yet: LLaMA-Factory is not installed" in said


def test_a_misspelt_argument_is_said_before_what_it_leaves_unknown(project, fp8tune):
    project({"sft.yaml": SFT.replace("max_length", "max_lenght")})
    ran = fp8tune("search", "sft.yaml", "--dry-run", "--output-format", "json")
    first, rest = ran.json["refused"].split(" [unknown-argument]; ")
    assert first.startswith("sft.yaml:3: neither transformers nor TRL has an argument")
    assert "did you mean `max_length`?" in first
    assert rest.startswith("sft.yaml: the number of tokens per step is not known: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--runner", "trainer", "--python", "nowhere"),
            "--python nowhere: no such program",
        ),
        (
            ("--runner", "trainer", "--trainer-dir", "nowhere"),
            "--trainer-dir nowhere: no such folder",
        ),
        (
            ("--runner", "command"),
            "--runner command runs the command of a file of your own, --trainer "
            "ours.toml; for torchtitan it is --runner trainer",
        ),
        (
            ("--ranks", "3"),
            "--ranks 3: train.toml is for 8 GPUs; type --ranks 8, or --world-size 3 if "
            "it is to run on 3",
        ),
        (("--runner", "replay"), "--runner replay needs --records FILE"),
        (("--records", "r.jsonl"), "--records needs --runner replay"),
        (
            ("--runner", "builtin", "--python", sys.executable),
            "--python needs --runner trainer or command",
        ),
    ],
)
def test_it_is_refused_as_the_search_would_be(titan, fp8tune, options, said):
    words = ("search", titan, *TARGET, *options)
    real = fp8tune(*words, "--budget", "1m")
    assert (real.code, real.out, real.err) == (2, "", f"fp8tune: {said}\n")
    dry = fp8tune(*words, "--dry-run")
    told = f"the search will not start: {said}" if dry.out else f"fp8tune: {said}"
    assert dry.code == 2
    assert " ".join((dry.out or dry.err).split()).startswith(told)


def test_a_config_that_the_trainer_refuses_is_told(project, fp8tune):
    project({"a.toml": f"{FITS}[distributed]\ntp = 2\n"})
    ran = fp8tune("search", "a.toml", "--dry-run", *TARGET)
    assert ran.code == 2
    said = " ".join(ran.out.split())
    assert said.startswith("the search will not start: a.toml:11: FP8 does not work ")
    assert "fix that first, see: fp8tune lint a.toml" in said


@each(
    ("size", "peak"),
    [
        ("dim = 256\nn_layers = 2\nn_heads = 4\nvocab_size = 512", r"\d\d+ MiB"),
        ("dim = 4096\nn_layers = 32", r"\d+\.\d GiB"),
    ],
)
def test_a_small_peak_is_not_0_and_without_a_gpu_nothing_fits(
    project, fp8tune, size, peak
):
    more = FITS.partition("[train]")[2]
    project({"a.toml": f"[model]\nmax_seq_len = 4096\n{size}\n[train]{more}"})
    ran = fp8tune("search", "a.toml", "--dry-run", "--world-size", "1")
    (own,) = re.findall(r"your config: (.*)\n", ran.out)
    assert re.match(rf"peak {peak} \([\d.,]+ to [\d.,]+\)", own), own
    assert "unknown" not in own
    assert "note: what fits is unknown, as no GPU is named" in ran.out
    named = fp8tune("search", "a.toml", "--dry-run", *TARGET)
    assert "no GPU is named" not in named.out


def test_it_needs_neither_torch_nor_optuna(tmp_path):
    (tmp_path / "a.toml").write_text(FITS)
    program = (
        "import sys\n"
        "for name in ('torch', 'torchao', 'optuna', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "from fp8tune.program import main\n"
        "main(['search', 'a.toml', '--dry-run', '--gpu', 'h100'])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("varied: ")


def test_a_replay_runs_no_trial(titan, project, fp8tune):
    knobs = {"training.local_batch_size": 1, "training.seq_len": 8192}
    record = {"knobs": knobs, "outcome": "ok", "tokens_per_second": 9.0, "cost_s": 1.0}
    project({"r.jsonl": f"{json.dumps(record)}\n"})
    words = ("--runner", "replay", "--records", "r.jsonl", "--output-format", "json")
    said = fp8tune("search", titan, "--dry-run", *TARGET, *words).json
    varied = {knob["role"]: knob["frozen"] for knob in said["knobs"]}
    assert [role for role, frozen in varied.items() if not frozen] == ["micro_batch"]
    assert {"seq_len", "fp8_recipe"} <= varied.keys()
    assert (said["refused"], said["trial"]["command"]) == (None, [])
    assert "a replay of 1 record runs no trial" in said["notes"]


@each(
    ("name", "text", "said"),
    [
        (
            "ds.json",
            '{"train_batch_size": 64, "zero_optimization": {"stage": 3}}',
            "no trial runs DeepSpeed: a DeepSpeed file names no program: search the "
            "training arguments or the launch file of its job, with this file beside "
            "it (--with); --runner replay --records FILE searches those that you "
            "measured",
        ),
        (
            "a.yaml",
            "train: {train_iters: 20}\nddp: {use_distributed_optimizer: true}\n",
            "no trial runs Megatron-Bridge: a file overrides a recipe, and the file "
            "does not say which recipe and which program train; `fp8tune estimate` "
            "predicts its settings, and --runner replay --records FILE searches those "
            "that you measured",
        ),
        (
            "rl.toml",
            "[orchestrator]\nbatch_size = 64\n[trainer]\n",
            "rl.toml: the gradient accumulation, the number of tokens per step are "
            "not known: no estimate covers the micro-batches of an RL step, "
            "whose number depends on its rollouts",
        ),
    ],
)
def test_what_no_trial_runs_is_told(project, fp8tune, name, text, said):
    project({name: text})
    ran = fp8tune("search", name, "--dry-run", *TARGET, "--output-format", "json")
    assert (ran.code, ran.json["refused"]) == (2, said)
