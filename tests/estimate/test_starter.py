"""A config to start from: sizes as published, no error or warning of lint."""

import pytest

from fp8tune.estimate.starter import CannotStart, models, starter
from fp8tune.formats.toml.document import parse
from fp8tune.job import Target
from fp8tune.trainers.about import trainers
from fp8tune.trainers.trainer import trainer
from tests.each import each

KEMPNERFORGE = trainer("kempnerforge")


def job(text):
    values = parse(text.encode()).values
    return KEMPNERFORGE.job(KEMPNERFORGE.load(values), Target("b200", 64))


@each("model", models())
def test_sizes_give_the_published_number_of_parameters(model):
    text = starter(KEMPNERFORGE, model, Target("b200", 64))
    found, fields = job(text), models()[model]
    # params.count leaves out the norms of queries and keys, one weight per channel
    norms = fields["qk_norm"] * 2 * found["head_dim"] * fields["layers"]
    assert found["params.count"] + norms == fields["parameters"]


TARGETS = [
    (model, gpu, size, seq_len)
    for model in models()
    if "70b" not in model
    for gpu in ("h100-sxm", "h200", "a100-80gb")
    for size, seq_len in ((16, 2048), (32, 4096), (64, 8192))
]


@each(("model", "gpu", "size", "seq_len"), TARGETS)
def test_lint_finds_no_error_and_no_warning(model, gpu, size, seq_len, fp8tune):
    text = starter(KEMPNERFORGE, model, Target(gpu, size), seq_len)
    code, *_ = fp8tune("lint", "-", "--fail-on", "warning", stdin=text.encode())
    assert code == 0


@each("version", trainers()["torchtitan"].versions[1:])
@each("model", ["llama3-8b", "qwen3-8b", "qwen3-14b"])
@each("gpu", ["h100-sxm", "a100-80gb"])
def test_torchtitan_starters_are_clean(model, gpu, version, fp8tune):
    release = trainer(f"torchtitan=={version}")
    text = starter(release, model, Target(gpu, 32))
    code, *_ = fp8tune("lint", "-", "--fail-on", "note", stdin=text.encode())
    assert code == 0
    values = parse(text.encode()).values
    found = release.job(release.load(values), Target(gpu, 32))
    assert found["precision"] == ("fp8" if gpu == "h100-sxm" else "bf16")
    sizes = ("hidden_size", "layers", "heads", "kv_heads", "ffn_size", "vocab_size")
    assert [found[s] for s in sizes] == [models()[model][s] for s in sizes]
    assert found["micro_batch"] * found["grad_accum"] * 32 * 4096 == 1 << 20


def test_what_cannot_be_started():
    """Models that do not fit and odd names: tests/golden/init.txt."""
    with pytest.raises(CannotStart, match="--gpu a100: name one of a100-40gb, a100-8"):
        starter(KEMPNERFORGE, "llama3-8b", Target("a100", 8))


def test_a_trainer_without_the_model_says_which_it_has():
    has = "llama3-8b, llama3-70b, qwen3-8b, qwen3-14b"
    with pytest.raises(CannotStart, match=f"has no llama2-7b; it has {has}"):
        starter(trainer("torchtitan"), "llama2-7b", Target("h200", 8))
    with pytest.raises(CannotStart, match=r"no config .* for torchtitan==0\.1"):
        starter(trainer("torchtitan==0.1.0"), "llama3-8b", Target("h200", 8))
