"""``fp8tune search`` on recorded trials: the whole loop, its files and its answer."""

import pytest

from tests.metadata import write_metadata
from tests.runners import fake_nvml
from tests.sample import SMALL_MODEL

pytest.importorskip("optuna")

RUNS = f"{SMALL_MODEL}[train]\nseq_len = 32\n"


@pytest.fixture
def refused(fp8tune, tmp_path, monkeypatch):
    """Why a search is refused in one line, on a machine without a GPU."""
    fake_nvml.install(tmp_path, monkeypatch, count=0)

    def why(*arguments):
        done = fp8tune("search", *arguments, "--budget", "3m")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    return why


def test_a_config_that_no_trial_represents_is_told_so_without_a_gpu(refused, project):
    project({"a.toml": f"{RUNS}[optimizer]\nname = 'muon'\n"})
    assert "the optimizer muon" in refused("a.toml")


REFUSED = (
    "torch 2.14.1 with torchao 0.17.0: about 25 % of compiled FP8 runs get a NaN or "
    "infinite loss, because Triton miscompiles stores of FP8 values; "
    "pip install 'torchao>=0.18', or go on with --allow-versions"
)


@pytest.mark.parametrize(
    ("versions", "precision", "options", "is_refused"),
    [
        (("2.14.1", "0.17.0"), "fp8", (), True),
        (("2.14.1", "0.17.0"), "bf16", ("--allow", "precision"), True),
        (("2.14.1", "0.17.0"), "bf16", ("--allow", "fp8"), True),
        (("2.14.1", "0.17.0"), "fp8", ("--allow-versions",), False),
        (("2.14.1", "0.17.0"), "bf16", (), False),
        (("2.14.1", "0.18.0"), "fp8", (), False),
        (("2.13.0", "0.17.0"), "fp8", (), False),
        (("2.16.0", "0.17.0"), "fp8", (), False),
    ],
)
def test_versions_with_which_fp8_fails_are_refused_before_the_first_trial(
    fp8tune, project, tmp_path, monkeypatch, versions, precision, options, is_refused
):
    fake_nvml.install(tmp_path, monkeypatch, count=0)
    names = dict(zip(("torch", "torchao"), versions, strict=True))
    write_metadata(tmp_path / "site", names)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    project({"a.toml": f'{RUNS}mixed_precision = "{precision}"\n'})
    said = fp8tune("search", "a.toml", "--budget", "3m", *options)
    assert said.code == 2
    if is_refused:
        assert (said.out, said.err) == ("", f"fp8tune: {REFUSED}\n")
    else:
        assert "no NVIDIA GPU found" in said.err
    assert not (tmp_path / ".fp8tune").exists()


def test_what_can_be_fixed_is_said_before_the_gpu_that_is_missing(refused, project):
    files = ("scripts/train.py", "kempnerforge/__init__.py")
    project({"a.toml": RUNS, **{f"there/{name}": "" for name in files}})
    of = "a.toml", "--runner"
    assert "--trainer-dir PATH names the checkout" in refused(*of, "trainer")
    assert "no scripts/train.py" in refused(*of, "trainer", "--trainer-dir", ".")
    assert "runs the command of a file of your own" in refused(*of, "command")
    no_gpu = refused(*of, "trainer", "--trainer-dir", "there")
    assert "no NVIDIA GPU found; run " in no_gpu
    assert "or rehearse with --runner builtin --device cpu" in no_gpu


MEGATRON = """\
torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 2 --hidden-size 64 \\
  --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --lr 1e-4 \\
  --micro-batch-size 2 --global-batch-size 4 --train-iters 10 --bf16
"""


def test_without_a_gpu_no_runner_sends_to_another_that_cannot_run(refused, project):
    project({"a.sh": MEGATRON})
    can = "plan with --dry-run, or search recorded trials with --runner replay "
    for runner in ("auto", "trainer", "builtin"):
        told = refused("a.sh", "--runner", runner, "--device", "cpu")
        assert f"Megatron-LM trains on GPUs only: {can}" in told
        assert "--runner builtin" not in told
        assert "--runner trainer" not in told
    assert f", or {can}" in refused("a.sh")
