"""Comments that contradict the file, and the many that must stay silent."""

import pytest

from tests.sample import LLAMA_8B

CONFIG = f"""\
{LLAMA_8B}max_seq_len = 4096
[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 2
max_steps = 50
mixed_precision = "fp8"
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
[distributed]
dp_shard = 16
[checkpoint]
interval = 25
"""
FREE = CONFIG.replace("dp_shard = 16\n", "")
TITLE = "Llama 7B on 16 GPUs\n\n"


def said(lint, comment, config=CONFIG, **target):
    """The rules about comments that fire, with the words they point at."""
    header = "".join(f"# {line}\n" for line in comment.split("\n"))
    found = lint(header + config, **target).diagnostics
    return [
        (finding.rule.removesuffix("-in-comment"), words(header, finding.region))
        for finding in found
        if finding.rule.endswith("-in-comment")
    ]


def words(text, region):
    return text.split("\n")[region.line - 1][region.column - 1 : region.end_column - 1]


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("Llama on 8 GPUs", [("wrong-gpus", "8 GPUs")]),
        ("Llama, 4 nodes x 8 GPUs", [("wrong-gpus", "4 nodes x 8 GPUs")]),
        ("Title\n\nglobal batch: 512", [("wrong-batch", "global batch: 512")]),
        ("Title\n\n2M tokens/step", [("wrong-tokens", "2M tokens/step")]),
        (
            "Title\n\n8 x 4 x 16 = 512 seqs = 2M tokens/step",
            [("wrong-batch", "512 seqs"), ("wrong-tokens", "2M tokens/step")],
        ),
        ("Title, selective AC", [("wrong-ac", "selective AC")]),
        ("Title\n\nActivation checkpointing is OFF here", None),
        ("Llama in bf16 on 16 H100s", [("wrong-precision", "bf16")]),
        ("Llama (6.74B params)", [("wrong-size", "6.74B params")]),
        ("Llama, TP=2", [("wrong-value", "TP=2")]),
        ("Llama, FSDP=8, DP=8", None),
        ("Llama (seq_len = 8192)", [("wrong-value", "seq_len = 8192")]),
        ("Llama, 80 layers, 64 heads", None),
        ("Title\n\nCheckpoint every 500 steps", None),
        ("This config runs 500 steps.", [("wrong-value", "500 steps")]),
    ],
)
def test_contradictions(lint, comment, found):
    fired = said(lint, comment)
    assert fired if found is None else fired == found


@pytest.mark.parametrize(
    "comment",
    [
        "Llama 7B on 16 GPUs (2 nodes x 8), FP8, full AC, 32 layers, FSDP=16, DP=16",
        "Title\n\n8 x 2 x 16 = 256 seqs = 1M tokens/step, 1.05M tokens per step",
        "Title\n\n~1M tokens/step, 1,048,576 tokens/step, 1024K tokens/step",
        "Title\n\nUse 32 GPUs for a global batch of 512.",
        "Title\n\nOn 32 GPUs: global batch 512.",
        "Title\n\nglobal batch 512 vs 256 here",
        "Title\n\nglobal batch 512 instead of 256",
        "Title\n\nglobal batch 512 if memory allows",
        "Title\n\nwas: global batch 512",
        "Title\n\nSee 7b_32gpu.toml: global batch 512",
        "Title\n\nAlternatives:\n- global batch 512\n- global batch 1024",
        "Title\n\nTested:\n\n- global batch 512",
        "Title\n\nglobal batch 256, global batch 512",
        "Title\n\nMemory: 60 GB (no AC), 30 GB (full AC)",
        "Title\n\n- full AC required (selective AC OOMs)\n- (no AC) if it fits",
        "bf16 twin of the FP8 run",
        "Llama in bf16 + FP8 GEMMs",
        "Llama 7B. Later on 64 GPUs",
        "Title\n\nLater\n\nTP=2, 80 layers",
        "batch_size = 4",
        "Title\n\n# batch_size = 4",
        "Title\n\nbatch_size = 4",
        "Title (num_workers = 2)" + "\nnum_tokens = 196, feature_dim=768",
        "Title (interval = 500, steps = 20, nosuchkey = 3)",
        "Llama (8.03B params), ~8B total params",
        "fp8tune: ignore[wrong-batch-in-comment] until=2999-01-01 -- no",
        "",
    ],
)
def test_silent(lint, comment):
    if "num_workers" in comment:  # the one key that the title gets wrong
        assert said(lint, comment) == [("wrong-value", "num_workers = 2")]
    else:
        assert said(lint, comment) == []


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        (TITLE + "global batch 512", [("wrong-batch", "global batch 512")]),
        (TITLE + "global batch 256", []),
        ("Llama 7B\n\nglobal batch 512", []),
        ("Llama 7B on 4-16 GPUs\n\nglobal batch 512", []),
        ("Llama 7B on 16 GPUs, 32 GPUs\n\nglobal batch 512", []),
        ("fp8tune: world-size=16\n\nLlama\n\nglobal batch 512", None),
        ("fp8tune: world-size=16\n\nLlama on 16 GPUs", []),
        ("fp8tune: world-size=8\n\nLlama on 16 GPUs", [("wrong-gpus", "16 GPUs")]),
    ],
)
def test_the_number_of_gpus_is_the_file_s_own(lint, comment, found):
    fired = said(lint, comment, FREE)
    assert fired if found is None else fired == found
    assert said(lint, comment, FREE, world_size=64) == fired


