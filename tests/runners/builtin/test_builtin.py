"""The built-in trial: its model, its conversion, its step, and a whole run of it."""

import itertools
import json
import math
import subprocess
import sys
import time
import tomllib

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fp8tune.job import Target
from fp8tune.runners.builtin.convert import build, checkpoint, to_float8
from fp8tune.runners.builtin.data import TooFew, batches, made_up
from fp8tune.runners.builtin.model import Decoder
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import CannotBuild, from_job
from fp8tune.runners.builtin.step import Training, adamw, cross_entropy, warmup
from fp8tune.runners.builtin.told import record
from fp8tune.runners.builtin.worker import _failure
from fp8tune.runners.process import Heard
from fp8tune.search.runner import Leeway
from fp8tune.trainers.trainer import trainer
from tests.conftest import REPOSITORY
from tests.sample import SMALL_MODEL

SMALL = (
    SMALL_MODEL
    + """\
[train]
batch_size = 2
seq_len = 32
grad_accum_steps = 2
compile_model = false
mixed_precision = "fp8"
activation_checkpointing = "full"
[optimizer]
lr = 0.003
[scheduler]
warmup_steps = 4
"""
)
MOE = "num_experts = 4\nmoe_frequency = 2\nmoe_shared_experts = 1\n"


def runner(text=SMALL):
    known = trainer("kempnerforge")
    loaded = known.load(tomllib.loads(text))
    setup = Setup("cpu", min_steps=2, max_steps=3, warm_steps=1)
    return Builtin(known, loaded, Target("", 1), setup)


def spec(text=SMALL, **knobs):
    return runner(text).spec({f"train.{name}": value for name, value in knobs.items()})


@pytest.mark.parametrize(
    "more", ["", "tie_embeddings = true\n", 'activation = "gelu"\n', "qk_norm = true\n"]
)
def test_the_model_has_the_parameters_that_the_facts_count(more):
    text = SMALL.replace("[model]\n", f"[model]\n{more}")
    made = spec(text)
    counted = runner(text).job({})["params.decoder"]
    norms = 2 * made.layers * made.head_dim if made.qk_norm else 0
    weights = sum(w.numel() for w in Decoder(made).parameters())
    assert weights == counted + norms


def test_experts_have_the_parameters_that_the_facts_count():
    text = SMALL.replace("[model]\n", f"[model]\n{MOE}")
    weights = sum(w.numel() for w in Decoder(spec(text)).parameters())
    assert weights == runner(text).job({})["params.decoder"]


@pytest.mark.parametrize("more", ["", MOE])
def test_positions_do_not_see_the_future(more):
    made = spec(SMALL.replace("[model]\n", f"[model]\n{more}"))
    torch.manual_seed(0)
    model = Decoder(made)
    tokens = torch.randint(0, 128, (1, 32))
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % 128
    before, after = model(tokens), model(other)
    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-5)


def test_every_linear_but_experts_and_routers_is_converted():
    made = spec(SMALL.replace("[model]\n", f"[model]\n{MOE}"))
    model = Decoder(made).to(torch.bfloat16)
    converted = to_float8(model, made)
    # attention of two blocks, the dense block's FFN, the head
    assert converted == 2 * 4 + 3 + 1


@pytest.mark.parametrize(
    ("mode", "wrapped"), [("none", 0), ("full", 2), ("selective", 2)]
)
def test_what_is_checkpointed(mode, wrapped):
    made = spec(activation_checkpointing=mode)
    assert checkpoint(Decoder(made), made) == wrapped


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("mode", ["none", "full", "selective"])
def test_training_learns(precision, mode):
    made = spec(mixed_precision=precision, activation_checkpointing=mode)
    model, _ = build(made)
    training = Training(model, made, batches(made))
    losses = [training.step().loss for _ in range(25)]
    assert losses[0] == pytest.approx(math.log(128), abs=0.3)
    assert losses[-1] < losses[0] - 0.3


def test_checkpointing_changes_no_number():
    def losses(mode):
        made = spec(mixed_precision="bf16", activation_checkpointing=mode)
        training = Training(build(made)[0], made, batches(made))
        return [training.step().loss for _ in range(3)]

    assert losses("full") == losses("none") == losses("selective")


