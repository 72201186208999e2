"""Shards, bytes per parameter and tokens of one rank."""

import pytest

from fp8tune.job import Unknown
from tests.each import each

BASE = "[model]\nn_kv_heads = 32\n[train]\nseq_len = 2048\n"
FULL = 'activation_checkpointing = "full"\n'


def found(job, names, sections="", world_size=8):
    known = {}
    values = job(BASE + sections, world_size=world_size)
    for name in names:
        try:
            known[name] = values[name]
        except Unknown:
            known[name] = None
    return known


BYTES = (
    "weight_bytes",
    "optimizer_bytes",
    "gradient_bytes",
    "kept_gradient_bytes",
    "accumulated_gradient_bytes",
    "unsharded_gradient_bytes",
    "init_bytes",
    "reduce_bytes",
)
VLM = "[vision_encoder]\nnum_tokens = 16\n[vlm]\n"


@each(
    ("sections", "world_size", "values"),
    [
        ("", 8, (2, 4, 2, 0, 0, 0, 2, 4)),
        ("grad_accum_steps = 2\n", 8, (2, 4, 2, 0, 0, 4, 2, 4)),
        ("grad_accum_steps = 2\n", 1, (2, 4, 2, 0, 0, 2, 2, 0)),
        ("grad_accum_steps = 2\n" + VLM, 8, (2, 4, 2, 0, 2, 0, 0, 4)),
        ("[distributed]\ntp = 2\n", 8, (2, 4, 2, 0, 0, 0, 0, 4)),
        ("[distributed]\npp = 2\n", 8, (2, 4, 2, 0, 0, 4, 2, 0)),
        ("[optimizer]\nname = 'lion'\n", 8, (2, 2, 2, 0, 0, 0, 2, 4)),
        ("[optimizer]\nname = 'muon'\n", 8, (2, 2, 2, 2, 0, 0, 2, 4)),
        ("[optimizer]\nname = 'schedule_free_adamw'\n", 8, (2, 6, 2, 0, 0, 0, 2, 4)),
        ("[optimizer]\nfused = false\n", 8, (2, 4, 2, 0, 0, 0, 2, 4)),
        ("[optimizer]\nname = 'sgd'\n", 8, (2, None, 2, 0, 0, 0, 2, 4)),
        ("mixed_precision = 'fp8'\n", 8, (2, 4, 2, 0, 0, 0, 2, 4)),
        ("mixed_precision = 'fp16'\n", 8, (2, 4, 2, 0, 0, 0, 2, 4)),
        ("mixed_precision = 'fp32'\n", 8, (4, 8, 4, 0, 0, 0, 4, 4)),
        (
            "mixed_precision = 'fp32'\ngrad_accum_steps = 2\n",
            8,
            (4, 8, 4, 0, 0, 4, 4, 4),
        ),
    ],
)
def test_bytes_per_parameter(job, sections, world_size, values):
    expected = dict(zip(BYTES, values, strict=True))
    assert found(job, BYTES, sections, world_size) == expected


MESH = (
    "sharded",
    "shards",
    "sequence_parallel",
    "head_shards",
    "stage_layers",
    "in_flight",
)


@pytest.mark.parametrize(
    ("sections", "world_size", "values"),
    [
        ("", 8, (True, 8, False, 1, 32, 1)),
        ("", 1, (False, 1, False, 1, 32, 1)),
        ("[distributed]\ntp = 4\n", 8, (True, 2, True, 4, 32, 1)),
    ],
)
def test_mesh(job, sections, world_size, values):
    expected = dict(zip(MESH, values, strict=True))
    assert found(job, MESH, sections, world_size) == expected


@pytest.mark.parametrize(
    ("degrees", "shards"),
    [
        ("dp_replicate = 8\ndp_shard = 1", 8),
        ("dp_replicate = 2\ndp_shard = 4", None),
        ("cp = 2", None),
    ],
)
def test_shards(job, degrees, shards):
    assert found(job, ["shards"], f"[distributed]\n{degrees}\n") == {"shards": shards}


