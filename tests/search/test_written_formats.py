"""What a search writes into YAML, JSON, launch scripts and jobs of several files."""

import json
import re
from pathlib import Path

import pytest

from fp8tune.search.saved_study import load_study
from fp8tune.search.write.writeback import MARK
from tests.each import each

AXOLOTL = """\
# fp8tune: world-size=8
base_model: meta-llama/Llama-3.2-1B
micro_batch_size: 2  # per GPU
gradient_accumulation_steps: 8
sequence_len: 4096
datasets:
  - path: x
    type: alpaca
fp8: true
"""
FACTORY = """\
# fp8tune: world-size=8
model_name_or_path: meta-llama/Llama-3.2-1B
stage: sft
do_train: true
finetuning_type: full
dataset: x
template: llama3
cutoff_len: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
bf16: true
"""
MEGATRON = """\
#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=h100:8
MBS=2
MODEL=(--num-layers 16 --hidden-size 2048 --num-attention-heads 16)
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    "${MODEL[@]}" --seq-length 2048 --max-position-embeddings 2048 \\
    --micro-batch-size $MBS \\
    --global-batch-size 128 --vocab-size 32000 --train-iters 10 --lr 1e-4 --bf16
"""
DEEPSPEED = """\
{
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2}
}
"""
LAUNCH = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED  # ZeRO
deepspeed_config:
  deepspeed_config_file: ds/zero.json
  zero3_init_flag: true
num_machines: 1
num_processes: 8
"""
ZERO = """\
{
  "bf16": {"enabled": true},
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "zero_optimization": {"stage": 3, "overlap_comm": false}
}
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=1 --gpus-per-node=h100:8
CONFIG=conf/launch.yaml  # of this cluster
accelerate launch --config_file $CONFIG \\
    train.py --model_name_or_path meta-llama/Llama-3.2-1B \\
    --per_device_train_batch_size 2 \\
    --gradient_accumulation_steps 8 --bf16 True --output_dir out
echo done
"""
PLAIN = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
mixed_precision: bf16
num_processes: 8
"""
TRAINING = """\
model_name_or_path: meta-llama/Llama-3.2-1B
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
bf16: true
output_dir: out
"""
OVERLAP = "deepspeed.zero_optimization.overlap_comm"
SIZE = "per_device_train_batch_size"
BATCH = f"training.{SIZE}"
JOB = {
    "train.sbatch": SCRIPT,
    "conf/launch.yaml": LAUNCH,
    "ds/zero.json": ZERO,
    "train.py": "",
}


def records(key, **more):
    """Trials of a micro-batch of 1, 2, 4 and 8, of which the last does not fit."""
    speeds = {1: 70.0, 2: 100.0, 4: 150.0}
    ran = [
        {
            "knobs": {key: batch, **more},
            "outcome": "ok",
            "tokens_per_second": speed,
            "peak_gib": 10.0 * batch,
            "cost_s": 60.0,
        }
        for batch, speed in speeds.items()
    ]
    every = [*ran, {"knobs": {key: 8, **more}, "outcome": "oom", "cost_s": 30.0}]
    return "".join(f"{json.dumps(each)}\n" for each in every)


@pytest.fixture
def replay(project, fp8tune, without_plots):
    """Search a job of some files; the outcome."""

    def run(files, key, *arguments, **more):
        project({**files, "r.jsonl": records(key, **more)})
        options = ("--runner", "replay", "--records", "r.jsonl", "--budget", "2h")
        return fp8tune("search", next(iter(files)), *options, *arguments)

    return run


def tuned(folder):
    """The files that a search wrote; dots stand for the block on the search.

    Without the line that names the files of the job.
    """
    texts = {
        str(path.relative_to(folder)): path.read_text()
        for path in Path(folder).rglob("*.tuned.*")
    }
    own = f"^(?:{re.escape(MARK)}|- )"
    block = rf"(?ms){own}(?:faster|your config).*?{own}from [^\n]*\n"
    job = f"(?m)^ *(?:{re.escape(MARK)}|- )of the job \\(.*\\)\n"
    return {
        name: re.sub(job, "", re.sub(block, "...\n", text))
        for name, text in texts.items()
    }


REASON = "2 -> 4: +50.0 % tokens/s"
KEPT = "2 x 8 -> 4 x 4 sequences per rank and step"