def test_a_free_degree_must_still_be_possible(lint):
    config = FREE + "[optimizer]\nlr = 1e-4\n"
    tp = config.replace("[distributed]", "[distributed]\npp = 3")
    assert said(lint, "Llama on 16 GPUs", config) == []
    assert said(lint, "Llama on 16 GPUs", tp) == [("wrong-gpus", "16 GPUs")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_message_spans_and_edit(lint, newline):
    text = f"# T\u00e9st \u4e2d\n#\n# global batch = 512\n{CONFIG}".replace(
        "\n", newline
    )
    (found,) = (d for d in lint(text).diagnostics if d.rule.startswith("wrong"))
    assert found.message == (
        "the comment says `global batch = 512`, "
        "but a step takes 8 x 2 x 16 = 256 sequences"
    )
    assert [(x.key, x.region) for x in found.labels] == [
        ("train.batch_size", (3, 3, 3, 21)),
        ("train.batch_size", (13, 14, 13, 15)),
        ("train.grad_accum_steps", (15, 20, 15, 21)),
        ("distributed.dp_shard", (22, 12, 22, 14)),
    ]


def test_the_message_says_whose_gpus(lint):
    text = f"# Llama on 16 GPUs\n#\n# global batch 512\n{FREE}"
    (found,) = (d for d in lint(text).diagnostics if d.rule.startswith("wrong"))
    assert found.message.endswith("= 256 sequences on the 16 GPUs of line 1")


def test_the_edit_makes_the_number_right(kempnerforge):
    from fp8tune.lint.claims.contradiction import contradictions
    from fp8tune.lint.directive import read_directive
    from fp8tune.toml.document import parse
    from fp8tune.toml.edit import apply

    text = f"# T\n#\n# ~2.1M tokens/step, 512 seqs/step, effective batch 512\n{CONFIG}"

    def faults(text):
        document = parse(text.encode())
        loaded = kempnerforge.load(document.values)
        directive = read_directive(text)
        return list(contradictions(document, kempnerforge, loaded, directive))

    edits = [edit for fault in faults(text) for edit in fault.edits]
    mended = apply(text, edits)
    assert (
        mended.split("\n")[2]
        == "# ~1.0M tokens/step, 256 seqs/step, effective batch 256"
    )
    assert faults(mended) == []


@pytest.mark.parametrize(
    ("comment", "fires"),
    [("500 steps", True), ("50 steps", False), ("was 500 steps", False)],
)
def test_beside_a_key(lint, comment, fires):
    config = CONFIG.replace("max_steps = 50", f"max_steps = 50  # {comment}")
    rules = [d.rule for d in lint(config).diagnostics]
    assert ("wrong-value-in-comment" in rules) == fires


@pytest.mark.parametrize(
    ("key", "fires"),
    [("interval = 100", True), ("interval = 25", False), ("keep_last_n = 1", False)],
)
def test_no_checkpoint(lint, key, fires):
    config = CONFIG.replace("interval = 25", f"{key}  # no checkpoint in this run")
    rules = [d.rule for d in lint(config).diagnostics]
    assert ("no-checkpoint-in-comment" in rules) == fires


VLM = """\
[vision_encoder]
type = "random"
[vlm]
arch = "cross_attention"
[data]
hf_dataset_name = "coco"
tokenizer_path = "gpt2"
"""


@pytest.mark.parametrize(
    ("size", "fires"), [("9.45B", True), ("9.99B", False), ("12.3B", False)]
)
def test_of_a_vlm_only_the_least_is_known(lint, size, fires):
    config = CONFIG.replace('"fp8"', '"bf16"') + VLM
    assert bool(said(lint, f"Title\n\n{size} total params", config)) == fires


@pytest.mark.parametrize(
    ("aside", "fires"),
    [
        ("encoder frozen", True),
        ("vision encoder frozen", True),
        ("adapter frozen", True),
        ("teacher frozen", False),
        ("encoder not frozen", False),
    ],
)
def test_a_frozen_part_is_no_other_subject(lint, aside, fires):
    config = CONFIG.replace('"fp8"', '"bf16"') + VLM
    comment = f"Title\n\nmodel: 9.45B total, 9.36B trainable ({aside})"
    assert said(lint, comment, config) == [("wrong-size", "9.45B total")] * fires


def test_tokens_of_a_vlm_may_mean_either(lint):
    config = CONFIG.replace('"fp8"', '"bf16"') + VLM
    assert said(lint, "Title\n\n2M tokens/step", config) == []


@pytest.mark.parametrize(
    "config",
    [
        "[train]\nbatch_size = 0\n[model]\ndim = 'x'\n[distributed]\ndp_shard = 2.5\n",
        "train = 5\nmodel = []\n[distributed]\ntp = 0\ndp_shard = 0\n",
        "[model]\nn_layers = 0\n[checkpoint]\ninterval = 0\n",
        "",
    ],
)
def test_broken_configs_are_no_reason_to_fail(lint, config):
    comment = "16 GPUs, 256 seqs/step, 2M tokens/step, 7.1B params, TP=4, no AC, bf16"
    lint(f"# {comment}\n# Checkpoint every 5 steps\n{config}")


def test_nothing_is_read_where_no_such_rule_is_selected(builtin):
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from fp8tune.job import Target\n"
        "from fp8tune.lint.engine import Rules, check\n"
        "from fp8tune.lint.builtin import read_builtin\n"
        "rules = [r for r in read_builtin() if sys.argv[1] in r.name]\n"
        "text = sys.argv[2].encode()\n"
        "check('a.toml', text, Rules(rules, {}), Target(), only='kempnerforge')\n"
        "print('fp8tune.lint.claims' in sys.modules)\n"
    )

    def read(rules, text):
        command = [sys.executable, "-c", code, rules, text]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout

    config = "[train]\nseq_len = 16\n"
    assert read("comment", f"# 8 GPUs\n{config}") == "True\n"
    assert read("comment", f"# words\n{config}") == "False\n"
    assert read("tensor-parallel", f"# 8 GPUs\n{config}") == "False\n"


