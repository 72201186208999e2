"""Parameter counts against what the trainer builds.

Expected: the sum of ``p.numel()`` over ``Transformer(config, vlm_config=...)`` on the
meta device, KempnerForge at commit 5666d0d.
"""

import pytest

from fp8tune.job import Unknown
from tests.sample import LLAMA_8B, MOE_9B

DEBUG_MOE = """
[model]
dim = 256
n_layers = 4
n_heads = 4
n_kv_heads = 4
vocab_size = 32000
num_experts = 4
moe_frequency = 2
"""
FINE_GRAINED = "moe_shared_experts = 3\nmoe_expert_ffn_multiplier = 0.5\n"
VLM = LLAMA_8B + '[vision_encoder]\ntype = "random"\n[vlm]\narch = '


@pytest.mark.parametrize(
    ("text", "built"),
    [
        (LLAMA_8B, 8_030_261_248),
        (LLAMA_8B.replace("128256", "50257"), 7_391_293_440),
        (MOE_9B, 9_233_205_248),
        (MOE_9B.replace("num_experts = 8", "num_experts = 16"), 17_689_315_328),
        (DEBUG_MOE + FINE_GRAINED, 21_565_696),
    ],
)
def test_text_models(job, text, built):
    found = job(text)
    assert (found["parameters"], found["decoder_parameters"]) == (built, built)


@pytest.mark.parametrize(
    ("arch", "built"),
    [("joint_decoder", 8_030_261_248), ("cross_attention", 9_976_483_840)],
)
def test_of_a_vlm_no_more_than_is_built(job, arch, built):
    found = job(f'{VLM}"{arch}"\n')
    assert 8_030_261_248 <= found["decoder_parameters"] <= built
    with pytest.raises(Unknown):
        found["parameters"]


@pytest.mark.parametrize("arch", ["mot", "moma"])
def test_archs_that_are_not_counted(job, arch):
    with pytest.raises(Unknown):
        job(f'{VLM}"{arch}"\n')["decoder_parameters"]


@pytest.mark.parametrize(
    ("keys", "more"),
    [
        ("moe_shared_experts = 1", 3 * 256 * 768),
        ("moe_shared_experts = 3", 3 * 256 * 768),
        ("moe_expert_ffn_multiplier = 0.5", -4 * 3 * 256 * 384),
        ("moe_expert_ffn_multiplier = 0.001", -4 * 3 * 256 * 752),
        ("moe_frequency = 5", -4 * 3 * 256 * 768 - 4 * 256 + 3 * 256 * 768),
    ],
)
def test_experts(job, keys, more):
    text = DEBUG_MOE.replace("moe_frequency = 2", "moe_frequency = 4")
    changed = text.replace("moe_frequency = 4", keys)
    if "moe_frequency" not in keys:
        changed += "moe_frequency = 4\n"
    assert job(changed)["parameters"] - job(text)["parameters"] == more
