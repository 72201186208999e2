"""Parts of a rank's memory."""

import pytest

from fp8tune.facts.memory import held
from tests.each import each

GIB = 2**30


@pytest.mark.parametrize(("shards", "gib"), [(1, 64.0), (16, 4.0)])
def test_state(shards, gib):
    assert held.state_gib(8 * GIB, 2, 4, 2, shards, 0.5) == gib + 0.5


@pytest.mark.parametrize(
    ("capability", "mib"),
    [(0.0, 0), (8.0, 16.25), (9.0, 64), (9.4, 256), (10.0, 16.25)],
)
def test_cublas_has_a_workspace_forward_and_backward(capability, mib):
    assert held.workspaces_gib(capability) == mib / 1024


@pytest.mark.parametrize(
    ("whole", "sharded", "gib"), [(4, 0, 32.0), (0, 2, 1.0), (0, 0, 0.0)]
)
def test_gradients(whole, sharded, gib):
    assert held.gradients_gib(8 * GIB, whole, sharded, 16) == gib


def test_reduced_gradients():
    assert held.reduced_gradients_gib(8 * GIB, 2, 2, True, 16) == 1.0


def test_without_fsdp_gradients_are_added_to_kept_ones():
    assert held.reduced_gradients_gib(8 * GIB, 2, 0.5, False, 1) == 12.0


@pytest.mark.parametrize(
    ("tokens", "layers", "per_token", "cross", "gib"),
    [(GIB, 1, 1, 0, 1.0), (32768, 32, 118784, 0, 116.0), (GIB, 2, 1, 5, 7.0)],
)
def test_activations(tokens, layers, per_token, cross, gib):
    assert held.activations_gib(tokens, layers, per_token, cross, 0.5) == gib + 0.5


@pytest.mark.parametrize(
    ("stages", "flying", "accum", "each", "gib"),
    [
        (1, 1, 8, 2, 0.0),
        (2, 2, 4, 2, 10.0 + 6 * 2),
        (4, 4, 4, 2, 30.0 + 8 * 2),
        (2, 2, 4, 4, 10.0 + 6 * 4),
    ],
)
def test_queued(stages, flying, accum, each, gib):
    found = held.queued_gib(10.0, flying, stages, accum, 2**20, 2**10, each)
    assert found == gib


@each(
    ("part", "arguments", "gib"),
    [
        (held.head_gib, (GIB, 3), 3.0),
        (held.logits_gib, (32768, 128256, 8), 31.3125),
        (held.held_logits_gib, (32768, 32768, 2), 2.0),
        (held.recompute_gib, (GIB, 3, GIB), 3.0),
        (held.recompute_gib, (GIB, 3, GIB, [(5, -4), (-9, 4)]), 3.0 + 5.0 - 4.0),
        (held.recompute_gib, (GIB, 3, GIB, [(2, -4)]), 3.0),
        (held.routers_gib, (GIB, 3, 2), 6.0),
        (held.routers_gib, (GIB, 0, 2), 0.0),
        (held.spare_gib, (GIB, 3), 3.0),
        (held.gathered_gib, (1, 2 * GIB, GIB, GIB, 9, 2), 4.0 + 2.0 + 9.0),
        (held.gathered_gib, (1, 2 * GIB, GIB, GIB, 12, 4), 8.0 + 4.0 + 12.0),
        (held.gathered_gib, (1, 2 * GIB, GIB, GIB, 0, 2), 0.0),
        (held.gathered_gib, (2, 2 * GIB, GIB, GIB, 2, 2), 2.0),
    ],
)
def test_part(part, arguments, gib):
    assert part(*arguments) == gib
