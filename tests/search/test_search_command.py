"""``fp8tune search`` on recorded trials: the whole loop, its files and its answer."""

import json

import pytest

from tests.metadata import write_metadata
from tests.runners import fake_nvml
from tests.sample import SMALL_MODEL

pytest.importorskip("optuna")

CONFIG = """\
[train]
batch_size = 4  # per GPU
grad_accum_steps = 4
mixed_precision = "fp8"
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
"""
RUNS = f"{SMALL_MODEL}[train]\nseq_len = 32\n"
KEYS = ("batch_size", "activation_checkpointing", "compile_model", "mixed_precision")


def trial(batch, ac, compiled, precision, outcome="ok", speed=0.0, peak=0.0):
    knobs = zip(KEYS, (batch, ac, compiled, precision), strict=True)
    return {
        "knobs": {f"train.{key}": value for key, value in knobs},
        "outcome": outcome,
        "tokens_per_second": speed,
        "step_ms": [100.0] if speed else [],
        "peak_gib": peak,
        "reserved_gib": peak * 1.05,
        "cost_s": 90.0,
    }


def world(gain=1.2):
    """Batch x AC x compile x precision; selective AC at batch 8 is the best."""
    for batch in (1, 2, 4, 8, 16):
        for ac, bytes_each, cost in (("full", 3, 0.9), ("selective", 11, 1.0)):
            for compiled in (True, False):
                for precision in ("bf16", "fp8"):
                    peak = 30 + batch * bytes_each
                    speed = 1e4 * cost * batch / (batch + 1)
                    speed *= 1.2 if compiled else 1.0
                    speed *= gain if precision == "fp8" else 1.0
                    if peak > 140:
                        yield trial(batch, ac, compiled, precision, "oom")
                    else:
                        yield trial(batch, ac, compiled, precision, "ok", speed, peak)


@pytest.fixture
def searched(project, fp8tune, without_plots):
    def run(records, *arguments, config=CONFIG, budget="2h"):
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        project({"c.toml": config, "records.jsonl": lines})
        runner = ("--runner", "replay", "--records", "records.jsonl")
        return fp8tune("search", "c.toml", "--budget", budget, *runner, *arguments)

    return run


def test_a_diff_does_not_spoil_json(searched):
    outcome = searched(world(), "--diff", "--output-format", "json")
    assert outcome.json["output"] is None
    assert "+batch_size = 8" in outcome.err


def test_a_config_that_no_trial_represents_is_told_so_without_a_gpu(
    fp8tune, project, tmp_path, monkeypatch
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    text = RUNS + "[optimizer]\nname = 'muon'\n"
    project({"a.toml": text})
    said = fp8tune("search", "a.toml", "--budget", "3m")
    assert (said.code, "the optimizer muon" in said.err) == (2, True)


REFUSED = (
    "torch 2.14.1 with torchao 0.17.0: about 25 % of compiled FP8 runs get a NaN or "
    "infinite loss, because Triton miscompiles stores of FP8 values; "
    "pip install 'torchao>=0.18', or go on with --allow-versions"
)


@pytest.mark.parametrize(
    ("versions", "precision", "options", "refused"),
    [
        (("2.14.1", "0.17.0"), "fp8", (), True),
        (("2.14.1", "0.17.0"), "bf16", ("--allow", "precision"), True),
        (("2.14.1", "0.17.0"), "fp8", ("--allow-versions",), False),
        (("2.14.1", "0.17.0"), "bf16", (), False),
        (("2.14.1", "0.18.0"), "fp8", (), False),
        (("2.13.0", "0.17.0"), "fp8", (), False),
        (("2.16.0", "0.17.0"), "fp8", (), False),
    ],
)
def test_versions_with_which_fp8_fails_are_refused_before_the_first_trial(
    fp8tune, project, tmp_path, monkeypatch, versions, precision, options, refused
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    names = dict(zip(("torch", "torchao"), versions, strict=True))
    write_metadata(tmp_path / "site", names)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    project({"a.toml": f'{RUNS}mixed_precision = "{precision}"\n'})
    said = fp8tune("search", "a.toml", "--budget", "3m", *options)
    assert said.code == 2
    if refused:
        assert (said.out, said.err) == ("", f"fp8tune: {REFUSED}\n")
    else:
        assert "no NVIDIA GPU found" in said.err
    assert not (tmp_path / ".fp8tune").exists()


def test_what_can_be_fixed_is_said_before_the_gpu_that_is_missing(
    fp8tune, project, tmp_path, monkeypatch
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    files = ("scripts/train.py", "kempnerforge/__init__.py")
    project({"a.toml": RUNS, **{f"there/{name}": "" for name in files}})

    def said(*options):
        done = fp8tune("search", "a.toml", "--budget", "3m", "--runner", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    assert "--trainer-dir PATH names the checkout" in said("trainer")
    assert "no scripts/train.py" in said("trainer", "--trainer-dir", ".")
    assert "runs the command of a file of your own" in said("command")
    no_gpu = said("trainer", "--trainer-dir", "there")
    assert "no NVIDIA GPU found; run " in no_gpu
    assert "or rehearse with --runner builtin --device cpu" in no_gpu


MEGATRON = """\
torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 2 --hidden-size 64 \\
  --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --lr 1e-4 \\
  --micro-batch-size 2 --global-batch-size 4 --train-iters 10 --bf16
"""


def test_without_a_gpu_no_runner_sends_to_another_that_cannot_run(
    fp8tune, project, tmp_path, monkeypatch
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    project({"a.sh": MEGATRON})

    def said(*options):
        done = fp8tune("search", "a.sh", "--budget", "3m", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    can = "plan with --dry-run, or search recorded trials with --runner replay "
    for runner in ("auto", "trainer", "builtin"):
        told = said("--runner", runner, "--device", "cpu")
        assert f"Megatron-LM trains on GPUs only: {can}" in told
        assert "--runner builtin" not in told
        assert "--runner trainer" not in told
    assert f", or {can}" in said()
