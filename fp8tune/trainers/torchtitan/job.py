"""A torchtitan config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its parameters
name what it reads (``model_name`` is the key ``model.name``). A parameter with a
default is a key that some releases do not have.

Source: torchtitan 0.1.0, 0.2.0, 0.2.1 and 0.2.2, the files named in brackets.
"""

from __future__ import annotations

import math
from typing import Any

from fp8tune.job import Unknown, Words, known, ranks_left
from fp8tune.suggest import closest
from fp8tune.trainers.torchtitan import models
from fp8tune.trainers.torchtitan.releases import LENIENT, UNTIL_0_2_0, UNTIL_0_2_1

EXPERT_MODELS = ("llama4", "deepseek_v3", "gpt_oss")
"""Models that FSDP wraps if experts are parallel, without shards of their own."""


LLAMA_3_TOKENS = 128256
"""Words of Llama 3's tokenizer (https://huggingface.co/meta-llama/Llama-3.1-8B)."""

LLAMA_3_PATHS = ("llama-3", "original/tokenizer.model")
"""Parts of its path: the repository's name, and where torchtitan's README puts it."""


def sizes(trainer_version: str, model_name: str, model_flavor: str) -> dict[str, Any]:
    """Sizes of the model; unknown for models of one's own and of other kinds."""
    flavors = models.flavors(trainer_version, model_name)
    return known("model.flavor" if flavors else "model.name", flavors.get(model_flavor))


def plain_model(model_name: str) -> bool:
    """True for decoders whose code was read; unknown for experiments and others."""
    return known("model.name", True if model_name in models.DECODERS else None)


def policy_meant(parallelism_fsdp_reshard_after_forward: Any) -> str:
    """The policy of resharding with the most similar name."""
    policy = parallelism_fsdp_reshard_after_forward
    policies = ("default", "always", "never")
    near = closest(policy, policies) if isinstance(policy, str) else ""
    return Words(known("policy_meant", near or None))


def can_pipeline(trainer_version: str, model_name: str) -> bool:
    """Whether the model can be split into pipeline stages (train.py)."""
    return known("model.name", models.names(trainer_version).get(model_name))


def vocab_size(sizes: dict[str, Any], model_tokenizer_path: Any = None) -> int:
    """Rows of the embedding; in 0.1.0 those of the tokenizer.

    A tokenizer of Llama 3 is known by its path, as the download script names it.
    """
    path = str(model_tokenizer_path).lower()
    if "vocab" not in sizes and any(part in path for part in LLAMA_3_PATHS):
        return LLAMA_3_TOKENS
    return int(known("vocab_size", sizes.get("vocab")))


def dense_ffn_layers(sizes: dict[str, Any]) -> int:
    """Blocks with a dense FFN."""
    return int(sizes.get("dense", sizes["layers"]))


def step_warmup_peak(
    warmup_steps: int, max_steps: int, lr_scheduler_total_steps: int | None = None
) -> float:
    """Highest share of the peak learning rate that the warmup reaches, at most 1.

    The warmup is cut to the steps of the schedule, and its step n, from 1, has n parts
    of it (components/lr_scheduler.py).
    """
    longest = (
        max_steps if lr_scheduler_total_steps is None else lr_scheduler_total_steps
    )
    warmup = min(warmup_steps, longest)
    return min(1.0, max_steps / warmup) if warmup else 1.0


def attention_kind(sizes: dict[str, Any]) -> str:
    """How attention is computed: sdpa, or flex or varlen with a mask."""
    return Words(sizes.get("attention", "sdpa"))


def ep(experts: int, parallelism_expert_parallel_degree: int = 1) -> int:
    """Expert-parallel degree, which dense models ignore."""
    return parallelism_expert_parallel_degree if experts else 1


def expert_degree(parallelism_expert_parallel_degree: int = 1) -> int:
    """Expert-parallel degree as it is written: the mesh has it in any model."""
    return parallelism_expert_parallel_degree


def expert_tensor_degree(parallelism_expert_tensor_parallel_degree: int = 1) -> int:
    """Tensor-parallel degree of the experts."""
    return parallelism_expert_tensor_parallel_degree


def other_ranks(dp_replicate: int, tp: int, pp: int, cp: int) -> int:
    """Product of all degrees but that of the shards."""
    return math.prod((dp_replicate, tp, pp, cp))


def dp_shard(
    parallelism_data_parallel_shard_degree: int,
    other_ranks: int,
    world_size: int | None = None,
) -> int:
    """FSDP shards, with -1 resolved (distributed/parallel_dims.py)."""
    if parallelism_data_parallel_shard_degree > 0:
        return parallelism_data_parallel_shard_degree
    return ranks_left(world_size, other_ranks)


def declared_gpus(parallelism_data_parallel_shard_degree: int, other_ranks: int) -> int:
    """Number of GPUs that the degrees multiply to, with which alone it starts."""
    if parallelism_data_parallel_shard_degree < 1:
        raise Unknown("world_size")
    return parallelism_data_parallel_shard_degree * other_ranks


def sharded(shards: int, model_name: str, expert_degree: int) -> bool:
    """Whether FSDP wraps the model; three models also with EP alone (parallelize)."""
    return shards > 1 or (model_name in EXPERT_MODELS and expert_degree > 1)


