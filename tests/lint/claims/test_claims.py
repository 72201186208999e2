"""What comments claim: figures with their unit, and modes."""

from fp8tune.formats.toml.document import Document
from fp8tune.lint.claims import BESIDE
from fp8tune.lint.claims.modes import modes
from fp8tune.lint.claims.prose import Comments
from fp8tune.lint.claims.quantities import quantities
from tests.each import each


def claims(text):
    """Name, words and value of every claim."""
    return [
        (claim.name, text[slice(*claim.span)], said(claim))
        for line in Comments(Document(text, {}, bom=False)).lines()
        for claim in (*quantities(line), *modes(line))
    ]


def said(claim):
    return claim.words or (claim.figure and claim.figure.digits + claim.figure.scale)


SEQUENCES, TOKENS, GPUS, SIZE = (
    "step.sequences",
    "step.tokens",
    "world_size",
    "parameters",
)


@each(
    ("comment", "found"),
    [
        ("256 seqs/step", [(SEQUENCES, "256 seqs/step", "256")]),
        ("(256 seq/step)", [(SEQUENCES, "256 seq/step", "256")]),
        (
            "256 sequences per optimizer step",
            [(SEQUENCES, "256 sequences per optimizer step", "256")],
        ),
        ("a global batch of 512.", [(SEQUENCES, "global batch of 512", "512")]),
        ("Effective batch size: 64", [(SEQUENCES, "Effective batch size: 64", "64")]),
        ("8 * 2 * 16 = 256 sequences", [(SEQUENCES, "256 sequences", "256")]),
        (
            "Global batch = 3 DP-ranks \u00d7 4 batch \u00d7 8 accum = 96 seqs"
            " = 1.6M tokens/step",
            [(SEQUENCES, "96 seqs", "96"), (TOKENS, "1.6M tokens/step", "1.6M")],
        ),
        (
            "256 sequences (1.05 M tokens) per optimizer step",
            [(TOKENS, "1.05 M tokens) per optimizer step", "1.05M")],
        ),
        ("~2M tok/step", [(TOKENS, "~2M tok/step", "2M")]),
        ("global batch of 4M tokens", [(TOKENS, "4M tokens", "4M")]),
        ("Llama - 12 GPUs (3 nodes x 4)", [(GPUS, "12 GPUs", "12")]),
        ("a 24-GPU run", [(GPUS, "24-GPU", "24")]),
        ("on 4x H200 (141 GB/GPU)", [(GPUS, "4x H200", "4")]),
        ("on 16 H100s", [(GPUS, "16 H100s", "16")]),
        ("6x4 H200 GPUs", [(GPUS, "6x4 H200 GPUs", "24")]),
        ("2 nodes of 8 GPUs", [(GPUS, "2 nodes of 8 GPUs", "16")]),
        ("2 nodes \u00d7 4 H200 141GB", [(GPUS, "2 nodes \u00d7 4 H200", "8")]),
        ("~4B total params, ~1.8B active", [(SIZE, "~4B total params", "4B")]),
        ("9.45B total, 9.36B trainable", [(SIZE, "9.45B total", "9.45B")]),
        ("total params: 14.39 B", [(SIZE, "total params: 14.39 B", "14.39B")]),
        ("(8.03 B parameters)", [(SIZE, "8.03 B parameters", "8.03B")]),
        ("TP=4 + FSDP=3.", [("tp", "TP=4", "4"), ("fsdp", "FSDP=3", "3")]),
        ("run (max_steps = 5000).", [("max_steps", "max_steps = 5000", "5000")]),
        (
            "56 layers (28 per stage), 8 kv_heads",
            [("layers", "56 layers", "56"), ("kv_heads", "8 kv_heads", "8")],
        ),
        ("FSDP over 32 GPUs", [("dp_shard", "FSDP over 32", "32")]),
        (
            "Checkpoint every 500 steps (~2h)",
            [("checkpoint_interval", "Checkpoint every 500 steps", "500")],
        ),
        ("This config runs 50 steps", [("max_steps", "50 steps", "50")]),
        (
            "100K steps \u00d7 2.1M tokens/step = 210B tokens",
            [
                ("max_steps", "100K steps", "100K"),
                (TOKENS, "2.1M tokens/step", "2.1M"),
            ],
        ),
        ("Activations (selective AC): 30 GB", [("ac", "selective AC", ("selective",))]),
        ("bf16 with full AC", [("ac", "full AC", ("full",))]),
        ("(27%, no AC)", [("ac", "no AC", ("none",))]),
        (
            "Activation checkpointing is OFF here",
            [("ac", "Activation checkpointing is OFF", ("none",))],
        ),
        (
            "Activation checkpointing on and more",
            [("ac", "Activation checkpointing on", ("full", "selective"))],
        ),
        ("AC=full", [("ac", "AC=full", ("full",))]),
        ("Llama 7B, FP8 + FSDP", [("precision", "FP8", ("fp8",))]),
        ("Llama 7B in bf16", [("precision", "bf16", ("bf16",))]),
    ],
)
def test_claims_of_a_title(comment, found):
    assert claims(f"# {comment}\n[train]\n") == found


