"""A KempnerForge config as a job."""

import pytest

from tests.each import each


def values(job, *names, text="", **target):
    found = job(text, **target)
    return {name: found.find(name) for name in names}


DEFAULTS = {
    "precision": "bf16",
    "micro_batch": 8,
    "seq_len": 2048,
    "grad_accum": 1,
    "max_steps": 100000,
    "warmup_steps": 2000,
    "ac": "none",
    "compile": True,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 32,
    "head_dim": 128,
    "ffn_size": 11008,
    "ffn_matrices": 3,
    "dense_ffn_layers": 32,
    "moe_layers": 0,
    "experts": 0,
    "tp": 1,
    "dp_shard": None,
    "fp8_recipe": "",
    "fp8_all_gather": False,
    "fp8_converts_head": False,
    "fp8_tokens": (16384,),
    "ac_attention_only": False,
    "vlm_arch_name": "",
    "gpu": None,
    "world_size": None,
}


def test_defaults(job):
    assert values(job, *DEFAULTS) == DEFAULTS


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("ffn_dim_multiplier = 1.3", 14336),
        ("dim = 8192\nffn_dim_multiplier = 1.3", 28416),
        ("dim = 512", 1536),
    ],
)
def test_ffn_size(job, text, size):
    assert job(f"[model]\n{text}\n")["ffn_size"] == size


@each(
    ("text", "dense", "moe"),
    [
        ("[model]\nn_layers = 7\nnum_experts = 8", 0, 7),
        ("[model]\nn_layers = 7\nnum_experts = 8\nmoe_frequency = 2", 4, 3),
        ("[model]\nn_layers = 7\nnum_experts = -1", 7, 0),
        ("[model]\nn_layers = 7\n[vlm]\narch = 'moma'", 0, 7),
    ],
)
def test_layers(job, text, dense, moe):
    assert values(job, "dense_ffn_layers", "moe_layers", text=text) == {
        "dense_ffn_layers": dense,
        "moe_layers": moe,
    }


@each(
    ("text", "world_size", "shards"),
    [
        ("dp_shard = 4", 0, 4),
        ("tp = 4", 16, 4),
        ("tp = 2\npp = 2\ncp = 2\nep = 1\ndp_replicate = 2", 32, 2),
        ("tp = 3", 16, None),
    ],
)
def test_dp_shard(job, text, world_size, shards):
    found = values(
        job, "dp_shard", text=f"[distributed]\n{text}\n", world_size=world_size
    )
    assert found == {"dp_shard": shards}


VLM = "[train]\nbatch_size = 2\n[vision_encoder]\nnum_tokens = 196\n"


@each(
    ("text", "tokens", "positions"),
    [
        ("[vlm]\nmax_text_len = 100", (592, 200), 296),
        ("[vlm]\narch = 'mot'\nmax_text_len = 100", (392, 200), 296),
        ("[vlm]\narch = 'cross_attention'\nmax_text_len = 100", (392, 200), 100),
        ("[vlm]\nmax_text_len = 100\n[adapter]\ntype = 'avgpool'", (298, 200), 149),
        (
            "[vlm]\nmax_text_len = 100\n[adapter]\ntype = 'attentional_pool'",
            (298, 200),
            149,
        ),
    ],
)
def test_vlm_tokens(job, text, tokens, positions):
    found = values(job, "fp8_tokens", "vlm_positions", "seq_len", text=f"{VLM}{text}\n")
    assert found == {
        "fp8_tokens": tokens,
        "vlm_positions": positions,
        "seq_len": positions,
    }


@each(
    "text",
    [
        "[vision_encoder]\nnum_tokens = 0\n[vlm]\n",
        "[vlm]\n",
        "[vision_encoder]\nnum_tokens = 197\n[adapter]\ntype = 'avgpool'\n[vlm]\n",
        "[vision_encoder]\nnum_tokens = 196\n[vlm]\narch = 'zzz'\n",
    ],
)
def test_vlm_tokens_that_nobody_knows(job, text):
    assert values(job, "fp8_tokens", "vlm_positions", text=text) == {
        "fp8_tokens": None,
        "vlm_positions": None,
    }


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("[model]\ndim = 0\n", ["hidden_size", "head_dim", "ffn_size"]),
        ("[model]\nn_heads = 0\n", ["heads", "head_dim"]),
        ("[train]\nseq_len = []\n", ["seq_len", "fp8_tokens"]),
        ("train = 5\n", ["precision", "micro_batch", "compile", "fp8_recipe"]),
        ("optimizer = true\n", ["optimizer", "learning_rate"]),
    ],
)
def test_a_faulty_value_is_unknown(job, text, unknown):
    assert values(job, *unknown, text=text) == dict.fromkeys(unknown)


@pytest.mark.parametrize(
    ("name", "written", "key"),
    [
        ("kv_heads", "", "model.n_kv_heads"),
        ("head_dim", "[model]\nn_heads = 8", "model.n_heads"),
        ("head_dim", "[model]\nn_heads = 8\ndim = 64", "model.dim"),
        ("fp8.unaligned_tokens", "[train]\nseq_len = 5", "train.seq_len"),
        ("gpu.title", "", "gpu.title"),
    ],
)
def test_key(job, name, written, key):
    assert job(written).key(name) == key
