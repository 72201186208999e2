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
    "an odd vocabulary is fine in bf16": run(
        'mixed_precision = "bf16"', "", "[model]\nvocab_size = 50257\n"
    ),
    "debug models train eagerly": run(
        "max_steps = 20\ncompile_model = false",
        rest="[model]\ndim = 256\nn_layers = 4\nn_heads = 4\nn_kv_heads = 4\n",
    ),
    "experts train eagerly": run(
        "compile_model = false", "", "[model]\nnum_experts = 8\n"
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
    "experts with tensor parallelism": run(
        "compile_model = false",
        "",
        "[model]\nnum_experts = 8\nn_kv_heads = 8\n[distributed]\ntp = 4\n" + TRAINED,
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
