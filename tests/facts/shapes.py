"""Configs of many shapes, for properties that all must have."""

from hypothesis import strategies as st

from fp8tune.job import Target
from fp8tune.trainers.trainer import trainer

ANY = st.fixed_dictionaries(
    {
        "dim": st.sampled_from([1024, 2048, 4096, 8192]),
        "layers": st.sampled_from([4, 16, 32, 80]),
        "vocab": st.sampled_from([32000, 128256]),
        "experts": st.sampled_from([0, 0, 0, 8]),
        "batch": st.sampled_from([1, 2, 4, 8, 32]),
        "seq": st.sampled_from([1024, 4096, 16384]),
        "accum": st.sampled_from([1, 4]),
        "ac": st.sampled_from(["none", "selective", "full"]),
        "compiled": st.booleans(),
        "tp": st.sampled_from([1, 1, 4]),
        "world_size": st.sampled_from([1, 4, 16, 64]),
        "gpu": st.sampled_from(["h100", "h200", "a10g", "a100-40gb", "b200"]),
    }
)


def built(shape):
    known = trainer("kempnerforge")
    values = {
        "model": {
            "dim": shape["dim"],
            "n_layers": shape["layers"],
            "n_heads": shape["dim"] // 128,
            "n_kv_heads": 8,
            "vocab_size": shape["vocab"],
            "num_experts": shape["experts"],
        },
        "train": {
            "batch_size": shape["batch"],
            "seq_len": shape["seq"],
            "grad_accum_steps": shape["accum"],
            "compile_model": shape["compiled"],
            "activation_checkpointing": shape["ac"],
            "mixed_precision": shape.get("precision", "bf16"),
        },
        "distributed": {"tp": shape["tp"]},
    }
    return known.job(known.load(values), Target(shape["gpu"], shape["world_size"]))
