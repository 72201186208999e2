"""Memory: recorded runs lie in the band, and what users reported of FP8 is so."""

import pytest

from fp8tune.formats import parse
from fp8tune.job import Target, Unknown
from fp8tune.trainers.megatron_lm.stages import moe_pattern
from fp8tune.trainers.trainer import trainer
from tests.each import each

SEVEN_B = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --swiglu \\
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
  --position-embedding-type rope --normalization RMSNorm --disable-bias-linear \\
  --untie-embeddings-and-output-weights --vocab-size 32000 --hidden-dropout 0 \\
  --attention-dropout 0 --micro-batch-size 1 --global-batch-size 128 \\
  --use-distributed-optimizer --train-iters 100 --lr 0.0003 """
BF16 = "--bf16 "
FP8 = "--bf16 --fp8-format hybrid "
EIGHT_B = (
    "--ffn-hidden-size 14336 --group-query-attention --num-query-groups 8"
    " --vocab-size 128256 --seq-length 8192 --max-position-embeddings 8192 "
)
SMALL_EXPERTS = (
    "--hidden-size 2048 --num-experts 128 --moe-router-topk 8"
    " --moe-ffn-hidden-size 768 --expert-model-parallel-size 8"
)


def job_of(flags):
    known = trainer("megatron_lm")
    loaded = known.load(parse(f"{SEVEN_B}{flags}\n".encode(), "run.sh").values)
    return known.job(loaded, Target(gpu="h100"))


def parts(flags):
    return {
        name: round(gib, 2) for name, gib in job_of(flags)["memory.breakdown"].items()
    }


def test_an_example_of_megatron_lm_fits_as_its_table_says():
    """Its README has Llama 3 8B in FP8 on 8 H100s with CP 2; the script sets CP 1."""
    eight_b = EIGHT_B + (
        "--grad-reduce-in-bf16 --cross-entropy-loss-fusion --fp8-param-gather"
        " --context-parallel-size "
    )
    fits = [job_of(f"{FP8}{eight_b}{cp}")["memory.fit"] for cp in (1, 2)]
    assert fits == ["probably-out-of-memory", "fits"]


def test_what_frees_memory_at_the_same_speed_comes_first():
    """Its script has both flags; without them the same run is out of memory."""
    job = job_of(f"{FP8}{EIGHT_B}--context-parallel-size 2")
    flags = {"fp8_param_gather": True, "grad_reduce_in_bf16": True}
    assert {key: value for key, (value, _) in job["memory.lighter"].items()} == flags
    fits = [one["memory.fit"] for one in (job, job.with_values(flags))]
    assert fits == ["out-of-memory", "fits"]
    set_both = "set `fp8_param_gather = true` and `grad_reduce_in_bf16 = true`: at most"
    assert job["memory.advice"].startswith(set_both)


def test_fp8_needs_more_than_bf16():
    """Megatron-LM#1236, TE#1429: FP8 copies of all weights, beside those in bf16."""
    copies = "FP8 copies of weights"
    linears = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert parts(FP8)[copies] == round(2 * linears / 2**30, 2)
    full = "--recompute-granularity full --recompute-method uniform "
    for more in ("", full):
        bf16, fp8 = job_of(BF16 + more), job_of(FP8 + more)
        assert fp8["memory.peak_gib"] > bf16["memory.peak_gib"] + 5


def test_fp8_weights_need_as_much_as_bf16_weights():
    """ms-swift#9371: in both layouts that GEMMs read they have 2 bytes each."""
    with_copies, gathered = parts(FP8), parts(FP8 + "--fp8-param-gather")
    assert with_copies.pop("FP8 copies of weights") > 10
    assert gathered == with_copies
    assert gathered["weights"] == parts(BF16)["weights"]


@each(
    ("flags", "per_hidden"),
    [
        ("", 10 + 24),
        ("--tensor-model-parallel-size 4", 10 + 24 / 4),
        ("--tensor-model-parallel-size 4 --sequence-parallel", 34 / 4),
    ],
)
def test_activations_of_a_layer_are_those_of_the_paper(flags, per_hidden):
    """Korthikanti et al., https://arxiv.org/abs/2205.05198, table 2, with flash."""
    dense = "--ffn-hidden-size 16384 --hidden-dropout 0.1 --attention-dropout 0.1 "
    script = SEVEN_B.replace("--swiglu ", "").replace(" --hidden-dropout 0", "")
    known = trainer("megatron_lm")
    text = f"{script}{BF16}{dense}{flags} --recompute-granularity selective\n"
    loaded = known.load(parse(text.encode(), "run.sh").values)
    layer = known.job(loaded, Target())["layer_bytes"]
    assert (layer.attention + layer.ffn) / 4096 == pytest.approx(per_hidden)