@each(
    "comment",
    [
        "7B model, Llama-3 8B, 7B params",
        "150K tok/s, 14 s/step, 2M tokens",
        "210B total tokens",
        "1.05B parameters of embedding",
        "4-8 GPUs, 8+ GPUs, up to 16 GPUs, 1, 2, 4, 32 GPUs",
        "8 GPUs per node, 8 GPUs/node, 8 GPUs each",
        "3 nodes, 4 GPUs",
        "141 GB GPUs, 80GB H100",
        "Llama 2 H100",
        "65K tokens/step/GPU, 512 seqs/step per rank",
        "2-4M tokens/step",
        "max 512 seqs/step",
        "global batch 512k, effective batch 512/GPU",
        "4 x 8 = 32 sequences; 8 * 2 * 16 = 256 sequences per epoch",
        "TP=4: slower, TP=2 gives less, lr=1e-3",
        "every 2 layers; layers 1, 3; dp x 4 heads of 128",
        "eval every 100 steps, 500 steps of warmup",
        "x.tp=4, my-tp=4",
        "Selective AC is slower; AC: 30 GB; ACs",
        "activation checkpointing on every block",
        "AC=full is a no-op; Activation checkpointing off-loads",
        "FP8 compute, FP8-ready, bf16 master weights, E4M3",
        "batch_size = 8",
        "1e6 tokens/step",
        "\u0664 GPUs",
        "no checkpoint",
    ],
)
def test_what_claims_nothing(comment):
    assert claims(f"# {comment}\n[train]\n") == []


@each(
    ("comment", "found"),
    [
        ("500 steps", [(BESIDE, "500 steps", "500")]),
        ("500 steps.", [(BESIDE, "500 steps", "500")]),
        ("500 steps of warmup", []),
        ("8 * 2 * 16 = 256 sequences", [(SEQUENCES, "256 sequences", "256")]),
        ("no checkpoint", [("checkpoint_interval", "no checkpoint", None)]),
        (
            "above max_steps; no checkpoint in this smoke",
            [("checkpoint_interval", "no checkpoint in this smoke", None)],
        ),
        ("no checkpoint before step 100", []),
        ("8 GPUs, TP=4, 32 layers", []),
    ],
)
def test_claims_beside_a_key(comment, found):
    assert claims(f"[train]\nmax_steps = 50  # {comment}\n") == found


@each("newline", ["\n", "\r\n"])
@each("before", ["", "\u00e9\u4e2d\U0001f600 ", "\u0130\u0130 "])
def test_spans_count_characters(newline, before):
    text = newline.join(["", f"# {before}on 16 GPUs", "[train]", ""])
    ((_, words, _),) = claims(text)
    assert words == "16 GPUs"


@each(
    "text",
    [
        "# " + "8 x " * 90 + "= 3 seqs",
        "# " + "= " * 180 + "8",
        "# " + "~" * 300 + "8 GPUs",
        "# " + "9" * 300 + " GPUs",
        "# " + "8, " * 120 + "8 GPUs",
        "# " + "AC " * 120,
        "# " + "no checkpoint is are " * 18,
    ],
)
def test_hostile_comments_come_back(text):
    assert len(claims(f"{text}\n" * 400)) < 50_000