def expert_mesh_fits(
    trainer_version: str,
    expert_degree: int,
    expert_tensor_degree: int,
    shards: int,
    cp: int,
    tp: int,
) -> bool:
    """Whether the experts' degrees divide the ranks that they borrow.

    Until 0.2.0 all CP ranks, and with etp 1 all TP ranks, must be among them. Since
    then the product must divide, even where no expert is parallel (parallel_dims.py).
    """
    ep, etp = expert_degree, expert_tensor_degree
    if ep > 1 and etp not in (1, tp):
        return False
    if trainer_version != "0.2.0":
        return shards * tp % (etp * ep) == 0
    own = cp if etp == tp else cp * tp
    all_ranks = shards if etp == tp else shards * tp
    return ep == 1 or (ep % own == 0 and all_ranks % ep == 0)


def cp_refused(
    trainer_version: str, model_name: str, cp: int, attention_kind: str
) -> bool:
    """Whether the model refuses CP with its kind of attention (update_from_config)."""
    if cp == 1 or attention_kind == "sdpa":
        return False
    splits_flex = model_name == "llama3" and trainer_version not in UNTIL_0_2_1
    return not (splits_flex and attention_kind == "flex")


def ddp_refused(
    trainer_version: str,
    model_name: str,
    dp_replicate: int,
    sharded: bool,
    tp: int,
    pp: int,
    expert_degree: int,
) -> bool:
    """Whether replicas without shards meet another degree, where the model checks.

    Since 0.2.1 only the Llama models do: the others ask a mesh that has one dimension.
    """
    if dp_replicate == 1 or sharded:
        return False
    if trainer_version in UNTIL_0_2_0:
        return tp * pp * expert_degree > 1
    return model_name in ("llama3", "llama4") and tp * pp > 1


def grad_accum(training_global_batch_size: int, micro_batch: int, dp_ranks: int) -> int:
    """Micro-batches per optimizer step (train.py)."""
    if training_global_batch_size < 0:
        return 1
    steps, rest = divmod(training_global_batch_size, micro_batch * dp_ranks)
    if rest or not steps:
        raise Unknown("grad_accum.rest")
    return steps


def compile(  # noqa: A001
    compile_enable: bool = False,
    compile_components: Any = ("model", "loss"),
    training_compile: bool = False,
) -> bool:
    """Whether the transformer blocks are compiled: one key in 0.1.0."""
    return bool(training_compile or (compile_enable and "model" in compile_components))


def loss_compiled(
    compile_enable: bool = False,
    compile_components: Any = ("model", "loss"),
    training_compile: bool = False,
) -> bool:
    """Whether the loss is compiled (components/loss.py)."""
    return bool(training_compile or (compile_enable and "loss" in compile_components))


def ac(
    activation_checkpoint_mode: str, activation_checkpoint_selective_ac_option: Any
) -> str:
    """AC mode in one word: ``op`` and ``every-2`` are kinds of selective.

    ``every-n`` recomputes each n-th block, so ``every-1`` is full AC.
    """
    if activation_checkpoint_mode != "selective":
        return Words(activation_checkpoint_mode)
    option = activation_checkpoint_selective_ac_option
    if option == "op":
        return Words("op")
    return Words("full" if int(option) < 2 else f"every-{int(option)}")


def ac_modes() -> tuple[str, ...]:
    """AC modes that wrap some module, including none."""
    return ("none", "op", "full")


def optimizer(optimizer_name: str) -> str:
    """The optimizer: adamw or adam (components/optimizer.py)."""
    return Words(str(optimizer_name).lower())


def betas(optimizer_beta1: float, optimizer_beta2: float) -> tuple[float, float]:
    """Decay factors of Adam's moments."""
    return (optimizer_beta1, optimizer_beta2)


def fused(optimizer_implementation: str) -> bool:
    """Whether AdamW uses the fused kernel."""
    return optimizer_implementation == "fused"


def not_modelled(
    tp: int,
    dp_replicate: int,
    sharded: bool,
    parallelism_enable_async_tensor_parallel: bool,
    parallelism_fsdp_reshard_after_forward: str,
) -> tuple[str, ...]:
    """What the predicted speed leaves out, with what is published of it."""
    never = parallelism_fsdp_reshard_after_forward == "never"
    said = (
        (
            tp > 1 and parallelism_enable_async_tensor_parallel,
            "async tensor parallelism; with TP of 8 published runs of 8B and 70B were "
            "1.09 to 1.16 times as fast with it, and 1.04 to 1.06 times with rowwise",
        ),
        (
            dp_replicate > 1 and not sharded,
            "DDP; its all-reduce is counted as FSDP's collectives, which move as much",
        ),
        (sharded and never, "weights that stay gathered after the forward pass"),
    )
    return tuple(text for holds, text in said if holds)


def tokenizer_file(
    trainer_version: str,
    model_hf_assets_path: Any = None,
    model_tokenizer_path: Any = None,
) -> str:
    """The file of a tokenizer where a folder is needed, as it is since 0.2.0.

    ``tokenizer_path`` replaces ``hf_assets_path`` (config/manager.py).
    """
    path = str(model_tokenizer_path or model_hf_assets_path or "")
    is_file = path.endswith("tokenizer.model") and trainer_version != LENIENT
    return Words(path if is_file else "")
