"""Configs that look wrong and are right stay silent; those that are wrong do not.

Each trap is something that the trainer's own configs do on purpose, and that a
careless rule would flag.
"""

import pytest

from tests.each import each

DATA = '[data]\nhf_dataset_name = "x/y"\ntokenizer_path = "/data/tokenizer"\n'
TOKENS = '[data]\ndataset_path = "/data/tokens"\n'


TRAINED = '[checkpoint]\nload_path = "/checkpoints/base"\n'


def vlm(rest, encoder="num_tokens = 256\nfeature_dim = 1024", arch="joint_decoder"):
    head = f'[vision_encoder]\n{encoder}\n[vlm]\narch = "{arch}"\n'
    return f"{DATA}{head}{rest}"


def run(train="", schedule="warmup_steps = 2", rest=""):
    return f"{TOKENS}[train]\n{train}\n[scheduler]\n{schedule}\n{rest}"


TRAPS = {
    "cross attention keeps the image out of the sequence": vlm(
        "[train]\nseq_len = 512\n[model]\nmax_seq_len = 512\n",
        arch="cross_attention",
    ),
    "pooled frames are fewer tokens than frames x patches": (
        f"{DATA}[vision_encoder]\nnum_tokens = 196\nfeature_dim = 768\n"
        '[adapter]\ntype = "avgpool"\npool_window = 2\n'
        "[vlm]\nmax_text_len = 64\n[video]\nmax_frames = 8\n"
        "[train]\nseq_len = 576\n[model]\nmax_seq_len = 576\n"
    ),
    "a pretrained encoder is asked for its sizes": vlm(
        "max_text_len = 2048\n[train]\nseq_len = 2304\n[model]\nmax_seq_len = 2304\n",
        'type = "siglip2"\npath = "google/siglip2-base-patch16-224"',
    ),
    "positions beyond the sequence are headroom": vlm(
        "[train]\nseq_len = 768\n[model]\nmax_seq_len = 1024\n"
    ),
    "positions may end with the sequence": run(
        "seq_len = 4096", "", "[model]\nmax_seq_len = 4096\n"
    ),
    "an odd vocabulary is fine in bf16": run(
        'mixed_precision = "bf16"', "", "[model]\nvocab_size = 50257\n"
    ),
    "128256 is a multiple of 16": run(
        'mixed_precision = "fp8"', "", "[model]\nvocab_size = 128256\nn_kv_heads = 8\n"
    ),
    "shards are left to the trainer": run("", "", "[distributed]\ndp_shard = -1\n"),
    "debug models train eagerly": run(
        "max_steps = 20\ncompile_model = false",
        rest="[model]\ndim = 256\nn_layers = 4\nn_heads = 4\nn_kv_heads = 4\n",
    ),
    "experts train eagerly": run(
        "compile_model = false", "", "[model]\nnum_experts = 8\n"
    ),
    "stages train eagerly": run(
        "compile_model = false\ngrad_accum_steps = 8", "", "[distributed]\npp = 2\n"
    ),
    "a name is no parameter count": (
        "# Llama-3 7B, 13B and 29B are what the family is called\n"
        + run("", "", "[model]\nn_kv_heads = 8\nffn_dim_multiplier = 1.3\n")
    ),
    "a debug run does not fuse": run(
        "max_steps = 50",
        "warmup_steps = 5",
        "[optimizer]\nlr = 3e-4\nweight_decay = 0.1\nbetas = [0.9, 0.95]\n"
        "fused = false\n",
    ),
    "z-loss goes with chunked cross-entropy": run(
        'loss_fn = "chunked_cross_entropy"\nce_chunk_size = 4096\nz_loss_weight = 1e-4',
        "",
    ),
    "a debug run is synthetic": (
        "[model]\ndim = 256\nn_layers = 4\nn_heads = 4\nn_kv_heads = 4\n"
        "[train]\nmax_steps = 100\n[scheduler]\nwarmup_steps = 10\n"
        "[data]\nnum_workers = 2\npin_memory = true\n"
    ),
    "nested tables are keys": (
        f"{TOKENS}[checkpoint.dyn_ckpt_window]\nstart = 0\nstop = 64\n"
    ),
    "experts per modality are a table": vlm(
        "[vlm.moma_experts_per_modality]\nimage = 2\ntext = 6\n"
        "[train]\ncompile_model = false\n",
        arch="moma",
    ),
    "freezing is an inline array": vlm(
        'freeze = [{ module = "vision_encoder", frozen = true }]\n'
        "freeze_schedule = [\n"
        '  { start_step = 10, specs = [{ module = "adapter" }] },\n'
        '  { start_step = 20, specs = [{ module = "adapter", frozen = false }] },\n]\n'
        "[train]\ncompile_model = false\n"
    ),
    "a mixture is an array of tables": '[[data.datasets]]\npath = "/a"\n',
    "an encoder may train": vlm("freeze = []\n"),
    "a frozen encoder is the default": vlm(""),
    "heads divide over four ranks": run(
        "", "", "[model]\nn_kv_heads = 4\n[distributed]\ntp = 4\n" + TRAINED
    ),
    "two key/value heads per rank": run(
        "", "", "[model]\nn_kv_heads = 8\n[distributed]\ntp = 4\n" + TRAINED
    ),
    "experts with tensor parallelism": run(
        "compile_model = false",
        "",
        "[model]\nnum_experts = 8\nn_kv_heads = 8\n[distributed]\ntp = 4\n" + TRAINED,
    ),
    "pinned asynchronous checkpoints": run(
        "",
        "",
        '[checkpoint]\nasync_mode = "async_with_pinned_mem"\n'
        "[distributed]\nnccl_timeout_sec = 600\n"
        "[metrics]\nlog_interval = 1\nenable_wandb = true\n",
    ),
    "no capacity means no token is dropped": run(
        "compile_model = false",
        "",
        "[model]\nnum_experts = 8\nmoe_capacity_factor = 0.0\n"
        "moe_aux_loss_weight = 0.01\n",
    ),
    "the random encoder ignores the image size": vlm(
        "[train]\nseq_len = 576\n[model]\nmax_seq_len = 576\n",
        "num_tokens = 64\nfeature_dim = 384",
    ).replace("[data]\n", "[data]\nhf_image_size = 224\n"),
}


