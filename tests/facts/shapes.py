"""Configs of many shapes, for properties that all must have, and of a Llama-3 8B."""

from hypothesis import strategies as st

from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer
from tests.sample import DEFAULT_8B

LLAMA_8B = (
    DEFAULT_8B
    + """\
[train]
batch_size = {batch}
seq_len = 4096
grad_accum_steps = {accum}
activation_checkpointing = "{ac}"
"""
)
ANY = st.fixed_dictionaries(
    {
        "dim": st.sampled_from([1024, 2048, 4096, 8192]),
        "layers": st.sampled_from([4, 16, 32, 80]),
        "kv_heads": st.sampled_from([4, 8]),
        "vocab": st.sampled_from([2048, 32000, 128256]),
        "tied": st.sampled_from([False, False, True]),
        "activation": st.sampled_from(["silu", "silu", "gelu"]),
        "experts": st.sampled_from([0, 0, 0, 8, 64]),
        "every": st.sampled_from([1, 1, 2]),
        "packed": st.booleans(),
        "batch": st.sampled_from([1, 2, 4, 8, 32]),
        "seq": st.sampled_from([16, 1024, 4096, 16384]),
        "accum": st.sampled_from([1, 2, 4]),
        "ac": st.sampled_from(["none", "selective", "full"]),
        "compiled": st.booleans(),
        "loss": st.sampled_from(["cross_entropy", "chunked_cross_entropy"]),
        "optimizer": st.sampled_from(["adamw", "muon", "lion", "schedule_free_adamw"]),
        "fused": st.booleans(),
        "tp": st.sampled_from([1, 1, 4]),
        "pp": st.sampled_from([1, 1, 1, 2]),
        "ep": st.sampled_from([1, 4]),
        "shards": st.sampled_from([1, 2, 4, 16, 64]),
        "replicas": st.sampled_from([1, 1, 1, 2]),
        "gpu": st.sampled_from(
            ["", "h100", "h200", "a10g", "a100-40gb", "b200", "h800", "mi300x"]
        ),
    }
)
"""Degrees that a shape has no use for are taken as 1 (``degrees``)."""


def degrees(shape):
    """Tensor, pipeline and expert parallelism, replicas and FSDP shards."""
    ep = shape["ep"] if shape["experts"] else 1
    pp = 1 if shape["experts"] or shape["tied"] else shape["pp"]
    alone = shape["shards"] == 1
    replicas = shape["replicas"] if alone and pp == 1 else 1
    return {
        "tp": shape["tp"],
        "pp": pp,
        "ep": ep,
        "dp_replicate": replicas,
        "dp_shard": shape["shards"],
    }


def gpus(shape):
    """How many GPUs the shape is for."""
    found = 1
    for degree in degrees(shape).values():
        found *= degree
    return found


def built(shape):
    known = trainer("kempnerforge")
    values = {
        "model": {
            "dim": shape["dim"],
            "n_layers": shape["layers"],
            "n_heads": shape["dim"] // 128,
            "n_kv_heads": shape["kv_heads"],
            "vocab_size": shape["vocab"],
            "tie_embeddings": shape["tied"],
            "activation": shape["activation"],
            "num_experts": shape["experts"],
            "moe_frequency": shape["every"],
            "moe_packed_experts": shape["packed"],
        },
        "train": {
            "batch_size": shape["batch"],
            "seq_len": shape["seq"],
            "grad_accum_steps": max(shape["accum"], degrees(shape)["pp"]),
            "compile_model": shape["compiled"],
            "activation_checkpointing": shape["ac"],
            "mixed_precision": shape.get("precision", "bf16"),
            "loss_fn": shape["loss"],
        },
        "optimizer": {"name": shape["optimizer"], "fused": shape["fused"]},
        "distributed": degrees(shape) | {"dp_shard": -1},
    }
    target = Target(shape["gpu"], shape.get("world_size") or gpus(shape))
    return known.job(known.load(values), target)


INSTANTS = (
    "gather",
    "forward",
    "loss",
    "regather",
    "backward",
    "backward_end",
    "experts",
    "embedding",
    "reduce",
    "optimizer",
)
"""Instants of a step, as the facts ``memory.*_gib`` name them."""