def with_reasons(text, batch, above="...\n"):
    """A YAML file with a batch of 4, less accumulation, and why."""
    steps = "gradient_accumulation_steps"
    text = text.replace(f"{batch}: 2", f"{above}{MARK}{REASON}\n{batch}: 4")
    return text.replace(f"{steps}: 8", f"{MARK}{KEPT}\n{steps}: 4")


def test_yaml(replay, tmp_path):
    assert replay({"a.yaml": AXOLOTL}, "micro_batch_size").code == 0
    changed = with_reasons(AXOLOTL, "micro_batch_size")
    assert tuned(tmp_path) == {"a.tuned.yaml": changed}
    again = replay({"a.yaml": AXOLOTL}, "micro_batch_size")
    assert (again.code, tuned(tmp_path)) == (0, {"a.tuned.yaml": changed})


@each(
    ("text", "batch", "length", "packs"),
    [
        (AXOLOTL, "micro_batch_size", "sequence_len", "sample_packing"),
        (FACTORY, "per_device_train_batch_size", "cutoff_len", "neat_packing"),
    ],
)
def test_a_length_that_samples_need_not_have_is_said(
    replay, tmp_path, text, batch, length, packs
):
    """Their tokens are counted by it; with packing each step has them."""
    said = f"each sample counts as 4,096 tokens ({length}): where samples are shorter"
    done = replay({"a.yaml": text}, batch)
    assert said in done.out
    assert said in (tmp_path / "a.tuned.yaml").read_text()
    done = replay({"b.yaml": f"{text}{packs}: true\n"}, batch)
    assert done.code == 0
    assert "each sample counts" not in done.out
    assert "each sample counts" not in (tmp_path / "b.tuned.yaml").read_text()


def test_json_has_its_reasons_beside_it(replay, tmp_path):
    for _ in range(2):
        done = replay({"a.json": DEEPSPEED}, "train_micro_batch_size_per_gpu")
        assert done.code == 0
    assert "wrote a.tuned.json\nwrote a.tuned.md\n" in done.out
    written = tuned(tmp_path)
    assert written == {
        "a.tuned.json": DEEPSPEED.replace('gpu": 2', 'gpu": 4'),
        "a.tuned.md": f"{MARK}a.tuned.json\n\n...\n"
        f"- `train_micro_batch_size_per_gpu`: {REASON}\n",
    }


def test_flags_of_a_script_and_their_variables(replay, tmp_path):
    assert replay({"a.sh": MEGATRON}, "micro_batch_size").code == 0
    changed = MEGATRON.replace("MBS=2", f"...\n{MARK}micro_batch_size: {REASON}\nMBS=4")
    assert tuned(tmp_path) == {"a.tuned.sh": changed}
    literal = MEGATRON.replace("$MBS", "2")
    assert replay({"a.sh": literal}, "micro_batch_size").code == 0
    changed = literal.replace(
        "torchrun", f"...\n{MARK}micro_batch_size: {REASON}\ntorchrun"
    )
    changed = changed.replace("batch-size 2", "batch-size 4")
    assert tuned(tmp_path) == {"a.tuned.sh": changed}


@each("use", ["OUT=run-$MBS", "mkdir -p run-${MBS}", "export MBS", "GBS=$((MBS * 64))"])
def test_a_variable_that_has_another_use_keeps_its_value(replay, tmp_path, use):
    script = MEGATRON.replace("MBS=2\n", f"MBS=2\n{use}\n")
    assert replay({"a.sh": script}, "micro_batch_size").code == 0
    changed = script.replace(
        "torchrun", f"...\n{MARK}micro_batch_size: {REASON}\ntorchrun"
    )
    changed = changed.replace("batch-size $MBS", "batch-size 4")
    assert tuned(tmp_path) == {"a.tuned.sh": changed}


FLAGS = SCRIPT.replace("size 2 ", "size 4 ").replace("steps 8 ", "steps 4 ")
WHY = f"{MARK}{BATCH}: {REASON}\n{MARK}training.gradient_accumulation_steps: {KEPT}\n"


def test_flags_of_a_launch_script(replay, tmp_path):
    assert replay(JOB, BATCH).code == 0
    changed = FLAGS.replace("accelerate launch", f"...\n{WHY}accelerate launch")
    assert tuned(tmp_path) == {"train.tuned.sbatch": changed}