def test_a_rank_of_eight_holds_an_eighth():
    known = trainer("kempnerforge")
    loaded = known.load(tomllib.loads(SMALL))
    sharded = Builtin(known, loaded, Target("", 8), Setup("cpu", dp_shard=8))
    made = sharded.spec({})
    model, counts = build(made)
    local = sum(w.to_local().numel() for w in model.parameters())
    torch.distributed.destroy_process_group()
    assert local == counts["parameters"] / 8


def test_made_up_tokens_follow_a_rule():
    made = spec()
    tokens = next(made_up(made))
    assert tokens.shape == (2, 33)
    follows = {}
    for row in tokens.tolist():
        for start in range(0, 32, 16):
            word = row[start : start + 16]
            for one, next_one in itertools.pairwise(word):
                assert follows.setdefault(one, next_one) == next_one


@pytest.mark.parametrize("name", ["a.npy", "a.bin"])
def test_shards_of_the_user(tmp_path, name):
    import numpy

    ids = (numpy.arange(33 * 8) % 100).astype("uint16")
    path = tmp_path / name
    numpy.save(path, ids) if name.endswith("npy") else ids.astype("uint32").tofile(path)
    text = f'{SMALL}[data]\ndataset_path = "{tmp_path}"\nfile_pattern = "{name}"\n'
    made = spec(text)
    assert made.data_files == [str(path)]
    inputs, labels = next(batches(made))
    assert inputs.tolist() == ids[: 33 * 2].reshape(2, 33)[:, :-1].tolist()
    assert labels.tolist() == ids[: 33 * 2].reshape(2, 33)[:, 1:].tolist()


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_sequences_are_said(tmp_path, rows):
    import numpy

    numpy.save(tmp_path / "a.npy", numpy.zeros(33 * rows + 5, dtype="uint16"))
    text = f'{SMALL}[data]\ndataset_path = "{tmp_path}"\nfile_pattern = "a.npy"\n'
    with pytest.raises(TooFew, match=r"no file of .* holds 2 sequences of 33 tokens"):
        next(batches(spec(text)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "oom"),
        (RuntimeError("CUDA out of memory. Tried"), "oom"),
        (MemoryError(), "oom"),
        (ArithmeticError("NaN or infinity in loss"), "nan"),
        (RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"), "user"),
    ],
)
def test_what_a_worker_failed_of(error, kind):
    assert _failure(error)["kind"] == kind


def test_a_chunked_loss_is_the_same():
    made = spec()
    logits, labels = torch.randn(2, 32, 128), torch.randint(0, 128, (2, 32))
    chunked = made._replace(loss="chunked_cross_entropy", loss_chunk=7)
    whole, parts = (cross_entropy(logits, labels, one) for one in (made, chunked))
    assert torch.allclose(whole, parts)


def test_warmup_starts_at_nothing():
    assert [warmup(step, 4) for step in (0, 1, 4, 9)] == [0.0, 0.25, 1.0, 1.0]
    assert warmup(0, 0) == 1.0


def test_accumulation_keeps_the_tokens_of_a_step():
    assert [
        (made.micro_batch, made.grad_accum)
        for made in (spec(batch_size=1), spec(batch_size=4))
    ] == [(1, 4), (4, 1)]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('[vision_encoder]\n[vlm]\narch = "mot"\n', "a VLM"),
        ("[distributed]\ntp = 2\n", "tensor parallelism of 2"),
        ("[distributed]\npp = 2\n", "pipeline parallelism of 2"),
        ('[optimizer]\nname = "muon"\n', "the optimizer muon"),
        ("[data]\npack_sequences = true\n", "packed sequences"),
    ],
)
def test_what_cannot_be_built(more, why):
    text = SMALL.replace("[optimizer]\nlr = 0.003\n", "") + more
    with pytest.raises(CannotBuild, match=why):
        from_job(runner(text).job({}), device="cpu")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('model_type = "mine"\n', "a model of type mine"),
        (f"{MOE}moe_packed_experts = true\n", "packed experts"),
        (f'{MOE}moe_router = "sigmoid_topk"\n', "the router sigmoid_topk"),
        (f"{MOE}moe_capacity_factor = 1.25\n", "a capacity of experts"),
        (f"{MOE}moe_gradient_scale = true\n", "gradients scaled per expert"),
        (f"{MOE}moe_router_z_loss_weight = 0.1\n", "a z-loss of the router"),
    ],
)
def test_a_model_that_is_another_is_refused(more, why):
    text = SMALL.replace("[model]\n", f"[model]\n{more}")
    with pytest.raises(CannotBuild, match=why):
        spec(text)


