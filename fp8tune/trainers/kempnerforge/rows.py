"""Bytes per token of KempnerForge's experts: what they keep, and what they compute.

While routing has collapsed, as it has in a fresh model, all experts of a rank are
padded to the tokens of the busiest. Instants are those of ``grouped_expert_forward``
(model/moe.py) and, with EP, of ``ep_dispatch_and_compute``
(distributed/expert_parallel.py) at commit 5666d0d, by ``benchmarks/step_memory.py``.
"""

from __future__ import annotations

from fp8tune.job import Unknown
from fp8tune.trainers.kempnerforge.ffn import computed_values, kept_values

BF16 = 2


def expert_rows(experts: int, moe_layers: int) -> int:
    """Rows that a rank's experts compute per token when routing has collapsed.

    Every expert is padded to the longest, and a new model sends all tokens to the same
    experts. Expert parallelism divides the experts, but each rank then receives the
    tokens of all ranks.
    """
    return experts if moe_layers else 0


def busy_experts(experts: int, ep: int, model_moe_top_k: int) -> int:
    """Experts of the first rank that get tokens when routing has collapsed."""
    return min(model_moe_top_k, max(1, experts // ep))


def arriving_rows(
    expert_rows: int, busy_experts: int, ep: int, model_moe_top_k: int
) -> int:
    """Rows per token that hold tokens. With EP those of all ranks go to the first."""
    return min(expert_rows, ep * busy_experts if ep > 1 else model_moe_top_k)


def balanced_routing(
    experts: int, moe_layers: int, ep: int, model_moe_top_k: int
) -> dict[str, int]:
    """Rows, rows with tokens, and busy experts with balanced routing.

    Names and values of these three facts, to replace those of collapsed routing. Empty
    for a dense model.
    """
    if not moe_layers:
        return {}
    rows = min(experts, model_moe_top_k)
    own = max(1, experts // ep)
    return {"expert_rows": rows, "arriving_rows": rows, "busy_experts": own}


def expert_bytes(
    hidden_size: int,
    expert_size: int,
    expert_rows: int,
    shared_experts: int,
    model_activation: str,
    model_moe_top_k: int,
    compute_bytes: int,
) -> float:
    """Bytes per token that a mixture of experts keeps: padded rows, and sorted tokens.

    In fp32 the experts run one after the other, which was not measured (model/moe.py).
    0 if no row is computed.
    """
    if not expert_rows:
        return 0.0
    if compute_bytes > BF16:
        raise Unknown("expert_bytes")
    one = kept_values(expert_size, model_activation)
    chosen = BF16 * model_moe_top_k * hidden_size
    return expert_rows * (one + BF16 * hidden_size) + shared_experts * one + chosen


def expert_work(
    hidden_size: int,
    expert_size: int,
    expert_rows: int,
    arriving_rows: int,
    busy_experts: int,
    ep: int,
    ac_applied: str,
    model_activation: str,
    model_moe_top_k: int,
    packed_experts: bool,
    shared_experts: int,
    before_router_bytes: float,
) -> dict[str, float]:
    """Bytes per token of one MoE block beyond what it keeps.

    In its ``forward`` pass, and in its backward pass: ``before`` any gradient of its
    routed weights exists, ``beside`` that of the first matrix, and ``after`` all.
    Shared experts are done by then. With full AC also what is recomputed. 0 if no row
    is computed.
    """
    if not expert_rows:
        return dict.fromkeys(("forward", "before", "beside", "after"), 0.0)
    token, wide = BF16 * hidden_size, BF16 * expert_size * expert_rows
    inside, arriving = expert_rows * token, arriving_rows * token
    chosen = model_moe_top_k * token
    kept = inside + expert_rows * kept_values(expert_size, model_activation)
    # Weights of experts get a gradient from copies of the sorted rows; then the output
    # of each busy expert has one, of all rows, which is added to the others.
    summed = inside * min(2, busy_experts) + arriving * min(2, busy_experts - 1) / 2
    activated = inside + computed_values(model_activation) * wide - kept
    product = inside + wide
    stacks = 0 if packed_experts else activated
    shared = token if shared_experts else 0
    before = max(summed, 3 * chosen, stacks) + shared
    beside = max(product, activated if packed_experts else 0) + shared
    sent = max(inside + 3 * arriving, _returned(arriving, chosen))
    forward = sent if ep > 1 else inside + chosen
    if ac_applied != "full":
        return {"forward": forward, "before": before, "beside": beside, "after": 0.0}
    again = before_router_bytes
    values = computed_values(model_activation) * 2 // 3
    passed = _unkept(inside, arriving, chosen, values * wide, wide, ep)
    return {
        "forward": passed + 2 * token,
        "before": again
        + kept
        + max(before, shared + max(4 * chosen, forward + chosen)),
        "beside": again + kept + beside,
        "after": again + 2 * token,
    }


def _unkept(
    inside: float, arriving: float, chosen: float, values: float, wide: float, ep: int
) -> float:
    """The forward pass where nothing is kept: activation, product, then output."""
    arrived = chosen + 2 * arriving * (ep > 1)
    product = arrived + arriving + 2 * inside + values - wide
    output = _returned(arriving, chosen) + chosen if ep > 1 else 0
    return max(arrived + inside + values, product, output)


def _returned(arriving: float, chosen: float) -> float:
    """Copies of tokens before EP sends them back, and after."""
    return max(5 * arriving, 4 * arriving + 3 * chosen)