@each("text", TRAPS.values(), ids=TRAPS)
def test_silent(fired, text):
    assert fired(text) == []


def test_muon_leaves_the_keys_of_adamw_out(fired):
    """What is wrong is in Muon itself, whatever keys there are."""
    text = run(
        "max_steps = 50",
        "warmup_steps = 10",
        '[optimizer]\nname = "muon"\nlr = 0.003\nweight_decay = 0.1\n'
        "muon_momentum = 0.95\nmuon_ns_steps = 5\n",
    )
    assert fired(text) == ["muon-gradients-add-up"]


@each("size", [14336, 17920, 21504, 28672, 7168, 768, 1536, 2816])
def test_ffn_sizes_that_fp8_takes(fired, size):
    text = f'[model]\nffn_hidden_dim = {size}\n[train]\nmixed_precision = "fp8"\n'
    assert fired(text) == []


@pytest.mark.parametrize(
    ("warmup", "steps"), [(10, 50), (5, 20), (50, 500), (3, 15), (2000, 100000)]
)
def test_short_runs_warm_up_shortly(fired, warmup, steps):
    assert fired(run(f"max_steps = {steps}", f"warmup_steps = {warmup}")) == []


def test_as_many_micro_batches_as_stages_are_slow_and_no_crash(fired):
    text = "compile_model = false\ngrad_accum_steps = 4"
    assert fired(run(text, rest="[distributed]\npp = 4\n")) == ["pipeline-bubble"]


def above_notes(report):
    return [d.rule for d in report.diagnostics if d.severity != "note"]


OF_EXPERT_PARALLELISM = ["clipping-per-expert-group", "expert-parallel-checkpoint"]
"""What is wrong in the trainer itself with any ep."""


