"""A KempnerForge config as a job: what its keys mean beyond their values.

Every public function is a field of the job or a fact of this trainer; its
parameters name what it reads (``model_dim`` is the key ``model.dim``). A
parameter that is unknown makes the result unknown.

Source: KempnerForge at commit 5666d0d, the files named in brackets.
"""

from __future__ import annotations

import math

from fp8tune.job import Job, Unknown, Words, known, ranks_left


def is_run(job: Job) -> bool:
    """Whether the file describes a run: it has a section besides [model], or GPUs.

    A file with only [model] is a fragment that is read together with a run.
    """
    origins = (job.target.gpu_origin, job.target.world_size_origin)
    here = any(origin.startswith("the comment") for origin in origins)
    return here or any(key.partition(".")[0] != "model" for key in job.written)


def seq_len(vlm: bool, train_seq_len: int, vlm_positions: int | None = None) -> int:
    """Tokens of the residual stream per sequence [tokens] (scripts/train.py)."""
    return known("vlm_positions", vlm_positions) if vlm else train_seq_len


def head_dim(hidden_size: int, heads: int) -> int:
    """Size of one attention head (config/model.py)."""
    return hidden_size // heads


def ffn_size(
    model_ffn_hidden_dim: int | None, model_dim: int, model_ffn_dim_multiplier: float
) -> int:
    """FFN size of a dense block (config/model.py, computed_ffn_hidden_dim)."""
    if model_ffn_hidden_dim is not None:
        return model_ffn_hidden_dim
    scaled = int(4 * model_dim * (2 / 3) * model_ffn_dim_multiplier)
    return 256 * math.ceil(scaled / 256)


def ffn_matrices(model_activation: str) -> int:
    """Linears of one FFN: 3 with SwiGLU, else 2 (model/mlp.py)."""
    return 3 if model_activation == "silu" else 2


def dense_ffn_layers(
    layers: int, experts: int, model_moe_frequency: int, vlm_arch_name: str
) -> int:
    """Blocks with a dense FFN. Block i is MoE if (i + 1) % frequency == 0."""
    if vlm_arch_name == "moma":
        return 0
    return layers - layers // model_moe_frequency if experts > 0 else layers


def moe_layers(layers: int, dense_ffn_layers: int) -> int:
    """Blocks with a mixture of experts as their FFN."""
    return layers - dense_ffn_layers


def experts_break_compile(moe_layers: int) -> bool:
    """Whether the model has MoE blocks, at which torch.compile breaks its graph."""
    return moe_layers > 0


def dp_shard(
    distributed_dp_shard: int,
    dp_replicate: int,
    tp: int,
    pp: int,
    cp: int,
    ep: int,
    world_size: int | None = None,
) -> int:
    """FSDP shards, with -1 resolved (config/distributed.py)."""
    if distributed_dp_shard > 0:
        return distributed_dp_shard
    return ranks_left(world_size, dp_replicate, tp, pp, cp, ep)


def declared_gpus(
    distributed_dp_shard: int, dp_replicate: int, tp: int, pp: int, cp: int, ep: int
) -> int:
    """Number of GPUs that the degrees multiply to, with which alone it starts."""
    if distributed_dp_shard < 1:
        raise Unknown("world_size")
    return math.prod((distributed_dp_shard, dp_replicate, tp, pp, cp, ep))


def fp8_recipe(precision: str) -> str:
    """The torchao recipe: always tensorwise (distributed/parallel.py)."""
    return "tensorwise" if precision == "fp8" else ""


def fp8_filter_key() -> str:
    """The key that keeps linears in bf16: there is none."""
    return ""


def not_modelled() -> tuple[str, ...]:
    """What the predicted speed leaves out, in words."""
    return ()


def fp8_all_gather(precision: str) -> bool:
    """Whether FSDP2 gathers weights in FP8: always (distributed/parallel.py)."""
    return precision == "fp8"


def fp8_scales_precomputed() -> bool:
    """Whether one all-reduce gets the scales of all weights: never.

    The trainer does not call ``precompute_float8_dynamic_scale_for_fsdp``, so each
    gathered weight all-reduces its own largest value (distributed/parallel.py).
    """
    return False


def reduces_each_micro_batch() -> bool:
    """Gradients are reduced after the last micro-batch alone (scripts/train.py)."""
    return False


def fp8_tp_refused(tp: int) -> bool:
    """Whether it refuses FP8 with tensor parallelism: with any (parallel.py)."""
    return tp > 1


def fp8_converts_head(precision: str) -> bool:
    """Whether the output head becomes a Float8Linear: always (parallel.py)."""
    return precision == "fp8"


def ac_modes(vlm_arch_name: str) -> tuple[str, ...]:
    """AC modes that wrap some module, including none.

    Full AC wraps the standard block, selective AC the standard attention. MoT has
    neither, and MoMa has no standard block (distributed/parallel.py, apply_ac).
    """
    found = {"mot": ("none",), "moma": ("none", "selective")}
    return found.get(vlm_arch_name, ("none", "selective", "full"))


