"""What the rules say of torchao's FP8 linears, shown on torchao itself (CPU)."""

import pytest

torch = pytest.importorskip("torch")
float8 = pytest.importorskip("torchao.float8")

VOCAB, HIDDEN = 64, 32


class Tied(torch.nn.Module):
    """The smallest model with a tied head."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        self.block = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.head = torch.nn.Linear(HIDDEN, VOCAB, bias=False)
        self.head.weight = self.embedding.weight


def converted(model, *, all_gather):
    config = float8.Float8LinearConfig(enable_fsdp_float8_all_gather=all_gather)
    return float8.convert_to_float8_training(model, config=config)


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_all_gather_unties_the_embeddings():
    before = parameters(Tied())
    after = parameters(converted(Tied(), all_gather=True))
    assert after - before == VOCAB * HIDDEN


def test_conversion_alone_keeps_them_tied():
    model = converted(Tied(), all_gather=False)
    assert model.head.weight is model.embedding.weight


def scaled_mm(m, k, n):
    """A forward FP8 GEMM as CUDA would check it, on tensors without data."""
    left = torch.empty(m, k, device="meta", dtype=torch.float8_e4m3fn)
    right = torch.empty(n, k, device="meta", dtype=torch.float8_e4m3fn).t()
    scale = torch.ones((), device="meta")
    return torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize(("m", "k", "n"), [(16, 32, 48), (10, 32, 48)])
def test_gemm_takes_multiples_of_16(m, k, n):
    assert scaled_mm(m, k, n).shape == (m, n)


@pytest.mark.parametrize(("m", "k", "n"), [(16, 40, 48), (16, 32, 50)])
def test_gemm_refuses_other_k_and_n(m, k, n):
    with pytest.raises(RuntimeError, match="divisible by 16"):
        scaled_mm(m, k, n)


def test_weight_gradient_refuses_other_m():
    """In the backward pass M is the contraction dimension, so K of that GEMM."""
    m, k, n = 10, 32, 48
    with pytest.raises(RuntimeError, match="divisible by 16"):
        scaled_mm(n, m, k)


def test_cpu_checks_no_shape():
    """Why a CPU test of an FP8 model proves nothing about shapes."""
    model = converted(
        torch.nn.Sequential(torch.nn.Linear(50, 30, bias=False)), all_gather=False
    )
    model(torch.randn(10, 50)).sum().backward()
    assert model[0].weight.grad.shape == (30, 50)