@each(
    ("flags", "first", "last"),
    [
        ("", (32, 1), (32, 1)),
        ("--pipeline-model-parallel-size 4", (8, 4), (8, 1)),
        (
            "--pipeline-model-parallel-size 4"
            " --num-layers-per-virtual-pipeline-stage 2",
            (8, 4 + 3 / 4),
            (8, 3 + 1 / 4),
        ),
        (
            "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5"
            " --decoder-last-pipeline-num-layers 7",
            (5, 4),
            (7, 1),
        ),
    ],
)
def test_micro_batches_in_flight(flags, first, last):
    stages = job_of(BF16 + flags)["stages"]
    found = [(stage.layers, stage.in_flight) for stage in stages]
    assert (found[0], found[-1]) == (first, last)


@each(
    ("frequency", "pattern"),
    [
        (2, [1, 0, 1, 0]),
        ("([0]*1+[1]*3)", [0, 1, 1, 1]),
        ("[0,1]*2", [0, 1, 0, 1]),
        ("[1]*99999999", None),
        ("__import__('os')", None),
        (0, None),
    ],
)
def test_layers_with_experts(frequency, pattern):
    if pattern is None:
        with pytest.raises(Unknown):
            moe_pattern(4, 8, frequency)
    else:
        assert moe_pattern(4, 8, frequency) == pattern


@each(
    ("flags", "missing"),
    [
        (BF16 + "--multi-latent-attention", "setting.--multi-latent-attention"),
        (BF16 + "$MORE", "model.unresolved"),
        ("--yaml-cfg run.yaml", "model.unresolved"),
        (BF16 + "--pipeline-model-parallel-size 5", "stage_layers"),
    ],
)
def test_what_is_not_covered_is_said(flags, missing):
    with pytest.raises(Unknown) as error:
        job_of(flags)["memory.peak_gib"]
    assert error.value.args[0] == missing


@each(
    ("flags", "pays", "reason"),
    [
        # Megatron-LM#883
        ("--fp8-format hybrid", "no", "without bf16 all but the FP8 GEMMs"),
        (FP8 + "--transformer-impl local", "no", "Megatron's own layers have no FP8"),
        (FP8 + "--seq-length 4095", "no", "M, 4095, is not a multiple of 16"),
        # Megatron-LM#396
        (FP8, "yes", "of a bf16 step is linears that FP8 computes"),
        # ms-swift#6980, Megatron-Bridge#2842
        (FP8 + SMALL_EXPERTS, "no", "of a bf16 step is linears that FP8 computes"),
    ],
)
def test_whether_fp8_pays(flags, pays, reason):
    job = job_of(flags)
    assert job.find("fp8.pays") == pays
    assert reason in job["fp8.reasons"][0]


@each(
    ("flags", "gain"),
    [
        # NVIDIA/dgxc-benchmarking, Llama 3.1 8B: 1.354 on 8 H100
        (EIGHT_B + "--context-parallel-size 2 ", 1.354),
        # and its fine-tuning, 1.389
        (EIGHT_B + "--seq-length 4096 --global-batch-size 32 ", 1.389),
    ],
)
def test_the_band_of_the_gain_holds_published_ones(flags, gain):
    job = job_of(FP8 + flags)
    assert job["speed.fp8_gain_low"] < gain < job["speed.fp8_gain_high"]
    assert job["speed.engine_title"] == "Transformer Engine in Megatron"


def test_small_experts_gain_nothing_and_have_no_speed():
    """Megatron-Bridge's archive has Qwen3-30B-A3B at 0.68 times bf16."""
    job = job_of(FP8 + SMALL_EXPERTS)
    assert job["speed.fp8_gain"] < 0.9
    assert job.find("speed.tokens_per_second") is None
    assert any("tokens of each expert" in reason for reason in job["fp8.reasons"])
