"""Parts of a rank's memory."""

import inspect

from fp8tune.facts.memory import held, instants
from tests.each import each

GIB = 2**30


@each(
    ("part", "arguments", "gib"),
    [
        (held.added_gradients_gib, (False, 60 * GIB, 8 * GIB, 2, 0.5), 14.0),
        (held.other_gradients_gib, (64 * GIB, 8 * GIB, 2, 4, 0, 8, 7.0), 39.0),
        (held.other_gradients_gib, (64 * GIB, 8 * GIB, 2, 0, 2, 8, 7.0), 9.0),
        (held.logits_gib, (32768, 128256, 8), 31.3125),
        (held.held_logits_gib, (32768, 32768, 2), 2.0),
        (held.recompute_gib, (GIB, 3, GIB, [(5, -4), (-9, 4)]), 3.0 + 5.0 - 4.0),
        (held.routers_gib, (GIB, 3, 2), 6.0),
        (held.gathered_gib, (1, 2 * GIB, GIB, GIB, 9, 2), 4.0 + 2.0 + 9.0),
        (held.gathered_gib, (1, 2 * GIB, GIB, GIB, 0, 2), 0.0),
        (held.gathered_gib, (2, 2 * GIB, GIB, GIB, 2, 2), 2.0),
    ],
)
def test_part(part, arguments, gib):
    assert part(*arguments) == gib


KNOWN = {
    "sharded": True,
    "pp": 1,
    "compile": True,
    "grad_accum": 1,
    "shards": 8,
    "stage_layers": 16,
    "moe_layers": 0,
    "extra_parameters": 0,
    "init_bytes": 2,
    "compute_bytes": 2,
    "gradient_bytes": 2,
    "unsharded_gradient_bytes": 0,
    "reduce_bytes": 4,
    "optimizer_temporary_bytes": 9 * GIB,
    "params_decoder": 240 * GIB,
    "params_rank": 60 * GIB,
    "params_root": 8 * GIB,
    "params_embedding": 4 * GIB,
    "params_head": 4 * GIB,
    "params_head_gradient": 4 * GIB,
    "params_tied": False,
    "params_block": 6 * GIB,
    "params_first_block": 5 * GIB,
    "params_first_group": 6 * GIB,
    "params_last_group": 7 * GIB,
    "memory_state_gib": 1000.0,
    "memory_gradients_gib": 100.0,
    "memory_late_gradients_gib": 110.0,
    "memory_other_gradients_gib": 120.0,
    "memory_reduced_gradients_gib": 130.0,
    "memory_added_gradients_gib": 7.0,
    "memory_activations_gib": 64.0,
    "memory_queued_gib": 17.0,
    "memory_recompute_gib": 29.0,
    "memory_gathered_gib": 31.0,
    "memory_routers_gib": 2.0,
    "memory_head_gib": 3.0,
    "memory_logits_gib": 23.0,
    "memory_held_logits_gib": 5.0,
    "memory_new_logits_gib": 11.0,
}
"""What instants are made of: no two sums of it are alike."""
WHOLE = {"unsharded_gradient_bytes": 4, "memory_gradients_gib": 200.0}
ALONE = {"sharded": False}
FP32 = {"compute_bytes": 4, "gradient_bytes": 4}


@each(
    ("instant", "values", "gib"),
    [
        (instants.init_gib, {}, 240 * 2),
        (instants.init_gib, {"pp": 2}, 60 * 2),
        (instants.gather_gib, {}, 1105 + 2 * 2 * (8 + 6)),
        (instants.gather_gib, {"reduce_bytes": 0}, 1105),
        (instants.forward_gib, {}, 1183 + 2 * (8 + 7)),
        (instants.forward_gib, {"reduce_bytes": 0}, 1183),
        (instants.loss_gib, {}, 1190),
        (instants.regather_gib, {}, 1177 + 2 * 2 * 8),
        (instants.regather_gib, {"reduce_bytes": 0}, 1177),
        (instants.backward_gib, {}, 1246),
        (instants.backward_gib, {"moe_layers": 1}, 0),
        (instants.late_gradients_gib, {"pp": 2}, 100 + 2 * 60),
        (instants.late_gradients_gib, {}, 130 - 2 * (8 + 2 * 5) / 8),
        (instants.late_gradients_gib, {"extra_parameters": 1}, 130),
        (instants.late_gradients_gib, {**WHOLE, "grad_accum": 2}, 200 - 4 * (4 + 6)),
        (instants.late_gradients_gib, {**WHOLE, "grad_accum": 3}, 200),
        (instants.late_gradients_gib, {**ALONE, "compile": False}, 100 + 106 - 7),
        (instants.late_gradients_gib, {**ALONE, "grad_accum": 2}, 100 + 106 - 7),
        (
            instants.late_gradients_gib,
            {**ALONE, "grad_accum": 2, "compile": False},
            100,
        ),
        (instants.backward_end_gib, {}, 1192 + 64 / 16),
        (instants.backward_end_gib, {"moe_layers": 1}, 0),
        (instants.embedding_gib, {"pp": 2}, 1007 + 110 + 2 * 4),
        (instants.embedding_gib, {}, 1007 + 2 * (4 + 4 + 8) + 120 + 4 * 6),
        (instants.embedding_gib, {"params_tied": True}, 1007 + 2 * 20 + 120 + 4 * 6),
        (instants.embedding_gib, {**WHOLE, "grad_accum": 2}, 1007 + 32 + 120 + 24),
        (instants.embedding_gib, {**WHOLE, "grad_accum": 3}, 1007 + 32 + 200),
        (instants.embedding_gib, ALONE, 1007 + 120 + 2 * (4 + 4)),
        (instants.embedding_gib, {**ALONE, "grad_accum": 2}, 1007 + 120 + 2 * (8 + 52)),
        (
            instants.embedding_gib,
            {**ALONE, "grad_accum": 2, "compile": False},
            1007 + 120 + 2 * 4,
        ),
        (
            instants.embedding_gib,
            {**ALONE, "grad_accum": 2, "compile": False, "params_tied": True},
            1007 + 120 + 2 * (4 + 4 + 4),
        ),
        (instants.reduce_gib, {"reduce_bytes": 0}, 0),
        (instants.reduce_gib, {}, 1127 + 8 * (4 + 2)),
        (instants.reduce_gib, {"shards": 2}, 1127 + 8 * (4 + 6 / 2) + 2 * 4),
        (instants.reduce_gib, {"shards": 1}, 1127 + 8 * (4 + 6)),
        (instants.reduce_gib, WHOLE, 1127 + 8 * 4),
        (instants.reduce_gib, {**FP32, "shards": 1}, 1127 + 8 * (4 + 4)),
        (instants.optimizer_gib, {}, 1146),
    ],
)
def test_instant(instant, values, gib):
    names = inspect.signature(instant).parameters
    assert instant(**{name: (KNOWN | values)[name] for name in names}) == gib
