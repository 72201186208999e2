"""The built-in trial of torchtitan configs: what it builds, and what it refuses."""

import json
import tomllib

import pytest
import torch

from benchmarks.paths import RESULTS
from fp8tune.config.reader import config_of
from fp8tune.job import Target
from fp8tune.runners.builtin.convert import build
from fp8tune.runners.builtin.data import batches
from fp8tune.runners.builtin.runner import Builtin, Setup
from fp8tune.runners.builtin.spec import CannotBuild, from_job, from_json
from fp8tune.runners.builtin.step import Training
from fp8tune.runners.sampling import Sampling
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.search.write.writeback import Choice, write_back
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.runner import TrialLimits
from tests.each import each
from tests.support.live_bytes import LiveBytes

DEBUG = """\
[model]
name = "llama3"
flavor = "debugmodel"
converters = ["quantize.linear.float8"]  # FP8
[training]
local_batch_size = 2
global_batch_size = 4
seq_len = 32
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[quantize.linear.float8]
filter_fqns = ["output", "layers.0.attention.wk"]
"""


def builtin(text, ranks=1, version="0.2.2"):
    name, target = f"torchtitan=={version}", Target("", ranks)
    setup = Setup("cpu", dp_shard=ranks, sampling=Sampling(2, 3, 1))
    return Builtin(config_of("a.toml", text.encode(), target, only=name), setup)


def spec(text, ranks=1, version="0.2.2"):
    made = builtin(text, ranks, version).spec({})
    return from_json(json.loads(json.dumps(made._asdict())))


@pytest.fixture(autouse=True)
def alone():
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


CASE = """
[model]
name = "llama3"
flavor = "debugmodel"
{more}
[training]
local_batch_size = 2
global_batch_size = 16
seq_len = 64
steps = 10
[activation_checkpoint]
mode = "{ac}"
selective_ac_option = "op"
"""
CASES = {
    "0.2.2, bf16, 8 ranks, per-op AC": CASE.format(more="", ac="selective"),
    "0.1.0, bf16, 8 ranks, full AC": CASE.format(
        more='tokenizer_path = "x/Llama-3.1-8B"', ac="full"
    ),
}
"""Configs of recorded cases. In 0.1.0 the vocabulary is the tokenizer's."""
ALIKE = 0.005
"""Largest relative difference of a peak that counts as alike."""


class Marked(Training):
    """Says when a phase of the step begins."""

    def _loss(self, *given):
        loss = super()._loss(*given)
        self.enter("backward")
        return loss


@each("name", CASES)
def test_a_trial_does_what_torchtitan_does(name):
    """Peaks of two steps, and how often each operator runs in a third one."""
    recorded = json.loads((RESULTS / "torchtitan_trial.json").read_text("utf-8"))[name]
    version, _, _ = name.partition(",")
    known = trainer(f"torchtitan=={version}")
    job = known.job(known.load(tomllib.loads(CASES[name])), Target(world_size=8))
    made = from_job(job, device="cpu", dp_shard=job["shards"])

    def data():
        source = torch.Generator().manual_seed(7)
        while True:
            training.enter("forward")
            ids = torch.randint(0, made.vocab_size, (2, 65), generator=source)
            yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    training = Marked(build(made)[0], made, data())
    training.optimizer.register_step_pre_hook(lambda *_: training.enter("optimizer"))
    with LiveBytes("forward") as live:
        training.enter = live.enter
        training.step()
        training.step()
    training.enter = lambda _: None
    activity = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity], acc_events=True) as seen:
        training.step()
    torch.distributed.destroy_process_group()
    counts = {event.key: event.count for event in seen.key_averages()}
    assert {name: counts[name] for name in recorded["counts"]} == recorded["counts"]
    assert live.peaks == pytest.approx(recorded["peaks"], rel=ALIKE)


def test_filters_keep_linears_in_bf16():
    model, counts = build(spec(DEBUG))
    assert counts == {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "linears": 43,
        "float8_linears": 41,
        "checkpointed": 6,
    }
    kinds = {n: type(m).__name__ for n, m in model.named_modules() if "proj" in n}
    plain = [name for name, kind in kinds.items() if kind != "Float8Linear"]
    inner = "_checkpoint_wrapped_module.attention.k_proj"
    assert plain == [f"layers.0.{inner}", "output_head.proj"]


def test_torchao_chooses_small_linears_itself():
    text = DEBUG.replace('"layers.0.attention.wk"', '"auto_filter_small_kn"')
    assert build(spec(text))[1]["float8_linears"] == 0  # all have 256 columns


@each(
    ("mode", "wrapped"),
    [
        ('mode = "none"', 0),
        ('mode = "full"', 6),
        ('mode = "selective"\nselective_ac_option = "2"', 3),
        ('mode = "memory_budget"\nmemory_budget = 0.3', 0),
    ],
)
def test_ac_modes(mode, wrapped):
    given = 'mode = "selective"\nselective_ac_option = "op"'
    made = spec(DEBUG.replace(given, mode))
    try:
        assert build(made)[1]["checkpointed"] == wrapped
        if made.ac == "memory_budget":
            assert torch._functorch.config.activation_memory_budget == 0.3
    finally:
        torch._functorch.config.activation_memory_budget = 1.0