@each("end", [" \\\n    --output_dir out\n", "\n"])
def test_a_switch_that_stands_alone_gets_a_value(replay, tmp_path, fp8tune, end):
    """As the parser of transformers reads it: ``--flag`` is true."""
    key, flag = "training.gradient_checkpointing", "--gradient_checkpointing"
    script = SCRIPT.replace(" --output_dir out\n", f" \\\n    {flag}{end}")
    knobs = {"launch.yaml": PLAIN, "train.py": ""}
    job = {"train.sbatch": script.replace("conf/", ""), **knobs}
    record = {"outcome": "ok", "cost_s": 60.0, "peak_gib": 9.0}
    speeds = {False: 150.0, True: 100.0}
    more = [
        {"knobs": {BATCH: 2, key: ac}, "tokens_per_second": speed, **record}
        for ac, speed in speeds.items()
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in more)
    (tmp_path / "ac.jsonl").write_text(lines)
    done = replay(job, BATCH, "--allow", key, "--records", "ac.jsonl")
    assert done.code == 0, done.err
    text = (tmp_path / "train.tuned.sbatch").read_text()
    assert f"{flag} false{end}" in text
    linted = fp8tune("lint", "--script", "train.tuned.sbatch")
    assert (linted.code, "no findings in 1 file" in linted.out) == (0, True)


def test_a_tuned_file_is_named_by_those_that_name_it(replay, tmp_path, fp8tune):
    done = replay(JOB, BATCH, "--allow", OVERLAP, **{OVERLAP: True})
    assert done.code == 0
    paths = ("train.tuned.sbatch", "conf/launch.tuned.yaml", "ds/zero.tuned.json")
    wrote = [*paths, "ds/zero.tuned.md"]
    assert [line[6:] for line in done.out.splitlines() if line[:6] == "wrote "] == wrote
    one = "one of 2 changes measured together"
    reasons = WHY.replace("+50.0 % tokens/s", "").replace("2 -> 4: ", f"2 -> 4: {one}")
    tuned_name = f"...\n{MARK}names the tuned file launch.tuned.yaml\n"
    changed = FLAGS.replace(
        "CONFIG=conf/launch.yaml", f"{tuned_name}CONFIG=conf/launch.tuned.yaml"
    ).replace("accelerate launch", f"{reasons}accelerate launch")
    assert tuned(tmp_path) == {
        "train.tuned.sbatch": changed,
        "conf/launch.tuned.yaml": LAUNCH.replace(
            "  deepspeed_config_file: ds/zero.json",
            f"  {MARK}names the tuned file\n"
            "  deepspeed_config_file: ds/zero.tuned.json",
        ),
        "ds/zero.tuned.json": ZERO.replace('comm": false', 'comm": true'),
        "ds/zero.tuned.md": f"{MARK}zero.tuned.json\n\n"
        f"- `zero_optimization.overlap_comm`: not set -> true: {one}\n",
    }
    linted = fp8tune("lint", "--script", "train.tuned.sbatch")
    assert (linted.code, "no findings in 2 files" in linted.out) == (0, True)


def test_a_file_that_the_header_comment_names(replay, tmp_path):
    comment = "# fp8tune: with=args/t.yaml world-size=8\n"
    files = {"launch.yaml": f"{comment}{LAUNCH}", "args/t.yaml": TRAINING}
    assert replay({**files, "ds/zero.json": ZERO}, BATCH).code == 0
    named = comment.replace("t.yaml", "t.tuned.yaml")
    assert tuned(tmp_path) == {
        "launch.tuned.yaml": f"...\n{MARK}names the tuned file\n{named}{LAUNCH}",
        "args/t.tuned.yaml": with_reasons(TRAINING, SIZE, above=""),
    }


SHARED = {
    f"{name}.sh": f"accelerate launch --config_file launch.yaml {more}\n"
    for name, more in {
        "one": "train.py --config t.yaml",
        "two": "train.py --config t.yaml --seed 3",
    }.items()
}


