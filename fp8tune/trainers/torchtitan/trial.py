"""What a trial needs to know of a torchtitan config in addition to its job.

Source: torchtitan 0.1.0, 0.2.0, 0.2.1 and 0.2.2, the files named in brackets; those of
a model are models/llama3 and models/qwen3.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Job, Words
from fp8tune.trainers.phase import first_rates
from fp8tune.trainers.torchtitan.gemms import ALIGNMENT, NAMES
from fp8tune.trainers.torchtitan.releases import (
    LENIENT,
    UNTIL_0_2_0,
    UNTIL_0_2_1,
)

BUILT = ("llama3", "qwen3")
"""Models whose dense blocks a trial builds."""


def qk_norm_eps(norm_eps: float) -> float:
    """Epsilon of the query and key norms (model.py)."""
    return norm_eps


def init() -> str:
    """How weights begin (model.py, init_weights)."""
    return "llama"


def init_std() -> float:
    """Deviation of the linears in blocks, before it is scaled by depth (model.py)."""
    return 0.02


def torch_norms() -> bool:
    """Norms are torch's (model.py)."""
    return True


def rotary(model_name: str) -> str:
    """Llama rotates pairs as complex numbers, Qwen halves (apply_rotary_emb)."""
    return Words("halves" if model_name == "qwen3" else "pairs")


def repeats_kv(trainer_version: str) -> bool:
    """Keys and values are copied per query head until 0.2.1 (model.py, repeat_kv)."""
    return trainer_version in UNTIL_0_2_1


def sdpa_backend(trainer_version: str) -> str:
    """Attention kernels in the order of preference (models/attention.py).

    0.1.0 puts cuDNN first only on Blackwell.
    """
    if trainer_version == LENIENT:
        return Words("flash, efficient, math")
    middle = "efficient, " * (trainer_version in UNTIL_0_2_1)
    return Words(f"cudnn, flash, {middle}math")


def ac_saves(trainer_version: str) -> list[str]:
    """Attention kernels whose results per-op AC keeps (the parallelize module).

    Until 0.2.0 it computes attention again where cuDNN or math does it.
    """
    first = ["efficient", "flash"]
    return first if trainer_version in UNTIL_0_2_0 else [*first, "cudnn", "math"]


def ac_budget(activation_checkpoint_memory_budget: float = 1.0) -> float:
    """Share of activations that a compiled block may keep."""
    return activation_checkpoint_memory_budget


def ac_keeps_rng(activation_checkpoint_preserve_rng_state: bool = False) -> bool:
    """Whether AC keeps the state of the random numbers: a key since 0.2.1."""
    return activation_checkpoint_preserve_rng_state


def ac_stops_early(activation_checkpoint_early_stop: bool = True) -> bool:
    """Whether AC repeats a block only as far as needed: a key since 0.2.0."""
    return activation_checkpoint_early_stop


def compiles_blocks() -> bool:
    """Each block is compiled by itself (apply_compile)."""
    return True


def rounds_as_eager(fp8_recipe: str) -> bool:
    """Rowwise scaling sets emulate_precision_casts (components/quantization)."""
    return fp8_recipe == "rowwise"


def fp8_scales_at_once(fp8_all_gather: bool, precompute_asked: bool) -> bool:
    """Whether one all-reduce after each step gets the scales of all weights."""
    return fp8_all_gather and precompute_asked


def fp8_auto_filter(auto_filter: bool) -> bool:
    """Whether torchao chooses which small linears stay in bf16."""
    return auto_filter


def bf16_linears(
    linear_names: tuple[str, ...],
    fp8_skips: list[str],
    hidden_size: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn_size: int,
    vocab_size: int,
) -> list[str]:
    """Linears that stay in bf16, by the trial's names: filtered, or no multiple of 16.

    (components/quantization/utils.py, module_filter_fn)
    """
    queries, pairs = heads * head_dim, kv_heads * head_dim
    widths = {"wq": queries, "wk": pairs, "wv": pairs, "wo": queries}
    widths |= {"w1": ffn_size, "w2": ffn_size, "w3": ffn_size, "output": vocab_size}
    ours = {theirs: name for name, theirs in NAMES.items()}
    found = []
    for name in linear_names:
        odd = hidden_size % ALIGNMENT or widths[name.rpartition(".")[2]] % ALIGNMENT
        if odd or any(text in name for text in fp8_skips):
            found.append(_in_trial(name, ours))
    return found


def _in_trial(name: str, ours: dict[str, str]) -> str:
    """``layers.0.feed_forward.w1`` as ``layers.0.mlp.gate_proj``."""
    if name == "output":
        return "output_head"
    _, number, part, linear = name.split(".")
    module = "mlp" if part == "feed_forward" else part
    return f"layers.{number}.{module}.{ours[f'{part}.{linear}']}"


