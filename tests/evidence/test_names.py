"""What wrappers make of the names of parameters, shown on torch."""

import pytest

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    """A block in a model."""

    def __init__(self, wrap=lambda block: block):
        super().__init__()
        block = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
        self.layers = torch.nn.ModuleDict({"0": wrap(block)})


def names(model):
    return [name for name, _ in model.named_parameters()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_model_has_other_names():
    """freeze-stage-with-compile."""
    assert names(Model()) == ["layers.0.0.weight"]
    assert names(torch.compile(Model())) == ["_orig_mod.layers.0.0.weight"]


def test_a_checkpointed_block_has_other_names():
    """empty-freeze-pattern."""
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

    found = names(Model(checkpoint_wrapper.checkpoint_wrapper))
    assert found == ["layers.0._checkpoint_wrapped_module.0.weight"]