def test_jobs_that_share_a_file_have_a_tuned_file_each(replay, tmp_path, fp8tune):
    files = {**SHARED, "launch.yaml": PLAIN, "t.yaml": TRAINING, "train.py": ""}
    options = ("--runner", "replay", "--records", "r.jsonl", "--budget", "2h")
    assert replay(files, BATCH, ac="none").code == 0
    before = (tmp_path / "t.tuned.yaml").read_bytes()
    assert f"\n{MARK}of the job (one.sh, launch.yaml, t.yaml)\n".encode() in before
    for name in ("two", "two", "one"):  # again, it replaces its own
        assert fp8tune("search", f"{name}.sh", *options).code == 0
    assert (tmp_path / "t.tuned.yaml").read_bytes() == before
    written = tuned(tmp_path)
    assert sorted(written) == [
        *("one.tuned.sh", "t.tuned.yaml", "t.two.tuned.yaml", "two.tuned.sh"),
    ]
    assert written["t.two.tuned.yaml"] == written["t.tuned.yaml"]
    assert " --config t.two.tuned.yaml --seed 3" in written["two.tuned.sh"]
    for path, at in (("t.yaml", ()), ("t.yaml", ("--output", "two.tuned.yaml"))):
        (tmp_path / "two.tuned.yaml").write_text("mine: 1\n")
        done = fp8tune("search", path, *options, *at)
        wrote = "no search" if at else "the search of another job"
        assert done.code == 2
        assert f"{at[1] if at else 't.tuned.yaml'} exists and {wrote}" in done.err


def test_a_job_without_the_file_that_leads_it(replay, tmp_path):
    assert replay({"t.yaml": TRAINING}, BATCH, ac="none").code == 0
    assert tuned(tmp_path) == {"t.tuned.yaml": with_reasons(TRAINING, SIZE)}


def test_in_place_each_file_keeps_its_name(replay, tmp_path):
    arguments = ("--in-place", "--allow", OVERLAP)
    done = replay(JOB, BATCH, *arguments, **{OVERLAP: True})
    assert done.code == 0
    assert [*tuned(tmp_path)] == ["ds/zero.tuned.md"]
    command = "next: fp8tune lint --script train.sbatch"
    assert done.out.splitlines()[-1] == command
    assert f"{MARK}{command}\n" in (tmp_path / "train.sbatch").read_text()
    written = {name: (tmp_path / name).read_text() for name in JOB}
    own = re.sub(f"{re.escape(MARK)}.*\n", "", written["train.sbatch"])
    assert (own, written["conf/launch.yaml"]) == (FLAGS, LAUNCH)
    assert '"overlap_comm": true' in written["ds/zero.json"]


@each(("files", "key"), [({"a.yaml": AXOLOTL}, "micro_batch_size"), (JOB, BATCH)])
def test_diff_is_a_patch_and_writes_nothing(replay, tmp_path, files, key):
    done = replay(files, key, "--diff")
    assert done.code == 0
    names = [line for line in done.out.splitlines() if line[:3] == "+++"]
    assert names == [f"+++ {next(iter(files))}"]
    assert tuned(tmp_path) == {}


def test_overrides_are_typed_in_the_tuned_script(replay, tmp_path):
    more = ("--gradient_accumulation_steps", "16", "--learning_rate", "1e-05")
    assert replay(JOB, BATCH, "--", *more).code == 0
    [text] = tuned(tmp_path).values()
    assert "gradient_accumulation_steps: 2 x 16 -> 4 x 8 sequences" in text
    changed = FLAGS.replace("steps 4 --bf16", "steps 8 --bf16")
    changed = changed.replace("_dir out", "_dir out --learning_rate 1e-05")
    command = changed.partition("\naccelerate")[2]
    assert text.partition("\naccelerate")[2] == command
    assert (tmp_path / "train.sbatch").read_text() == SCRIPT


def test_values_that_another_file_of_the_job_fixes_are_not_tried(replay, tmp_path):
    fixed = ZERO.replace('gpu": "auto"', 'gpu": 2')
    files = {"launch.yaml": LAUNCH, "t.yaml": TRAINING, "ds/zero.json": fixed}
    done = replay(files, BATCH, "--with", "t.yaml")
    assert (done.code, tuned(tmp_path)) == (0, {})
    assert done.out.count("\ntrial ") == 0
    job = "launch.yaml --with t.yaml --with ds/zero.json"
    assert done.out.splitlines()[-1] == f"next: fp8tune lint {job}"
    assert done.err.count("`train_micro_batch_size_per_gpu` is 2, and") == 3


FLAG = "deepspeed_config.zero3_init_flag"