@pytest.mark.parametrize("model", ["tie_embeddings = true", "num_experts = 4"])
def test_models_whose_norms_and_head_tp_leaves_whole(job, model):
    text = BASE.replace("[model]\n", f"[model]\n{model}\n")
    config = job(text + "[distributed]\ntp = 4\n", world_size=8)
    assert (config["sequence_parallel"], config["head_shards"]) == (False, 1)


@pytest.mark.parametrize(
    ("schedule", "accum", "flying"),
    [("1f1b", 8, 4), ("1f1b", 4, 4), ("gpipe", 8, 8)],
)
def test_micro_batches_of_the_first_stage(job, schedule, accum, flying):
    sections = f"grad_accum_steps = {accum}\n[distributed]\npp = 4\n"
    sections += f"pp_schedule = '{schedule}'\n"
    names = ("in_flight", "stage_layers", "head_tokens")
    expected = dict(zip(names, (flying, 8, 0), strict=True))
    assert found(job, names, sections) == expected


@pytest.mark.parametrize(
    ("sections", "block", "head"),
    [
        ("", 16384, 16384),
        (VLM, 8 * 528, 8 * 512),
        (VLM + "arch = 'cross_attention'\n", 8 * 512, 8 * 512),
        (VLM + "[video]\nmax_frames = 2\n", None, None),
        ("[data]\npack_sequences = true\n", None, None),
    ],
)
def test_tokens(job, sections, block, head):
    names = ("block_tokens", "head_tokens")
    assert found(job, names, sections) == {"block_tokens": block, "head_tokens": head}


def test_the_math_kernel_was_not_measured(job):
    text = BASE.replace("[model]\n", '[model]\nsdpa_backend = "math"\n')
    with pytest.raises(Unknown):
        job(text)["block_tokens"]


@pytest.mark.parametrize(
    ("arch", "copies", "cross"),
    [("joint_decoder", 1, 0), ("cross_attention", 1, 8), ("mot", 2, 0)],
)
def test_vlm_blocks(job, arch, copies, cross):
    names = ("block_copies", "cross_blocks")
    sections = f"{VLM}arch = '{arch}'\n"
    expected = {"block_copies": copies, "cross_blocks": cross}
    assert found(job, names, sections) == expected


def test_moma_is_not_covered(job):
    with pytest.raises(Unknown):
        job(f"{BASE}{VLM}arch = 'moma'\n")["block_copies"]


def test_cross_attention_and_adapter_count(job):
    text = f"{BASE}{VLM}arch = 'cross_attention'\n".replace(
        "num_tokens = 16", "num_tokens = 16\nfeature_dim = 1024"
    )
    adapter = 1024 * 4096 + 4096 * 4096
    block = 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096
    assert job(text)["extra_parameters"] == adapter + 8 * block


FAMILIES = {
    "dense": "activation_checkpointing = 'full'\n",
    "kept compiled": "",
    "kept eager": "compile_model = false\n",
    "pipeline": "activation_checkpointing = 'full'\n[distributed]\npp = 2\n",
    "pipeline, kept compiled": "[distributed]\npp = 2\n",
    "VLM": "activation_checkpointing = 'full'\n" + VLM,
}


@each("family", FAMILIES)
def test_family(job, family):
    assert found(job, ["estimate_family"], FAMILIES[family]) == {
        "estimate_family": family
    }


def test_families_by_size(job):
    full = f"{BASE}activation_checkpointing = 'full'\n"
    assert job(full, world_size=1)["estimate_family"] == "one GPU"
    assert job(BASE, world_size=1)["estimate_family"] == "one GPU, kept compiled"
    moe = full.replace("[model]\n", "[model]\nnum_experts = 4\n")
    assert job(moe, world_size=8)["estimate_family"] == "mixture of experts"
    eager = moe.replace("activation_checkpointing = 'full'", "compile_model = false")
    found = job(eager, world_size=8)["estimate_family"]
    assert found == "mixture of experts, kept eager"