@pytest.mark.parametrize(
    ("rest", "world_size", "warnings"),
    [
        ("[checkpoint]\ninterval = 1000\nkeep_last_n = 0\n", 0, []),
        (
            "[model]\nnum_experts = 8\n[distributed]\nep = 2\n",
            16,
            OF_EXPERT_PARALLELISM,
        ),
        (
            "[model]\nnum_experts = 8\nn_kv_heads = 8\n[distributed]\nep = 2\ntp = 4\n"
            + TRAINED,
            32,
            OF_EXPERT_PARALLELISM,
        ),
    ],
    ids=["no checkpoint before the last", "experts over ranks", "and over tp"],
)
def test_notes_at_most(lint, rest, world_size, warnings):
    text = run("max_steps = 20\ncompile_model = false", rest=rest)
    assert sorted(above_notes(lint(text, world_size=world_size))) == warnings


def test_as_many_micro_batches_as_stages_are_legal(lint):
    """Slow, but no error: 1F1B needs no more."""
    text = run(
        "compile_model = false\ngrad_accum_steps = 4", "", "[distributed]\npp = 4\n"
    )
    assert "error" not in {d.severity for d in lint(text).diagnostics}


LLAMA = (
    "n_kv_heads = 8\nvocab_size = 128256\nffn_dim_multiplier = 1.3\n"
    "max_seq_len = 4096\n"
)
LARGE = {
    "7B at batch 8 on four GPUs": (
        f"[model]\n{LLAMA}[train]\nbatch_size = 8\nseq_len = 4096\n"
        'grad_accum_steps = 4\nactivation_checkpointing = "full"\n',
        4,
    ),
    "70B over four tensor-parallel ranks": (
        f"[model]\ndim = 8192\nn_layers = 80\nn_heads = 64\n{LLAMA}"
        "[train]\nbatch_size = 2\nseq_len = 4096\ngrad_accum_steps = 4\n"
        'activation_checkpointing = "full"\n[distributed]\ntp = 4\n',
        32,
    ),
    "a VLM without checkpointing": (
        vlm(
            f"[model]\n{LLAMA}[train]\nbatch_size = 16\nseq_len = 768\n"
            "compile_model = false\n"
        ),
        4,
    ),
}


@pytest.mark.parametrize(("text", "world_size"), LARGE.values(), ids=LARGE)
def test_what_was_measured_to_fit(lint, text, world_size):
    """On the H200: 81, 93 and 101 GiB (KempnerForge, benchmarks and configs)."""
    found = lint(text, gpu="h200", world_size=world_size).diagnostics
    assert [
        d.rule for d in found if (d.category, d.severity) == ("memory", "error")
    ] == []


@each("gpu", ["h100", "h200"])
@each(("text", "world_size"), LARGE.values(), ids=LARGE)
def test_no_room_where_there_is_none(lint, text, world_size, gpu):
    """Neither less checkpointing nor larger batches nor FSDP alone would surely fit."""
    found = lint(text, gpu=gpu, world_size=world_size).diagnostics
    assert [d.rule for d in found if d.category == "slow"] == []


FOUND = {
    "warmup that the run does not finish": (
        run("max_steps = 20", "warmup_steps = 50"),
        "warmup-longer-than-run",
    ),
    "stages of tensor-parallel ranks": (
        run("grad_accum_steps = 4", "", "[distributed]\ntp = 4\npp = 2\n"),
        "pipeline-with-sharding",
    ),
    "a production model on random tokens": (
        "[model]\ndim = 2048\n[data]\nnum_workers = 4\n",
        "random-tokens",
    ),
    "full checkpointing of MoMa": (
        vlm(
            '[train]\ncompile_model = false\nactivation_checkpointing = "full"\n',
            arch="moma",
        ),
        "ac-without-effect",
    ),
    "GPT-2's vocabulary in FP8": (
        run('mixed_precision = "fp8"', "", "[model]\nvocab_size = 50257\n"),
        "fp8-vocab-size-not-16",
    ),
    "a path that nobody has": (
        '[data]\ndataset_path = "/path/to/tokenized/dataset"\n',
        "placeholder-path",
    ),
    "thirty images for 64": (
        vlm("[train]\nbatch_size = 16\n").replace("x/y", "sayakpaul/coco-30-val-2014"),
        "fewer-samples-than-a-batch",
    ),
    "experts with the default compile": (
        run("", "", "[model]\nnum_experts = 8\n"),
        "moe-with-compile",
    ),
}


@each(("text", "rule"), FOUND.values(), ids=FOUND)
def test_found(fired, text, rule):
    assert rule in fired(text, world_size=32 if "tp = 4" in text else 4)