def ac_usable(
    ac_modes: tuple[str, ...],
    moe_layers: int,
    experts: int,
    model_moe_router: str,
    model_moe_top_k: int,
) -> tuple[str, ...]:
    """AC modes of ``ac_modes`` with which the backward pass works.

    The sigmoid router changes its bias in each forward pass, so the forward pass that
    full AC repeats routes differently (model/router.py, SigmoidTopKRouter.forward).
    """
    moves = model_moe_router == "sigmoid_topk" and model_moe_top_k < experts
    return tuple(m for m in ac_modes if not (m == "full" and moe_layers and moves))


def ac_applied(ac: str, ac_modes: tuple[str, ...]) -> str:
    """AC mode that is applied: none if it wraps no module."""
    return Words(ac if ac in ac_modes else "none")


def ac_attention_only(ac_applied: str) -> bool:
    """Whether AC wraps only the attention module (distributed/parallel.py)."""
    return ac_applied == "selective"


def fp8_tokens(
    micro_batch: int,
    vlm_arch_name: str,
    train_seq_len: int,
    vlm_max_text_len: int | None = None,
    vlm_visual_tokens: int | None = None,
) -> tuple[int, ...]:
    """M of the Float8Linears on one rank, one value per token stream [tokens].

    Text runs have one stream. VLM architectures process image and text together or
    separately, and the head gets only text (model/vlm.py).
    """
    if not vlm_arch_name:
        return (micro_batch * train_seq_len,)
    text = micro_batch * known("vlm.max_text_len", vlm_max_text_len)
    image = micro_batch * known("vlm_visual_tokens", vlm_visual_tokens)
    joint = vlm_arch_name in ("joint_decoder", "moma")
    return (image + text, text) if joint else (image, text)


def vlm_arch_name(vlm: bool, vlm_arch: str | None = None) -> str:
    """The VLM architecture, ``""`` for a text run (config/vlm.py)."""
    return Words(known("vlm.arch", vlm_arch)) if vlm else ""


def vlm_grid(vision_encoder_num_tokens: int, adapter_type: str) -> int:
    """Side of the patch grid that a pooling adapter gets [tokens]; 0 if none.

    -1 if the number of tokens is not a square, which the adapter rejects
    (model/adapter.py, _grid_side). At least 1 while the encoder's number is unknown.
    """
    if vision_encoder_num_tokens <= 0:
        raise Unknown("vision_encoder.num_tokens", 1)
    if adapter_type not in ("avgpool", "attentional_pool"):
        return 0
    side = math.isqrt(vision_encoder_num_tokens)
    return side if side * side == vision_encoder_num_tokens else -1


def vlm_frames(video: bool, video_max_frames: int | None = None) -> int:
    """Frames per sample: video.max_frames, else 1 (config/job.py)."""
    return known("video.max_frames", video_max_frames) if video else 1


def vlm_visual_tokens(
    vision_encoder_num_tokens: int,
    vlm_grid: int,
    adapter_pool_window: int,
    vlm_frames: int,
) -> int:
    """Image tokens per sample after the adapter, all frames [tokens].

    Unknown with ``num_tokens = 0``, because then the encoder decides (config/job.py,
    model/adapter.py pooled_token_count).
    """
    if vlm_grid < 0:
        raise Unknown("vlm_grid")
    if not vlm_grid:
        return vlm_frames * vision_encoder_num_tokens
    side = -(-vlm_grid // adapter_pool_window)
    return vlm_frames * side * side


def vlm_image_positions(vlm_arch_name: str, vlm_visual_tokens: int) -> int:
    """Image tokens in the sequence, none with cross attention (config/vlm.py)."""
    return 0 if vlm_arch_name == "cross_attention" else vlm_visual_tokens


def vlm_positions(vlm_image_positions: int, vlm_max_text_len: int) -> int:
    """Tokens of the residual stream of a VLM sample [tokens] (config/job.py)."""
    return vlm_image_positions + vlm_max_text_len


def expert_size(ffn_size: int, model_moe_expert_ffn_multiplier: float) -> int:
    """FFN size of one expert (config/model.py, computed_expert_ffn_hidden_dim)."""
    return max(16, 16 * round(int(ffn_size * model_moe_expert_ffn_multiplier) / 16))


def shared_experts(model_moe_shared_experts: int) -> int:
    """Shared experts: one, whatever number above 0 is set (model/moe.py, build_moe)."""
    return 1 if model_moe_shared_experts > 0 else 0


def decoder_parameters(
    params_decoder: int,
    layers: int,
    hidden_size: int,
    params_ffn: int,
    vlm_arch_name: str,
    vlm_cross_attention_every_n_layers: int | None = None,
) -> int:
    """Parameters of the language model, cross-attention blocks included.

    Those blocks count with their smallest size, one key/value head
    (model/transformer.py).
    """
    if vlm_arch_name in ("mot", "moma"):
        raise Unknown("decoder_parameters")
    every = vlm_cross_attention_every_n_layers or layers + 1
    return params_decoder + layers // every * (2 * hidden_size**2 + params_ffn)


def parameters(vlm: bool, params_decoder: int) -> int:
    """Parameters of a text model. Unknown for a VLM, because its encoder is unknown."""
    return known("parameters", None if vlm else params_decoder)
