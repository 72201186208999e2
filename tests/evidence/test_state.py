"""What torch does with state that optimizers and modules change on their own."""

import pytest

torch = pytest.importorskip("torch")


class Recorder(torch.optim.SGD):
    """Keeps the learning rates that it steps with, and an optimizer inside."""

    def __init__(self, outer, inner):
        super().__init__(outer, lr=0.1)
        self.inner = torch.optim.AdamW(inner)
        self.rates = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


def test_loading_steps_at_a_rate_of_zero():
    """schedule-free-from-checkpoint: torch makes the state that is not there yet."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model = torch.nn.Linear(4, 4)
    optimizer = Recorder(model.parameters(), [torch.nn.Parameter(torch.ones(1))])
    get_optimizer_state_dict(model, optimizer)
    assert optimizer.rates == [0.0]
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_gradients_of_an_optimizer_inside_add_up():
    """muon-gradients-add-up: zero_grad clears the outer one's parameters alone."""
    outer, inner = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    optimizer = Recorder([outer], [inner])
    for _ in range(3):
        (outer + inner).sum().backward()
        optimizer.zero_grad()
    assert outer.grad is None
    assert inner.grad.item() == 3


@pytest.mark.parametrize("moves", [False, True])
def test_sizes_that_change_when_checkpointing_repeats_the_forward_pass(moves):
    """sigmoid-router-with-full-ac: a block must keep tensors of the same sizes."""
    from torch.utils.checkpoint import CheckpointError, checkpoint

    rows = [8]

    def block(x):
        found = (x[: rows[0]] ** 2).sum()
        rows[0] -= moves
        return found

    loss = checkpoint(block, torch.ones(8, 4, requires_grad=True), use_reentrant=False)
    if not moves:
        loss.backward()
        return
    with pytest.raises(CheckpointError, match="different metadata"):
        loss.backward()
