"""What users met around a repository: its files, small commands, a full disk."""

import errno
import os
import subprocess
import sys
import time

import pytest

from tests.each import each
from tests.sample import ERROR, GOOD, LLAMA_8B, SMALL_MODEL

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nfp8: true\n"
DEEPSPEED = """\
{"zero_optimization": {"stage": 9}, "train_batch_size": 8, "bf16": {"enabled": true}}
"""


def test_lint_of_this_repository_is_clean(fp8tune, repository, monkeypatch):
    monkeypatch.chdir(repository)
    done = fp8tune("lint")
    assert (done.code, done.out.splitlines()[0]) == (0, "no findings in 6 files")


def test_ignored_files_are_checked_only_if_they_are_named(fp8tune, project):
    files = {"a.toml": GOOD, "runs/1/a.toml": ERROR, ".gitignore": "runs/*\n"}
    (project({**files, "runs/2/a.toml": ERROR}) / ".git").mkdir()
    assert fp8tune("lint").code == 0
    assert fp8tune("lint", "runs").code == 0
    assert fp8tune("lint", "runs/1").code == 1
    assert fp8tune("lint", "runs/1/a.toml").code == 1


@each(
    ("name", "text"),
    [("a.toml", ERROR), ("a.yaml", AXOLOTL), ("a.json", DEEPSPEED)],
)
def test_a_link_to_a_file_adds_no_findings(fp8tune, project, name, text):
    folder = name.rpartition(".")[2]
    file = project({f"{folder}/{name}": text}) / folder / name
    command = ("lint", "--output-format", "json", folder)
    once = fp8tune(*command).json
    assert once["files"] == 1
    (file.parent / f"z{name}").symlink_to(name)
    assert fp8tune(*command).json == once
    assert fp8tune(*command, f"{folder}/{name}", f"{folder}/z{name}").json == once


@each(
    ("arguments", "said"),
    [
        (("lint", "trian.toml"), "; did you mean `train.toml`?\n"),
        (("lint", "confgs"), "; did you mean `configs`?\n"),
        (("lint", "runs/trian.toml"), "No such file or directory\n"),
        (("lint", "other.toml"), "No such file or directory\n"),
        (("studies", "list"), "`fp8tune report STUDY` shows one\n"),
        (("rules", "list"), "`fp8tune explain NAME` shows one\n"),
        (("rules", "--trainer", "torchtitn"), "; did you mean torchtitan?\n"),
    ],
)
def test_what_to_type_instead(fp8tune, project, arguments, said):
    project({"train.toml": GOOD, "train.txt": "", "configs/sft.yaml": AXOLOTL})
    done = fp8tune(*arguments)
    assert done.code == 2
    assert done.err.endswith(said)


@each("trainer", ["kempnerforge", "torch-titan", "torchtitan==0.2.2", "axolotl"])
def test_rules_of_a_trainer(fp8tune, builtin, trainer):
    name = trainer.replace("-", "").partition("==")[0]
    listed = fp8tune("rules", "--trainer", trainer, "--output-format", "json").json
    names = {rule["name"] for rule in listed["rules"]}
    allowed = {r.name for r in builtin if not r.trainers or name in r.trainers}
    general = {r.name for r in builtin if not (r.trainers or r.releases)}
    assert general < names <= allowed


FULL = "import resource, runpy, sys\n" + (
    "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    "runpy.run_module('fp8tune', run_name='__main__', alter_sys=True)\n"
)
"""A program that writes no byte into a file, as on a full disk."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "a.toml", "--device", "cpu", "--budget", "1m"),
        ("phases", "a.toml", "--bf16-warmup", "5%"),
        ("lint", "a.toml", "--baseline", "b.json", "--update-baseline"),
        (
            "init",
            "--model",
            "llama3-8b",
            "--gpu",
            "h100",
            "--world-size=8",
            "--output",
            "t.toml",
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_full_disk_is_named(project, arguments):
    config = "[train]\nmixed_precision = 'fp8'\nmax_steps = 100\nseq_len = 32\n"
    project({"a.toml": SMALL_MODEL + config})
    command = [sys.executable, "-c", FULL, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "None" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["rules", "lint", "doctor"])
def test_a_full_disk_behind_stdout_is_named(project, command):
    project({"a.toml": ERROR})
    arguments = [sys.executable, "-m", "fp8tune", command]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    reason = "fp8tune: cannot write: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, reason)


KEMPNERFORGE = (
    f"{LLAMA_8B}rope_theta = 500000.0\n"
    '[train]\nbatch_size = 2\nmax_steps = 500\n[checkpoint]\ndir = "out"\n'
)
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
steps = 500
seq_len = 2048
[job]
dump_folder = "out"
"""
BY_TRAINER = {
    "k.toml": KEMPNERFORGE,
    "t.toml": TORCHTITAN,
    "t0.toml": f"# fp8tune: trainer=torchtitan==0.2.0\n{TORCHTITAN}",
    "m.sh": "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 "
    "--hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --bf16 "
    "--max-position-embeddings 2048 --micro-batch-size 4 --train-iters 500 "
    "--swiglu --fp8-format hybrid --attention-dropout 0.0\n",
    "x.yaml": "base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 4\n"
    "sequence_len: 2048\nfp8: true\nval_set_size: 0.1\noutput_dir: out\n"
    "datasets: [{path: a, type: alpaca}]\nlearning_rate: 0.0003\n",
}


