"""What the answers to myths say of torchao, shown on torchao itself (CPU)."""

import pytest

torch = pytest.importorskip("torch")
float8 = pytest.importorskip("torchao.float8")
checkpoint = pytest.importorskip("torch.utils.checkpoint")


def linear(k, n, device, *, pad=False):
    layer = torch.nn.Linear(k, n, bias=False, device=device, dtype=torch.bfloat16)
    config = float8.Float8LinearConfig(pad_inner_dim=pad)
    return float8.convert_to_float8_training(torch.nn.Sequential(layer), config=config)


def refused(m, k, n, *, pad):
    """The pass in which a linear is refused, by torch's checks for CUDA."""
    model = linear(k, n, "meta", pad=pad)
    tokens = torch.empty(m, k, device="meta", dtype=torch.bfloat16, requires_grad=True)
    try:
        out = model(tokens)
    except RuntimeError:
        return "forward"
    try:
        out.sum().backward()
    except RuntimeError:
        return "backward"
    return ""


@pytest.mark.parametrize(
    ("m", "k", "n", "bare", "padded"),
    [
        (64, 64, 64, "", ""),
        (50, 64, 64, "backward", ""),
        (64, 50, 64, "forward", "backward"),
        (64, 64, 50, "forward", "forward"),
    ],
)
def test_padding_mends_the_tokens_alone(m, k, n, bare, padded):
    assert refused(m, k, n, pad=False) == bare
    assert refused(m, k, n, pad=True) == padded


def test_selective_checkpointing_sees_an_fp8_matmul_as_mm():
    seen = []

    def policy(_context, operation, *_arguments, **_options):
        seen.append(operation)
        return checkpoint.CheckpointPolicy.PREFER_RECOMPUTE

    tokens = torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True)
    checkpoint.checkpoint(
        linear(64, 64, "cpu"),
        tokens,
        use_reentrant=False,
        context_fn=lambda: checkpoint.create_selective_checkpoint_contexts(policy),
    )
    assert torch.ops.aten.mm.default in seen


def test_weights_and_gradients_keep_their_type():
    model = linear(64, 32, "cpu")
    model(torch.randn(16, 64, dtype=torch.bfloat16)).sum().backward()
    (weight,) = model.parameters()
    assert (weight.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16)


def test_the_input_is_kept_in_bf16_for_the_backward_pass():
    kept = []
    tokens = torch.randn(16, 64, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor
    ):
        linear(64, 32, "cpu")(tokens)
    assert (torch.bfloat16, tokens.shape) in [(each.dtype, each.shape) for each in kept]


def test_scaling_is_dynamic_or_none():
    from torchao.float8.config import ScalingType

    assert {kind.name for kind in ScalingType} == {"DYNAMIC", "DISABLED"}
