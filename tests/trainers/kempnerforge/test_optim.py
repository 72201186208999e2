"""What the optimizer asks of bf16 state."""

from tests.each import each


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
