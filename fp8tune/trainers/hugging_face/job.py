"""Fields of a job that transformers' Trainer runs through Accelerate (``shared``).

For dense decoders that are trained whole. A trainer says ``covered``, which raises
``Unknown`` where something is on that no estimate covers, and what ``state`` needs.
"""

from __future__ import annotations

from typing import Any

from fp8tune.job import Unknown


def dense_ffn_layers(layers: int, experts: int) -> int:
    """Blocks with a dense FFN."""
    return 0 if experts else layers


def experts_break_compile() -> bool:
    """Whether torch.compile breaks its graph at MoE blocks: not known to do so here."""
    return False


def ffn_size(sizes: dict[str, Any]) -> int:
    """Width of a dense FFN; 0 where every block has experts."""
    return int(sizes.get("ffn", 0))


def cp() -> int:
    """Context-parallel degree: none, if no key says it."""
    return 1


def ep() -> int:
    """Expert-parallel degree: none."""
    return 1


def ac_modes() -> tuple[str, ...]:
    """AC modes: whole blocks, or none."""
    return ("none", "full")


def eager(covered: bool, ac: str, compile: bool) -> bool:  # noqa: A002
    """True where blocks keep what eager ones do: with full AC compiled ones too."""
    if not covered or (compile and ac != "full"):
        raise Unknown("activation_bytes.whole")
    if ac not in ("none", "full"):
        raise Unknown("ac_applied")
    return True


def block_tokens(micro_batch: int, seq_len: int) -> int:
    """Tokens of one micro-batch on a rank, at most."""
    return micro_batch * seq_len


def fp8_tokens(block_tokens: int) -> tuple[int, ...]:
    """M of the FP8 linears on one rank [tokens]."""
    return (block_tokens,)


def fp8_tp_refused() -> bool:
    """Whether it refuses FP8 with tensor parallelism: there is none."""
    return False


def fp8_scales_precomputed() -> bool:
    """Whether one all-reduce gets all scales: no clause is needed on it."""
    return True


def speed_fp8_gain_low(
    speed_fp8_gain: float,
    speed_fp8_gather_gain: float,
    speed_engine: str,
    fsdp_checkpointing: bool = False,
) -> float:
    """Lower end of the gain's band [ratio]: as far as from runs that differ.

    The only published run of these trainers whose settings are known gained 0.12 less
    than predicted: Axolotl's example ``llama-3/3b-fp8-fsdp2.yaml``, about 1.10
    (https://docs.axolotl.ai/docs/mixed_precision.html). With FSDP's activation
    checkpointing Axolotl's authors measured no gain at all
    (https://github.com/axolotl-ai-cloud/axolotl/pull/2926).
    """
    from fp8tune.facts.steptime import engines

    further, _ = engines()[speed_engine].far_gain_band
    low = min(speed_fp8_gain - further, speed_fp8_gain / speed_fp8_gather_gain)
    return min(low, 1.0) if fsdp_checkpointing else low


def not_modelled(
    speed_fp8_gain: float | None = None, fsdp_checkpointing: bool = False
) -> tuple[str, ...]:
    """What the predicted gain leaves out, in words; nothing where none is predicted."""
    if speed_fp8_gain is None:
        return ()
    checkpointing = (
        "FSDP's activation checkpointing, with which Axolotl's authors measured no gain"
    )
    return (
        *[checkpointing] * fsdp_checkpointing,
        "these trainers' own overhead: Axolotl's documentation reports 1.10 for its "
        "Llama 3.2 3B example, for which 1.22 is predicted",
    )


def speed_tokens_per_second() -> float:
    """Tokens/s, which no published run of these trainers lets predict."""
    raise Unknown("speed.trainer")