def test_a_dense_model_has_no_experts_to_refuse():
    assert spec(SMALL.replace("[model]\n", "[model]\nmoe_gradient_scale = true\n"))


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [
        ("math", "aten::_scaled_dot_product_attention_math"),
        ("auto", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    ],
)
def test_attention_takes_the_kernel_of_the_config(backend, kernel):
    line = f'sdpa_backend = "{backend}"\n'
    made = spec(SMALL.replace("[model]\n", f"[model]\n{line}"))
    model = Decoder(made).to(torch.bfloat16)
    with torch.profiler.profile() as seen:
        model(torch.zeros(1, 32, dtype=torch.long))
    attention = [e.key for e in seen.key_averages() if "dot_product" in e.key]
    assert kernel in attention


@pytest.mark.parametrize("fused", [True, False])
def test_the_optimizer_is_fused_as_the_config_says(fused):
    made = spec(SMALL.replace("lr = 0", f"fused = {str(fused).lower()}\nlr = 0"))
    on_gpu = adamw(Decoder(made), made._replace(device="cuda"))
    assert on_gpu.defaults["fused"] is fused
    assert adamw(Decoder(made), made).defaults["fused"] is False


class Reads(TorchDispatchMode):
    """Counts how often a number is read from the device."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_the_loss_is_read_after_each_micro_batch_as_the_trainer_does():
    made = spec(mixed_precision="bf16", activation_checkpointing="none")
    counts = []
    for accumulated in (1, 5):
        now = made._replace(grad_accum=accumulated)
        training = Training(build(now)[0], now, batches(now))
        training.step()
        with Reads() as reads:
            training.step()
        counts.append(reads.count)
    assert counts[1] - counts[0] == 4


def test_a_whole_trial_with_proof_of_fp8():
    found = runner().run({"train.activation_checkpointing": "none"}, 300)
    assert (found.outcome, len(found.step_ms) >= 2) == ("ok", True)
    assert found.tokens_per_second > 0
    # 15 linears, two micro-batches, one matmul forward and two backward
    assert found.more["float8_linears"] == 15
    assert found.more["float8_matmuls"] == 15 * 2 * 3
    assert found.more["rehearsal"] is True
    every = found.more["all_step_ms"]
    assert tuple(every[-len(found.step_ms) :]) == found.step_ms
    assert found.more["discarded"][0] == {"first": 0, "last": 1, "why": "warm-up"}
    low, high = found.more["median_step_ms_95"]
    assert low <= found.more["median_step_ms"] <= high
    assert "tokens_per_joule" not in found.more
    assert json.loads(found.line())["outcome"] == "ok"


def stages(text, floor=0.0):
    """The stages of a whole trial, and its record."""
    made, heard = runner(text), []
    made.hear = lambda line: heard.append(line.get("stage"))
    found = made.run({}, 300, Leeway(floor=floor))
    return [stage for stage in heard if stage], found


def test_a_trial_tells_its_stages():
    eager, found = stages(SMALL)
    assert found.ok
    assert eager == ["import", "build", "convert", "first_step", "steady", "profile"]


def test_compiling_is_a_stage_and_what_fails_in_it_did_not_compile(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    seen, found = stages(SMALL.replace("compile_model = false", "compile_model = true"))
    assert seen == ["import", "build", "convert", "compile"]
    assert (found.outcome, found.more["stage_reached"]) == ("compile", "compile")


def test_compiling_teaches_the_model_nothing():
    made = spec(mixed_precision="bf16")
    plain = Training(build(made)[0], made, batches(made))
    compiled = Training(build(made)[0], made, batches(made))
    compiled.compile()
    assert [compiled.step() for _ in range(2)] == [plain.step() for _ in range(2)]


def test_a_slow_trial_ends_before_its_full_sample():
    made = runner()
    made.setup = made.setup._replace(max_steps=30)
    whole = made.run({}, 300)
    cut = made.run({}, 300, Leeway(floor=100 * whole.tokens_per_second))
    assert (cut.ok, cut.measured) == (True, False)
    assert len(cut.step_ms) >= 5
    assert len(cut.more["all_step_ms"]) < 2 + 30
    assert cut.more["float8_matmuls"] == whole.more["float8_matmuls"]
    assert 0 < cut.least <= cut.tokens_per_second


def test_where_time_is_short_the_fewest_steps_have_to_do():
    made = runner()
    made.setup = made.setup._replace(max_steps=40, min_steps=6, enough_s=0.0)
    found = made.run({}, 300)
    assert found.measured
    assert len(found.step_ms) >= 6
    assert len(found.more["all_step_ms"]) < 2 + 40


def test_a_trial_that_is_given_no_time():
    found = runner().run({}, 0.3)
    assert (found.outcome, found.step_ms) == ("launch", ())


def test_a_rehearsal_that_is_killed_goes_on(project, monkeypatch):
    root = project({"a.toml": SMALL})
    monkeypatch.setenv("PYTHONPATH", ":".join([str(REPOSITORY), *sys.path]))
    command = [sys.executable, "-m", "fp8tune", "search", "a.toml", "--device", "cpu"]
    command += ["--budget", "40s"]
    known = b""
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            lines = iter(process.stdout.readline, b"")
            next(line for line in lines if line.startswith(b"  "))
            process.kill()
        (path,) = root.glob(".fp8tune/*/trials.jsonl")
        assert path.read_bytes().startswith(known)
        assert path.read_bytes().count(b"\n") > known.count(b"\n")
        known = path.read_bytes()
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert time.monotonic() - start < 40 + 60
    assert done.returncode == 0, done.stderr
    trials = [json.loads(line) for line in path.read_text().splitlines()]
    assert path.read_bytes().startswith(known)
    assert [trial["trial"] for trial in trials] == list(range(len(trials)))
    assert [trial["stage"] for trial in trials[:2]] == ["given", "twin"]


USER = {"kind": "user", "error": "E", "message": "m"}


def said(*events, ended="exit", stage="steady", code=1):
    return Heard(list(events), ended, stage, code, 1.0)


@pytest.mark.parametrize(
    ("heard", "outcome"),
    [
        (said({"failed": {"kind": "oom", "error": "E", "message": "m"}}), "oom"),
        (said({"failed": {"kind": "nan", "error": "E", "message": "m"}}), "nan"),
        (said(ended="late", stage="steady"), "hang"),
        (said(ended="late", stage="build"), "launch"),
        (said(ended="late", stage="first_step"), "hang"),
        (said({"failed": USER}), "user"),
        (said({"failed": USER}, stage="import"), "launch"),
        (said({"failed": USER}, stage="compile"), "compile"),
        (said({"failed": {**USER, "kind": "oom"}}, stage="compile"), "oom"),
        (said(ended="late", stage="convert"), "launch"),
        (said(ended="late", stage="compile"), "compile"),
        (said(code=-11, stage="compile"), "compile"),
        (said(code=-9, stage="compile"), "launch"),
        (said(code=-9), "launch"),
        (said(code=1), "launch"),
    ],
)
def test_how_a_trial_ends(heard, outcome):
    assert record({}, spec(), heard, "").outcome == outcome


def test_no_fp8_matmul_is_no_fp8():
    done = {
        "step_ms": [1.0],
        "tokens_per_second_per_rank": 1.0,
        "peak_gib": 1.0,
        "reserved_gib": 1.0,
        "float8_matmuls": 0,
    }
    found = record({}, spec(), said({"done": done}), "")
    assert (found.outcome, found.more["message"]) == (
        "user",
        "FP8 was asked for, and no FP8 matmul ran",
    )


@pytest.mark.parametrize(
    ("ran", "recipe", "outcome"),
    [
        (15 * 2 * 3, "tensorwise", "ok"),
        (15 * 2 * 4 - 2, "tensorwise", "ok"),
        (15 * 2 * 3 - 1, "tensorwise", "user"),
        (15 * 2 * 2, "rowwise_with_gw_hp", "ok"),
    ],
)
def test_every_fp8_linear_ran_in_fp8(ran, recipe, outcome):
    done = {
        "step_ms": [1.0],
        "tokens_per_second_per_rank": 1.0,
        "peak_gib": 1.0,
        "reserved_gib": 1.0,
        "float8_matmuls": ran,
    }
    made = spec()._replace(fp8_recipe=recipe)
    found = record({}, made, said({"float8_linears": 15}, {"done": done}), "")
    assert found.outcome == outcome
    assert ("message" in found.more) == (outcome == "user")
