"""An Axolotl config as a job."""

from fp8tune.job import Target
from tests.each import each

START = """
base_model: a/b
datasets: [{path: x, type: alpaca}]
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 4096
learning_rate: 1e-5
"""


@each(
    ("more", "expected"),
    [
        ("bf16: auto\nfp8: true", ("fp8", "tensorwise", "none", False)),
        (
            "fp8: true\nfp8_config: {recipe: rowwise}\ntorch_compile: auto",
            ("fp8", "rowwise", "none", True),
        ),
        (
            "bf16: true\nfp8: true\nrl: dpo\ngradient_checkpointing: true",
            ("bf16", "", "full", False),
        ),
        ("bf16: false\nfp16: true", ("fp16", "", "none", False)),
        (
            "fsdp_version: 2\nfsdp_config: {fsdp_activation_checkpointing: true}",
            ("bf16", "", "full", False),
        ),
    ],
)
def test_precision_recipe_checkpointing_compile(job, more, expected):
    mine = job(START + more)
    names = ("precision", "fp8_recipe", "ac", "compile")
    assert tuple(mine[name] for name in names) == expected
    sizes = (mine["micro_batch"], mine["grad_accum"], mine["seq_len"])
    assert (*sizes, mine["learning_rate"]) == (2, 4, 4096, 1e-5)


LORA = START + "fp8: true\nadapter: lora\n"
ALL = "lora_target_linear: true\n"
BLOCK = "lora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "


def test_kernels_of_lora_leave_the_precision_of_experts_open(job):
    moe = LORA.replace("a/b", "Qwen/Qwen3-30B-A3B") + ALL
    assert job(moe).find("experts")
    assert (job(moe).find("precision"), job(moe).find("fp8_bypassed")) == (None, None)


@each(
    ("text", "expected"),
    [
        (LORA + BLOCK + "down_proj]\n", ("bf16", True)),
        (LORA + BLOCK + "x]\n", ("fp8", False)),  # some linears have no adapter
        (LORA + ALL + "lora_o_kernel: false\n", ("fp8", False)),
        (LORA + ALL + "trust_remote_code: true\n", ("fp8", False)),
        (LORA + ALL + "fsdp_version: 2\nfsdp_config: {}\n", ("bf16", True)),
        (START + ALL + "adapter: lora\n", ("bf16", False)),
    ],
)
def test_kernels_of_lora_take_the_linears_out_of_fp8(job, text, expected):
    mine = job(text)
    assert (mine["precision"], mine["fp8_bypassed"]) == expected


def test_less_accumulation_is_advised_where_its_gradients_take_the_memory(job):
    """FSDP2 sums whole gradients in fp32: of 30 B parameters 57 GiB on each GPU."""
    mine = job(
        "base_model: Qwen/Qwen3-30B-A3B\ndatasets: [{path: x, type: alpaca}]\n"
        "micro_batch_size: 1\ngradient_accumulation_steps: 4\nsequence_len: 4096\n"
        "sample_packing: true\nflash_attention: true\nlearning_rate: 1e-5\n"
        "bf16: true\noptimizer: adamw_torch\nfsdp_version: 2\nfsdp_config:\n"
        "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  transformer_layer_cls_to_wrap: Qwen3MoeDecoderLayer\n"
        "  activation_checkpointing: true\n",
        target=Target("h100", 8),
    )
    assert mine["memory.fit"] == "probably-out-of-memory"
    assert "`gradient_accumulation_steps = 1`" in mine["memory.advice"]
