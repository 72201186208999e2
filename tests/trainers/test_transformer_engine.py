"""What Transformer Engine asks of sizes, for every trainer that uses it.

The reports are TransformerEngine#1422, #1571 and #232 (sizes that are no multiple of 8
or 16), NeMo-RL#1551 and ms-swift#9723 (tokens of one rank), rebuilt as configs.
"""

from tests.each import each
from tests.support.verdicts import lint

SIZES = {
    "num-layers": "8",
    "hidden-size": "1024",
    "ffn-hidden-size": "4096",
    "num-attention-heads": "16",
    "seq-length": "1024",
    "max-position-embeddings": "4096",
    "micro-batch-size": "1",
    "global-batch-size": "64",
    "train-iters": "100",
    "lr": "0.0003",
}
SPLIT = "--tensor-model-parallel-size 8 --sequence-parallel"
OURS = {
    "fp8-hidden-size-not-16",
    "fp8-tokens-not-16",
    "te-size-not-multiple",
    "te-tokens-not-multiple",
}
LAUNCH = """\
distributed_type: MULTI_GPU
mixed_precision: fp8
num_processes: 8
fp8_config:
  backend: TE
training:
  output_dir: out
  bf16: false
  dataset_text_field: text
"""


def found(name, text):
    return {one.rule for one in lint(name, text, "").diagnostics}


@each(
    ("sizes", "flags", "expected"),
    [
        # TE#1422: a linear of 712 to 896
        (
            {
                "hidden-size": "712",
                "num-attention-heads": "8",
                "ffn-hidden-size": "896",
            },
            "",
            {"fp8-hidden-size-not-16"},
        ),
        # TE#232: 50 tokens of 4096, to 16384
        (
            {
                "hidden-size": "4096",
                "ffn-hidden-size": "16384",
                "seq-length": "50",
            },
            "",
            {"fp8-tokens-not-16"},
        ),
        # TE#1571: one row of 256
        ({"hidden-size": "256", "seq-length": "1"}, "", {"fp8-tokens-not-16"}),
        ({"ffn-hidden-size": "2752"}, SPLIT, {"te-size-not-multiple"}),
        (
            {"seq-length": "2000", "micro-batch-size": "2"},
            SPLIT,
            {"te-tokens-not-multiple"},
        ),
        ({"seq-length": "1040"}, "--fp8-recipe mxfp8", {"te-tokens-not-multiple"}),
        ({"hidden-size": "1040"}, "--fp8-recipe mxfp8", {"te-size-not-multiple"}),
    ],
)
def test_megatron(sizes, flags, expected):
    words = " ".join(f"--{name} {value}" for name, value in (SIZES | sizes).items())
    form = "e4m3" if "mxfp8" in flags else "hybrid"
    start = f"torchrun --nproc_per_node 8 pretrain_gpt.py --bf16 --fp8-format {form}"
    names = found("run.sh", f"{start} {words} {flags}\n")
    assert names & OURS == expected


@each(
    ("arguments", "expected"),
    [
        ("  per_device_train_batch_size: 1\n", True),
        ("  per_device_train_batch_size: 1\n  pad_to_multiple_of: 8\n", True),
        ("  per_device_train_batch_size: 2\n  pad_to_multiple_of: 8\n", False),
        ("  per_device_train_batch_size: 16\n", False),
        ("  per_device_train_batch_size: 16\n  padding_free: true\n", True),
        ("  per_device_train_batch_size: 1\n  packing: true\n", False),
    ],
)
def test_accelerate_with_trl(arguments, expected):
    names = found("accelerate.yaml", LAUNCH + arguments)
    assert ("te-with-any-length" in names) == expected
    assert not {name for name in names if name.endswith("-not-16")}