@each(
    ("files", "options", "said"),
    [
        (
            {**JOB, "conf/launch.tuned.yaml": "mine\n"},
            ("--allow", FLAG),
            "conf/launch.tuned.yaml exists and no search wrote it",
        ),
        (
            {**JOB, "train.sbatch": SCRIPT.replace("size 2", "size $((1 + 1))")},
            (),
            "train.sbatch: micro_batch cannot be varied: other values cannot be "
            "written: `--per_device_train_batch_size` is not written so that it can "
            "be changed",
        ),
        (
            {
                "train.sh": "accelerate launch --config_file launch.yaml train.py\n",
                "launch.yaml": PLAIN,
                "t.yaml": TRAINING,
            },
            ("--with", "t.yaml"),
            "train.sh: its command does not name t.yaml, so it would not read",
        ),
        (
            {"launch.yaml": LAUNCH},
            (),
            "launch.yaml: micro_batch cannot be varied: other values cannot be "
            f"written: {BATCH}: no file of the job has the training arguments",
        ),
        (
            {"a.yaml": f"# fp8tune: with=t.yaml\n{PLAIN}", "t.yaml": TRAINING},
            ("--allow", "precision"),
            "a.yaml: precision cannot be varied: it stays bf16 even with "
            "`mixed_precision` = fp8",
        ),
        (
            JOB,
            ("--output", "a.toml"),
            "--output a.toml: train.sbatch is bash, and so is its tuned version",
        ),
        (
            {"a.sh": MEGATRON.replace("\n", "\r\n")},
            (),
            "a.sh: micro_batch cannot be varied: other values cannot be written: its "
            "lines end as on Windows",
        ),
    ],
)
def test_what_cannot_be_written_is_told_before_the_search(
    replay, tmp_path, files, options, said
):
    key = BATCH if "a.sh" not in files else "micro_batch_size"
    more = {FLAG: False} if FLAG in options else {}
    more |= {"precision": "fp8"} if "precision" in options else {}
    done = replay(files, key, *options, **more)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / ".fp8tune").exists()
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.unlink()


def test_a_study_keeps_every_file_of_its_job(replay, tmp_path, fp8tune):
    replay(JOB, BATCH)
    folder = next(tmp_path.glob(".fp8tune/*/study.journal")).parent
    before = load_study(str(folder)).plan.config
    for name in JOB:
        (tmp_path / name).unlink()
    after = load_study(str(folder)).plan.config
    assert (after.script, after.bytes_by_path) == (before.script, before.bytes_by_path)
    assert after.loaded.values == before.loaded.values
    assert fp8tune("report", folder.name).code == 0
    page = (folder / "report.html").read_text()
    assert "--per_device_train_batch_size 4" in page
    assert f"search of <code>{before.script.path}</code>" in page
    assert f"{before.script.path}, finished" in fp8tune("studies").out


def test_tuned_files_go_beside_links_and_leave_what_they_lead_to(replay, tmp_path):
    shared = {f"shared/{name}": text for name, text in JOB.items()}
    before = {name: text for name, text in shared.items() if "train" not in name}
    (tmp_path / "conf").symlink_to("shared/conf")
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / "zero.json").symlink_to("../shared/ds/zero.json")
    done = replay(
        {"train.sbatch": SCRIPT, **before, "train.py": ""},
        BATCH,
        *("--allow", OVERLAP),
        **{OVERLAP: True},
    )
    assert done.code == 0
    assert sorted(tuned(tmp_path)) == [
        "ds/zero.tuned.json",
        "ds/zero.tuned.md",
        "shared/conf/launch.tuned.yaml",
        "train.tuned.sbatch",
    ]
    assert {name: (tmp_path / name).read_text() for name in before} == before


@each(
    ("config", "script", "key", "expected"),
    [
        (
            TRAINING,
            "trl sft --config c.yaml --per_device_train_batch_size 2\n",
            BATCH,
            "trl sft --config c.tuned.yaml --per_device_train_batch_size 4\n",
        ),
        (
            AXOLOTL,
            "B=2\naxolotl train c.yaml --micro-batch-size $B\n",
            "micro_batch_size",
            "B=4\naxolotl train c.tuned.yaml --micro-batch-size $B\n",
        ),
        (
            FACTORY,
            'lmf train c.yaml per_device_train_batch_size=2 "output_dir=a b"\n',
            "per_device_train_batch_size",
            'lmf train c.tuned.yaml per_device_train_batch_size=4 "output_dir=a b"\n',
        ),
    ],
)
def test_the_command_of_any_trainer(replay, tmp_path, config, script, key, expected):
    assert replay({"a.sh": script, "c.yaml": config}, key).code == 0
    text = tuned(tmp_path)["a.tuned.sh"]
    assert re.sub(f"(?m)^(?:{re.escape(MARK)}.*|\\.\\.\\.)\n", "", text) == expected