@each(
    ("a", "b", "differ", "equal"),
    [
        (
            "k.toml",
            "t.toml",
            {"micro_batch", "learning_rate", "checkpoint.dir", "job.dump_folder"},
            {
                "layers",
                "hidden_size",
                "max_steps",
                "model.n_layers",
                "data.num_workers",
            },
        ),
        (
            "t.toml",
            "m.sh",
            {"precision", "job.dump_folder", "attention_dropout"},
            {"micro_batch", "model.flavor", "num_layers", "training.steps"},
        ),
        ("t.toml", "t0.toml", set(), {"job.dump_folder", "comm.mode"}),
    ],
)
def test_configs_of_two_trainers_are_compared_by_what_they_set(
    fp8tune, project, a, b, differ, equal
):
    project(BY_TRAINER)
    compared = fp8tune("compare", a, b, "--output-format", "json").json
    names = {row["name"] for row in compared["values"]}
    assert differ <= names
    assert not names & equal
    assert len(names) <= 20


MANY = 50_000
ONE_COMMENT = "# fp8tune: ignore[{}]\nfsdp = 1\n"


@each(
    ("text", "rules"),
    [
        (
            ONE_COMMENT.format(", ".join(f"FP8{n}" for n in range(MANY))),
            ["bad-ignore", "unknown-key"],
        ),
        (
            ONE_COMMENT.format(", ".join(["unknown-key"] * MANY)),
            ["bad-ignore", "unknown-key"],
        ),
        ("# fp8tune: ignore[unknown-key]\n" * (MANY // 3) + "fsdp = 1\n", []),
        (f"# fp8tune: gpu=h100{' ' * MANY * 10}x\n", ["bad-directive"]),
        (f"# fp8tune: ignore[{' ' * MANY * 10}unknown-key]\nfsdp = 1\n", []),
        (f"# fp8tune: ignore[unknown-key] -- {'  x' * MANY * 2}\nfsdp = 1\n", []),
    ],
)
def test_long_comments_take_no_time(fp8tune, project, text, rules):
    project({"a.toml": f"{GOOD}\n{text}"})
    started = time.process_time()
    shown = fp8tune("lint", "a.toml", "--output-format", "json").json
    assert [each["rule"] for each in shown["diagnostics"]] == rules
    assert time.process_time() - started < 5


LAUNCH = "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: fp8\n"
JOB = {
    "launch.yaml": f"{LAUNCH}fp8_config: {{backend: AO}}\n",
    "sft.yaml": "output_dir: out\nper_device_train_batch_size: 8\nbf16: true\n",
}


def naming(files):
    """The files, each of which names the next in a comment, the last the first."""
    following = dict(zip(files, [*list(files)[1:], *files], strict=False))
    return {n: f"# fp8tune: with={following[n]}\n{files[n]}" for n in files}


def test_the_files_of_a_job_may_name_each_other(fp8tune, project):
    project(naming(JOB))
    command = ("lint", "--output-format", "json")
    alone = [fp8tune(*command, name).json["diagnostics"] for name in JOB]
    assert alone[0] == alone[1] == fp8tune(*command).json["diagnostics"]
    assert [each["rule"] for each in alone[0]] == ["fp8-backend-off-by-arguments"]
    assert " --> sft.yaml:4:7\n4 | bf16: true\n" in fp8tune("lint", "launch.yaml").out


@each(
    "files",
    [
        {"a.yaml": LAUNCH, "b.yaml": LAUNCH},
        {"a.toml": GOOD, "b.toml": GOOD},
        {"a.json": f"\n{DEEPSPEED}", "b.json": f"\n{DEEPSPEED}"},
    ],
)
def test_configs_of_one_kind_that_name_each_other(fp8tune, project, files):
    named = naming(files)
    for name in named:
        if name.endswith("json"):
            named[name] = named[name].replace("#", "//", 1)
    project(named)
    for name in files:
        done = fp8tune("lint", name, "--output-format", "json")
        rules = [each["rule"] for each in done.json["diagnostics"]]
        assert rules.count("bad-directive") == 1, name


def test_the_page_of_a_peak_fits_120_lines(fp8tune, project, repository):
    project(BY_TRAINER)
    configs = [str(path) for path in sorted((repository / "configs").glob("*.toml"))]
    for config in (*configs, *BY_TRAINER):
        page = fp8tune("explain", "memory.peak_gib", config, "--world-size=8").out
        lines = page.splitlines()
        assert "In this config" in lines, config
        assert len(lines) <= 120, config
        assert max(map(len, lines)) <= 80, config