@pytest.mark.parametrize(
    "comment",
    [
        "global batch 512\n" * 20_000,
        "global batch 512 " * 20_000,
        "Label:\n\n" * 20_000 + "global batch 512\n" * 200,
        "8 GPUs, no AC, in bf16\n" * 20_000,
        "x\n\n" * 50_000 + "512 seqs/step",
    ],
)
def test_a_mebibyte_of_comments_comes_back(lint, comment):
    text = "".join(f"# {line}\n" for line in comment.split("\n"))[: 1 << 19]
    found = lint(f"{text.rstrip()}\n{CONFIG}").diagnostics
    assert len(found) <= 200


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_strings_over_several_lines_are_no_comments(lint, quotes):
    text = f"[data]\nfile_pattern = {quotes}\n# global batch 512\n{quotes}\n{CONFIG}"
    assert [d.rule for d in lint(text).diagnostics if "comment" in d.rule] == []


@pytest.mark.parametrize(
    "comment",
    [
        "32 seqs per step on each GPU.",
        "One rank: 32 seqs/step",
        "Rank 0: 32 sequences per step",
        "each GPU sees 131k tokens per step",
        "per GPU 131k tokens per step",
        "6.98B params (non-embedding)",
        "embeddings: 1.05B params",
        "Model: 8B params, of which embeddings: 0.53B params",
        "MLP: 5.6B params",
        "each GPU holds 0.5B params",
        "Distilled from a teacher with 80 layers, 64 heads.",
        "Vision tower: SigLIP so400m, 27 layers, 16 heads",
        "13B: dim=5120, n_layers=40",
        "Llama-2: vocab_size=32000",
        "padded from vocab_size=128000",
        "(tokenizer vocab_size = 128000, padded)",
        "as in GPT-3 (batch_size=512)",
        "following MosaicML, warmup_steps=100",
        "Recipe of torchtitan: seq_len = 8192, lr = 3e-4.",
        "Known bad: batch_size=16",
        "OK on H200 with batch_size=16",
        "H200: batch_size=16",
        "~45 GB/GPU at batch_size = 4",
        "the full run has max_steps=100000",
        "Pretrained with max_seq_len = 2048, extended here",
        "LLaMA: 4M tokens per step",
        "the 7B reference run used 4M tokens per step",
        "critical batch: 2048 sequences per step",
        "Peak memory 16 GB on the CPU side",
        "peak memory: 20 GB for weights and optimizer",
        "with AC off: 105 GB",
        "AC off: 105 GB",
        "next: AC = selective",
        "AC is off in eval",
    ],
)
def test_other_subjects(lint, comment):
    """What is not surely of this run, and of all of it, is passed over."""
    assert said(lint, f"{TITLE}{comment}") == []
    assert said(lint, f"{TITLE}Words of its own.\n{comment}") == []


@pytest.mark.parametrize(
    "title",
    [
        "VLM 7B with SigLIP2 so400m: vision tower of 27 layers, 16 heads",
        "Run with 64 GPUs: dp_shard = 64 gives 4 sequences",
        "Student of a teacher with 80 layers",
    ],
)
def test_titles_on_something_else(lint, title):
    assert said(lint, title) == []


def test_a_comment_beside_a_key_on_something_else(lint):
    config = CONFIG.replace('"full"', '"full"  # AC is off in eval')
    assert said(lint, TITLE.rstrip(), config) == []
