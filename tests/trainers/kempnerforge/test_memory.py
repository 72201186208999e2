"""Shards, bytes per parameter and tokens of one rank."""

import pytest

from tests.each import each

BASE = "[model]\nn_kv_heads = 32\n[train]\nseq_len = 2048\n"
FULL = 'activation_checkpointing = "full"\n'


def found(job, names, sections="", world_size=8):
    values = job(BASE + sections, world_size=world_size)
    return {name: values.find(name) for name in names}


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
        ("[optimizer]\nname = 'muon'\n", 8, (2, 2, 2, 2, 0, 0, 2, 4)),
        ("[optimizer]\nname = 'schedule_free_adamw'\n", 8, (2, 6, 2, 0, 0, 0, 2, 4)),
        ("[optimizer]\nname = 'sgd'\n", 8, (2, None, 2, 0, 0, 0, 2, 4)),
        ("mixed_precision = 'fp32'\n", 8, (4, 8, 4, 0, 0, 0, 4, 4)),
    ],
)
def test_bytes_per_parameter(job, sections, world_size, values):
    expected = dict(zip(BYTES, values, strict=True))
    assert found(job, BYTES, sections, world_size) == expected


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


def test_cross_attention_and_adapter_count(job):
    text = f"{BASE}{VLM}arch = 'cross_attention'\n".replace(
        "num_tokens = 16", "num_tokens = 16\nfeature_dim = 1024"
    )
    adapter = 1024 * 4096 + 4096 * 4096
    block = 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096
    assert job(text)["extra_parameters"] == adapter + 8 * block


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