@each(
    ("policy", "gathers"),
    # embedding, six blocks, norm with head: forward, and again unless they stay
    [("always", 16), ("default", 15), ("never", 8)],
)
def test_what_fsdp_frees_is_gathered_again(policy, gathers):
    table = f'[parallelism]\nfsdp_reshard_after_forward = "{policy}"\n'
    made = spec(DEBUG.replace("global_batch_size = 4\n", "") + table, 4)
    training = Training(build(made)[0], made, batches(made))
    activity = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity], acc_events=True) as seen:
        training.step()
    torch.distributed.destroy_process_group()
    counts = {event.key: event.count for event in seen.key_averages()}
    assert counts["fsdp::all_gather_copy_in"] == gathers


def test_blocks_are_compiled_one_by_one():
    made = spec(DEBUG + "[compile]\nenable = true\n")
    model, _ = build(made)
    kinds = {type(block).__name__ for block in model.layers}
    assert (type(model).__name__, kinds) == ("Decoder", {"OptimizedModule"})


def test_the_first_weights_are_those_of_llama():
    model, _ = build(spec(DEBUG))
    weights = {
        name.replace("_checkpoint_wrapped_module.", ""): weight.std().item()
        for name, weight in model.named_parameters()
        if weight.dim() > 1
    }
    assert weights["embedding.weight"] == pytest.approx(1, rel=0.01)
    assert weights["output_head.proj.weight"] == pytest.approx(256**-0.5, rel=0.03)
    assert weights["layers.2.mlp.gate_proj.weight"] == pytest.approx(0.02, rel=0.01)
    assert weights["layers.2.mlp.up_proj.weight"] == pytest.approx(
        0.02 / 6**0.5, rel=0.01
    )


def test_a_whole_trial():
    found = builtin(DEBUG).run(
        {"ac": "full", "training.local_batch_size": 4}, TrialLimits(3600)
    )
    assert (found.outcome, found.message) == ("ok", "")
    # one micro-batch; each linear once forward, again for AC, twice backward
    assert (found.float8_linears, found.float8_matmuls) == (41, 41 * 4)
    assert found.synthetic_data is True


MOE = DEBUG.replace("llama3", "deepseek_v3").replace("debugmodel", "16B")


@each(
    ("text", "why"),
    [
        (MOE, "the model deepseek_v3: only llama3 and qwen3 are built"),
        (DEBUG.replace("debugmodel", "debugmodel_flex_attn"), "flex attention"),
        (DEBUG + "[parallelism]\ntensor_parallel_degree = 2\n", "tensor parallelism"),
        (
            DEBUG + "[parallelism]\ndata_parallel_replicate_degree = 2\n",
            "2 replicas: their reduction is not built",
        ),
        (DEBUG + '[optimizer]\nname = "Adam"\n', "the optimizer adam"),
        (DEBUG + '[optimizer]\nimplementation = "for-loop"\n', "the for-loop optim"),
        (DEBUG + "[debug]\ndeterministic = true\n", "deterministic kernels"),
        (DEBUG + '[compile]\nbackend = "aot_eager"\n', "the compiler aot_eager"),
        (DEBUG + "emulate = true\n", "emulated FP8"),
    ],
)
def test_runs_that_a_trial_cannot_represent(text, why):
    known = trainer("torchtitan==0.2.2")
    job = known.job(known.load(tomllib.loads(text)), Target("", 8))
    with pytest.raises(CannotBuild, match=why):
        from_job(job, device="cpu", dp_shard=1)


def test_a_search_writes_the_keys_of_the_release():
    data = DEBUG.encode()
    config = config_to_search(
        "t.toml", data, Target("h100-sxm", 1), "torchtitan==0.2.2"
    )
    plan = plan_for_trials(config, ("compile",), "cuda")
    assert {knob.key: knob.values for knob in plan.space.knobs} == {
        "training.local_batch_size": (1, 2, 4),
        "ac": ("none", "op", "full"),
        "compile": (False, True),
        "precision": ("fp8", "bf16"),
    }
    chosen = {"training.local_batch_size": 4, "ac": "full", "compile": True}
    keys = config.job.keys_for({**chosen, "precision": "bf16"})
    written = write_back(data, [Choice(*each) for each in keys.items()])
    values = tomllib.loads(written.decode())
    assert values["model"]["converters"] == []
    assert values["training"]["local_batch_size"] == 4
    assert values["activation_checkpoint"]["mode"] == "full"
    assert values["compile"] == {"enable": True}


def test_the_ac_mode_of_the_config_is_a_value_of_its_knob():
    text = DEBUG.replace('selective_ac_option = "op"', 'selective_ac_option = "3"')
    config = config_to_search(
        "t.toml", text.encode(), Target("", 1), "torchtitan==0.2.2"
    )
    knob = plan_for_trials(config, (), "cuda").space.knob("ac")
    assert knob.values == ("none", "op", "every-3", "full")
