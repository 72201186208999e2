"""What the optimizer asks of bf16 state."""

import pytest

from tests.each import each


@pytest.mark.parametrize(
    ("precision", "state"),
    [
        ("bf16", ("bf16", 8, 2**-9)),
        ("fp8", ("bf16", 8, 2**-9)),
        ("fp16", ("fp16", 11, 2**-12)),
        ("fp32", ("fp32", 24, 2**-25)),
    ],
)
def test_state(value, precision, state):
    text = f'[train]\nmixed_precision = "{precision}"\n'
    names = ("state_dtype", "state_bits", "state_step")
    assert tuple(value(name, text) for name in names) == state


@each(
    ("written", "rate", "own"),
    [
        ("", 3e-4, False),
        ("fused = false", 3e-4, True),
        ('name = "muon"\nlr = 0.02', 0.02, True),
        ('name = "muon"\nlr = 0.02\nmuon_adam_lr = 1e-4', 1e-4, True),
        ('name = "adamw"\nmuon_adam_lr = 1e-2', 3e-4, False),
        ('name = "lion"', None, True),
    ],
)
def test_rates_and_decay(value, written, rate, own):
    text = f"[optimizer]\n{written}\n"
    found = value("adam_learning_rate", text), value("decay_in_state", text)
    assert found == (rate, own)


@pytest.mark.parametrize(
    ("written", "beta2"), [("[0.9, 0.95]", 0.95), ("[0, 0]", 0.0), ("[0.9]", None)]
)
def test_beta2(value, written, beta2):
    assert value("beta2", f"[optimizer]\nbetas = {written}\n") == beta2


@each(
    ("written", "unknown"),
    [
        ('"cpu:gloo,cuda:nccl"', []),
        ('"nccl"', []),
        ('"cuda:NCCL, cpu:gloo"', []),
        ('"ncll"', ["ncll"]),
        ('"cpu:gloo,cuda:foo"', ["foo"]),
        ("5", ["5"]),
    ],
)
def test_backends(value, written, unknown):
    text = f"[distributed]\nbackend = {written}\n"
    assert value("unknown_backends", text) == unknown
