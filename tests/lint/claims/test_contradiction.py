"""Comments that contradict the file, and the many that must stay silent."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.engine import check
from tests.each import each
from tests.lint.claims.said import CONFIG, FREE, TITLE, said


@each(
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


@each(
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


@each(
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
    assert said(lint, comment, FREE, world_size=16) == fired
    if not comment.startswith(TITLE):
        assert said(lint, comment, FREE, world_size=64) == fired


def test_no_title_counts_where_the_run_has_other_gpus(lint):
    for comment in (TITLE + "global batch 512", "Llama on 16 GPUs, FSDP=8"):
        assert said(lint, comment, FREE) != []
        assert said(lint, comment, FREE, world_size=64) == []


PROJECT = Target(world_size=16, world_size_origin="pyproject.toml")


@each(
    ("comment", "config", "found"),
    [
        ("Llama on 16 GPUs", FREE, []),
        ("Llama on 64 GPUs, FSDP=8", FREE, ["pyproject.toml says `world-size = 16`"]),
        ("Llama, tested on up to 64 GPUs", FREE, []),
        ("fp8tune: world-size=64\n\nLlama on 64 GPUs", FREE, []),
        (
            "Llama on 64 GPUs",
            FREE.replace("[distributed]", "[distributed]\ntp = 3"),
            ["the file says tp 3 = 3 GPUs, which does not divide it"],
        ),
        (
            "Llama on 64 GPUs",
            FREE.replace("[distributed]", "[distributed]\ndp_shard = 64"),
            [],
        ),
    ],
)
def test_a_title_against_the_project(rules, comment, config, found):
    text = "".join(f"# {line}\n" for line in comment.split("\n")) + config
    report = check("a.toml", text.encode(), rules, PROJECT, only="kempnerforge")
    wrong = [d.message for d in report.diagnostics if d.rule.startswith("wrong")]
    assert wrong == [f"the title says `64 GPUs`, but {words}" for words in found]


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
        "but a step has 8 x 2 x 16 = 256 sequences"
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
    from fp8tune.formats.edits import apply
    from fp8tune.formats.toml.document import parse
    from fp8tune.lint.claims.contradiction import contradictions
    from fp8tune.lint.directive import read_directive

    text = f"# T\n#\n# ~2.1M tokens/step, 512 seqs/step, effective batch 512\n{CONFIG}"

    def faults(text):
        document = parse(text.encode())
        loaded = kempnerforge.load(document.values)
        directive = read_directive(text)
        return list(contradictions(document, kempnerforge, loaded, directive, Target()))

    edits = [edit for fault in faults(text) for edit in fault.edits]
    fixed = apply(text, edits)
    assert (
        fixed.split("\n")[2]
        == "# ~1.0M tokens/step, 256 seqs/step, effective batch 256"
    )
    assert faults(fixed) == []


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
tokenizer_path = "/data/tokenizer"
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
