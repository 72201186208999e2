"""What the rules say of weights and moments that are kept in bf16, shown on torch."""

import pytest

from tests.each import each

torch = pytest.importorskip("torch")

WEIGHTS = 64
EVERY_BF16 = torch.arange(128, 256, dtype=torch.float32).div(128).bfloat16()
"""All significands of bf16, in one binade."""


def train(steps, gradient, *, fused=False, lr=1e-4, decay=0.0, betas=(0.9, 0.95)):
    """AdamW on bf16 weights; the parameter and its second moment afterwards."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter((torch.randn(WEIGHTS) * 0.02).bfloat16())
    start = weight.detach().clone()
    options = {"lr": lr, "betas": betas, "weight_decay": decay, "fused": fused}
    optimizer = torch.optim.AdamW([weight], **options)
    for step in range(steps):
        weight.grad = gradient(step).bfloat16()
        optimizer.step()
    moment = optimizer.state[weight]["exp_avg_sq"].float().mean().item()
    return start, weight.detach(), moment


@each("fused", [False, True])
@each(("clip", "eps"), [(1.0, 1e-2), (1e-6, 1e-8), (1.0, 1e-4)])
def test_a_step_is_no_larger_than_clipped_gradients_over_epsilon(clip, eps, fused):
    """epsilon-above-clipped-gradients: its bound, on a million weights in fp32."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(10**6))
    options = {"lr": 1.0, "eps": eps, "weight_decay": 0.0, "fused": fused}
    optimizer = torch.optim.AdamW([weight], **options)
    for _ in range(3):
        before = weight.detach().clone()
        weight.grad = torch.randn_like(before)
        torch.nn.utils.clip_grad_norm_([weight], clip)
        optimizer.step()
        step = (weight.detach() - before).square().mean().sqrt().item()
        assert step <= 1.001 * clip / eps / 1000


def noise(step, size=1.0):
    return torch.randn(WEIGHTS) * size


def test_the_bound_of_weight_decay_is_sharp():
    """weight-decay-lost: below 2**-9 no number moves, above it some do."""
    below, above = (EVERY_BF16 * (1 - 2**-9 * share) for share in (0.99, 1.02))
    assert torch.equal(below, EVERY_BF16)
    assert not torch.equal(above, EVERY_BF16)


def test_decay_of_its_own_is_lost():
    """weight-decay-lost: AdamW that is not fused decays by a multiplication."""
    _, with_decay, _ = train(300, noise, decay=10.0)
    _, without, _ = train(300, noise, decay=0.0)
    assert torch.equal(with_decay, without)


def test_fused_decay_is_part_of_the_step():
    _, with_decay, _ = train(300, noise, fused=True, decay=10.0)
    _, without, _ = train(300, noise, fused=True, decay=0.0)
    assert with_decay.norm() < without.norm()


@each("fused", [False, True])
@each(("beta2", "falls"), [(0.95, True), (0.99, True), (0.997, False), (0.999, False)])
def test_a_slow_moment_is_stuck(beta2, falls, fused):
    """second-moment-stuck-in-bf16: gradients fall tenfold, their squares do not."""
    options = {"fused": fused, "betas": (0.9, beta2)}
    *_, before = train(800, noise, **options)
    *_, after = train(1600, lambda k: noise(k, 1.0 if k < 800 else 0.1), **options)
    assert (after < 0.03 * before) is falls
    assert falls or after > 0.3 * before


@pytest.mark.parametrize(
    ("beta2", "decays"), [(0.98, True), (0.99, True), (0.997, False), (0.999, False)]
)
def test_the_momentum_of_lion_is_stuck(beta2, decays):
    """second-moment-stuck-in-bf16: Lion multiplies its momentum by beta2, then adds."""
    torch.manual_seed(0)
    momentum = torch.zeros(WEIGHTS, dtype=torch.bfloat16)
    for _ in range(500):
        momentum.mul_(beta2).add_(noise(0).bfloat16(), alpha=1 - beta2)
    before = momentum.float().norm()
    for _ in range(2000):
        momentum.mul_(beta2)
    after = momentum.float().norm()
    assert (after < 0.03 * before).item() is decays
    assert decays or after > 0.5 * before


@pytest.mark.parametrize("fused", [False, True])
def test_a_small_step_moves_only_small_weights(fused):
    """learning-rate-below-bf16: weights above 512 steps stay where they are."""
    lr = 1e-5
    start, end, _ = train(100, lambda k: torch.ones(WEIGHTS), fused=fused, lr=lr)
    large = start.abs() > 512 * lr
    assert torch.equal(start[large], end[large])
    assert (start != end).any()


def test_epsilon_is_zero_in_fp16():
    """fp16-loses-adam-eps: a zero second moment divides by zero."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))
    optimizer = torch.optim.AdamW([weight], eps=1e-8)
    weight.grad = torch.full((1,), 1e-4, dtype=torch.float16)
    optimizer.step()
    assert not torch.isfinite(weight).all()


def test_epsilon_of_zero_spoils_weights_without_gradient():
    """adam-eps-not-positive: 0 / 0."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.AdamW([weight], eps=0.0)
    weight.grad = torch.zeros(1)
    optimizer.step()
    assert torch.isnan(weight).all()