def tables_apart(trainer_version: str) -> bool:
    """FSDP gathers embedding, and norm with head, by themselves (apply_fsdp)."""
    return trainer_version != LENIENT


def reshards(parallelism_fsdp_reshard_after_forward: str) -> str:
    """Which weights FSDP frees after the forward pass: by default all but the last."""
    words = {"default": "but-last"}
    given = parallelism_fsdp_reshard_after_forward
    return Words(words.get(given, given))


def loss() -> str:
    """Cross-entropy of logits that are cast to fp32 (components/loss.py)."""
    return Words("fp32_cross_entropy")


def loss_chunk() -> int:
    """The loss is not chunked."""
    return 0


def balance_weight() -> float:
    """Dense models have no loss that balances experts."""
    return 0.0


def decays_norms() -> bool:
    """Weight decay applies to all parameters (components/optimizer.py)."""
    return True


def learning_rates(job: Job, max_steps: int) -> list[float]:
    """Learning rates of a trial's steps (components/lr_scheduler.py)."""
    from fp8tune.trainers.torchtitan import phases

    return first_rates(phases.learning_rates(job.given), max_steps)


def trial_refusal(
    model_name: str,
    moe_layers: int,
    attention_kind: str,
    tied_embeddings: bool,
    pp: int,
    cp: int,
    dp_replicate: int,
    optimizer: str,
    other_steps: str,
    tp: int,
    float8_linears: bool,
    qk_norm: bool,
    parallelism_enable_async_tensor_parallel: bool,
) -> str:
    """Why the built-in trial would differ from this run; ``""`` if it would not."""
    if model_name not in BUILT:
        return f"the model {model_name}: only {' and '.join(BUILT)} are built"
    if moe_layers:
        return "a mixture of experts as torchtitan computes it"
    if attention_kind != "sdpa":
        return f"{attention_kind} attention: its mask is not built"
    if tied_embeddings:
        return "tied embeddings, which FSDP shards apart"
    degrees = {"pipeline": pp, "context": cp}
    for name, degree in degrees.items():
        if degree > 1:
            return f"{name} parallelism of {degree}: it is not built"
    if dp_replicate > 1:
        return f"{dp_replicate} replicas: their reduction is not built"
    if optimizer != "adamw":
        return f"the optimizer {optimizer}: only adamw is built"
    not_split = {
        "FP8": float8_linears,
        "norms of queries and keys": qk_norm,
        "overlapped communication": parallelism_enable_async_tensor_parallel,
    }
    odd = [name for name, used in not_split.items() if used and tp > 1]
    with_tp = f"{odd[0]} with tensor parallelism of {tp}" if odd else ""
    return other_steps or with_tp


def gathers_once() -> bool:
    """Attention and FFN gather their input, not each of their linears (apply_tp)."""
    return True


def splits_embedding() -> bool:
    """TP splits the embedding by words (apply_tp)."""
    return True


def loss_parallel(parallelism_disable_loss_parallel: bool) -> bool:
    """The loss works on parts of the logits (apply_tp, get_train_context)."""
    return not parallelism_disable_loss_parallel


def averages_losses() -> bool:
    """The logged loss is the mean over data-parallel ranks (train.py, train_step)."""
    return True


def other_steps(
    emulated: bool,
    optimizer_implementation: str,
    optimizer_early_step_in_backward: bool,
    training_enable_cpu_offload: bool,
    deterministic: bool,
    fault_tolerance_enable: bool,
    compile_backend: str = "inductor",
    activation_checkpoint_per_op_sac_force_recompute_mm_shapes_by_fqns: Any = (),
) -> str:
    """What the config asks of a step that a trial does not do; ``""`` if nothing."""
    forced = activation_checkpoint_per_op_sac_force_recompute_mm_shapes_by_fqns
    asked = {
        "emulated FP8": emulated,
        "the for-loop optimizer": optimizer_implementation == "for-loop",
        "optimizer steps in the backward pass": optimizer_early_step_in_backward,
        "weights in host memory": training_enable_cpu_offload,
        "deterministic kernels": deterministic,
        "fault tolerance": fault_tolerance_enable,
        f"the compiler {compile_backend}": compile_backend != "inductor",
        "products that AC must repeat": set(forced) - {"moe.router.gate"},
    }
    return next((name for name, used in asked.items() if used), "")


def deterministic(
    training_deterministic: bool = False, debug_deterministic: bool = False
) -> bool:
    """Whether only deterministic kernels run: another table since 0.2.1."""
    return training_deterministic or debug_deterministic