@pytest.mark.parametrize(
    ("sections", "world_size", "bytes_"),
    [
        ("", 1, 0),
        ("", 8, 6),
        ("activation_checkpointing = 'full'\n", 8, 9),
        ("grad_accum_steps = 2\n", 8, 5),
        ("grad_accum_steps = 2\n[distributed]\npp = 2\n", 8, 2),
    ],
)
def test_gathered_bytes(job, sections, world_size, bytes_):
    assert found(job, ["gathered_bytes"], sections, world_size) == {
        "gathered_bytes": bytes_
    }


@pytest.mark.parametrize(
    ("packed", "train", "ep", "stacked"),
    [
        ("false", "", 1, 4),
        ("false", "", 2, 2),
        ("true", "", 1, 0),
        ("false", FULL, 1, 0),
    ],
)
def test_experts_that_are_not_packed_are_kept_whole(job, packed, train, ep, stacked):
    keys = f"num_experts = 4\nmoe_packed_experts = {packed}\n"
    text = BASE.replace("[model]\n", f"[model]\n{keys}")
    text = text.replace("[train]\n", f"[train]\n{train}")
    job = job(f"{text}[distributed]\nep = {ep}\n", world_size=8)
    one = 3 * job["hidden_size"] * job["expert_size"]
    assert job["stacked_bytes"] == 2 * job["moe_layers"] * stacked * one


@pytest.mark.parametrize(
    ("experts", "ep", "gpus", "padding"),
    [(8, 1, 8, 0), (8, 1, 6, 4), (8, 1, 64, 56), (8, 2, 16, 4), (16, 1, 8, 0)],
)
def test_fsdp_pads_packed_experts(job, experts, ep, gpus, padding):
    keys = f"num_experts = {experts}\nmoe_packed_experts = true\n"
    text = BASE.replace("[model]\n", f"[model]\n{keys}")
    job = job(f"{text}[distributed]\nep = {ep}\n", world_size=gpus)
    one = 3 * job["hidden_size"] * job["expert_size"]
    assert job["expert_padding"] == padding * one


@pytest.mark.parametrize(
    ("encoder", "freeze"),
    [
        ('type = "siglip2"', ""),
        ("", 'freeze = [{ module = "transformer" }]'),
        ("", 'freeze = [{ module = "vision_encoder" }, { module = "adapter" }]'),
    ],
)
def test_encoders_and_frozen_parts_are_not_covered(job, encoder, freeze):
    vlm = f"[vision_encoder]\nnum_tokens = 16\n{encoder}\n[vlm]\n{freeze}\n"
    assert found(job, ["extra_parameters"], vlm) == {"extra_parameters": None}


@pytest.mark.parametrize(
    "freeze", ["", "freeze = []", 'freeze = [{ module = "adapter", frozen = false }]']
)
def test_the_random_encoder_is_covered(job, freeze):
    vlm = f"[vision_encoder]\nnum_tokens = 16\n[vlm]\n{freeze}\n"
    assert job(BASE + vlm)["extra_parameters"] == 4096 * 4096


@each(
    ("gpus", "layout", "sharded"),
    [
        (1, "", False),
        (8, "", True),
        (2, "pp = 2", False),
        (4, "pp = 2", True),
        (2, "tp = 2", True),
        (8, "pp = 4\ntp = 2", True),
    ],
)
def test_a_pipeline_over_all_gpus_is_not_sharded(job, gpus, layout, sharded):
    """Its mesh has no data-parallel dimension (parallel.py, apply_fsdp2)."""
    sections = f"grad_accum_steps = 4\n[distributed]\n{layout}\n"
    names = ("sharded", "gathered_bytes", "unsharded_gradient_bytes")
    values = found(job, names, sections, gpus)
    assert values["sharded"] == sharded
    if not sharded:
        assert values["gathered_bytes"] == 0
        assert values["unsharded_gradient_bytes"] == 2
